"""One live look at everything that decides: what counts as an opinion, and what happened to the plan comment."""

from typing import Any

import pytest

from bot.core.approval import Opinion, Reason, VerdictOutcome, Way
from bot.core.comment import work_begun_line
from bot.core.errors import Transient
from bot.core.turn import Role
from bot.github.edit_history import history
from bot.github.responses import time
from tests.github.conftest import HOME, Ground
from tests.github.shown import Shown


@pytest.mark.parametrize("lagging", (0, 2))
async def test_new_plan_is_whole_shown_and_waits_also_if_reads_lag(ground: Ground, lagging: int) -> None:
    await ground.client.get(ground.address.path)  # the token is older than what is read
    if lagging:
        ground.github.faults.stale("POST /graphql", times=lagging)
    found = await (await Shown.on(ground)).look()
    assert (found.shown.intact, found.shown.hidden, found.open, found.complete) == (True, False, True, True)
    assert found.candidates == ()
    assert found.drifted == ()


@pytest.mark.req("A1")
@pytest.mark.parametrize(
    ("content", "opinion"),
    (("+1", Opinion.APPROVE), ("rocket", Opinion.APPROVE), ("-1", Opinion.REJECT), ("confused", Opinion.REVISE)),
)
async def test_each_of_four_reactions_is_an_opinion(ground: Ground, content: str, opinion: Opinion) -> None:
    shown = await Shown.on(ground)
    ground.person("mia").react(shown.comment, content)
    (word,) = (await shown.look()).candidates
    assert (word.actor.login, word.way, word.opinion, word.role) == ("mia", Way.REACTION, opinion, Role.MAINTAIN)


async def test_other_reactions_are_no_opinion(ground: Ground) -> None:
    shown = await Shown.on(ground)
    ground.person("mia").react(shown.comment, "heart")
    ground.person("mia").react(shown.comment, "eyes")
    assert (await shown.look()).candidates == ()


@pytest.mark.req("A3")
@pytest.mark.parametrize(
    ("login", "outcome"),
    (
        ("ada", VerdictOutcome.APPROVED),
        ("mia", VerdictOutcome.APPROVED),
        ("will", VerdictOutcome.PENDING),
        ("tom", VerdictOutcome.PENDING),
        ("rea", VerdictOutcome.PENDING),
        ("stranger", VerdictOutcome.PENDING),
    ),
)
async def test_only_the_role_decides(ground: Ground, login: str, outcome: VerdictOutcome) -> None:
    """maintain and admin may approve; what GitHub's legacy permission calls write may not."""
    shown = await Shown.on(ground)
    ground.person(login).react(shown.comment, "+1")
    assert (await shown.verdict()).outcome is outcome


@pytest.mark.req("A3")
async def test_a_role_that_cannot_be_looked_up_leaves_the_plan_waiting(ground: Ground) -> None:
    shown = await Shown.on(ground)
    ground.person("mia").react(shown.comment, "+1")
    ground.github.faults.fail("GET */collaborators/mia/permission", 500, times=99)
    assert await shown.reasons() == [Reason.LOOKUP_FAILED]


@pytest.mark.req("A3")
@pytest.mark.parametrize("status", (500, 502, 403))
async def test_a_query_that_failed_leaves_the_plan_waiting(ground: Ground, status: int) -> None:
    shown = await Shown.on(ground)
    ground.person("mia").react(shown.comment, "+1")
    ground.github.faults.fail("POST /graphql", status, times=99)
    assert await shown.reasons() == [Reason.LOOKUP_FAILED]


@pytest.mark.req("A2")
async def test_a_tick_is_an_approval_and_no_edit_of_content(ground: Ground) -> None:
    shown = await Shown.on(ground)
    ground.person("ada").tick(shown.comment.id)
    found = await shown.look()
    (word,) = found.candidates
    assert (word.actor.login, word.way, word.role) == ("ada", Way.TICK, Role.ADMIN)
    assert found.shown.intact
    assert (await shown.verdict()).outcome is VerdictOutcome.APPROVED


async def test_tick_that_was_taken_back_approves_nothing(ground: Ground) -> None:
    shown = await Shown.on(ground)
    ground.person("ada").tick(shown.comment.id)
    ground.person("ada").tick(shown.comment.id, ticked=False)
    assert await shown.reasons() == [Reason.NOBODY]


async def test_last_who_ticked_is_the_candidate(ground: Ground) -> None:
    shown = await Shown.on(ground)
    ground.person("will").tick(shown.comment.id)
    assert await shown.reasons() == [Reason.ROLE_TOO_LOW, Reason.NOBODY]
    ground.person("mia").tick(shown.comment.id, ticked=False)
    ground.person("mia").tick(shown.comment.id)
    assert (await shown.verdict()).by[0].login == "mia"


@pytest.mark.req("A5", "PR5")
async def test_edited_plan_is_not_approved(ground: Ground) -> None:
    shown = await Shown.on(ground)
    ground.person("mia").react(shown.comment, "+1")
    ground.person("will").edit_comment(shown.comment.id, shown.comment.text.body.replace("src/a.py", "src/b.py"))
    assert await shown.reasons() == [Reason.PLAN_CHANGED]


@pytest.mark.req("A2")
async def test_an_edit_that_was_taken_back_makes_older_approvals_old(ground: Ground) -> None:
    """Who approved while it showed something else did not approve this; who does it again, does."""
    shown = await Shown.on(ground)
    body = shown.comment.text.body
    ground.person("will").edit_comment(shown.comment.id, body.replace("src/a.py", "src/b.py"))
    ground.person("mia").react(shown.comment, "+1")
    ground.person("will").edit_comment(shown.comment.id, body)
    assert await shown.reasons() == [Reason.TOO_OLD, Reason.NOBODY]
    ground.person("mia").unreact(shown.comment, "+1")
    ground.person("mia").react(shown.comment, "+1")
    assert (await shown.verdict()).outcome is VerdictOutcome.APPROVED


@pytest.mark.req("A2", "A3")
@pytest.mark.parametrize("listed", (None, [], ["2026-01-01T10:00:00Z"]), ids=("null", "none", "the posting alone"))
def test_an_edit_that_is_not_listed_is_an_edit(listed: list[str] | None) -> None:
    """Where GitHub says that a comment was edited and does not list that edit, nobody knows what it showed before."""
    who = {"__typename": "User", "databaseId": 7, "login": "will"}
    edits = [{"editedAt": at, "deletedAt": None, "diff": "A plan.", "editor": who} for at in listed or ()]
    node: dict[str, Any] = {
        "body": "A plan.",
        "createdAt": "2026-01-01T10:00:00Z",
        "lastEditedAt": "2026-01-01T11:00:00Z",
        "editor": who,
        "userContentEdits": None if listed is None else {"totalCount": len(edits), "nodes": edits},
    }
    assert history(node, "A plan.").since == time(node["lastEditedAt"])


@pytest.mark.req("A2")
async def test_tick_that_changes_more_approves_nothing(ground: Ground) -> None:
    shown = await Shown.on(ground)
    body = shown.comment.text.body.replace("- [ ]", "- [x]").replace("src/a.py", "src/b.py")
    ground.person("ada").edit_comment(shown.comment.id, body)
    assert await shown.reasons() == [Reason.PLAN_CHANGED]


@pytest.mark.req("A4b")
@pytest.mark.parametrize("way", ("reaction", "tick", "command"))
async def test_an_approval_is_used_once(ground: Ground, way: str) -> None:
    """Work that began says so on the plan. The journal that holds the approval accounts for that edit, and the approval
    stands; a journal that was set back does not, and nothing that was said before counts for it."""
    shown = await Shown.on(ground)
    match way:
        case "reaction":
            ground.person("mia").react(shown.comment, "+1")
        case "tick":
            ground.person("mia").tick(shown.comment.id)
        case _:
            ground.person("mia").comment(HOME, shown.plan.thread, f"@plangate approve {shown.plan.short_digest}")
    line = work_begun_line(["mia"], ground.clock.now())
    ground.clock.advance(1)
    for _ in range(2):
        await shown.dialogue.show_work_begun(shown.plan, shown.node, line)
    assert len(ground.asked("PATCH")) == 1
    assert shown.comment.text.body.startswith(f"{line}\n\n## ⏸ plan mode: plan 1")
    assert (await shown.verdict(line)).by[0].login == "mia"
    assert (await shown.verdict(work_begun_line(["mia"], ground.clock.now()))).outcome is VerdictOutcome.PENDING
    assert await shown.reasons() == [Reason.PLAN_CHANGED]
    body = shown.comment.text.body
    ground.person("will").edit_comment(shown.comment.id, body.removeprefix(f"{line}\n\n"))
    untimely = Reason.SAID_BEFORE if way == "command" else Reason.TOO_OLD
    assert await shown.reasons() == [untimely, Reason.NOBODY]
    assert (await shown.verdict(line)).by[0].login == "mia"


@pytest.mark.req("A4b")
async def test_plan_deleted_between_verdict_and_edit_begins_no_work(ground: Ground) -> None:
    shown = await Shown.on(ground)
    ground.person("will").delete_comment(shown.comment.id)
    with pytest.raises(Transient):
        await shown.dialogue.show_work_begun(shown.plan, shown.node, work_begun_line(["mia"], ground.clock.now()))


@pytest.mark.req("A2")
async def test_reaction_must_be_strictly_newer_than_the_post(ground: Ground) -> None:
    shown = await Shown.on(ground)
    ground.github.world.person("mia").react(shown.comment, "+1")
    (reaction,) = ground.github.world.reactions_to(shown.comment.node_id)
    assert reaction.created_at == shown.comment.created_at
    assert await shown.reasons() == [Reason.TOO_OLD, Reason.NOBODY]


@pytest.mark.req("A4a")
@pytest.mark.parametrize(
    ("text", "outcome"),
    (
        ("@plangate approve", VerdictOutcome.APPROVED),
        ("@plangate approve {digest}", VerdictOutcome.APPROVED),
        ("/plangate approve {digest}", VerdictOutcome.APPROVED),
        ("@plangate approve `{digest}`", VerdictOutcome.APPROVED),
        ("@plangate approve 0123456789ab", VerdictOutcome.PENDING),
        ("Looks good.\n\n- Hi @plangate, approve {digest}.", VerdictOutcome.APPROVED),
        ("@plangate reject, too big", VerdictOutcome.REJECTED),
        ("@plangate please do not approve this\n\n@plangate approve?", VerdictOutcome.PENDING),
        ("> @plangate approve\n@plangate approve", VerdictOutcome.PENDING),
        ("`@plangate approve`", VerdictOutcome.PENDING),
    ),
)
async def test_approve_and_reject_in_visible_prose_are_opinions(
    ground: Ground, text: str, outcome: VerdictOutcome
) -> None:
    shown = await Shown.on(ground)
    ground.person("mia").comment(HOME, shown.plan.thread, text.format(digest=shown.plan.short_digest))
    assert (await shown.verdict()).outcome is outcome


@pytest.mark.req("A4a")
async def test_an_edited_command_does_not_count(ground: Ground) -> None:
    """Any writer can edit anybody's comment, so an edited command is none."""
    shown = await Shown.on(ground)
    said = ground.person("mia").comment(HOME, shown.plan.thread, "I am not sure")
    ground.person("will").edit_comment(said.id, "@plangate approve")
    assert await shown.reasons() == [Reason.COMMENT_EDITED, Reason.NOBODY]


async def test_command_before_the_plan_does_not_count(ground: Ground) -> None:
    thread = ground.issue()
    ground.person("mia").comment(HOME, thread, "@plangate approve")
    assert await (await Shown.on(ground, thread)).reasons() == [Reason.NOBODY]


async def test_a_hundred_later_comments_do_not_hide_a_rejection(ground: Ground) -> None:
    shown = await Shown.on(ground)
    ground.person("mia").comment(HOME, shown.plan.thread, "@plangate reject")
    for _ in range(110):
        ground.github.world.person("rea").comment(HOME, shown.plan.thread, "noise")
    assert (await shown.verdict()).outcome is VerdictOutcome.REJECTED


@pytest.mark.req("A4a")
async def test_reactions_are_read_beyond_the_first_page(ground: Ground) -> None:
    """A crowd of newer thumbs does not hide a maintainer's, and costs no look-up for each of them."""
    shown = await Shown.on(ground)
    ground.person("mia").react(shown.comment, "+1")
    ground.clock.advance(1)
    for number in range(120):
        ground.github.world.add_user(f"fan-{number}")
        ground.github.world.person(f"fan-{number}").react(shown.comment, "+1")
    before = len(ground.asked("GET"))
    assert (await shown.verdict()).outcome is VerdictOutcome.APPROVED
    assert len(ground.asked("GET")) - before < 12


@pytest.mark.req("A5")
@pytest.mark.parametrize(
    ("change", "reasons"),
    (
        ("close", [Reason.THREAD_CLOSED]),
        ("lock", [Reason.THREAD_LOCKED, Reason.NOBODY]),
        ("minimise", [Reason.PLAN_HIDDEN]),
        ("delete", [Reason.PLAN_HIDDEN]),
        ("drift", [Reason.SCOPE_DRIFTED]),
    ),
)
async def test_what_happens_to_the_plan_is_seen(ground: Ground, change: str, reasons: list[Reason]) -> None:
    """Closed, locked, folded, deleted, outdated: each has its reason, whoever approved before."""
    shown = await Shown.on(ground)
    ground.person("mia").react(shown.comment, "+1")
    ada = ground.person("ada")
    match change:
        case "close":
            ada.close(HOME, shown.plan.thread)
        case "lock":
            ada.lock(HOME, shown.plan.thread)
        case "minimise":
            ada.minimize(shown.comment.id)
        case "delete":
            ada.delete_comment(shown.comment.id)
        case _:
            ada.push(HOME, {"src/a.py": "a = 2\n"})
    assert await shown.reasons() == reasons


@pytest.mark.req("A5")
async def test_other_files_may_change(ground: Ground) -> None:
    """A commit outside of the plan's scope does not make it stale; one that moves a file out of it does."""
    shown = await Shown.on(ground)
    ground.person("ada").push(HOME, {"docs.md": "new\n"})
    assert (await shown.look()).drifted == ()
    ground.person("ada").push(HOME, {"src/a.py": None, "lib/a.py": "a = 1\n"})
    assert (await shown.look()).drifted == ("src/a.py",)


@pytest.mark.req("E3")
async def test_own_commit_on_the_branch_is_no_drift_but_a_further_one_is(ground: Ground) -> None:
    shown = await Shown.on(ground)
    will = ground.person("will")
    pushed = will.push(HOME, {"src/a.py": "a = 2\n"})
    assert (await shown.dialogue.snapshot(shown.plan, shown.node, pushed=pushed)).drifted == ()
    will.push(HOME, {"docs.md": "new\n"})
    assert (await shown.dialogue.snapshot(shown.plan, shown.node, pushed=pushed)).drifted == ("src/a.py",)


@pytest.mark.req("G4")
async def test_owners_are_those_of_the_default_branch(ground: Ground) -> None:
    shown = await Shown.on(ground, tier="high")
    ground.person("ada").push(HOME, {"CODEOWNERS": "* @mia\n"}, branch="topic")
    ground.person("mia").react(shown.comment, "+1")
    assert (await shown.dialogue.snapshot(shown.plan, shown.node, onto="topic")).owners == frozenset()
    ground.person("ada").push(HOME, {"CODEOWNERS": "* @mia\n"})
    mia = ground.github.world.user("mia").id
    assert (await shown.dialogue.snapshot(shown.plan, shown.node, onto="topic")).owners == {mia}


async def test_plan_of_another_repository_is_never_complete(ground: Ground) -> None:
    shown = await Shown.on(ground, repository=1)
    assert not (await shown.look()).complete


async def test_quiet_plan_is_read_by_one_query(ground: Ground) -> None:
    shown = await Shown.on(ground)
    before = len(ground.github.requests)
    await shown.look()
    assert len(ground.github.requests) - before == 1
