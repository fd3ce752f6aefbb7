"""What the default branch's configuration changes, and what its mistakes end in."""

import asyncio
from dataclasses import replace

import pytest

from bot.compose.github import HostSetup
from bot.core.comment import UNPRICED
from bot.core.gate import Stage
from bot.github.repository import Address
from bot.testing.sample import FILES
from bot.workspace.mirror import is_partial
from tests.stories.github.ground import FIXED, HOME, PATIENCE, WISH, Model, Story
from tests.stories.github.test_questions import ASKS
from tests.stories.ground import processes, until

pytestmark = pytest.mark.long

PATH = ".github/plangate.yml"


@pytest.mark.parametrize("way", ("edited", "renamed", "labelled", "revised", "answered"))
async def test_four_eyes_hold_for_all_who_had_a_hand_in_the_request(story: Story, model: Model, way: str) -> None:
    """Also whoever edited it before others did, and whoever wrote what a label points at."""
    story.configure("approve:\n  four_eyes: true\n")
    maya, will = story.person("maya"), story.person("will")
    story.opens(
        "maya" if way in {"labelled", "revised"} else "will", WISH if way == "labelled" else f"@plangate {WISH}"
    )
    story.advance(1.1)  # GitHub shows times in whole seconds
    match way:
        case "edited":
            maya.edit_issue(HOME, 1, body=f"@plangate {WISH} And quickly.")
            will.edit_issue(HOME, 1, body=f"@plangate {WISH} And quickly!")
        case "renamed":
            maya.edit_issue(HOME, 1, title="Free shipping, and drop the licence check")
            will.edit_issue(HOME, 1, title="Free shipping and drop the licence check")
        case "labelled":
            will.label(HOME, 1, "plangate")
        case "revised":
            await story.rests(1)
            story.says("will", "@plangate revise say it in one line")
        case _:
            model.before = (ASKS,)
            assert (await story.rests(1)).stage is Stage.ASKED
            story.says("maya", "Drop the licence check instead.")
    await story.rests(1)
    story.reacts("maya", "+1")
    assert (await story.rests()).stage is Stage.AWAITING_APPROVAL
    assert "`@maya`: the requester can't approve here" in story.said("waits")[0]


async def test_retry_of_a_stale_plan_asks_for_all_that_was_added(story: Story, model: Model) -> None:
    """Whoever added it stays a requester, and a thread that was closed before does not stop it."""
    story.configure("approve:\n  four_eyes: true\n")
    story.opens("will")
    async with story.at_work(model.pause("p0")):
        story.says("maya", "@plangate and note it in the changelog")
        await story.reads_comments()
    await story.rests(1)
    story.person("ada").push(HOME, {FIXED: f"# another one\n{FILES[FIXED]}"})
    assert (await story.rests(1)).stage is Stage.STALE
    story.person("will").close(HOME, 1)
    await story.rests(1)
    heard = len(model.heard)
    story.says("will", "@plangate retry")
    assert (await story.rests(1)).stage is Stage.AWAITING_APPROVAL
    task = "\n".join(model.heard[heard].texts())
    assert WISH in task
    assert "@maya adds: and note it in the changelog" in task
    story.person("will").reopen(HOME, 1)
    story.reacts("maya", "+1")
    assert (await story.rests(1)).stage is Stage.AWAITING_APPROVAL
    assert "`@maya`: the requester can't approve here" in story.said("waits")[0]
    story.reacts("ada", "+1")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
    assert "Requested by `will`, `maya`.\n- Approved by `ada`" in story.pulls()[0].text.body


async def test_named_people_alone_may_approve(story: Story) -> None:
    story.configure("approve:\n  roles: []\n  users: [Tess]\n")
    await story.planned()
    story.reacts("ada", "+1")
    assert (await story.rests(1)).stage is Stage.AWAITING_APPROVAL
    assert "`@ada`: their role in this repository is too low to approve" in story.said("waits")[0]
    story.reacts("tess", "+1")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW


@pytest.mark.req("A7")
async def test_a_login_that_nobody_had_when_the_file_was_new_never_counts(story: Story) -> None:
    """A changed file is looked at again."""
    story.configure("approve:\n  roles: []\n  users: [newcomer]\n")
    await story.planned()
    story.world.add_user("newcomer")
    story.reacts("newcomer", "+1")
    assert (await story.rests(1)).stage is Stage.AWAITING_APPROVAL
    assert story.nothing_done()
    story.configure("approve:\n  roles: []\n  users: [newcomer, ada]\n")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW


@pytest.mark.req("W4", "A3")
async def test_an_app_that_may_not_ask_who_is_in_a_team_never_guesses(story: Story) -> None:
    """It says so once, and takes the word of those whose role suffices."""
    story.configure("approve:\n  teams: [parcel/core]\n")
    world = story.world
    world.teams[world.user("parcel").id, "core"] = frozenset({world.user("will").id})
    ((number, installed),) = world.installations.items()
    world.installations[number] = replace(installed, permissions={**installed.permissions, "members": "none"})
    await story.planned("maya")
    story.reacts("will", "+1")
    for _ in range(2):
        assert (await story.rests(1)).stage is Stage.AWAITING_APPROVAL
    (notice,) = story.said("waits")
    assert "`@will`: I can't see who is in the teams that may approve" in notice
    story.reacts("maya", "+1")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW


@pytest.mark.req("PR3")
async def test_a_broken_file_ends_in_one_comment_that_says_where(story: Story) -> None:
    story.configure("mention: a\x07b\n")
    issue = story.opens("will")
    await story.rests()
    await story.rests()
    (told,) = story.said("tell")
    assert all(word in told for word in ("not YAML", "U+0007", f"{PATH}:1:11", "remove the character")), told
    assert story.signs(issue) == ["eyes"]
    assert story.model.heard == []
    story.configure("mention: '@plangate'\n")
    story.says("will", "@plangate please try again")
    assert (await story.rests()).stage is Stage.AWAITING_APPROVAL


@pytest.mark.req("PR1", "PR3")
async def test_while_the_file_is_broken_nothing_starts_and_a_yes_is_told_so_once(story: Story) -> None:
    await story.planned()
    story.configure("approve:\n  four_eye: true\n")
    await story.rests()
    assert story.said("tell") == []
    story.reacts("rita", "+1")
    story.reacts("maya", "+1")
    await story.rests()
    await story.rests()
    assert story.nothing_done()
    (told,) = story.said("tell")
    assert all(word in told for word in ("Plan 1", "is on hold", "four_eye")), told
    story.configure("approve:\n  four_eyes: true\n")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW


async def test_who_may_not_ask_learns_nothing_of_a_broken_file(story: Story) -> None:
    story.configure("approve: nonsense\n")
    issue = story.opens("rita")
    await story.rests()
    assert (story.signs(issue), story.comments()) == (["confused"], [])


@pytest.mark.req("D2", "PR3")
async def test_a_model_that_stays_down_ends_in_one_comment_and_retry_continues(story: Story, model: Model) -> None:
    model.down = "claude"
    story.opens("will")
    await story.rests()
    assert (await story.rests()).stage is Stage.FAILED
    (told,) = story.said("tell")
    assert told.startswith("Failed:")
    assert story.nothing_done()
    model.down = ""
    story.says("will", "@plangate retry")
    assert (await story.rests()).stage is Stage.AWAITING_APPROVAL
    assert len(story.plans()) == 1


@pytest.mark.req("L4", "M6", "M12")
async def test_the_projects_fallback_effort_and_language_are_used(story: Story, model: Model) -> None:
    """This model has no known prices: who approves reads that no dollars bound the work."""
    story.configure("language: German\nmodels:\n  fallback: claude-mythos-5-2\n  effort: high\n")
    model.down = "claude-opus"
    await story.planned()
    assert {request.model for request in model.heard[3:]} == {"claude-mythos-5-2"}
    assert {request.body["output_config"]["effort"] for request in model.heard} == {"high"}
    assert all("Language for all that people read: German" in request.texts()[0] for request in model.heard)
    assert f"- Estimated cost: {UNPRICED}" in story.plans()[-1].text.body


@pytest.mark.req("G2")
async def test_a_large_repository_is_cloned_without_its_past(story: Story) -> None:
    story.person("ada").push(HOME, {"README.md": "What it says now.\n"})
    story.opens("will")
    async with HostSetup(replace(story.host.settings, partial_clone_mb=0), clock=story.clock) as host:
        await host.check_thread(story.address())
        story.reacts("maya", "+1")
        assert (await host.check_thread(story.address())).stage is Stage.IN_REVIEW
    (mirror,) = (story.host.settings.data_dir / "mirrors").glob("*.git")
    assert is_partial(mirror)
    assert [each.name for each in story.asked("GET")].count(f"GET /repos/{HOME}") == 1


@pytest.mark.req("PR1", "PR3")
async def test_set_up_is_the_default_branchs_and_its_failure_is_told_once(story: Story) -> None:
    story.configure("sandbox:\n  setup: ['true']\n")
    will = story.person("will")
    will.push(HOME, {PATH: "sandbox:\n  setup: ['exit 9']\n"}, branch="feature")
    will.open_pull(HOME, "Ships free", head="feature", body=f"@plangate {WISH}")
    await story.rests(1)
    story.reacts("maya", "+1")
    now = await story.rests(1)
    assert now.stage is Stage.IN_REVIEW
    assert now.request.setup is not None
    assert [each["command"] for each in now.request.setup.commands or ()] == ["true"]
    story.configure("sandbox:\n  setup: ['echo @octo/team is missing; exit 9']\n")
    story.about = 2
    story.opens("will")
    await story.rests(2)
    story.reacts("maya", "+1")
    assert (await story.rests(2)).stage is Stage.FAILED
    (told,) = story.said("tell", 2)
    assert all(word in told for word in ("exit code 9", f"sandbox.setup in {PATH}", "`@octo/team`")), told


@pytest.mark.req("PR3", "PR1")
async def test_a_stop_ends_a_set_up_command_with_all_that_it_started(story: Story) -> None:
    story.configure("sandbox:\n  setup: ['echo x > begun; sleep 300']\n")
    await story.approved()
    data = story.host.settings.data_dir
    checking = asyncio.ensure_future(story.host.check_thread(story.address()))
    try:
        await asyncio.to_thread(until, lambda: [*data.glob("checkouts/*/tree/begun")], "the set-up is under way")
        story.says("will", "@plangate stop")
        await story.reads_comments()
        story.records[1] = await asyncio.wait_for(checking, PATIENCE)
    finally:
        checking.cancel()
        await asyncio.gather(checking, return_exceptions=True)
    assert (await story.rests()).stage is Stage.STOPPED
    assert [each for each in processes(data) if "remote-http" not in each] == []  # which lists the thread's ref
    assert story.model.worked == 0
    assert story.nothing_done()


STANDING = """\
maintenance:
  - {name: mine, recipe: dependencies, schedule: weekly, approval: standing, paths: ["**"]}
"""


@pytest.mark.req("A4", "MT6")
async def test_a_branch_named_head_is_a_branch_like_any_other(story: Story) -> None:
    story.person("will").push(HOME, {PATH: STANDING}, branch="HEAD")
    (found,) = await story.host.served_repositories()
    keys, mistake, _ = await story.host.current_configuration(found)
    assert (keys.maintenance, mistake) == ([], "")


@pytest.mark.req("A4")
async def test_a_file_that_github_did_not_show_yet_is_read_again(story: Story) -> None:
    story.configure("approve:\n  four_eyes: true\n")
    story.github.faults.fail(f"GET */contents/{PATH}", 404)
    await story.approved("maya")
    assert (await story.rests()).stage is Stage.AWAITING_APPROVAL


async def test_a_task_that_is_due_often_keeps_the_sweep_on(story: Story) -> None:
    for schedule, waits in (("daily", False), ('"*/30 * * * *"', True)):
        text = f"maintenance:\n  - name: a\n    schedule: {schedule}\n    prompt: Update the pins.\n"
        story.configure(text)
        assert await story.host.waits() == waits
    story.host.only = (Address("parcel", "nowhere"),)
    assert await story.host.waits()


@pytest.mark.req("G4", "K10")
async def test_a_plan_for_a_file_that_project_memory_imports_is_of_tier_high(story: Story) -> None:
    story.person("ada").push(HOME, {"CLAUDE.md": "Style: @parcel/shipping.py, as @ada says.\n"})
    await story.planned()
    plan = story.records[1].plan.current
    assert (plan.tier, plan.contract.classes) == ("high", (("agent", "/parcel/shipping.py"),))
