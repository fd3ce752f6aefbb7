"""Sub-agents whose process was killed: what was reported counts, what was in flight goes on or runs again (L9, S11)."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pytest

from bot.agent.assembly import SessionSettings, assemble_session, restore_session
from bot.agent.limits import Ledger
from bot.agent.loop import run
from bot.agent.resources import SessionPlace
from bot.agent.session import ASKED
from bot.agent.session_events import AgentChanged, AgentEvent, End, Lifecycle, Recovery, RecoveryOutcome
from bot.agent.subagents.assignment import interrupted_assignments
from bot.agent.subagents.pool import GOES_ON, LOST_ONCE, LOST_TWICE
from bot.agent.subagents.types import TYPES
from bot.core.names import AgentId, SessionId
from bot.core.transcript import Line, LineKind
from bot.core.work import Checkout, Consumption
from bot.testing.model.reply import Fault, Reply, call, say, several, stop, think
from bot.testing.model.request_view import ModelRequest
from tests.agent.conftest import Open
from tests.agent.ground import ENVIRONMENT, FOLDER, DeskHost, Room, assert_prefixes, drive, ended, of, results, valid
from tests.agent.teams import BASE, DeskWorkspace, Team, brief, children, script, task, team
from tests.memory_store import MemoryTranscripts


@dataclass
class Halting:
    """A model whose parent sends its tasks, and whose agent of the brief `half` stands still once it has looked twice,
    as long as it is held."""

    tasks: Reply
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def __call__(self, request: ModelRequest) -> Reply:
        name = brief(request)
        if not name:
            return say("Done.") if request.step else self.tasks
        if name != "half":
            return say(f"Did {name}.")
        if request.step < 2:
            return call("LS", path=str(request.step))
        self.loop.call_soon_threadsafe(self.arrived.set)
        asyncio.run_coroutine_threadsafe(self.gate.wait(), self.loop).result(20)
        return say("Did half.")


async def killed(
    r: Room, t: Team, policy: Halting, *, reported: int = 0, state: Lifecycle = Lifecycle.COMPLETED
) -> Room:
    """Run until the agent stands still and so many others have come to a state; give what a kill then leaves."""
    finished: set[str] = set()
    enough = asyncio.Event()

    async def follow() -> None:
        async for event in run(t.session):
            if isinstance(event, AgentChanged) and event.state is state:
                finished.add(event.agent)
            if len(finished) >= reported:
                enough.set()

    running = asyncio.create_task(follow())
    await policy.arrived.wait()
    await enough.wait()
    left = snapshot(r)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    policy.gate.set()
    return left


def snapshot(r: Room) -> Room:
    """The room with the transcripts as they are now, for another process."""
    transcripts = MemoryTranscripts()
    transcripts._lines = dict(r.world.transcripts._lines)  # type: ignore[attr-defined]
    return replace(r, world=replace(r.world, transcripts=transcripts, ledger=Ledger()))


def assembled(r: Room, forks: list[str], lines: Sequence[Line]) -> Team:
    """The saved parent with a crew in new objects, and the forks that are still there."""
    workspace = DeskWorkspace(forks=list(forks))
    session, pool = assemble_session(
        SessionSettings(SessionId("thread-1"), TYPES),
        replace(r.world, ledger=Ledger()),
        place=SessionPlace(workspace, Checkout("main", FOLDER, BASE), DeskHost(r.host.answer), ENVIRONMENT),
        lines=lines,
    )
    return Team(session, pool, workspace)


def resumed(r: Room, forks: list[str]) -> Team:
    """The same with all that the transcript says."""
    lines = r.world.transcripts.load(SessionId("thread-1"))
    t = assembled(r, forks, lines)
    t.session.restore(lines)
    t.pool.restore(lines)
    return t


def of_half(requests: list[ModelRequest]) -> list[ModelRequest]:
    return [request for request in requests if brief(request) == "half"]


def interruptions(events: list[AgentEvent]) -> list[str]:
    return [each.text for each in of(events, Recovery) if each.trouble == "interrupted"]


THREE = (task("found"), task("made", "code"), task("half", "code"))


@pytest.mark.req("L5", "L9")
async def test_a_resumed_parent_books_all_that_sub_agents_cost(room: Open) -> None:
    answers: Iterator[Fault | Reply] = iter([Fault.truncate(reply=say("word " * 200)), stop("end_turn"), say("Found.")])
    r = room(script(task("look"), lambda _: next(answers)))
    await drive(team(r).session)
    assert resumed(r, []).session.resources.ledger.rows == r.world.ledger.rows
    assert sum(row.requests for row in r.world.ledger.rows.values()) == 5


@pytest.mark.req("L9", "S11", "S4")
async def test_one_that_writes_goes_on_where_it_was(room: Open) -> None:
    """In its own session and fork: its next request begins with the bytes of the one before, and nothing that was
    reported is done or merged again. The parent is not asked again: its answer was saved, thinking and all."""
    policy = Halting(several(think("Three parts."), *THREE))
    r = room(policy)
    first = team(r)
    left = await killed(r, first, policy, reported=2)
    before = len(r.api.requests)
    t = resumed(left, first.workspace.forks)
    events = await drive(t.session)
    assert ended(events).end is End.ANSWERED
    assert [brief(request) for request in r.api.requests[before:]] == ["half", ""]
    assert_prefixes(of_half(children(r)))
    assert_prefixes([request for request in r.api.requests if not brief(request)])
    assert r.api.refusals == ()
    assert [block["content"].splitlines()[0] for block in results(t.session)] == [
        "Did found.",
        "Did made.",
        "Did half.",
    ]
    assert t.workspace.log == ["open code-3 to write", "merge code-3 into main", "discard code-3"]
    assert interruptions(events) == [GOES_ON]
    assert valid(t.session.history)
    assert t.session.monitor.steps == 2
    assert t.pool.rows[AgentId("code-3")].steps == 3
    assert t.session.resources.ledger.of(AgentId("code-3")).requests == 3
    assert sorted(t.pool.rows) == ["code-2", "code-3", "explore-1"]


@pytest.mark.req("L9", "S4")
async def test_an_interrupted_one_that_had_answered_is_merged_in_its_turn(room: Open) -> None:
    policy = Halting(several(task("half", "code"), task("made", "code")))
    r = room(policy)
    first = team(r)
    left = await killed(r, first, policy, reported=1, state=Lifecycle.WAITING)
    before = len(r.api.requests)
    t = resumed(left, first.workspace.forks)
    await drive(t.session)
    assert [brief(request) for request in r.api.requests[before:]] == ["half", ""]
    assert [line for line in t.workspace.log if line.startswith("merge")] == [
        f"merge code-{n} into main" for n in (1, 2)
    ]
    assert results(t.session)[1]["content"].startswith("Did made.")


@pytest.mark.req("L9", "S11", "S4")
async def test_one_whose_work_is_lost_begins_again_once(room: Open) -> None:
    policy = Halting(task("half", "code"))
    r = room(policy)
    left = await killed(r, team(r), policy)
    policy.arrived.clear()
    policy.gate.clear()
    again = resumed(left, [])
    left = await killed(left, again, policy)
    assert [request.step for request in of_half(children(r))] == [0, 1, 2, 0, 1, 2]
    found = resumed(snapshot(left), again.workspace.forks)
    assert interruptions(await drive(found.session)) == [GOES_ON]
    assert f"Note: {LOST_ONCE}." in results(found.session)[0]["content"]
    third = resumed(left, [])
    await drive(third.session)
    (result,) = results(third.session)
    assert result["is_error"]
    assert LOST_TWICE in result["content"]


@pytest.mark.req("L9", "S11")
async def test_the_report_says_that_work_was_lost(room: Open) -> None:
    policy = Halting(task("half", "code"))
    r = room(policy)
    left = await killed(r, team(r), policy)
    t = resumed(left, [])
    events = await drive(t.session)
    assert f"Note: {LOST_ONCE}." in results(t.session)[0]["content"]
    assert t.workspace.log[0] == "fork code-1"
    assert t.pool.metrics.recoveries == {("interrupted", "recovered"): 1}
    assert {event.outcome for event in of(events, Recovery)} == {RecoveryOutcome.RECOVERED}


@pytest.mark.req("L9", "S11")
async def test_an_interrupted_one_that_looks_runs_again_and_counts_once(room: Open) -> None:
    policy = Halting(several(task("half"), task("found")))
    r = room(policy)
    left = await killed(r, team(r), policy, reported=1)
    before = len(r.api.requests)
    t = resumed(left, [])
    await drive(t.session)
    assert [(brief(request), request.step) for request in r.api.requests[before:]] == [
        ("half", 0),
        ("half", 1),
        ("half", 2),
        ("", 1),
    ]
    assert [block["content"] for block in results(t.session)] == ["Did half.", "Did found."]
    assert sorted(t.pool.rows) == ["explore-1", "explore-2"]


@pytest.mark.req("L9", "L6")
async def test_a_cancelled_parent_loses_no_report(room: Open) -> None:
    policy = Halting(several(*THREE))
    r = room(policy)
    first = team(r)
    await killed(r, first, policy, reported=2)
    assert len(first.session.history) == 1
    t = resumed(snapshot(r), first.workspace.forks)
    await drive(t.session)
    assert [block["content"].splitlines()[0] for block in results(t.session)] == [
        "Did found.",
        "Did made.",
        "Did half.",
    ]
    assert [request.step for request in of_half(children(r))] == [0, 1, 2, 2]


@pytest.mark.req("L9", "S11")
async def test_a_parent_with_a_call_that_cannot_be_repeated_is_asked_again(room: Open) -> None:
    """A write stands beside the task: the answer is dropped, the parent is told who was in flight, and one that is sent
    in the same words goes on."""
    policy = Halting(several(call("Write", file_path="a", content="a"), task("half", "code")))
    r = room(policy)
    first = team(r)
    left = await killed(r, first, policy)
    lines = left.world.transcripts.load(SessionId("thread-1"))
    t = assembled(left, first.workspace.forks, lines)
    await restore_session(t.session, t.pool, lines, journaled=Consumption())
    assert t.session.unfinished_answer is None
    (told,) = t.session.queued
    assert "code-1" in told
    assert interruptions(await drive(t.session)) == [GOES_ON]
    assert [request.step for request in r.api.requests if not brief(request)] == [0, 0, 1]
    assert [request.step for request in of_half(children(r))] == [0, 1, 2, 2]


@pytest.mark.req("L9", "S6")
async def test_a_task_whose_report_reached_the_parent_is_not_interrupted(room: Open) -> None:
    r = room(script(task("look"), lambda _: say("Seen.")))
    t = team(r)
    await drive(t.session)
    assert interrupted_assignments(r.world.transcripts.load(t.session.id)) == []


@pytest.mark.req("L9", "X3")
@pytest.mark.parametrize(
    "after",
    (
        lambda r: Line(LineKind.NOTE, r.clock.now(), {"note": "canary", "text": "seen"}),
        lambda r: Line(LineKind.MESSAGE, r.clock.now(), {"message": {"role": "user", "content": []}}),
    ),
    ids=["an alarm", "what people said"],
)
async def test_calls_that_are_over_are_not_made_again(room: Open, after: Callable[[Room], Line]) -> None:
    policy = Halting(task("half"))
    r = room(policy)
    left = await killed(r, team(r), policy)
    lines = left.world.transcripts.load(SessionId("thread-1"))
    assert ASKED in [line.body["note"] for line in lines if line.kind is LineKind.NOTE]
    assert resumed(left, []).session.unfinished_answer is not None
    left.world.transcripts.append(SessionId("thread-1"), (after(left),))
    assert resumed(left, []).session.unfinished_answer is None
