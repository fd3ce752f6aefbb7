"""Suspending on a pending call and resuming in another process, byte for byte (L8, L9, P5, P6)."""

import json

import pytest

from bot.agent.light_calls import LightCalls
from bot.agent.limits import Limits
from bot.agent.permissions.plan_mode import approval_result, rejection_result
from bot.agent.permissions.tool_gate import Mode
from bot.agent.resources import load_request_prefix
from bot.agent.session import NOT_RUN
from bot.agent.session_events import End, Ended, ModeChanged, ToolFinished
from bot.agent.tools.registry import LOOKING
from bot.core.errors import Refused
from bot.core.names import ToolUseId
from bot.core.transcript import LineKind, messages, pending_calls
from bot.ports import Replay, ToolOutput
from bot.testing.model.reply import Call, Policy, Reply, Text, call, say, sequence, several, stop, think
from tests.agent.conftest import Open
from tests.agent.ground import (
    EXIT_PLAN_MODE,
    assert_prefixes,
    drive,
    ended,
    marks,
    of,
    plan_input,
    rendered,
    results,
    unmarked,
    valid,
)

PLAN = call(EXIT_PLAN_MODE, **plan_input())


def whole_story() -> Policy:
    """Research with thinking, a plan, and work after its approval."""
    return sequence(
        several(think("Where is it?"), call("Grep", pattern="FREE_FROM"), call("LS", path=".")),
        several(think("There."), say("I have a plan — ✓."), PLAN),
        several(think("Go."), call("TodoWrite", todos=[{"content": "fix", "status": "in_progress"}])),
        several(think("Edit."), call("Edit", file_path="a.py", old_string="> 50", new_string=">= 50")),
        say("Done."),
    )


@pytest.mark.req("L8", "P5")
async def test_a_plan_suspends_the_session(room: Open) -> None:
    """exit_plan_mode ends the run without a result: the call is pending and saved."""
    r = room(sequence(several(say("Here is my plan."), PLAN)))
    session = r.session(mode=Mode.PLAN)
    events = await drive(session)
    assert ended(events) == Ended(session.agent, End.SUSPENDED, "Here is my plan.")
    assert [block["name"] for block in pending_calls(session.history)] == [EXIT_PLAN_MODE]
    assert messages(r.world.transcripts.load(session.id)) == session.history
    assert of(events, ToolFinished) == []


@pytest.mark.req("L8", "L9", "P6")
async def test_an_approved_session_goes_on_byte_for_byte(room: Open) -> None:
    """In new objects, from the transcript alone: the request that follows begins with the bytes of the one before, and
    the server takes every thinking block as bound to them."""
    r = room(whole_story())
    first = r.session(mode=Mode.PLAN)
    await drive(first)
    second = r.resumed()
    assert json.dumps(second.history) == json.dumps(first.history), "key order included"
    assert second.prefix == first.prefix
    (pending,) = pending_calls(second.history)
    changed = second.set_mode(Mode.ACCEPT_EDITS, by="ann")
    second.answer(pending["id"], approval_result())
    end = ended(await drive(second))
    assert changed == ModeChanged(second.agent, Mode.ACCEPT_EDITS, "ann")
    assert end.text == "Done."
    assert r.api.refusals == ()
    assert len(r.api.requests) == 5
    assert_prefixes(r.api.requests)
    assert all(marks(request) <= 4 for request in r.api.requests)
    assert "The plan is approved." in r.api.requests[2].results[0].text
    assert second.context.todos == [("fix", "in_progress")]


@pytest.mark.req("L9")
async def test_resuming_replays_after_every_single_message(room: Open) -> None:
    """Wherever a process dies between two messages, the next one sends what the first would have sent."""
    r = room(whole_story())
    await drive(r.session(mode=Mode.PLAN))
    for _ in range(3):
        session = r.resumed()
        if pending := pending_calls(session.history):
            session.set_mode(Mode.ACCEPT_EDITS, by="ann")
            session.answer(pending[0]["id"], approval_result())
        session.monitor.limits = Limits(steps=session.monitor.steps + 1)
        await drive(session)
    assert r.resumed().history[-1]["content"] == [{"type": "text", "text": "Done."}]
    assert r.resumed().context.mode is Mode.ACCEPT_EDITS
    assert_prefixes(r.api.requests)
    assert r.api.refusals == ()


@pytest.mark.req("L9")
async def test_a_changed_history_is_refused_once(room: Open) -> None:
    """The binding that these tests rest on is real: one changed byte in a sent message, and the server refuses.

    The session then goes on with what still matches, and so does the process that resumes it.
    """
    r = room(whole_story())
    session = r.session(mode=Mode.PLAN)
    await drive(session)
    session.history[0]["content"][1]["text"] += " "
    session.answer(pending_calls(session.history)[0]["id"], approval_result())
    assert ended(await drive(session)).end is End.ANSWERED
    (refusal,) = r.api.refusals
    assert "different conversation" in refusal.message
    assert r.resumed().view.thinking is Replay.MATCHING


@pytest.mark.req("P6")
async def test_a_rejected_plan_leaves_plan_mode_on(room: Open) -> None:
    """The model learns that nothing may be changed, the mode stays, and a second plan suspends again."""
    r = room(sequence(PLAN, several(say("Better."), call(EXIT_PLAN_MODE, **plan_input("# Plan 2\n\nLess.")))))
    await drive(r.session(mode=Mode.PLAN))
    session = r.resumed()
    session.answer(pending_calls(session.history)[0]["id"], rejection_result(), is_error=True)
    assert ended(await drive(session)).end is End.SUSPENDED
    assert session.context.mode is Mode.PLAN
    (result,) = r.api.requests[1].results
    assert "Plan mode is still on" in result.text
    assert result.is_error


@pytest.mark.req("L8")
async def test_neighbours_of_a_pending_call_are_told_that_they_did_not_run(room: Open) -> None:
    """Of a message that suspends no call is kept, also if it had started; each is answered in order, reminders last."""
    r = room(sequence(several(call("LS", path="."), PLAN, call("Read", file_path="a")), say("Done.")))
    session = r.session(mode=Mode.PLAN)
    await drive(session)
    assert r.host.running == 0
    pending = pending_calls(session.history)
    session.answer(pending[1]["id"], approval_result(), reminders=["Begin with the list."])
    assert [block["content"] for block in results(session)] == [NOT_RUN, approval_result(), NOT_RUN]
    assert session.history[-1]["content"][-1] == {"type": "text", "text": "Begin with the list."}
    assert valid(session.history)
    assert ended(await drive(session)).end is End.ANSWERED


@pytest.mark.req("L8")
async def test_an_answer_to_no_pending_call_is_refused(room: Open) -> None:
    """A late or repeated answer changes nothing."""
    r = room(sequence(PLAN))
    session = r.session(mode=Mode.PLAN)
    await drive(session)
    ident = pending_calls(session.history)[0]["id"]
    with pytest.raises(Refused):
        session.answer(ToolUseId("toolu_else"), "yes")
    session.answer(ident, approval_result())
    before = list(session.history)
    with pytest.raises(Refused):
        session.answer(ident, approval_result())
    assert session.history == before


@pytest.mark.req("P5")
@pytest.mark.parametrize(
    ("text", "said"),
    (("x" * 40_001, "the limit is 40,000"), (" \n\t ", "is empty"), ("", "plan:")),
    ids=["too long", "blank", "empty"],
)
async def test_a_plan_that_cannot_be_read_goes_back_to_the_model(room: Open, text: str, said: str) -> None:
    """A plan that no person could be shown does not suspend: the model is told what to change."""
    r = room(sequence(call(EXIT_PLAN_MODE, plan=text), say("Sorry.")))
    session = r.session(mode=Mode.PLAN)
    assert ended(await drive(session)).end is End.ANSWERED
    (result,) = results(session)
    assert result["is_error"]
    assert said in result["content"]


@pytest.mark.req("P5")
async def test_an_unknown_field_of_a_plan_goes_back_to_the_model(room: Open) -> None:
    """The input is strict."""
    r = room(sequence(call(EXIT_PLAN_MODE, **plan_input(), approved=True), say("Sorry.")))
    session = r.session(mode=Mode.PLAN)
    assert ended(await drive(session)).end is End.ANSWERED
    assert "approved" in results(session)[0]["content"]


@pytest.mark.req("P2", "P5")
async def test_a_second_plan_after_approval_is_told_to_work(room: Open) -> None:
    """Outside of plan mode exit_plan_mode changes nothing and suspends nothing."""
    r = room(sequence(PLAN, say("Done.")))
    session = r.session(mode=Mode.ACCEPT_EDITS)
    assert ended(await drive(session)).end is End.ANSWERED
    assert "approved already" in results(session)[0]["content"]


@pytest.mark.req("L9")
async def test_stamps_and_spend_come_back(room: Open) -> None:
    """A resumed session knows which files were read, how many steps it made and what they cost."""
    r = room(sequence(call("Read", file_path="src/../a.py"), Reply((Text("Done."),))))
    r.host.answer = lambda *_: ToolOutput("x", stamps={"/home/checkout/a.py": "s1"})
    first = r.session()
    await drive(first)
    second = r.resumed()
    assert second.context.stamps == first.context.stamps == {"a.py": "s1"}
    assert second.monitor.steps == first.monitor.steps == 2
    assert second.monitor.context == first.monitor.context > 0
    assert second.resources.ledger.cost_usd == pytest.approx(first.resources.ledger.cost_usd)
    assert second.resources.ledger.usage == first.resources.ledger.usage


@pytest.mark.req("L5", "L9")
@pytest.mark.parametrize(
    "dropped",
    (
        stop("end_turn"),
        stop("pause_turn"),
        stop("refusal"),
        Reply((Text("?"),), stop_reason="solar_flare"),
        Reply((Text("So"),), stop_reason="model_context_window_exceeded"),
        Reply((Call("Write", {"file_path": "a"}),), stop_reason="max_tokens"),
    ),
    ids=lambda reply: reply.stop_reason,
)
async def test_what_is_not_kept_was_a_step_all_the_same(room: Open, dropped: Reply) -> None:
    """And paid for: neither limit nor budget begins anew with another process."""
    r = room(sequence(call("LS", path="."), dropped, say("Done."), say("Done.")))
    session = r.session()
    await drive(session)
    later = r.resumed()
    assert later.monitor.steps == session.monitor.steps >= 2
    assert later.resources.ledger.rows == r.world.ledger.rows


@pytest.mark.req("L4", "L9", "M11")
async def test_a_session_stays_with_its_own_model(room: Open) -> None:
    """A light call for it, or a summary, is booked in its transcript: whoever resumes asks the one that answered it."""
    r = room(sequence(say("Done."), say("A title")))
    session = r.session()
    await drive(session)
    assert await LightCalls(session.log, "haiku").ask("Name it.", "What is this?")
    lines = r.world.transcripts.load(session.id)
    assert lines[-1].body["model"] == "claude-haiku-5-5"
    assert load_request_prefix(lines, "opus") == session.prefix


@pytest.mark.req("L9", "T4")
async def test_a_stamp_is_stored_once(room: Open) -> None:
    """Each line has the stamps that are new, so that it does not grow with the files read; all of them come back."""
    names = ["a.py", "b.py", "a.py", "c.py", "a.py"]
    stamps = iter([{"a.py": "1"}, {"b.py": "1"}, {"a.py": "1"}, {"c.py": "1"}, {"a.py": "2"}])
    r = room(sequence(*(call("Read", file_path=name) for name in names), PLAN, say("Done.")))
    r.host.answer = lambda *_: ToolOutput("x", stamps=next(stamps, {}))
    first = r.session(mode=Mode.PLAN)
    await drive(first)
    stored = [line.body["seen"] for line in r.world.transcripts.load(first.id) if "seen" in line.body]
    assert stored == [{"a.py": "1"}, {"b.py": "1"}, {"c.py": "1"}, {"a.py": "2"}]
    assert r.resumed().context.stamps == {"a.py": "2", "b.py": "1", "c.py": "1"}


@pytest.mark.req("L9", "T4")
async def test_an_edit_after_a_resume_knows_the_file(room: Open) -> None:
    """Edit sends the stamp of the last read, and none for a file that was never read."""
    edit = {"old_string": "a", "new_string": "b"}
    read = call("Read", file_path="a.py")
    r = room(
        sequence(
            several(read, call(EXIT_PLAN_MODE, **plan_input())),
            read,
            PLAN,
            several(call("Edit", file_path="/home/checkout/a.py", **edit), call("Edit", file_path="b.py", **edit)),
            say("Done."),
        )
    )
    r.host.answer = lambda *_: ToolOutput("x", stamps={"a.py": "s1"})
    session = r.session(mode=Mode.PLAN)
    await drive(session)
    session.answer(pending_calls(session.history)[1]["id"], rejection_result())
    await drive(session)
    later = r.resumed()
    later.set_mode(Mode.ACCEPT_EDITS, by="ann")
    later.answer(pending_calls(later.history)[0]["id"], approval_result())
    await drive(later)
    sent = [arguments["stamp"] for name, arguments in later.context.host.calls if name == "Edit"]  # type: ignore[attr-defined]  # the double
    assert sent == ["s1", ""]


@pytest.mark.req("L9")
async def test_what_is_saved_is_what_is_sent(room: Open) -> None:
    """The transcript's frozen parts and messages are the request's, marks aside; notes are never sent."""
    r = room(sequence(several(think(""), call("LS", path=".")), say("Done.")))
    session = r.session(mode=Mode.PLAN)
    session.set_mode(Mode.DEFAULT, by="ann")
    await drive(session)
    lines = r.world.transcripts.load(session.id)
    body = unmarked(r.api.requests[-1].body)
    assert body["system"] == lines[0].body["system"]
    assert body["tools"] == lines[0].body["tools"]
    assert body["messages"] == messages(lines)[:-1]
    assert [line.body["note"] for line in lines if line.kind is LineKind.NOTE] == ["mode"]


@pytest.mark.req("L3", "L9")
async def test_half_characters_are_mended_once(room: Open) -> None:
    """Halves of surrogate pairs, from a person or a tool, are gone from what is sent, saved and resumed, alike."""
    r = room(sequence(call("Read", file_path="a.py"), say("Done.")))
    r.host.answer = lambda *_: ToolOutput("half \udcff", is_error=True, stamps={"\udcff": "s1"})
    session = r.session("Do \udc00.")
    await drive(session)
    lines = r.world.transcripts.load(session.id)
    assert unmarked(r.api.requests[-1].body)["messages"] == messages(lines)[:-1] == session.history[:-1]
    assert [block["content"] for block in results(session)] == ["half \ufffd"]
    for line in lines:
        line.encode().encode()
    assert r.resumed().history == session.history


@pytest.mark.req("M1")
async def test_sessions_of_one_kind_share_their_first_bytes(room: Open) -> None:
    """System, tools and the environment block are equal for two jobs: only the task differs."""
    r = room(lambda _: say("Done."))
    await drive(r.session("One.", ident="one"))
    await drive(r.session("Two.", ident="two"))
    one, two = (rendered(request) for request in r.api.requests)
    assert one[: one.index(b"One.")] == two[: two.index(b"Two.")]
    fewer = r.session("Three.", ident="three", tools=LOOKING)
    assert len(fewer.prefix.tools) == len(LOOKING)


@pytest.mark.req("L8", "L9")
async def test_a_finished_session_does_not_ask_again(room: Open) -> None:
    """Its process died between the last answer and the journal: whoever resumes it is told that answer once more.

    A request would end with the assistant's message, which the service refuses; what is said later goes on from there.
    """
    r = room(sequence(call("LS", path="."), say("Done."), say("More is done.")))
    await drive(r.session())
    again = r.resumed()
    assert await drive(again) == [Ended(again.agent, End.ANSWERED, "Done.")]
    assert len(r.api.requests) == 2
    again.add({"role": "user", "content": [{"type": "text", "text": "Do more."}]})
    assert ended(await drive(again)).text == "More is done."
    assert r.api.refusals == ()
