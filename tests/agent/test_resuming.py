"""Sessions that are suspended and go on: plans, questions, permissions, and what a transcript restores (L8, L9, P7)."""

import json
from contextlib import aclosing
from dataclasses import replace

import pytest

from bot.agent.assembly import pending_question, release, run_permitted_call
from bot.agent.light_calls import LightCalls
from bot.agent.limits import Limits
from bot.agent.permissions.plan_mode import approval_result, rejection_result
from bot.agent.permissions.tool_gate import Mode, PermissionGate, ToolRules, parse_rule
from bot.agent.resources import HumanAvailability, load_request_prefix
from bot.agent.session import NOT_RUN, Session
from bot.agent.session_events import AgentEvent, End, Ended, ModeChanged, ToolFinished
from bot.agent.subagents.types import TYPES
from bot.agent.tools.registry import ALL, LOOKING
from bot.agent.tools.session_tools import NOBODY, TO_PARENT
from bot.agent.tools.tool import Tool
from bot.core.errors import CanaryShown, Refused
from bot.core.names import ToolUseId
from bot.core.question import AskKind
from bot.core.secrets.redaction import CanaryAlarm
from bot.core.transcript import Json, LineKind, messages, pending_calls
from bot.ports import AnswerStarted, Replay, ToolOutput
from bot.testing.model.reply import Call, Policy, Reply, Text, call, say, sequence, several, stop, think
from tests.agent.conftest import Open
from tests.agent.ground import (
    EXIT_PLAN_MODE,
    FOLDER,
    Room,
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
    ("plan", "said"),
    (
        ({"plan": "x" * 40_001}, "the limit is 40,000"),
        ({"plan": " \n\t "}, "is empty"),
        ({"plan": ""}, "plan:"),
        ({**plan_input(), "approved": True}, "approved"),
    ),
    ids=["too long", "blank", "empty", "an unknown field"],
)
async def test_a_plan_that_no_person_could_be_shown_goes_back_to_the_model(room: Open, plan: Json, said: str) -> None:
    r = room(sequence(call(EXIT_PLAN_MODE, **plan), say("Sorry.")))
    session = r.session(mode=Mode.PLAN)
    assert ended(await drive(session)).end is End.ANSWERED
    (result,) = results(session)
    assert result["is_error"]
    assert said in result["content"]


@pytest.mark.req("P2", "P5")
async def test_a_second_plan_after_approval_is_told_to_work(room: Open) -> None:
    r = room(sequence(PLAN, say("Done.")))
    session = r.session(mode=Mode.ACCEPT_EDITS)
    assert ended(await drive(session)).end is End.ANSWERED
    assert "approved already" in results(session)[0]["content"]


@pytest.mark.req("L9")
async def test_a_resumed_session_knows_its_files_steps_and_cost(room: Open) -> None:
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
async def test_a_dropped_answer_counts_as_a_step_and_costs(room: Open, dropped: Reply) -> None:
    r = room(sequence(call("LS", path="."), dropped, say("Done."), say("Done.")))
    session = r.session()
    await drive(session)
    later = r.resumed()
    assert later.monitor.steps == session.monitor.steps >= 2
    assert later.resources.ledger.rows == r.world.ledger.rows


@pytest.mark.req("L4", "L9", "M11")
async def test_a_session_stays_with_its_own_model(room: Open) -> None:
    r = room(sequence(say("Done."), say("A title")))
    session = r.session()
    await drive(session)
    assert await LightCalls(session.log, "haiku").ask("Name it.", "What is this?")
    lines = r.world.transcripts.load(session.id)
    assert lines[-1].body["model"] == "claude-haiku-5-5"
    assert load_request_prefix(lines, "opus") == session.prefix


@pytest.mark.req("L9", "T4")
async def test_a_stamp_is_stored_once(room: Open) -> None:
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


OPTIONS = [{"label": "a", "description": "first"}, {"label": "b", "description": "second"}]
QUESTION = {"question": "Which?", "header": "Way", "options": OPTIONS}
ASKS = call("AskUserQuestion", questions=[QUESTION])
PUSH = call("Bash", command="git push")
PEOPLE = HumanAvailability(answers=True, permits=True)
ASK_PUSH = PermissionGate(ToolRules(ask=(parse_rule("Bash(git push:*)"),)))
MODES = list(Mode)


def waiting(r: Room, *, mode: Mode = Mode.ACCEPT_EDITS, gate: PermissionGate | None = None) -> Session:
    """A session with people at hand."""
    return r.session(mode=mode, gate=gate, world=replace(r.world, availability=PEOPLE))


def again(r: Room, gate: PermissionGate | None = None, at_hand: HumanAvailability = PEOPLE) -> Session:
    """The same session in another process."""
    return r.resumed(world=replace(r.world, availability=at_hand, gate=gate or r.world.gate))


async def allowed(session: Session, ident: str) -> list[AgentEvent]:
    async with aclosing(run_permitted_call(session, ident)) as events:
        return [event async for event in events if not isinstance(event, AnswerStarted)]


@pytest.mark.req("T4", "L8")
@pytest.mark.parametrize("mode", MODES)
async def test_a_question_suspends_in_every_mode(room: Open, mode: Mode) -> None:
    r = room(sequence(several(call("Read", file_path="a"), ASKS), say("Done.")))
    assert ended(await drive(waiting(r, mode=mode))).end is End.SUSPENDED
    session = again(r)
    asking = pending_question(session)
    assert asking is not None
    assert (asking.matter, asking.questions[0].options[1].description) == (AskKind.QUESTION, "second")
    session.answer(asking.call, "@ann answered.")
    assert ended(await drive(session)).text == "Done."
    assert [result["content"] for result in results(session)] == [NOT_RUN, "@ann answered."]
    assert pending_question(session) is None
    assert_prefixes(r.api.requests)
    assert r.api.refusals == ()


BAD: dict[str, tuple[Reply, str]] = {
    "no question": (call("AskUserQuestion", questions=[]), "questions: List should have at least 1 item"),
    "five questions": (call("AskUserQuestion", questions=[QUESTION] * 5), "questions: List should have at most 4"),
    "one option": (
        call("AskUserQuestion", questions=[{**QUESTION, "options": OPTIONS[:1]}]),
        "questions.0.options: List should have at least 2 items",
    ),
    "long header": (call("AskUserQuestion", questions=[{**QUESTION, "header": "x" * 13}]), "at most 12 characters"),
    "one label twice": (
        call("AskUserQuestion", questions=[{**QUESTION, "options": [OPTIONS[0], OPTIONS[0]]}]),
        "two options have the same label",
    ),
}


@pytest.mark.req("T4", "T3")
@pytest.mark.parametrize(("reply", "said"), BAD.values(), ids=BAD)
async def test_a_bad_question_is_explained(room: Open, reply: Reply, said: str) -> None:
    r = room(sequence(reply, say("Done.")))
    session = waiting(r)
    assert ended(await drive(session)).end is End.ANSWERED
    assert said in results(session)[0]["content"]


@pytest.mark.req("T4")
async def test_where_nobody_is_at_hand_the_model_decides_by_itself(room: Open) -> None:
    r = room(sequence(ASKS, say("Done.")))
    session = r.session()
    assert ended(await drive(session)).text == "Done."
    assert results(session)[0]["content"] == NOBODY


@pytest.mark.req("T4", "P7", "S11")
@pytest.mark.parametrize("tools", (ALL, TYPES["code"].tools), ids=("has the tool", "has it not"))
async def test_a_sub_agent_asks_its_parent(room: Open, tools: tuple[Tool, ...]) -> None:
    r = room(sequence(ASKS, PUSH, say("Done.")))
    session = r.session(tools=tools, gate=ASK_PUSH, world=replace(r.world, availability=PEOPLE))
    session.context.is_subagent = True
    assert ended(await drive(session)).text == "Done."
    question, push = results(session)
    assert question["content"] == TO_PARENT
    assert "put into your report exactly what you need" in push["content"]
    assert r.host.calls == []


@pytest.mark.req("P7", "L8", "L9")
async def test_the_permitted_call_runs_as_it_is_stored(room: Open) -> None:
    r = room(sequence(several(PUSH, call("Bash", command="make")), say("Done.")))
    assert ended(await drive(waiting(r, gate=ASK_PUSH))).end is End.SUSPENDED
    session = again(r, ASK_PUSH)
    asking = pending_question(session)
    assert asking is not None
    assert (asking.matter, asking.tool, asking.subject) == (AskKind.PERMISSION, "Bash", "git push")
    events = await allowed(session, asking.call)
    assert ended(events).text == "Done."
    assert [event.name for event in of(events, ToolFinished)] == ["Bash"]
    (ran, *others) = results(session)
    assert "git push" in ran["content"]
    assert [each["content"] for each in others] == [NOT_RUN]
    assert valid(session.history)
    assert_prefixes(r.api.requests)


@pytest.mark.req("X3", "P7")
async def test_a_canary_in_a_permitted_call_ends_the_session(room: Open) -> None:
    r = room(sequence(PUSH))
    r.world = replace(r.world, alarm=CanaryAlarm(("sk-not-to-be-said-0123456789",)))
    await drive(waiting(r, gate=ASK_PUSH))
    r.host.answer = lambda *_: ToolOutput("sk-not-to-be-said-0123456789")
    session = again(r, ASK_PUSH)
    events = await allowed(session, pending_calls(session.history)[0]["id"])
    assert ended(events) == Ended(session.agent, End.FAILED, str(CanaryShown()))
    assert pending_calls(session.history)
    assert len(r.api.requests) == 1


@pytest.mark.req("L6", "P7")
async def test_a_permitted_call_that_finished_is_not_run_again(room: Open) -> None:
    r = room(sequence(PUSH, say("Done.")))
    await drive(waiting(r, gate=ASK_PUSH))
    session = again(r, ASK_PUSH)
    async with aclosing(run_permitted_call(session, pending_calls(session.history)[0]["id"])) as events:
        async for event in events:
            if isinstance(event, ToolFinished):
                break
    later = again(r, ASK_PUSH)
    assert not pending_calls(later.history)
    assert ended(await drive(later)).text == "Done."
    assert r.api.refusals == ()


@pytest.mark.req("P7")
async def test_a_denial_outranks_a_permission(room: Open) -> None:
    r = room(sequence(PUSH, say("Done.")))
    await drive(waiting(r, gate=ASK_PUSH))
    session = again(r, PermissionGate(ToolRules(deny=(parse_rule("Bash(git push:*)"),))))
    await allowed(session, pending_calls(session.history)[0]["id"])
    assert "denies Bash(git push:*)" in results(session)[0]["content"]


@pytest.mark.req("P7")
async def test_a_call_that_needs_nobody_any_more_is_released(room: Open) -> None:
    r = room(sequence(PUSH, say("Done.")))
    await drive(waiting(r, gate=ASK_PUSH))
    session = again(r)
    assert pending_question(session) is None
    release(session)
    assert results(session)[0]["content"] == NOT_RUN
    release(session)
    assert ended(await drive(session)).text == "Done."
    other = room(sequence(PUSH, say("Done.")))
    await drive(waiting(other, gate=ASK_PUSH))
    session = again(other, ASK_PUSH, HumanAvailability())
    release(session)
    assert "nobody is at hand" in results(session)[0]["content"]


@pytest.mark.req("P7")
async def test_a_command_that_is_too_long_is_not_asked_about(room: Open) -> None:
    r = room(sequence(call("Bash", command="git push " + "x" * 9_000), say("Done.")))
    session = waiting(r, gate=ASK_PUSH)
    assert ended(await drive(session)).end is End.ANSWERED
    assert "smaller steps" in results(session)[0]["content"]


@pytest.mark.req("P7")
async def test_a_command_granted_for_the_plan_is_asked_no_more(room: Open) -> None:
    r = room(sequence(PUSH, call("Bash", command="git push --force"), say("Done.")))
    gate = replace(ASK_PUSH, granted=frozenset({("Bash", "git push")}))
    session = waiting(r, gate=gate)
    assert ended(await drive(session)).end is End.SUSPENDED
    assert [arguments["command"] for _, arguments in r.host.calls] == ["git push"]
    planner = room(sequence(PUSH, say("Done.")))
    session = waiting(planner, mode=Mode.PLAN, gate=gate)
    await drive(session)
    assert "plan mode is on" in results(session)[0]["content"]


@pytest.mark.req("P7")
async def test_a_permission_for_a_file_is_for_that_file(room: Open) -> None:
    one, other = (call("Write", file_path=path, content="x") for path in (f"{FOLDER}/src/one.py", "./src/two.py"))
    r = room(sequence(one, other, say("Done.")))
    session = waiting(r, mode=Mode.DEFAULT, gate=PermissionGate(granted=frozenset({("Write", "src/one.py")})))
    assert ended(await drive(session)).end is End.SUSPENDED
    assert len(r.host.calls) == 1
    asking = pending_question(session)
    assert asking is not None
    assert (asking.tool, asking.subject) == ("Write", "src/two.py")
