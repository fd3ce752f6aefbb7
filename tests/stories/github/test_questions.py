"""The bot asks: a planner's questions and the permission requests of approved work, in comments with boxes (T4, P7)."""

import io
import json
from itertools import pairwise
from pathlib import Path

import pytest

from bot.action.main import ActionJob, run_job
from bot.action.runner import Runner
from bot.config.action_inputs import action
from bot.core.gate import Move, Stage
from bot.testing.github.entities import Comment
from bot.testing.github.world import NotAllowedError
from bot.testing.model.reply import call
from bot.testing.model.request_view import ModelRequest
from bot.testing.sample import NAMED
from tests.stories.github.ground import FIX, FIXED, HOME, Model, Story, soak
from tests.stories.github.service import Served
from tests.stories.ground import until

CHOICES = [{"label": "From 50 on", "description": "as the README says"}, {"label": "Above 50", "description": "as now"}]
QUESTION = {"question": "Where does free shipping begin?", "header": "Limit", "options": CHOICES}
PLACES = [{"label": "Changelog", "description": ""}, {"label": "README", "description": ""}]
SEVERAL = {"question": "Where is it noted?", "header": "Notes", "options": PLACES, "multiSelect": True}
ASKS = call("AskUserQuestion", questions=[QUESTION])
PUSHES = call("Bash", command="touch asked.txt")
CONFIGURATION = 'tools:\n  ask: ["Bash(touch:*)"]\n'


def question(story: Story | Served) -> Comment:
    """Return the newest question of the bot's."""
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
async def test_answered_in_words(asked: Story) -> None:
    """A comment without a mention is the answer; what an outsider says is none, and gets no sign."""
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
async def test_ticked_by_a_reader(asked: Story) -> None:
    """Who has lost the right to answer by the time of the look answers nothing and hinders nobody: one notice."""
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


@pytest.mark.soak
@pytest.mark.req("T4", "A4a")
async def test_changed_question(asked: Story) -> None:
    """An edit of more than boxes counts for nothing and says so once; boxes count again when ticked by hand."""
    shown = question(asked)
    body = shown.text.body
    changed = body.replace("Above 50", "Below 50").replace("- [ ] From", "- [x] From")
    asked.person("will").edit_comment(shown.id, changed)
    asked.person("maya").edit_comment(shown.id, body.replace("- [ ] From", "- [x] From"))
    assert (await asked.rests(1)).stage is Stage.ASKED
    assert "`@will`: changed more of my question than its boxes" in asked.said("unsettled")[0]
    asked.person("will").tick(shown.id, 0, ticked=False)
    asked.person("will").tick(shown.id, 0)
    assert (await asked.rests(1)).stage is Stage.AWAITING_APPROVAL
    assert len(asked.said("unsettled")) == 1


@pytest.mark.soak
@pytest.mark.req("T4")
async def test_several_may_be_chosen(story: Story, model: Model) -> None:
    """Where several may be chosen, the last box says that this is all; two boxes of a single choice are too many."""
    model.before = (call("AskUserQuestion", questions=[QUESTION, SEVERAL]),)
    story.opens("will")
    await story.rests(1)
    for box in range(5):
        story.person("will").tick(question(story).id, box)
        assert (await story.rests(1)).stage is Stage.ASKED, box
    assert "several ticked boxes" in story.said("unsettled")[0]
    story.person("will").edit_comment(question(story).id, question(story).text.body.replace("[x] Above", "[ ] Above"))
    assert (await story.rests(1)).stage is Stage.AWAITING_APPROVAL
    assert answer(story).splitlines()[1:] == [
        '"Where does free shipping begin?": From 50 on',
        '"Where is it noted?": Changelog, README',
    ]


@pytest.mark.long
@pytest.mark.req("T4")
@pytest.mark.parametrize("end", (soak("stop"), "closed", soak("revise"), "expired"))
async def test_no_answer(asked: Story, end: str) -> None:
    """A question ends with `stop`, with the thread, with a new request, and with time; `retry` asks again."""
    shown = question(asked)
    if end == "stop":
        asked.says("will", "@plangate stop")
    elif end == "closed":
        asked.person("will").close(HOME, 1)
    elif end == "revise":
        asked.says("will", "@plangate revise Above 50.")
        asked.model.before = ()
    else:
        asked.clock.advance(8 * 86_400)
    stage = (await asked.rests(1)).stage
    ends = {"stop": Stage.STOPPED, "closed": Stage.STOPPED, "revise": Stage.AWAITING_APPROVAL, "expired": Stage.EXPIRED}
    assert stage is ends[end]
    asked.person("will").tick(shown.id)
    assert (await asked.rests(1)).stage is stage
    if end == "stop":
        asked.says("will", "@plangate retry")
        assert (await asked.rests(1)).stage is Stage.ASKED
        assert question(asked).id != shown.id
        asked.person("will").tick(question(asked).id)
        assert (await asked.rests(1)).stage is Stage.AWAITING_APPROVAL


@pytest.fixture
async def requested(story: Story, model: Model) -> Story:
    """A thread on which approved work asks for a permission."""
    story.person("ada").push(HOME, {".github/plangate.yml": CONFIGURATION})
    model.work = (PUSHES, *FIX)
    await story.planned()
    story.reacts("maya", "+1")
    assert (await story.rests(1)).stage is Stage.ASKED
    return story


@pytest.mark.req("T4", "P7", "L8", "L9")
async def test_ticked_boxes(asked: Story, model: Model) -> None:
    """A writer's tick is the result of the planner's call; the session goes on from its bytes, and the question is
    folded. The request of approved work shows the command; the tick of a maintainer runs exactly that call, and the
    work goes on."""
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
async def test_denied_with_words(requested: Story) -> None:
    """`deny WHY` in a comment is an error result with the words; the work goes on without it."""
    requested.says("maya", "hm, let me see")
    assert (await requested.rests(1)).stage is Stage.ASKED
    requested.says("maya", "Deny we need no such file.")
    assert (await requested.rests(1)).stage is Stage.IN_REVIEW
    (result,) = [each for each in requested.model.works[1].all_results if each.name == "Bash"]
    assert (result.is_error, result.text) == (True, "Denied by @maya, who says: we need no such file.")
    assert "ran" not in requested.branches()


@pytest.mark.soak
@pytest.mark.req("P7", "A2")
async def test_permission_of_others(requested: Story) -> None:
    """A writer permits nothing, by box or by word; an edited word of a maintainer neither: one notice, nothing ran."""
    requested.person("will").tick(question(requested).id)
    requested.says("will", "allow")
    requested.says("stranger", "allow")
    said = requested.says("maya", "allow not")
    requested.person("will").edit_comment(said.id, "allow")
    for _ in range(2):
        assert (await requested.rests(1)).stage is Stage.ASKED
    (notice,) = requested.said("unsettled")
    assert "`@will`: ticked a box" in notice
    assert "`@maya`: the answer was edited" in notice
    assert requested.model.worked == 1


@pytest.mark.long
@pytest.mark.req("P7")
async def test_permission_of_who_asked(story: Story, model: Model) -> None:
    """With four eyes whoever asked permits nothing, also where somebody else asked for the newest version."""
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
async def test_turns_beside_a_request(requested: Story) -> None:
    """What a writer asks meanwhile steers nothing: it is kept for after the pull request, though more was said since
    than one page shows."""
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
@pytest.mark.req("P7", "A4")
async def test_approval_withdrawn_meanwhile(requested: Story) -> None:
    """A maintainer who rejects the plan while it waits for a permission stops the work; the box is no way around."""
    requested.reacts("maya", "-1", requested.plan)
    requested.person("maya").tick(question(requested).id)
    assert (await requested.rests(1)).stage is Stage.STOPPED
    assert requested.model.worked == 1


@pytest.mark.long
@pytest.mark.req("P7")
async def test_allowed_for_this_plan(story: Story, model: Model) -> None:
    """`Allow for this plan` covers the same command again, and no other one."""
    story.person("ada").push(HOME, {".github/plangate.yml": CONFIGURATION})
    model.work = (PUSHES, PUSHES, call("Bash", command="touch other.txt"), *FIX)
    await story.planned()
    story.reacts("maya", "+1")
    await story.rests(1)
    story.person("maya").tick(question(story).id, 1)
    assert (await story.rests(1)).stage is Stage.ASKED
    assert "touch other.txt" in question(story).text.body
    assert model.worked == 3


@pytest.mark.long
@pytest.mark.req("P7")
async def test_requests_turned_off(story: Story, model: Model) -> None:
    """Where requests are turned off, the model is told that nobody can be asked."""
    story.person("ada").push(HOME, {".github/plangate.yml": f"{CONFIGURATION}  requests: off\n"})
    model.work = (PUSHES, *FIX)
    await story.planned()
    story.reacts("maya", "+1")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
    (result,) = [each for each in model.works[1].all_results if each.name == "Bash"]
    assert "nobody is at hand to give it" in result.text


@pytest.mark.soak
@pytest.mark.req("P8")
async def test_modes_are_journalled(story: Story) -> None:
    """Each change of mode stands in the journal with who caused it, and status shows where it is."""
    await story.planned()
    story.says("will", "@plangate status")
    await story.rests(1)
    assert "⏸ plan mode on" in story.said("tell")[0]
    story.reacts("maya", "+1")
    await story.rests(1)
    changes = [entry.body["mode_change"] for entry in await story.entries() if "mode_change" in entry.body]
    assert changes == [{"from": "plan", "to": "acceptEdits", "by": ["maya"]}]
    assert "▶ may edit files" in story.said("progress")[0]


@pytest.mark.soak
@pytest.mark.req("P7", "P8")
async def test_mode_chosen_meanwhile(requested: Story) -> None:
    """A mode that an approver chooses while a request waits holds from then on; what was permitted runs still."""
    requested.says("ada", "@plangate mode default")
    requested.person("maya").tick(question(requested).id)
    await requested.rests(1)
    (result,) = [each for each in requested.model.works[1].all_results if each.name == "Bash"]
    assert not result.is_error
    changes = [entry.body["mode_change"] for entry in await requested.entries() if "mode_change" in entry.body]
    assert changes[1] == {"from": "acceptEdits", "to": "default", "by": ["ada"]}
    assert requested.stage is Stage.ASKED, "the edit that follows needs a permission in this mode"
    assert FIXED in question(requested).text.body


@pytest.mark.long
@pytest.mark.req("L8", "T4")
async def test_action(asked: Story, tmp_path: Path) -> None:
    """The Action's next job, started by anything, finds the tick and carries the thread on."""
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
def test_killed_while_asked(served: Served, model: Model) -> None:
    """Kill -9 while a question stands, the answer unheard: the next start finds it, and there is one of everything."""
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
