"""The bot asks, and shows how far it is: questions and permission requests with boxes, and progress (T4, P7, S12)."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from bot.action.main import ActionJob, run_job
from bot.action.runner import Runner
from bot.compose.github import HostSetup
from bot.config.action_inputs import action
from bot.core.gate import Move, Stage
from bot.testing.github.entities import Comment
from bot.testing.github.world import NotAllowedError
from bot.testing.model.reply import call, several
from bot.testing.model.request_view import ModelRequest
from bot.testing.sample import NAMED
from tests.stories.github.ground import FIX, FIXED, HOME, NEVER, Model, Story
from tests.stories.github.service import Served
from tests.stories.github.test_shown import task
from tests.stories.ground import until

CHOICES = [{"label": "From 50 on", "description": "as the README says"}, {"label": "Above 50", "description": "as now"}]
QUESTION = {"question": "Where does free shipping begin?", "header": "Limit", "options": CHOICES}
ASKS = call("AskUserQuestion", questions=[QUESTION])
PUSHES = call("Bash", command="touch asked.txt")
CONFIGURATION = 'tools:\n  ask: ["Bash(touch:*)"]\n'


def question(story: Story | Served) -> Comment:
    return [each for each in story.comments() if "plangate:1 question" in each.text.body][-1]


def prefixes(requests: list[ModelRequest]) -> bool:
    """Return whether each request of a session begins with the bytes of the one before, cache marks aside."""
    sent = [[json.dumps(_unmarked(message)) for message in request.messages] for request in requests]
    return all(later[: len(earlier)] == earlier for earlier, later in pairwise(sent))


def _unmarked(value: object) -> object:
    if isinstance(value, dict):
        return {key: _unmarked(each) for key, each in value.items() if key != "cache_control"}
    return [_unmarked(each) for each in value] if isinstance(value, list) else value


@pytest.fixture
async def asked(story: Story, model: Model) -> Story:
    """A thread on which the planner asks one question."""
    model.before = (ASKS,)
    story.opens("will")
    assert (await story.rests(1)).stage is Stage.ASKED
    return story


def answer(story: Story) -> str:
    """Return what the model was told as the result of its call."""
    found = [result.text for result in story.model.heard[-1].all_results if result.name in {"AskUserQuestion", "Bash"}]
    return found[-1]


@pytest.mark.long
@pytest.mark.req("T4")
async def test_a_comment_without_a_mention_is_the_answer_and_an_outsiders_is_none(asked: Story) -> None:
    aside = asked.says("rita", "I would say above 50.")
    talk = asked.says("will", "@maya what do you think?")
    assert (await asked.rests(1)).stage is Stage.ASKED
    words = asked.says("maya", "From 50 on, <!-- not --> as always.")
    late = asked.says("will", "@plangate and note it in the changelog")
    assert (await asked.rests(1)).stage is Stage.AWAITING_APPROVAL
    assert [asked.signs(each) for each in (aside, talk, words, late)] == [[], [], ["eyes"], ["eyes"]]
    assert answer(asked) == "@maya answered in words: From 50 on,  as always."
    said = json.dumps(asked.model.heard[-1].messages)
    assert "@will adds: and note it in the changelog" in said


@pytest.mark.long
@pytest.mark.req("T4", "A3")
async def test_a_tick_of_who_lost_the_right_answers_nothing_and_is_told_once(asked: Story) -> None:
    shown = question(asked)
    with pytest.raises(NotAllowedError):
        asked.person("rita").tick(shown.id)
    asked.world.set_role(HOME, "rita", "write")
    asked.person("rita").tick(shown.id, 1)
    asked.world.set_role(HOME, "rita", "read")
    for _ in range(2):
        assert (await asked.rests(1)).stage is Stage.ASKED
    (notice,) = asked.said("unsettled")
    assert "`@rita`: ticked a box, but may not answer this" in notice
    asked.person("will").tick(shown.id, 0)
    assert (await asked.rests(1)).stage is Stage.AWAITING_APPROVAL
    assert answer(asked).endswith("From 50 on")


@pytest.mark.long
@pytest.mark.req("T4")
async def test_a_question_ends_with_a_stop_and_retry_asks_again(asked: Story) -> None:
    shown = question(asked)
    asked.says("will", "@plangate stop")
    assert (await asked.rests(1)).stage is Stage.STOPPED
    asked.person("will").tick(shown.id)
    assert (await asked.rests(1)).stage is Stage.STOPPED
    asked.says("will", "@plangate retry")
    assert (await asked.rests(1)).stage is Stage.ASKED
    assert question(asked).id != shown.id
    asked.person("will").tick(question(asked).id)
    assert (await asked.rests(1)).stage is Stage.AWAITING_APPROVAL


@pytest.fixture
async def requested(story: Story, model: Model) -> Story:
    """A thread on which approved work asks for a permission."""
    story.configure(CONFIGURATION)
    model.work = (PUSHES, *FIX)
    await story.approved()
    assert (await story.rests(1)).stage is Stage.ASKED
    return story


@pytest.mark.req("T4", "P7", "L8", "L9")
async def test_a_tick_is_the_result_of_the_call_and_the_session_goes_on_from_its_bytes(
    asked: Story, model: Model
) -> None:
    shown = question(asked)
    assert "- [ ] From 50 on: as the README says" in shown.text.body
    await asked.rests()
    assert len(asked.comments()) == 1
    asked.person("ada").push(HOME, {".github/plangate.yml": CONFIGURATION})
    model.work = (PUSHES, *FIX)
    asked.person("will").tick(shown.id)
    assert (await asked.rests(1)).stage is Stage.AWAITING_APPROVAL
    assert answer(asked) == '@will answered.\n"Where does free shipping begin?": From 50 on'
    assert prefixes(model.heard)
    assert question(asked).minimized == "outdated"
    assert len(asked.plans()) == 1
    asked.reacts("maya", "+1")
    assert (await asked.rests(1)).stage is Stage.ASKED
    shown = question(asked)
    assert "```\ntouch asked.txt\n```" in shown.text.body
    assert "Bash(touch:*) needs a person's permission in this project" in shown.text.body
    assert f"\n\nWhat it does, in a model's words: {NAMED}\n\n" in shown.text.body
    assert model.lightly[0].texts() == ("Bash: touch asked.txt",)
    asked.person("maya").tick(shown.id)
    await asked.rests(1)
    (result,) = [each for each in model.works[1].all_results if each.name == "Bash"]
    assert not result.is_error
    assert prefixes(model.works)
    assert asked.api.refusals == ()


@pytest.mark.long
@pytest.mark.req("P7")
async def test_deny_in_words_is_an_error_result_and_the_work_goes_on(requested: Story) -> None:
    requested.says("maya", "hm, let me see")
    assert (await requested.rests(1)).stage is Stage.ASKED
    requested.says("maya", "Deny we need no such file.")
    assert (await requested.rests(1)).stage is Stage.IN_REVIEW
    (result,) = [each for each in requested.model.works[1].all_results if each.name == "Bash"]
    assert (result.is_error, result.text) == (True, "Denied by @maya, who says: we need no such file.")
    assert "ran" not in requested.branches()


@pytest.mark.long
@pytest.mark.req("P7")
async def test_with_four_eyes_whoever_asked_for_any_version_permits_nothing(story: Story, model: Model) -> None:
    four_eyes = {".github/plangate.yml": f"{CONFIGURATION}approve:\n  four_eyes: true\n"}
    story.person("ada").push(HOME, four_eyes)
    model.work = (PUSHES, *FIX)
    await story.planned("maya")
    story.says("will", "@plangate revise say it in one line")
    await story.rests(1)
    story.reacts("ada", "+1")
    await story.rests(1)
    story.person("maya").tick(question(story).id)
    assert (await story.rests(1)).stage is Stage.ASKED
    story.says("ada", "allow")
    await story.rests(1)
    assert story.model.worked > 1


@pytest.mark.soak
@pytest.mark.req("P7")
async def test_a_writers_turn_beside_a_permission_request_is_kept_for_afterwards(requested: Story) -> None:
    requested.says("will", "@plangate and say so in the changelog")
    assert (await requested.rests(1)).stage is Stage.ASKED
    for n in range(100):
        requested.world.person("rita").comment(HOME, 1, f"{n} as well")
    requested.says("will", "@plangate status")
    assert (await requested.rests(1)).stage is Stage.ASKED
    requested.says("maya", "@plangate allow")
    requested.model.turn_to_the_changelog()
    await requested.rests(1)
    kinds = [entry.kind for entry in await requested.entries()]
    assert kinds.index(Move.INSTRUCTED) < kinds.index(Move.NOTED)


@pytest.mark.long
@pytest.mark.req("P7")
async def test_a_permission_for_this_plan_covers_the_same_command_and_no_other(story: Story, model: Model) -> None:
    story.configure(CONFIGURATION)
    model.work = (PUSHES, PUSHES, call("Bash", command="touch other.txt"), *FIX)
    await story.approved()
    await story.rests(1)
    story.person("maya").tick(question(story).id, 1)
    assert (await story.rests(1)).stage is Stage.ASKED
    assert "touch other.txt" in question(story).text.body
    assert model.worked == 3


@pytest.mark.long
@pytest.mark.req("P7")
async def test_where_requests_are_off_the_model_is_told_that_nobody_is_asked(story: Story, model: Model) -> None:
    story.configure(f"{CONFIGURATION}  requests: off\n")
    model.work = (PUSHES, *FIX)
    await story.approved()
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
    (result,) = [each for each in model.works[1].all_results if each.name == "Bash"]
    assert "nobody is at hand to give it" in result.text


@pytest.mark.long
@pytest.mark.req("P7", "P8")
async def test_a_mode_chosen_while_a_request_waits_holds_and_each_change_is_journaled(requested: Story) -> None:
    requested.says("ada", "@plangate mode default")
    requested.person("maya").tick(question(requested).id)
    await requested.rests(1)
    (result,) = [each for each in requested.model.works[1].all_results if each.name == "Bash"]
    assert not result.is_error
    changes = [entry.body["mode_change"] for entry in await requested.entries() if "mode_change" in entry.body]
    assert changes == [
        {"from": "plan", "to": "acceptEdits", "by": ["maya"]},
        {"from": "acceptEdits", "to": "default", "by": ["ada"]},
    ]
    assert requested.stage is Stage.ASKED, "the edit that follows needs a permission in this mode"
    assert FIXED in question(requested).text.body


@pytest.mark.long
@pytest.mark.req("L8", "T4")
async def test_the_next_job_of_the_action_finds_the_tick(asked: Story, tmp_path: Path) -> None:
    variables = {"GITHUB_EVENT_NAME": "schedule", "GITHUB_REPOSITORY": HOME, "INPUT_ANTHROPIC_API_KEY": "key"}
    given = action({**variables, "GITHUB_EVENT_PATH": str(tmp_path / "event.json"), "HOME": str(tmp_path)})
    log = io.StringIO()
    asked.person("will").tick(question(asked).id)
    assert await run_job(ActionJob(asked.host, given, Runner(log), asked.clock), None) == 0
    assert "plangate: #1 is at: awaiting_approval" in log.getvalue()
    assert len(asked.plans()) == 1


@pytest.mark.long
@pytest.mark.req("E3", "L8", "W3")
@pytest.mark.timeout(120)
def test_a_service_killed_while_a_question_stands_finds_the_answer(served: Served, model: Model) -> None:
    model.before = (ASKS,)
    served.start()
    served.hook()
    served.opens("will")
    served.rest()
    shown = question(served)
    served.kill()
    served.person("will").tick(shown.id)
    served.start()
    until(served.plans, "the plan that follows the answer")
    served.rest()
    assert len(served.plans()) == 1
    assert [each.id for each in served.comments() if "plangate:1 question" in each.text.body] == [shown.id]
    assert prefixes(model.heard)


TODOS = call("TodoWrite", todos=[{"content": "Read it", "status": "in_progress", "activeForm": "Reading"}])


@pytest.fixture
async def patient(story: Story) -> AsyncIterator[Story]:
    """A story in which every plan takes long."""
    async with host_with(story, 3.0) as host:
        story.host = host
        yield story


def host_with(story: Story, seconds: float) -> HostSetup:
    """Another process of the bot, which shows the progress of planning after so many seconds."""
    settings = story.host.settings
    return HostSetup(replace(settings, github=replace(settings.github, progress_seconds=seconds)), clock=story.clock)


async def shown(story: Story, *words: str) -> str:
    """Wait until the one progress comment has all these words, and return it."""

    def has_all() -> bool:
        said = story.said("progress")
        return len(said) == 1 and all(word in said[0] for word in words)

    await asyncio.to_thread(until, has_all, f"{words} in {story.said('progress')}")
    return story.said("progress")[0]


@pytest.mark.long
@pytest.mark.req("S12", "PR3", "PR6")
async def test_a_long_planning_shows_how_far_it_is_and_ends_as_one_line(patient: Story, model: Model) -> None:
    """A planner that asks keeps its comment, which says that people are waited for."""
    model.before = (several(TODOS, task("explore")), ASKS)
    patient.opens("will")
    async with patient.at_work(model.pause("p1")):
        text = await shown(patient, "**Planning** · ⏸ plan mode on", "- ▶ Reading", "| explore | look around |")
        assert " of $5.00. `@plangate stop` stops it." in text
    assert patient.stage is Stage.ASKED
    assert patient.said("progress") == ["**Waiting for an answer.**"]
    patient.says("will", "@plangate At 50.")
    assert (await patient.rests()).stage is Stage.AWAITING_APPROVAL
    assert patient.said("progress") == ["**Planned.**"]
    assert len(patient.comments()) == 3


@pytest.mark.req("E1", "PR3")
async def test_another_process_ends_the_progress_comment_of_one_that_died(patient: Story, model: Model) -> None:
    patient.opens("will")
    pause = model.pause("p0")
    checking = asyncio.ensure_future(patient.host.check_thread(patient.address()))
    await pause.reached()
    await shown(patient, "**Planning**")
    checking.cancel()
    await asyncio.gather(checking, return_exceptions=True)
    pause.go_on()
    assert patient.said("progress")[0].startswith("**Planning**")
    async with host_with(patient, NEVER) as other:
        assert (await other.check_thread(patient.address())).stage is Stage.AWAITING_APPROVAL
    assert patient.said("progress") == ["**Planned.**"]
