"""The main loop: what a session does between its first message and its rest, and when it is cancelled (L1-L6, M10)."""

import asyncio
from contextlib import aclosing
from dataclasses import replace

import pytest

from bot.agent.dispatch import CANCELLED
from bot.agent.limits import Limits, SharedBudget
from bot.agent.loop import CUT, CUT_CALL, EMPTY, NUDGES, run
from bot.agent.session import Session
from bot.agent.session_events import (
    AgentEvent,
    AnswerArrived,
    End,
    Ended,
    Info,
    RequestStarted,
    Streamed,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
)
from bot.core.transcript import Json, messages, tool_calls
from bot.ports import AnswerStarted, ToolOutput
from bot.testing.model.reply import (
    Call,
    Fault,
    Reply,
    Text,
    Thought,
    call,
    say,
    sequence,
    several,
    stop,
    think,
    verbatim,
)
from tests.agent.conftest import Open
from tests.agent.ground import DeskHost, Room, assert_prefixes, drive, ended, of, results, valid


@pytest.mark.req("L1")
async def test_an_answer_without_a_call_ends_the_session(room: Open) -> None:
    r = room(lambda _: say("All is well."))
    session = r.session()
    events = await drive(session)
    kinds = [type(event) for event in events]
    assert kinds[0] is RequestStarted
    assert set(kinds[1:-2]) == {Streamed}
    assert kinds[-2:] == [AnswerArrived, Ended]
    assert "".join(event.text for event in of(events, Streamed)) == "All is well."
    assert ended(events) == Ended(session.agent, End.ANSWERED, "All is well.")
    assert [message["role"] for message in session.history] == ["user", "assistant"]


@pytest.mark.req("L1", "T2")
async def test_calls_run_and_their_results_go_back_in_one_message(room: Open) -> None:
    two = several(say("I look."), call("Read", file_path="a.py"), call("Read", file_path="b.py"))
    r = room(sequence(two, say("Done.")))
    r.host.answer = lambda _, arguments: ToolOutput(f"text of {arguments['file_path']}")
    session = r.session()
    events = await drive(session)
    assert [event.name for event in of(events, ToolStarted)] == ["Read", "Read"]
    assert [block["content"] for block in results(session)] == ["text of a.py", "text of b.py"]
    assert [result.text for result in r.api.requests[1].results] == ["text of a.py", "text of b.py"]
    assert ended(events).end is End.ANSWERED
    assert valid(session.history)
    assert_prefixes(r.api.requests)


@pytest.mark.req("L3", "L9")
async def test_all_blocks_of_a_response_stay_one_message_as_received(room: Open) -> None:
    unknown = {"type": "redacted_thinking", "data": "c2VjcmV0"}
    whole = several(think("Hm."), verbatim(unknown), say("Now."), call("LS", path="."), call("TodoRead"))
    r = room(sequence(whole, say("Done.")))
    session = r.session()
    await drive(session)
    content = session.history[1]["content"]
    assert [block["type"] for block in content] == ["thinking", "redacted_thinking", "text", "tool_use", "tool_use"]
    assert content[0]["thinking"] == "Hm."
    assert content[0]["signature"]
    assert content[1] == unknown
    assert content[3]["caller"] == {"type": "direct"}
    assert r.api.requests[1].body["messages"][1]["content"] == content


@pytest.mark.req("L3")
async def test_an_unknown_block_with_odd_fields_survives(room: Open) -> None:
    odd: Json = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}, "z": None, "a": [{}]}
    found: Json = {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [],
        "encrypted_content": "x",
    }
    r = room(sequence(several(verbatim(odd), verbatim(found), call("LS", path=".")), say("Done.")))
    session = r.session()
    await drive(session)
    assert list(session.history[1]["content"][0]) == list(odd)
    assert session.history[1]["content"][:2] == [odd, found]
    assert r.api.refusals == ()


@pytest.mark.req("L4a")
async def test_text_that_people_add_follows_the_results_once(room: Open) -> None:
    r = room(sequence(call("LS", path="."), call("LS", path="src"), say("Done.")))
    session = r.session()
    session.queued.append("Mind the changelog.")
    await drive(session)
    first, second = session.history[2]["content"], session.history[4]["content"]
    assert [block["type"] for block in first] == ["tool_result", "text"]
    assert first[1]["text"] == "Mind the changelog."
    assert [block["type"] for block in second] == ["tool_result"]


@pytest.mark.req("M10")
async def test_an_answer_cut_in_its_text_goes_on(room: Open) -> None:
    r = room(sequence(Reply((Text("First half"),), stop_reason="max_tokens"), say("second half.")))
    session = r.session()
    events = await drive(session)
    assert [message["role"] for message in session.history] == ["user", "assistant", "user", "assistant"]
    assert session.history[2]["content"][0]["text"] == CUT
    assert [event.kind for event in of(events, Info)] == ["nudge"]
    assert ended(events).text == "second half."


@pytest.mark.req("M3", "M10", "L9")
async def test_thinking_that_was_cut_is_not_sent_back(room: Open) -> None:
    half = Reply((Thought("Hm."), Text("First half"), Thought("and n", whole=False)), stop_reason="max_tokens")
    r = room(sequence(half, say("second half."), say("Done.")))
    session = r.session()
    assert ended(await drive(session)).text == "second half."
    assert [block["type"] for block in session.history[1]["content"]] == ["thinking", "text"]
    later = r.resumed()
    later.add({"role": "user", "content": [{"type": "text", "text": "Go on."}]})
    assert ended(await drive(later)).text == "Done."
    assert r.api.refusals == ()


@pytest.mark.req("M10")
async def test_a_call_cut_in_its_input_never_runs(room: Open) -> None:
    cut = Reply((Call("Write", {"file_path": "a"}),), stop_reason="max_tokens")
    r = room(sequence(cut, say("Done.")))
    session = r.session()
    events = await drive(session)
    assert r.host.calls == []
    assert of(events, ToolFinished) == []
    assert [message["role"] for message in session.history] == ["user", "user", "assistant"]
    assert session.history[1]["content"][0]["text"] == CUT_CALL
    assert_prefixes(r.api.requests)


@pytest.mark.req("M7", "M10")
@pytest.mark.parametrize(
    ("reason", "end", "requests"),
    (("max_tokens", End.ANSWERED, 2), ("refusal", End.REFUSED, 1), ("model_context_window_exceeded", End.LIMIT, 1)),
)
async def test_a_stop_in_the_middle_of_an_input_means_what_it_says(
    room: Open, reason: str, end: End, requests: int
) -> None:
    """The block of such a call is closed before the reason comes: nothing is broken, nothing is asked for again as it
    was, and the call does not run."""
    half = Reply((Call("Write", {}, malformed='{"file_path": "a", "content": "so far'),), stop_reason=reason)
    r = room(sequence(half, say("Done.")))
    events = await drive(r.session())
    assert ended(events).end is end
    assert [event.kind for event in of(events, Info) if event.kind == "retry"] == []
    assert [request.stream for request in r.api.requests] == [True] * requests
    assert r.host.calls == []


@pytest.mark.req("M10")
@pytest.mark.parametrize("between", ((), (stop("end_turn"),)), ids=["", "after an empty answer"])
async def test_a_paused_turn_goes_on_with_the_same_content(room: Open, between: tuple[Reply, ...]) -> None:
    server = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
    paused = Reply(verbatim(server).blocks, stop_reason="pause_turn")
    r = room(sequence(paused, *between, say("Found.")))
    session = r.session()
    events = await drive(session)
    for request in r.api.requests[1:]:
        assert request.body["messages"][-1] == {"role": "assistant", "content": [server]}
    assert ended(events).end is End.ANSWERED
    assert r.api.refusals == ()


def numbered(*paths: str) -> Reply:
    """An answer of a server that numbers the calls of each answer anew."""
    calls = [{"type": "tool_use", "id": f"call_{n}", "name": "LS", "input": {"path": p}} for n, p in enumerate(paths)]
    return several(think("Hm."), *map(verbatim, calls), Reply((), stop_reason="tool_use"))


@pytest.mark.req("L3", "L8", "M12")
async def test_ids_that_come_again_are_told_apart(room: Open) -> None:
    """A server may number the calls of each answer anew, and none takes an id twice: the later ones are named
    otherwise before they run, for good, and in another process as well; what came first stays as it came."""
    r = room(sequence(numbered("a", "b"), numbered("c"), numbered("d", "e"), say("Done.")))
    session = r.session(limits=Limits(steps=2))
    assert ended(await drive(session)).end is End.LIMIT
    later = r.resumed()
    events = await drive(later)
    assert ended(events).text == "Done."
    asked = [block["id"] for message in later.history for block in tool_calls(message)]
    assert asked == ["call_0", "call_1", "call_0_2", "call_0_3", "call_1_2"]
    assert [block["tool_use_id"] for block in results(later)] == asked
    assert [event.call for event in of(events, ToolStarted)] == asked[3:]
    assert r.api.refusals == ()
    assert_prefixes(r.api.requests)


SEARCH = verbatim({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}})
FOUND = verbatim({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []})


@pytest.mark.req("M3", "M10")
@pytest.mark.parametrize(
    "paused",
    (Reply((Text(""),), stop_reason="pause_turn"), several(say("I am"), SEARCH, Reply((), stop_reason="max_tokens"))),
    ids=["blank", "cut beside a search"],
)
async def test_what_cannot_be_sent_back_is_not_kept(room: Open, paused: Reply) -> None:
    """A message without content, and a word of ours behind a call that the service has not answered, are refused."""
    r = room(sequence(paused, say("Done.")))
    session = r.session()
    assert ended(await drive(session)).text == "Done."
    assert session.history[1]["content"][0]["type"] == "text"
    assert r.api.refusals == ()


@pytest.mark.req("L4a", "M10", "T7")
@pytest.mark.parametrize("reason", ("pause_turn", "tool_use"))
async def test_only_results_follow_a_search_that_goes_on(room: Open, reason: str) -> None:
    """What people add waits until the service has answered its own call: beside that, nothing but results may stand."""
    searching = several(SEARCH, call("LS", path="."), Reply((), stop_reason=reason))
    r = room(sequence(searching, several(FOUND, call("LS", path="src")), say("Done.")))
    session = r.session()
    session.queued.append("Mind the changelog.")
    assert ended(await drive(session)).text == "Done."
    assert [block["type"] for block in session.history[2]["content"]] == ["tool_result"]
    assert session.history[4]["content"][-1] == {"type": "text", "text": "Mind the changelog."}
    assert r.api.refusals == ()


@pytest.mark.req("M10")
async def test_a_refusal_is_said_and_ends_the_session(room: Open) -> None:
    write = call("Write", file_path="a", content="x")
    refused = several(write, stop("refusal", category="cyber", explanation="No\nexploits\u202e."))
    r = room(sequence(refused))
    session = r.session()
    events = await drive(session)
    told = "the model refused to answer (cyber: No exploits‹U+202E›.)"
    assert ended(events) == Ended(session.agent, End.REFUSED, told)
    assert r.host.calls == []
    assert len(session.history) == 1


@pytest.mark.req("M10")
@pytest.mark.parametrize("empty", (stop("end_turn"), think("I think so.")), ids=["nothing", "thinking alone"])
async def test_an_empty_answer_is_asked_again(room: Open, empty: Reply) -> None:
    r = room(sequence(call("LS", path="."), empty, say("Done.")))
    session = r.session()
    events = await drive(session)
    assert session.history[-2] == {"role": "user", "content": [{"type": "text", "text": EMPTY}]}
    assert [event.kind for event in of(events, Info)] == ["nudge"]
    assert ended(events).text == "Done."
    assert_prefixes(r.api.requests)


@pytest.mark.req("M9", "M10")
@pytest.mark.parametrize(
    ("outcome", "end", "said", "requests"),
    (
        (stop("end_turn"), End.FAILED, "end_turn", NUDGES + 1),
        (stop("max_tokens"), End.FAILED, "max_tokens", NUDGES + 1),
        (stop("model_context_window_exceeded"), End.LIMIT, "window", 1),
        (Reply((Text("?"),), stop_reason="tool_use"), End.FAILED, "tool_use", 1),
        (Reply((Text("?"),), stop_reason="solar_flare"), End.FAILED, "solar_flare", 1),
        (Fault.status(401), End.FAILED, "401", 1),
    ),
    ids=["empty", "cut", "full", "a call that is not there", "newer than this program", "for good"],
)
async def test_a_session_without_an_answer_ends_and_names_the_reason(
    room: Open, outcome: Reply | Fault, end: End, said: str, requests: int
) -> None:
    r = room(lambda _: outcome)
    session = r.session()
    found = ended(await drive(session))
    assert (found.end, len(r.api.requests)) == (end, requests)
    assert said in found.text
    assert valid(session.history)


@pytest.mark.req("M10")
async def test_nudges_are_counted_anew_after_work(room: Open) -> None:
    turns = [reply for _ in range(NUDGES + 1) for reply in (stop("end_turn"), call("LS", path="."))]
    r = room(sequence(*turns, say("Done.")))
    assert ended(await drive(r.session())).text == "Done."


@pytest.mark.req("M10", "L6")
async def test_an_end_with_a_call_in_it_leaves_a_valid_history(room: Open) -> None:
    odd = Reply((Text("Done."), Call("LS", {"path": "."})), stop_reason="end_turn")
    r = room(sequence(odd, say("Done.")))
    session = r.session()
    await drive(session)
    assert valid(session.history)


@pytest.mark.req("L7")
async def test_requests_carry_the_number_of_their_step(room: Open) -> None:
    r = room(sequence(call("LS", path="."), say("Done.")))
    events = await drive(r.session())
    assert [event.step for event in of(events, RequestStarted)] == [1, 2]
    assert [event.step for event in of(events, AnswerArrived)] == [1, 2]


@pytest.mark.req("M3")
async def test_history_is_handed_over_and_never_rebuilt(room: Open) -> None:
    replies = [call("LS", path=str(n)) for n in range(6)]
    r = room(sequence(*replies, say("Done.")))
    session = r.session()
    kept: list[tuple[int, int]] = []
    session_host = DeskHost()
    session.context.host = session_host

    def note(*_: object) -> ToolOutput:
        kept.extend((number, id(message)) for number, message in enumerate(session.history))
        return ToolOutput("noted")

    session_host.answer = note
    await drive(session)
    assert len(kept) == sum(range(1, 12, 2))
    assert all(id(session.history[number]) == ident for number, ident in kept)


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
async def test_a_half_answer_is_dropped_when_cancelled(room: Open) -> None:
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
async def test_an_answer_of_which_no_call_finished_is_dropped_when_cancelled(room: Open) -> None:
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
async def test_finished_calls_keep_their_results_and_others_are_marked_cancelled(room: Open) -> None:
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
async def test_results_are_kept_if_cancelled_while_reminders_are_made(room: Open) -> None:
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
async def test_closing_the_generator_at_any_event_ends_all_work(
    room: Open, kind: type[AgentEvent], count: int, kept: int
) -> None:
    r = room(sequence(READ_THEN_WRITE, say("Done.")))
    session = r.session(world=replace(r.world, eager=False))  # a call that started early may have ended by its event
    host = Later(session)
    await until(session, kind, count)
    assert len(session.history) == kept
    assert (host.held.running, host.free.running) == (0, 0)
    assert messages(r.world.transcripts.load(session.id)) == session.history
    await goes_on(r)


@pytest.mark.req("L6")
async def test_closing_ends_a_tool_that_reports_progress(room: Open) -> None:
    r = room(sequence(call("Bash", command="make"), say("Done.")))
    session = r.session()
    r.host.hold, r.host.progress = asyncio.Event(), ("50 %",)
    await until(session, ToolProgressed)
    assert r.host.running == 0


@pytest.mark.req("L6")
async def test_no_task_of_a_cancelled_session_is_left(room: Open) -> None:
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
