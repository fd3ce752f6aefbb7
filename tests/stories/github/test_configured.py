"""What the default branch's configuration changes, and what its mistakes end in."""

import asyncio
from dataclasses import replace

import pytest

from bot.compose.github import HostSetup
from bot.core.comment import UNPRICED
from bot.core.errors import Conflict
from bot.core.gate import Stage
from bot.workspace.mirror import is_partial
from tests.stories.github.ground import FIXED, HOME, PATIENCE, WISH, Model, Story, soak
from tests.stories.github.test_questions import ASKS
from tests.stories.ground import processes, until

pytestmark = pytest.mark.long

PATH = ".github/plangate.yml"


def configured(story: Story, text: str) -> None:
    story.person("ada").push(HOME, {PATH: text})


async def test_four_eyes(story: Story) -> None:
    """With four eyes the requester's own yes does not count; somebody else's does."""
    configured(story, "approve:\n  four_eyes: true\n")
    await story.planned("maya")
    story.reacts("maya", "+1")
    assert (await story.rests()).stage is Stage.AWAITING_APPROVAL
    assert "`@maya`: the requester can't approve here" in story.said("waits")[0]
    story.reacts("ada", "+1")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW


@pytest.mark.parametrize("way", ("edited", "added", "revised", soak("label"), soak("renamed")))
async def test_four_eyes_of_all_who_asked(story: Story, model: Model, way: str) -> None:
    """Who edited the request, whoever did so later, or renamed it, added to it while it was planned, asked for the
    version before, or wrote what a label points at, asked as well."""
    configured(story, "approve:\n  four_eyes: true\n")
    if way == "label":
        story.opens("maya", WISH)
        story.person("will").label(HOME, 1, "plangate")
    else:
        story.opens("maya" if way == "revised" else "will")
    if way == "revised":
        await story.rests(1)
        story.says("will", "@plangate revise say it in one line")
    if way == "edited":
        story.person("maya").edit_issue(HOME, 1, body=f"@plangate {WISH} And quickly.")
        story.person("will").edit_issue(HOME, 1, body=f"@plangate {WISH} And quickly!")
    if way == "renamed":
        story.person("maya").edit_issue(HOME, 1, title="Free shipping, and drop the licence check")
        story.person("will").edit_issue(HOME, 1, title="Free shipping and drop the licence check")
    if way == "added":
        async with story.at_work(model.pause("p0")):
            story.says("maya", "@plangate and note it in the changelog")
            await story.hears()
    await story.rests(1)
    story.reacts("maya", "+1")
    assert (await story.rests()).stage is Stage.AWAITING_APPROVAL
    assert "`@maya`: the requester can't approve here" in story.said("waits")[0]
    story.reacts("ada", "+1")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
    (pull,) = story.pulls()
    asked = {"added": "`will`, `maya`", "revised": "`maya`, `will`"}.get(way, "`will`")
    assert f"Requested by {asked}.\n- Approved by `ada`" in pull.text.body


async def test_four_eyes_of_who_answered_the_planner(story: Story, model: Model) -> None:
    """Words that answer a question make the plan as much as those that asked for it."""
    configured(story, "approve:\n  four_eyes: true\n")
    model.before = (ASKS,)
    story.opens("will")
    assert (await story.rests(1)).stage is Stage.ASKED
    story.says("maya", "Drop the licence check instead.")
    assert (await story.rests(1)).stage is Stage.AWAITING_APPROVAL
    story.reacts("maya", "+1")
    assert (await story.rests()).stage is Stage.AWAITING_APPROVAL
    assert "`@maya`: the requester can't approve here" in story.said("waits")[0]


async def test_retry_of_a_stale_plan(story: Story, model: Model) -> None:
    """It asks for all that was asked, what was added too, and whoever added it stays a requester; a thread that was
    closed before does not stop it."""
    configured(story, "approve:\n  four_eyes: true\n")
    story.opens("will")
    async with story.at_work(model.pause("p0")):
        story.says("maya", "@plangate and note it in the changelog")
        await story.hears()
    await story.rests(1)
    story.person("ada").push(HOME, {FIXED: "# another one\n"})
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


@pytest.mark.req("G4")
async def test_own_path_classes(story: Story, model: Model) -> None:
    """Files that a project calls high need two people, and the plan says so; work beyond the plan is an amendment."""
    configured(story, f"paths:\n  classes:\n    ownership: ['{FIXED}']\n")
    model.scope = ("**",)
    await story.planned()
    assert f"- Path classes: `ownership: {FIXED}`" in story.said("plan")[0]
    story.reacts("maya", "+1")
    assert (await story.rests(1)).stage is Stage.AWAITING_APPROVAL
    assert f"- `{FIXED}`" in story.said("plan")[1]
    story.reacts("maya", "+1")
    assert (await story.rests(1)).stage is Stage.AWAITING_APPROVAL
    assert story.nothing_done()
    story.reacts("ada", "+1")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW


async def test_named_people_alone_may_approve(story: Story) -> None:
    """Where no role may approve, those who are named do, and an admin who is not does not."""
    configured(story, "approve:\n  roles: []\n  users: [Tess]\n")
    await story.planned()
    story.reacts("ada", "+1")
    assert (await story.rests(1)).stage is Stage.AWAITING_APPROVAL
    assert "`@ada`: their role in this repository is too low to approve" in story.said("waits")[0]
    story.reacts("tess", "+1")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW


@pytest.mark.req("A7")
async def test_a_login_that_nobody_had_when_the_file_was_new_never_counts(story: Story) -> None:
    """Whoever registers it later has no say; a changed file is looked at again."""
    configured(story, "approve:\n  roles: []\n  users: [newcomer]\n")
    await story.planned()
    story.world.add_user("newcomer")
    story.reacts("newcomer", "+1")
    assert (await story.rests(1)).stage is Stage.AWAITING_APPROVAL
    assert story.nothing_done()
    configured(story, "approve:\n  roles: []\n  users: [newcomer, ada]\n")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW


@pytest.mark.req("W4", "A3")
@pytest.mark.parametrize("granted", (soak(True), False))
async def test_a_team_may_approve(story: Story, granted: bool) -> None:
    """Who belongs to a named team approves; an App that may not ask who belongs to it never guesses, says so once, and
    takes the word of those whose role suffices."""
    configured(story, "approve:\n  teams: [parcel/core]\n")
    world = story.world
    world.teams[world.user("parcel").id, "core"] = frozenset({world.user("will").id})
    if not granted:
        ((number, installed),) = world.installations.items()
        world.installations[number] = replace(installed, permissions={**installed.permissions, "members": "none"})
    await story.planned("maya")
    story.reacts("will", "+1")
    if not granted:
        for _ in range(2):
            assert (await story.rests(1)).stage is Stage.AWAITING_APPROVAL
        (notice,) = story.said("waits")
        assert "`@will`: I can't see who is in the teams that may approve" in notice
        story.reacts("maya", "+1")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW


async def test_writers_may_approve(story: Story) -> None:
    """Where the configuration lets writers approve, they do."""
    configured(story, "approve:\n  roles: [write, maintain, admin]\n")
    await story.planned()
    story.reacts("will", "+1")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW


@pytest.mark.parametrize(
    ("text", "words"),
    (
        ("approve:\n  four_eye: true\n", ("unknown key", "four_eye", f"{PATH}:2:3", "four_eyes")),
        soak("tools:\n  deny: ['bash(rm:*)']\n", ("no such tool", "'bash'", "did you mean 'Bash'")),
        soak("models: [\n", ("not YAML", f"{PATH}:")),
        ("mention: a\x07b\n", ("not YAML", "U+0007", f"{PATH}:1:11", "remove the character")),
        soak("budget:\n  session_usd: free\n", ("session_usd", f"{PATH}:2:3")),
    ),  # every day: tests/config/test_environment.py
)
@pytest.mark.req("PR3")
async def test_mistaken(story: Story, text: str, words: tuple[str, ...]) -> None:
    """A broken configuration ends in one comment that says where the mistake is; fixed, the bot works again."""
    configured(story, text)
    issue = story.opens("will")
    await story.rests()
    await story.rests()
    (told,) = story.said("tell")
    assert all(word in told for word in words), told
    assert story.signs(issue) == ["eyes"]
    assert story.model.heard == []
    configured(story, "mention: '@plangate'\n")
    story.says("will", "@plangate please try again")
    assert (await story.rests()).stage is Stage.AWAITING_APPROVAL


@pytest.mark.req("PR1", "PR3")
async def test_mistaken_while_a_plan_waits(story: Story) -> None:
    """While the configuration is broken nothing starts, as nobody knows who may approve; a yes is told so, once."""
    await story.planned()
    configured(story, "approve:\n  four_eye: true\n")
    await story.rests()
    assert story.said("tell") == []
    story.reacts("rita", "+1")
    story.reacts("maya", "+1")
    await story.rests()
    await story.rests()
    assert story.nothing_done()
    (told,) = story.said("tell")
    assert all(word in told for word in ("Plan 1", "is on hold", "four_eye")), told
    configured(story, "approve:\n  four_eyes: true\n")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW


async def test_stranger_and_mistake(story: Story) -> None:
    """Who may not ask learns nothing of the configuration."""
    configured(story, "approve: nonsense\n")
    issue = story.opens("rita")
    await story.rests()
    assert (story.signs(issue), story.comments()) == (["confused"], [])


@pytest.mark.req("D2", "PR3")
async def test_model_down(story: Story, model: Model) -> None:
    """A model that stays down ends in one true comment; `retry` goes on."""
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
async def test_models(story: Story, model: Model) -> None:
    """The project's fallback goes on where its model does not answer, with the project's effort and in its language.

    This one has no known prices: who approves reads that no dollars bound the work.
    """
    configured(story, "language: German\nmodels:\n  fallback: claude-mythos-5-2\n  effort: high\n")
    model.down = "claude-opus"
    await story.planned()
    assert {request.model for request in model.heard[3:]} == {"claude-mythos-5-2"}
    assert {request.body["output_config"]["effort"] for request in model.heard} == {"high"}
    assert all("Language for all that people read: German" in request.texts()[0] for request in model.heard)
    assert f"- Estimated cost: {UNPRICED}" in story.plans()[-1].text.body


@pytest.mark.req("G2")
async def test_large_repository(story: Story) -> None:
    """A repository that is larger than the operator wants whole is worked on without the contents of its past."""
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
async def test_set_up_is_the_default_branchs(story: Story) -> None:
    """A pull request's own configuration sets nothing up; the default branch's does, and its failure is told once."""
    configured(story, "sandbox:\n  setup: ['true']\n")
    will = story.person("will")
    will.push(HOME, {PATH: "sandbox:\n  setup: ['exit 9']\n"}, branch="feature")
    will.open_pull(HOME, "Ships free", head="feature", body=f"@plangate {WISH}")
    await story.rests(1)
    story.reacts("maya", "+1")
    now = await story.rests(1)
    assert now.stage is Stage.IN_REVIEW
    assert now.request.setup is not None
    assert [each["command"] for each in now.request.setup.commands or ()] == ["true"]
    configured(story, "sandbox:\n  setup: ['echo @octo/team is missing; exit 9']\n")
    story.about = 2
    story.opens("will")
    await story.rests(2)
    story.reacts("maya", "+1")
    assert (await story.rests(2)).stage is Stage.FAILED
    (told,) = story.said("tell", 2)
    assert all(word in told for word in ("exit code 9", f"sandbox.setup in {PATH}", "`@octo/team`")), told


@pytest.mark.req("PR3", "PR1")
async def test_stopped_while_it_is_set_up(story: Story) -> None:
    """`stop` ends a set-up command that is under way, with all that it started; no work begins."""
    configured(story, "sandbox:\n  setup: ['echo x > begun; sleep 300']\n")
    await story.planned()
    story.reacts("maya", "+1")
    data = story.host.settings.data_dir
    looking = asyncio.ensure_future(story.host.check_thread(story.address()))
    try:
        await asyncio.to_thread(until, lambda: [*data.glob("checkouts/*/tree/begun")], "the set-up is under way")
        story.says("will", "@plangate stop")
        await story.hears()
        story.records[1] = await asyncio.wait_for(looking, PATIENCE)
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
    assert (await story.rests()).stage is Stage.STOPPED
    assert [each for each in processes(data) if "remote-http" not in each] == []  # which lists the thread's ref
    assert story.model.worked == 0
    assert story.nothing_done()


@pytest.mark.req("A4", "PR1")
async def test_who_may_approve_becomes_stricter_while_work_runs(story: Story) -> None:
    """The push waits for somebody who may approve by the rules of now; then nothing is done a second time."""
    await story.planned()
    story.reacts("maya", "+1")
    pause = story.model.pause("w1")
    with pytest.raises(Conflict):
        async with story.at_work(pause):
            story.person("ada").push(HOME, {PATH: "approve:\n  roles: [admin]\n"})
    assert (await story.rests(1)).stage is Stage.AWAITING_APPROVAL
    assert story.nothing_done()
    worked = story.model.worked
    story.reacts("ada", "+1")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
    assert story.model.worked == worked
