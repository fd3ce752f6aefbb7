"""The main loop: what a session does between its first message and its rest (L1, L3, L4a, M10)."""

import pytest

from bot.agent.limits import Limits
from bot.agent.loop import CUT, CUT_CALL, EMPTY, NUDGES
from bot.agent.session_events import (
    AnswerArrived,
    End,
    Ended,
    Info,
    RequestStarted,
    Streamed,
    ToolFinished,
    ToolStarted,
)
from bot.core.transcript import Json, tool_calls
from bot.ports import ToolOutput
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
from tests.agent.ground import DeskHost, assert_prefixes, drive, ended, of, results, valid


@pytest.mark.req("L1")
async def test_an_answer_without_a_call_ends_the_session(room: Open) -> None:
    """A request, its pieces, the whole message, the end: in that order, and saved."""
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
    """Two calls of one message are answered by one user message, in the order of the calls."""
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
    """Thinking, text, a block of a type that nobody knows, and calls: one message, every field kept."""
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
    """A server tool's blocks come back to the server exactly as they came: nulls, nesting and key order."""
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
async def test_text_of_people_follows_the_results(room: Open) -> None:
    """What people add while tools run is appended behind the results, once."""
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
    """max_tokens without a call: the piece stays, and the model is asked to go on."""
    r = room(sequence(Reply((Text("First half"),), stop_reason="max_tokens"), say("second half.")))
    session = r.session()
    events = await drive(session)
    assert [message["role"] for message in session.history] == ["user", "assistant", "user", "assistant"]
    assert session.history[2]["content"][0]["text"] == CUT
    assert [event.kind for event in of(events, Info)] == ["nudge"]
    assert ended(events).text == "second half."


@pytest.mark.req("M3", "M10", "L9")
async def test_thinking_that_was_cut_is_not_sent_back(room: Open) -> None:
    """It has no signature: what stands before it stays as it came, and the session and its transcript go on."""
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
    """max_tokens with a call: the message is dropped, no tool runs, the model repeats it in pieces."""
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
    """pause_turn: the content goes back unchanged, without a word of ours behind it."""
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
    """refusal: no tool of that answer runs, nothing of it is kept, the session says so, and why, and rests."""
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
async def test_an_empty_answer_is_asked_again(room: Open) -> None:
    """An end_turn without content is not sent back; the model is asked to go on."""
    r = room(sequence(call("LS", path="."), stop("end_turn"), say("Done.")))
    session = r.session()
    events = await drive(session)
    assert session.history[-2] == {"role": "user", "content": [{"type": "text", "text": EMPTY}]}
    assert ended(events).text == "Done."
    assert_prefixes(r.api.requests)


@pytest.mark.req("M10")
async def test_thinking_alone_counts_as_empty(room: Open) -> None:
    """An end_turn that only thought is no answer."""
    r = room(sequence(think("I think so."), say("Done.")))
    session = r.session()
    events = await drive(session)
    assert [event.kind for event in of(events, Info)] == ["nudge"]
    assert ended(events).text == "Done."


@pytest.mark.req("M10")
@pytest.mark.parametrize("reason", ("end_turn", "max_tokens"))
async def test_a_model_that_stays_empty_ends_the_session(room: Open, reason: str) -> None:
    """Asking has an end: after some nudges the session fails, and says why."""
    r = room(lambda _: stop(reason))
    events = await drive(r.session())
    assert len(r.api.requests) == NUDGES + 1
    assert ended(events).end is End.FAILED
    assert reason in ended(events).text


@pytest.mark.req("M10")
async def test_nudges_are_counted_anew_after_work(room: Open) -> None:
    """An empty answer now and then between calls ends nothing."""
    turns = [reply for _ in range(NUDGES + 1) for reply in (stop("end_turn"), call("LS", path="."))]
    r = room(sequence(*turns, say("Done.")))
    assert ended(await drive(r.session())).text == "Done."


@pytest.mark.req("M10")
async def test_a_full_window_ends_at_a_limit(room: Open) -> None:
    """model_context_window_exceeded is a limit, and the session stays resumable."""
    r = room(lambda _: stop("model_context_window_exceeded"))
    session = r.session()
    assert ended(await drive(session)).end is End.LIMIT
    assert valid(session.history)


@pytest.mark.req("M10")
async def test_an_unknown_stop_reason_is_named(room: Open) -> None:
    """A stop reason that is newer than this program ends the session with an error that names it."""
    r = room(lambda _: Reply((Text("?"),), stop_reason="solar_flare"))
    end = ended(await drive(r.session()))
    assert end.end is End.FAILED
    assert "solar_flare" in end.text


@pytest.mark.req("M10")
async def test_tool_use_without_a_call_is_no_answer(room: Open) -> None:
    """A stop reason that promises a call which is not there ends the session with an error."""
    r = room(lambda _: Reply((Text("?"),), stop_reason="tool_use"))
    assert ended(await drive(r.session())).end is End.FAILED


@pytest.mark.req("M10", "L6")
async def test_an_end_with_a_call_in_it_leaves_a_valid_history(room: Open) -> None:
    """A call in a message that claims to be the end is answered or dropped, never left open."""
    odd = Reply((Text("Done."), Call("LS", {"path": "."})), stop_reason="end_turn")
    r = room(sequence(odd, say("Done.")))
    session = r.session()
    await drive(session)
    assert valid(session.history)


@pytest.mark.req("M9")
async def test_a_failure_for_good_ends_the_session_and_keeps_it(room: Open) -> None:
    """An error that no retry helps is the end, with the vendor's words; the history is as it was."""
    r = room(lambda _: Fault.status(401))
    session = r.session()
    end = ended(await drive(session))
    assert end.end is End.FAILED
    assert "401" in end.text
    assert "ANTHROPIC_API_KEY" in end.text
    assert len(session.history) == 1


@pytest.mark.req("L7")
async def test_each_step_is_numbered(room: Open) -> None:
    """Requests carry the number of their step, from 1."""
    r = room(sequence(call("LS", path="."), say("Done.")))
    events = await drive(r.session())
    assert [event.step for event in of(events, RequestStarted)] == [1, 2]
    assert [event.step for event in of(events, AnswerArrived)] == [1, 2]


@pytest.mark.req("M3")
async def test_history_is_handed_over_and_never_rebuilt(room: Open) -> None:
    """What was appended stays the same object to the end: no step renders, copies or checks it again."""
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
