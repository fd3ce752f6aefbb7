"""A session that waits for people: a question, a permission, and how it goes on with what they said (T4, P7, L8)."""

from contextlib import aclosing
from dataclasses import replace

import pytest

from bot.agent.assembly import pending_question, release, run_permitted_call
from bot.agent.permissions.tool_gate import Mode, PermissionGate, ToolRules, parse_rule
from bot.agent.resources import HumanAvailability
from bot.agent.session import NOT_RUN, Session
from bot.agent.session_events import AgentEvent, End, Ended, ToolFinished
from bot.agent.subagents.types import TYPES
from bot.agent.tools.registry import ALL
from bot.agent.tools.session_tools import NOBODY, TO_PARENT
from bot.agent.tools.tool import Tool
from bot.core.errors import CanaryShown
from bot.core.question import AskKind
from bot.core.secrets.redaction import CanaryAlarm
from bot.core.transcript import pending_calls
from bot.ports import AnswerStarted, ToolOutput
from bot.testing.model.reply import Reply, call, say, sequence, several
from tests.agent.conftest import Open
from tests.agent.ground import FOLDER, Room, assert_prefixes, drive, ended, of, results, valid

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
    """The call waits, neighbours give no result, and the answer is its own: in new objects, on the same bytes."""
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
    """Nobody is asked what cannot be answered; the model learns what to change."""
    r = room(sequence(reply, say("Done.")))
    session = waiting(r)
    assert ended(await drive(session)).end is End.ANSWERED
    assert said in results(session)[0]["content"]


@pytest.mark.req("T4")
async def test_nobody_at_hand(room: Open) -> None:
    """Where nobody is at hand the model is told to decide by itself, and the session goes on."""
    r = room(sequence(ASKS, say("Done.")))
    session = r.session()
    assert ended(await drive(session)).text == "Done."
    assert results(session)[0]["content"] == NOBODY


@pytest.mark.req("T4", "P7", "S11")
@pytest.mark.parametrize("tools", (ALL, TYPES["code"].tools), ids=("has the tool", "has it not"))
async def test_a_sub_agent_asks_its_parent(room: Open, tools: tuple[Tool, ...]) -> None:
    """A sub-agent is never suspended: it is told to put question and request into its report."""
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
    """In another process exactly the stored call runs, once; its neighbour does not; the bytes before it stay."""
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
async def test_a_permitted_call_that_brings_a_canary(room: Open) -> None:
    """It ends the session as any call does: the end says why, and nothing of what it brought is kept."""
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
    """Closed once it has finished, the session keeps its result: who goes on does not push a second time."""
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
    """A rule that denies the call by the time of the answer stands above what people allowed."""
    r = room(sequence(PUSH, say("Done.")))
    await drive(waiting(r, gate=ASK_PUSH))
    session = again(r, PermissionGate(ToolRules(deny=(parse_rule("Bash(git push:*)"),))))
    await allowed(session, pending_calls(session.history)[0]["id"])
    assert "denies Bash(git push:*)" in results(session)[0]["content"]


@pytest.mark.req("P7")
async def test_rules_that_changed_meanwhile(room: Open) -> None:
    """A call that needs nobody any more holds nothing up: the model is told, and calls again."""
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
async def test_too_long_to_be_asked_about(room: Open) -> None:
    """A command that no person would read is not asked about."""
    r = room(sequence(call("Bash", command="git push " + "x" * 9_000), say("Done.")))
    session = waiting(r, gate=ASK_PUSH)
    assert ended(await drive(session)).end is End.ANSWERED
    assert "smaller steps" in results(session)[0]["content"]


@pytest.mark.req("P7")
async def test_granted_for_the_plan(room: Open) -> None:
    """What was granted word for word is asked no more; another command is, and plan mode grants nothing."""
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
    """People are asked about the path, however it is spelled, and what they grant covers no other."""
    one, other = (call("Write", file_path=path, content="x") for path in (f"{FOLDER}/src/one.py", "./src/two.py"))
    r = room(sequence(one, other, say("Done.")))
    session = waiting(r, mode=Mode.DEFAULT, gate=PermissionGate(granted=frozenset({("Write", "src/one.py")})))
    assert ended(await drive(session)).end is End.SUSPENDED
    assert len(r.host.calls) == 1
    asking = pending_question(session)
    assert asking is not None
    assert (asking.tool, asking.subject) == ("Write", "src/two.py")
