"""Cancelling a session: wherever it strikes, the history stays valid, is saved, and goes on later (L6, L9)."""

import asyncio
from contextlib import aclosing
from dataclasses import replace

import pytest

from bot.agent.dispatch import CANCELLED
from bot.agent.limits import SharedBudget
from bot.agent.loop import run
from bot.agent.session import Session
from bot.agent.session_events import AgentEvent, End, Streamed, ToolFinished, ToolProgressed, ToolStarted
from bot.core.transcript import Json, messages
from bot.ports import AnswerStarted, ToolOutput
from bot.testing.model.reply import Reply, Text, call, say, sequence, several
from tests.agent.conftest import Open
from tests.agent.ground import DeskHost, Room, drive, ended, results, valid

READ_THEN_WRITE = several(say("I look first."), call("Read", file_path="a"), call("Write", file_path="b", content="x"))


class Later:
    """A host of which one operation waits for ever, and all others answer at once."""

    def __init__(self, session: Session, operation: str = "Write") -> None:
        self.free, self.held, self.late = DeskHost(), DeskHost(hold=asyncio.Event()), operation
        session.context.host = self

    async def call(self, operation: str, arguments: Json, **options: object) -> ToolOutput:  # noqa: ARG002 - the port's
        host = self.held if operation == self.late else self.free
        return await host.call(operation, arguments)

    async def close(self) -> None: ...


async def until(session: Session, kind: type[AgentEvent], count: int = 1) -> None:
    """Run a session until it told so many events of a kind, then close it."""
    async with aclosing(run(session)) as events:
        async for event in events:
            count -= isinstance(event, kind)
            if not count:
                return


async def cancelled(task: "asyncio.Task[object]") -> None:
    """Cancel a task and see that the cancellation came out of it."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def goes_on(r: Room) -> None:
    """The saved session is what the live one was, and the server takes it."""
    session = r.resumed()
    assert valid(session.history)
    session.add({"role": "user", "content": [{"type": "text", "text": "Go on."}]})
    assert ended(await drive(session)).end is End.ANSWERED
    assert r.api.refusals == ()


@pytest.mark.req("L6")
async def test_cancelled_while_the_answer_streams(room: Open) -> None:
    """Nothing of a half answer is kept, and no call of it runs."""
    slow = Reply((*say("I will write now. " * 20).blocks, *call("LS", path=".").blocks), pace=0.02)
    r = room(sequence(slow, say("Done.")))
    session = r.session()
    arrived = asyncio.Event()

    async def consume() -> None:
        async with aclosing(run(session)) as events:
            async for event in events:
                if isinstance(event, Streamed):
                    arrived.set()

    task = asyncio.create_task(consume())
    await arrived.wait()
    await cancelled(task)
    assert len(session.history) == 1
    assert r.host.calls == []
    await goes_on(r)


@pytest.mark.req("L6", "L9")
async def test_cancelled_before_any_call_finished(room: Open) -> None:
    """A message of which no call finished is dropped, as after a crash: the resumed session asks again."""
    r = room(sequence(call("Write", file_path="b", content="x"), say("Done.")))
    session = r.session()
    r.host.hold = asyncio.Event()
    task: asyncio.Task[object] = asyncio.create_task(drive(session))
    await r.host.entered.wait()
    await cancelled(task)
    assert r.host.running == 0
    assert len(session.history) == 1
    assert r.resumed().resources.ledger.rows == r.world.ledger.rows
    await goes_on(r)


@pytest.mark.req("L6")
async def test_cancelled_between_two_calls(room: Open) -> None:
    """What finished keeps its result; what did not is marked as cancelled; both are saved together."""
    r = room(sequence(READ_THEN_WRITE, say("Done.")))
    session = r.session()
    host = Later(session)
    task: asyncio.Task[object] = asyncio.create_task(drive(session))
    await host.held.entered.wait()
    await cancelled(task)
    assert host.held.running == 0
    assert [block["content"] for block in results(session)] == ['Read {"file_path": "a"}', CANCELLED]
    assert results(session)[1]["is_error"] is True
    assert messages(r.world.transcripts.load(session.id)) == session.history
    await goes_on(r)


@pytest.mark.req("L6", "T7")
async def test_cancelled_while_the_reminders_are_made(room: Open) -> None:
    """All calls have finished: their results are kept, whatever the disk would have told beside them."""
    r = room(sequence(call("Bash", command="make"), say("Done.")))
    session = r.session()
    session.context.stamps["a.py"] = "s1"
    host = Later(session, "Changed")
    task: asyncio.Task[object] = asyncio.create_task(drive(session))
    await host.held.entered.wait()
    await cancelled(task)
    assert [block["content"] for block in results(session)] == ['Bash {"command": "make"}']
    assert messages(r.world.transcripts.load(session.id)) == session.history
    await goes_on(r)


@pytest.mark.req("L6")
@pytest.mark.parametrize(
    ("kind", "count", "kept"),
    ((Streamed, 1, 1), (ToolStarted, 1, 1), (ToolFinished, 1, 3), (ToolStarted, 2, 3)),
    ids=["in the answer", "before the first call", "after the first call", "at the second call"],
)
async def test_closed_at_an_event(room: Open, kind: type[AgentEvent], count: int, kept: int) -> None:
    """Closing the generator at whatever event has done all its work when it returns."""
    r = room(sequence(READ_THEN_WRITE, say("Done.")))
    session = r.session(world=replace(r.world, eager=False))  # a call that started early may have ended by its event
    host = Later(session)
    await until(session, kind, count)
    assert len(session.history) == kept
    assert (host.held.running, host.free.running) == (0, 0)
    assert messages(r.world.transcripts.load(session.id)) == session.history
    await goes_on(r)


@pytest.mark.req("L6")
async def test_closed_while_a_tool_tells_its_progress(room: Open) -> None:
    """A tool that speaks while the session is closed is ended too, before closing returns."""
    r = room(sequence(call("Bash", command="make"), say("Done.")))
    session = r.session()
    r.host.hold, r.host.progress = asyncio.Event(), ("50 %",)
    await until(session, ToolProgressed)
    assert r.host.running == 0


@pytest.mark.req("L6")
async def test_nothing_is_left_running(room: Open) -> None:
    """After a cancelled session no task of it is alive."""
    before = asyncio.all_tasks()
    r = room(sequence(several(*(call("Read", file_path=str(n)) for n in range(12)))))
    session = r.session()
    r.host.hold = asyncio.Event()
    task: asyncio.Task[object] = asyncio.create_task(drive(session))
    await r.host.entered.wait()
    await cancelled(task)
    assert asyncio.all_tasks() == before
    assert r.host.running == 0


@pytest.mark.req("L6", "M7")
async def test_closing_in_mid_answer_drops_the_connection(room: Open) -> None:
    """A closed session does not leave its answer streaming behind its back, and what came of it is booked for good."""
    long = Reply((Text("word " * 2000),), pace=0.01)
    r = room(lambda _: long)
    before = asyncio.all_tasks()
    async with aclosing(run(r.session())) as events:
        async for event in events:
            if not isinstance(event, AnswerStarted) and isinstance(event, Streamed):
                break
    if left := asyncio.all_tasks() - before:  # the library drops a generator of its own, which ends in the next round
        await asyncio.wait(left, timeout=10)
    assert asyncio.all_tasks() == before
    r.world.ledger.budget_usd = 1.0
    async with asyncio.timeout(10), r.world.ledger.call(1.0, SharedBudget()) as ticket:
        assert ticket, "nothing is under way any more"
    assert r.world.ledger.cost_usd > 0
    assert r.resumed().resources.ledger.usage == r.world.ledger.usage
