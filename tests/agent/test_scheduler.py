"""Works side by side, events and deadlines, and calls that start while the answer streams (S6, L1, M7)."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.dispatch import READING, run_together
from bot.agent.permissions.tool_gate import CallKind, Mode
from bot.agent.session import Session
from bot.agent.session_events import (
    AgentChanged,
    AgentEvent,
    AnswerArrived,
    End,
    Lifecycle,
    RequestStarted,
    ToolFinished,
    ToolStarted,
    iterate_events,
    iterate_within,
)
from bot.agent.subagents.assignment import in_flight, interrupted_notice
from bot.core.errors import Broken, PlangateError, Transient
from bot.core.transcript import Json
from bot.ports import (
    Abilities,
    AnswerCompleted,
    AnswerStarted,
    CallReceived,
    ModelEvent,
    ModelRequest,
    Notice,
    ToolOutput,
    Usage,
)
from bot.testing.model.reply import Call, Fault, Reply, Text, Verbatim, say, sequence
from tests.agent.conftest import Open
from tests.agent.ground import Room, drive, ended, of, results, valid
from tests.agent.teams import team
from tests.agent.test_subagents_resumed import resumed, snapshot


@dataclass
class Books:
    """What a set of works did."""

    running: int = 0
    most: int = 0
    ended: list[int] = field(default_factory=list)
    order: list[int] = field(default_factory=list)


class WorkEnd(Enum):
    """How a work ends."""

    WELL = 0
    ERROR = 1
    CANCELLED = 2
    """What it waited for was cancelled by somebody else."""


async def work(index: int, pauses: int, books: Books, *, end: WorkEnd = WorkEnd.WELL) -> int:
    """Do nothing for so many rounds of the event loop, then end as told."""
    books.running += 1
    books.most = max(books.most, books.running)
    books.order.append(index)
    try:
        for _ in range(pauses):
            await asyncio.sleep(0)
        if end is WorkEnd.ERROR:
            raise ValueError(index)
        if end is WorkEnd.CANCELLED:
            gone = asyncio.get_running_loop().create_future()
            gone.cancel()
            await gone
        return index
    finally:
        books.running -= 1
        books.ended.append(index)


Plan = tuple[int, WorkEnd]
_plans = st.lists(st.tuples(st.integers(0, 12), st.sampled_from(WorkEnd)), max_size=8)


def works(plans: list[Plan], books: Books) -> list[Callable[[], Awaitable[int]]]:
    return [partial(work, index, pauses, books, end=end) for index, (pauses, end) in enumerate(plans)]


@pytest.mark.req("S6", "T2")
@given(_plans, st.integers(0, 5))
def test_nothing_is_lost_whatever_runs(plans: list[Plan], at_once: int) -> None:
    """Any number of works of any length, some of which fail: all of them run, at most so many at a time, started in
    order; their results are in order; the first error is raised at the end; no task is left."""
    books = Books()

    async def scenario() -> None:
        before = asyncio.all_tasks()
        failing = [(index, end) for index, (_, end) in enumerate(plans) if end is not WorkEnd.WELL]
        raised = []
        try:
            assert await run_together(works(plans, books), at_once=at_once) == list(range(len(plans)))
        except ValueError as error:
            raised = [(error.args[0], WorkEnd.ERROR)]
        except Broken:
            raised = [(failing[0][0], WorkEnd.CANCELLED)]
        assert raised == failing[:1]
        assert asyncio.all_tasks() == before

    asyncio.run(scenario())
    assert books.most <= max(at_once, 1)
    assert books.order == list(range(len(plans)))
    assert sorted(books.ended) == list(range(len(plans)))


@pytest.mark.req("S6", "L6")
@given(_plans, st.integers(1, 5), st.integers(0, 12))
def test_cancelling_ends_all(plans: list[Plan], at_once: int, after: int) -> None:
    books = Books()

    async def scenario() -> None:
        before = asyncio.all_tasks()
        together = asyncio.ensure_future(run_together(works(plans, books), at_once=at_once))
        for _ in range(after):
            await asyncio.sleep(0)
        together.cancel()
        with suppress(asyncio.CancelledError, ValueError, Broken):
            await together
        assert books.running == 0
        assert books.most <= at_once
        assert len(books.ended) == len(books.order)
        assert asyncio.all_tasks() == before

    asyncio.run(scenario())


@pytest.mark.req("S6")
async def test_one_that_waits_does_not_hold_the_others() -> None:
    gate, books = asyncio.Event(), Books()

    async def last(index: int) -> int:
        done = await work(index, 1, books)
        if index == 4:
            gate.set()
        return done

    async def first() -> int:
        await gate.wait()
        return 0

    waiting: list[Callable[[], Awaitable[int]]] = [first, *(partial(last, index) for index in range(1, 5))]
    assert await run_together(waiting, at_once=2) == [0, 1, 2, 3, 4]
    assert books.most == 1


Emit = Callable[[int], Awaitable[None]]


@pytest.mark.req("L1")
async def test_what_a_work_reports_is_yielded_and_its_result_is_the_last() -> None:
    handled: list[int] = []

    async def counts(emit: Emit) -> int:
        for number in range(3):
            await emit(number)
            handled.append(number)
        return 99

    seen = []
    async with aclosing(iterate_events(counts)) as reports:
        async for report in reports:
            await asyncio.sleep(0)
            seen.append((report, len(handled)))
    assert seen == [(0, 0), (1, 1), (2, 2), (99, 3)]


@pytest.mark.req("L6")
@pytest.mark.parametrize("after", (1, 3))
async def test_a_reader_that_stops_ends_the_work(after: int) -> None:
    books = Books()

    async def reports(emit: Emit, index: int) -> int:
        await emit(index)
        return await work(index, 100, books)

    async def many(emit: Emit) -> int:
        return len(await run_together([partial(reports, emit, index) for index in range(4)], at_once=2))

    before = asyncio.all_tasks()
    async with aclosing(iterate_events(many)) as told:
        async for _ in told:
            after -= 1
            if not after:
                break
    assert (books.running, asyncio.all_tasks()) == (0, before)


@pytest.mark.req("T3")
async def test_a_deadline_of_the_work_does_not_end_the_reader() -> None:
    async def hurries(emit: Emit) -> int:
        async with asyncio.timeout(0.01):
            await emit(0)
        return 1

    seen = []

    async def read() -> None:
        async for report in iterate_events(hurries):
            await asyncio.sleep(0.03)
            seen.append(report)

    with pytest.raises(TimeoutError):
        await read()
    assert seen == [0]


async def source(index: int, steps: list[int], books: Books) -> AsyncGenerator[int, None]:
    """Counts up, giving way as often as its steps say."""
    books.running += 1
    try:
        for number, pauses in enumerate(steps):
            for _ in range(pauses):
                await asyncio.sleep(0)
            yield number
    finally:
        books.running -= 1
        books.ended.append(index)


@pytest.mark.req("T3")
async def test_a_deadline_strikes_the_source_and_never_the_reader() -> None:
    books = Books()

    async def forever() -> AsyncGenerator[int]:
        async with aclosing(source(0, [0, 0], books)) as values:
            async for value in values:
                yield value
            await asyncio.Event().wait()

    seen: list[int] = []

    async def read() -> None:
        async for value in iterate_within(forever(), 0.05):
            seen.append(value)  # noqa: PERF401 - what came before the error counts

    with pytest.raises(TimeoutError):
        await read()
    assert seen == [0, 1]
    assert books.running == 0
    slow = []
    async for value in iterate_within(source(1, [0], books), 0.02):
        await asyncio.sleep(0.05)
        slow.append(value)
    assert slow == [0]


Step: TypeAlias = ModelEvent | PlangateError | asyncio.Event
"""What a scripted answer does next: yield an event, raise an error, or wait for the test."""
DONE: Json = {"role": "assistant", "content": [{"type": "text", "text": "Done."}]}


@dataclass
class Streaming:
    """A model that streams its answers step by step, as the test lets it."""

    answers: list[list[Step]]
    entered: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when an answer begins to wait."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:  # noqa: ARG002 - the port's
        yield AnswerStarted()
        for step in self.answers.pop(0) if self.answers else [completed(DONE, "end_turn")]:
            match step:
                case asyncio.Event():
                    await asyncio.sleep(0.01)  # what starts now has started
                    self.entered.set()
                    await step.wait()
                case PlangateError():
                    raise step
                case _:
                    yield step

    def abilities(self, model: str) -> Abilities:  # noqa: ARG002
        return Abilities(200_000, summarizes=False, binds=False)


def use(ident: str, name: str, **given: object) -> Json:
    return {"type": "tool_use", "id": ident, "name": name, "input": given}


def completed(message: Json, stop_reason: str = "tool_use") -> AnswerCompleted:
    return AnswerCompleted(message, stop_reason, Usage(input=10, output=10), 0.001, "m")


def answer(calls: Sequence[Json], *between: Step, stop_reason: str = "tool_use") -> list[Step]:
    """An answer with these calls; `between` comes after the last of them and before the end."""
    message = {"role": "assistant", "content": list(calls)}
    return [*map(CallReceived, calls), *between, completed(message, stop_reason)]


def streaming(r: Room, *answers: list[Step], mode: Mode = Mode.ACCEPT_EDITS, eager: bool = True) -> Session:
    return r.session(mode=mode, world=replace(r.world, model=Streaming(list(answers)), eager=eager))


READ, LS, GIT = use("a", "Read", file_path="a"), use("b", "LS", path="."), use("c", "Bash", command="git log -3")
WRITE = use("w", "Write", file_path="b", content="x")


@pytest.mark.req("M7", "T2")
async def test_reads_start_while_the_answer_streams(room: Open) -> None:
    """All three run before the answer is complete; events and results come after it, in the order of the calls. The
    events know when each call ran."""
    r, rest = room(lambda _: say("?")), asyncio.Event()
    session = streaming(r, answer((READ, LS, GIT), rest))
    running = asyncio.create_task(drive(session))
    await session.resources.model.entered.wait()  # type: ignore[attr-defined]  # the double's
    assert [operation for operation, _ in r.host.calls] == ["Read", "LS", "Bash"]
    assert len(session.history) == 1
    began = r.world.clock.now()
    await r.world.clock.sleep(7.0)
    rest.set()
    events = await running
    assert ended(events).end is End.ANSWERED
    assert {event.at for event in events if isinstance(event, ToolStarted | ToolFinished)} == {began}
    assert [block["tool_use_id"] for block in results(session)] == ["a", "b", "c"]
    assert len(r.host.calls) == 3
    assert session.monitor.tool_calls == 3
    about = [type(event) for event in events if isinstance(event, AnswerArrived | ToolStarted | ToolFinished)]
    assert (about[0], len(of(events, ToolStarted)), len(of(events, ToolFinished))) == (AnswerArrived, 3, 3)


@pytest.mark.req("M7", "T2")
@pytest.mark.parametrize(
    ("calls", "early"),
    (
        ((WRITE,), 0),
        ((READ, WRITE, LS), 1),
        ((use("d", "Bash", command="make"), READ), 0),
        ((use("d", "Bash", command="cd src"), READ), 0),
        ((use("d", "Bash", command="git log", run_in_background=True), READ), 0),
        ((use("d", "AskUserQuestion", questions=[]), READ), 0),
        ((use("d", "Nothing"), READ), 0),
        ((use("d", "Read"), READ), 0),
        ((READ, READ), 1),
        ((use("d", "TodoRead"), READ), 0),
    ),
    ids=(
        "a write",
        "after a write",
        "a command",
        "cd",
        "in the background",
        "a question",
        "no tool",
        "bad input",
        "one id twice",
        "a note",
    ),
)
@pytest.mark.parametrize("mode", (Mode.ACCEPT_EDITS, Mode.PLAN))
async def test_what_writes_asks_or_is_refused_waits_for_the_end_of_the_answer(
    room: Open, calls: tuple[Json, ...], early: int, mode: Mode
) -> None:
    r, rest = room(lambda _: say("?")), asyncio.Event()
    session = streaming(r, answer(calls, rest), mode=mode)
    running = asyncio.create_task(drive(session))
    await session.resources.model.entered.wait()  # type: ignore[attr-defined]
    assert len(r.host.calls) == early
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.req("M7", "T2")
def test_only_what_reads_may_start() -> None:
    assert {CallKind.READ, CallKind.READ_COMMAND, CallKind.EXPLORE} == READING


@pytest.mark.req("M7", "T2")
async def test_nothing_starts_early_where_that_is_switched_off(room: Open) -> None:
    r, rest = room(lambda _: say("?")), asyncio.Event()
    session = streaming(r, answer((READ,), rest), eager=False)
    running = asyncio.create_task(drive(session))
    await session.resources.model.entered.wait()  # type: ignore[attr-defined]
    assert r.host.calls == []
    rest.set()
    assert ended(await running).end is End.ANSWERED
    assert len(r.host.calls) == 1


HALF = {"role": "assistant", "content": [READ]}
DROPPED: dict[str, list[Step]] = {
    "a retry": [Notice("retry", "again"), completed(DONE, "end_turn")],
    "a fallback": [Notice("fallback", "other", model="m2"), completed(DONE, "end_turn")],
    "cut": [completed(HALF, "max_tokens")],
    "refused": [completed(HALF, "refusal")],
    "the window": [completed(HALF, "model_context_window_exceeded")],
    "an error": [Transient("gone")],
}


@pytest.mark.req("M7", "T2", "L4", "L6", "L9", "M10")
@pytest.mark.parametrize("held", (True, False), ids=["running", "ended"])
@pytest.mark.parametrize("end", DROPPED)
async def test_nothing_stays_of_a_dropped_answer(room: Open, end: str, held: bool) -> None:
    r, rest = room(lambda _: say("?")), asyncio.Event()
    r.host.hold = asyncio.Event() if held else None
    r.host.answer = lambda *_: ToolOutput("x", stamps={"/home/checkout/a": "s1"})
    session = streaming(r, [CallReceived(READ), rest, *DROPPED[end]])
    running = asyncio.create_task(drive(session))
    await session.resources.model.entered.wait()  # type: ignore[attr-defined]
    assert (len(r.host.calls), r.host.running) == (1, int(held))
    rest.set()
    events = await running
    assert r.host.running == 0
    assert len(r.host.calls) == 1
    assert not of(events, ToolStarted)
    assert results(session) == []
    assert session.context.stamps == {}
    assert valid(session.history)


@pytest.mark.req("M7", "T2", "L6")
async def test_cancelling_ends_a_call_that_started_early(room: Open) -> None:
    r = room(lambda _: say("?"))
    r.host.hold = asyncio.Event()
    session = streaming(r, answer((READ, LS), asyncio.Event()))
    running = asyncio.create_task(drive(session))
    await session.resources.model.entered.wait()  # type: ignore[attr-defined]
    assert r.host.running == 2
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (r.host.running, len(session.history), valid(session.history)) == (0, 1, True)


@pytest.mark.req("M7", "T2")
async def test_a_limit_counts_a_call_once(room: Open) -> None:
    r = room(lambda _: say("?"))
    session = streaming(r, answer((READ, LS, GIT)))
    session.monitor.limits = replace(session.monitor.limits, tool_calls=2)
    assert ended(await drive(session)).end is End.LIMIT
    assert [bool(block.get("is_error")) for block in results(session)] == [False, False, True]
    assert (len(r.host.calls), session.monitor.tool_calls) == (2, 2)


SEND = use("t", "Task", description="look", prompt="Brief: look, please.", subagent_type="explore")


async def following(session: Session, kept: list[AgentEvent]) -> None:
    kept += await drive(session)


@pytest.mark.req("T2", "M7", "S3", "L9")
async def test_a_subagent_of_a_dropped_answer_does_not_count(room: Open) -> None:
    """It ends with the answer, and its place is free for the next one. A process that is killed while the answer
    streams leaves it in flight, and the parent is told."""
    r, rest = room(lambda _: say("Found.")), asyncio.Event()
    sends = [CallReceived(SEND), rest, Notice("retry", "again"), *answer((SEND,))]
    t = team(replace(r, world=replace(r.world, model=Parted(Streaming([sends]), r))), in_all=1)
    t.workspace.hold = t.workspace.starts = asyncio.Event()
    kept: list[AgentEvent] = []
    running = asyncio.create_task(following(t.session, kept))
    await t.session.resources.model.parent.entered.wait()  # type: ignore[attr-defined]
    left = snapshot(r)
    lines = left.world.transcripts.load(t.session.id)
    assert in_flight(lines) == ["explore-1"]
    assert "explore-1" in interrupted_notice(resumed(left, []).session.log, lines)[0]
    t.workspace.starts.set()
    rest.set()
    await running
    assert ended(kept).end is End.ANSWERED
    assert [row.state for row in t.pool.rows.values()] == [Lifecycle.ABORTED, Lifecycle.COMPLETED]
    assert {row.agent for row in of(kept, AgentChanged)} == {"explore-2"}
    assert results(t.session)[0]["content"] == "Found."


@pytest.mark.req("M7", "T2", "O1", "S5")
async def test_events_of_a_subagent_beside_the_stream_know_when_they_happened(room: Open) -> None:
    r, rest = room(lambda _: say("Found.")), asyncio.Event()
    model = Parted(Streaming([answer((SEND,), rest)]), r, holds_first=False)
    t = team(replace(r, world=replace(r.world, model=model)))
    running = asyncio.create_task(drive(t.session))
    while not t.pool.rows or {row.state for row in t.pool.rows.values()} != {Lifecycle.COMPLETED}:
        await r.world.clock.sleep(0)
    worked = r.world.clock.now()
    await r.world.clock.sleep(7.0)
    rest.set()
    theirs = [event for event in await running if event.agent == "explore-1"]
    stamped = [event for event in theirs if isinstance(event, AgentChanged | RequestStarted | AnswerArrived)]
    assert {event.at for event in stamped} == {worked}
    assert {type(event) for event in stamped} == {AgentChanged, RequestStarted, AnswerArrived}


@dataclass
class Parted:
    """The parent's answers are streamed by the test, those of sub-agents by a scripted server once it may."""

    parent: Streaming
    room: Room
    holds_first: bool = True

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        mine = request.role == "main"
        if self.holds_first and not mine and self.parent.entered.is_set() is False:
            await asyncio.Event().wait()  # the first one never gets its answer
        async for event in (self.parent if mine else self.room.model).stream(request):
            yield event

    def abilities(self, model: str) -> Abilities:
        return self.room.model.abilities(model)


@pytest.mark.req("M7", "T2", "L3")
async def test_the_stream_tells_of_each_call_when_its_block_ends(room: Open) -> None:
    other = Verbatim({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}})
    blocks = (Text("So."), Call("LS", {"path": "."}), other, Call("TodoRead", {}))
    r = room(lambda _: Reply(blocks, stop_reason="tool_use"))
    request = ModelRequest("opus", (), (), [{"role": "user", "content": [{"type": "text", "text": "x"}]}])
    events = [event async for event in r.model.stream(request)]
    assert [event.call["name"] for event in of(events, CallReceived)] == ["LS", "TodoRead"]
    assert isinstance(events[-1], AnswerCompleted)
    assert [event.call for event in of(events, CallReceived)] == [
        block for block in events[-1].message["content"] if block["type"] == "tool_use"
    ]


@pytest.mark.req("M7", "T2", "L3", "M8")
async def test_an_answer_without_a_stream_tells_of_no_call(room: Open) -> None:
    whole = Reply((Call("LS", {"path": "."}), Text("So " * 50)), stop_reason="tool_use")
    r = room(sequence(Fault.truncate(reply=whole), whole))
    request = ModelRequest("opus", (), (), [{"role": "user", "content": [{"type": "text", "text": "x"}]}])
    kinds = [type(event) for event in [event async for event in r.model.stream(request)]]
    assert kinds.count(AnswerCompleted) == 1
    assert CallReceived not in kinds[kinds.index(Notice) :]
