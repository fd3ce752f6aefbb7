"""One message's calls: found, checked, run in batches, bounded; whatever goes wrong goes back to the model (T1-T5)."""

import asyncio
import errno
import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent import dispatch
from bot.agent.dispatch import AT_ONCE, RESULT_LIMIT
from bot.agent.history.cutting import images
from bot.agent.light_calls import LightCalls
from bot.agent.limits import Ledger, Monitor
from bot.agent.loop import run
from bot.agent.permissions.tool_gate import CallKind, Mode, PermissionGate, ToolRules, parse_rule
from bot.agent.resources import RequestPrefix, SessionLog, SessionResources
from bot.agent.session import Session, result_block
from bot.agent.session_events import AgentEvent, End, TodosChanged, ToolFinished, ToolProgressed, ToolStarted
from bot.agent.tools.registry import ALL, by_name, schemas
from bot.agent.tools.tool import Tool, ToolContext, ToolInput, ToolProgress, ToolSink, relative
from bot.core.errors import Broken, Refused
from bot.core.names import AgentId, SessionId
from bot.core.transcript import Json
from bot.ports import AnswerStarted, ToolOutput
from bot.testing.model.reply import Reply, call, malformed_call, say, sequence, several
from tests.agent.conftest import Open
from tests.agent.ground import DeskHost, HandClock, Room, Silent, drive, ended, of, results
from tests.memory_store import MemoryTranscripts


async def outcome(
    r: Room, *tools: Tool, mode: Mode = Mode.ACCEPT_EDITS, gate: PermissionGate | None = None
) -> list[Json]:
    """The results of the first message's calls."""
    session = r.session(mode=mode, tools=(*ALL, *tools), gate=gate)
    assert ended(await drive(session)).end is End.ANSWERED
    assert r.api.refusals == ()
    return results(session)


BAD: dict[str, tuple[Reply, str]] = {
    "unknown tool": (call("Fly", to="moon"), "There is no tool 'Fly'"),
    "missing field": (call("Read"), "file_path: Field required"),
    "extra field": (call("Read", file_path="a", force=True), "force: Extra inputs are not permitted"),
    "wrong type": (call("Read", file_path=3), "file_path: Input should be a valid string"),
    "out of range": (call("Bash", command="ls", timeout=600_001), "timeout: Input should be less than"),
    "empty": (call("Bash", command=""), "command: String should have at least 1 character"),
    "nested": (call("TodoWrite", todos=[{"content": "a", "status": "maybe"}]), "todos.0.status: Input should be"),
    "a task without a crew": (call("TodoWrite", todos="[]"), "todos: Input should be a valid list"),
}


@pytest.mark.req("T3", "T1")
@pytest.mark.parametrize(("reply", "said"), BAD.values(), ids=BAD)
async def test_a_bad_call_does_not_run_and_says_which_field_is_wrong(room: Open, reply: Reply, said: str) -> None:
    r = room(sequence(reply, say("Done.")))
    (result,) = await outcome(r)
    assert result["is_error"] is True
    assert said in result["content"]
    assert "https://" not in result["content"]
    assert r.host.calls == []


@pytest.mark.req("T3")
@pytest.mark.parametrize(
    "given",
    ('{"command": "ls", "description": "\\ud800"}', '{"command": "ls \\udfff"}', '{"command": "ls", "\\ud800": 1}'),
)
async def test_a_call_with_halves_of_characters_does_not_run(room: Open, given: str) -> None:
    r = room(sequence(malformed_call("Bash", given), say("Done.")))
    (result,) = await outcome(r)
    assert "halves of characters" in result["content"]
    assert r.host.calls == []


@pytest.mark.req("P4", "T3")
async def test_a_write_in_plan_mode_is_denied(room: Open) -> None:
    calls = several(
        call("Write", file_path="a", content="x"), call("Bash", command="rm x"), call("Read", file_path="a")
    )
    r = room(sequence(calls, say("Done.")))
    write, bash, read = await outcome(r, mode=Mode.PLAN)
    assert "plan mode is on" in write["content"]
    assert "not known to be read-only" in bash["content"]
    assert "is_error" not in read
    assert [name for name, _ in r.host.calls] == ["Read"]


@pytest.mark.req("P7")
async def test_an_ask_without_a_person_is_a_denial(room: Open) -> None:
    r = room(sequence(call("Bash", command="make"), say("Done.")))
    (result,) = await outcome(r, mode=Mode.DEFAULT)
    assert "nobody is at hand" in result["content"]
    denied = room(sequence(call("Read", file_path=".env"), say("Done.")))
    (result,) = await outcome(denied, gate=PermissionGate(ToolRules(deny=(parse_rule("Read(.env)"),))))
    assert "denies Read(.env)" in result["content"]


class Nothing(ToolInput):
    """No input."""


def tool(name: str, call_: Any, **more: Any) -> Tool:
    return Tool(name, "A tool.", Nothing, call_, lambda _: CallKind.READ, **more)


async def never(_: Nothing, context: ToolContext, emit: ToolSink) -> ToolOutput:
    await emit(ToolProgress("begun"))
    await asyncio.Event().wait()
    return ToolOutput("")


def raising(error: Exception) -> Any:
    """A tool's call that reports something, and then raises."""

    async def fail(_: Nothing, context: ToolContext, emit: ToolSink) -> ToolOutput:
        await emit(ToolProgress("about to"))
        raise error

    return fail


@pytest.mark.req("T3")
async def test_whatever_a_tool_raises_becomes_a_result(room: Open) -> None:
    tools = (
        tool("Never", never, timeout=lambda _: 0.05),
        tool("Refuses", raising(Refused("no such place", where="here", fix="look elsewhere"))),
        tool("Breaks", raising(Broken("two and two are five"))),
        tool("Full", raising(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/work/x"))),
    )
    names = ("Never", "Refuses", "Breaks", "Full")
    r = room(sequence(several(*(call(name) for name in names)), say("Done.")))
    slow, refused, broken, crowded = await outcome(r, *tools)
    assert all(result["is_error"] for result in (slow, refused, broken, crowded))
    assert slow["content"].startswith("Never took longer than 0")
    assert "no such place (here): look elsewhere" in refused["content"]
    assert "two and two are five" in broken["content"]
    assert crowded["content"].startswith("Full failed:")
    assert "No space left on device" in crowded["content"]


@pytest.mark.req("T3", "L6")
async def test_a_tool_that_times_out_is_ended(room: Open) -> None:
    r = room(sequence(call("Slow"), say("Done.")))
    r.host.hold = asyncio.Event()

    async def slow(_: Nothing, context: ToolContext, emit: ToolSink) -> ToolOutput:
        return await context.host.call("Bash", {})

    await outcome(r, tool("Slow", slow, timeout=lambda _: 0.05))
    assert r.host.running == 0


@pytest.mark.req("T3")
async def test_a_slow_reader_does_not_hang_a_tool_that_times_out(room: Open) -> None:
    """A tool waits for who reads what it reports. If its time is up meanwhile, that is its result, and all is read."""

    async def chatty(_: Nothing, context: ToolContext, emit: ToolSink) -> ToolOutput:
        for number in range(AT_ONCE * 5):
            await emit(ToolProgress(str(number)))
        return ToolOutput("told")

    r = room(sequence(call("Chatty"), say("Done.")))
    session = r.session(tools=(tool("Chatty", chatty, timeout=lambda _: 0.05),))
    read = []
    async for event in run(session):
        if isinstance(event, ToolProgressed):
            read.append(event.text)
            await asyncio.sleep(0.1)
    assert results(session)[0]["content"].startswith("Chatty took longer")
    assert read == ["0"]


@pytest.mark.req("T5", "M3")
@pytest.mark.parametrize(("size", "calls", "kept"), ((6_800_000, 1, [2, 0]), (4, 6, [18, 2])))
async def test_a_session_holds_no_more_images_than_one_request_may(
    room: Open, size: int, calls: int, kept: list[int]
) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA" * (size // 4)}}
    look = several(*(call("Read", file_path=f"{n}.png") for n in range(calls)))
    r = room(sequence(look, look, say("Done.")))
    r.host.answer = lambda *_: ToolOutput("a picture", blocks=(image,) * 3)
    session = r.session()
    assert ended(await drive(session)).end is End.ANSWERED
    assert [len([*images([message])]) for message in session.history[2:6:2]] == kept
    assert str(results(session)[-1]["content"]).count("images left out: a conversation holds 20 of them") == 1
    assert r.api.refusals == ()


@pytest.mark.req("T5")
@pytest.mark.parametrize(("size", "cut"), ((RESULT_LIMIT, False), (RESULT_LIMIT + 1234, True)))
async def test_long_results_are_cut_with_a_note(room: Open, size: int, cut: bool) -> None:
    r = room(sequence(call("Read", file_path="a"), say("Done.")))
    r.host.answer = lambda *_: ToolOutput("x" * size)
    (result,) = await outcome(r)
    assert result["content"].endswith("[1,234 more characters; ask for less at once]") is cut
    assert result["content"].startswith("x" * RESULT_LIMIT)


@pytest.mark.req("T4")
async def test_images_and_silence_go_back_as_they_must(room: Open) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    outputs = iter([ToolOutput("1x1", blocks=(image,)), ToolOutput("")])
    r = room(sequence(several(call("Bash", command="make"), call("Bash", command="make")), say("Done.")))
    r.host.answer = lambda *_: next(outputs)
    first, second = await outcome(r)
    assert first["content"] == [{"type": "text", "text": "1x1"}, image]
    assert second["content"] == "(no output)"
    assert result_block("t", "", is_error=True)["content"]


@pytest.mark.req("T1", "L1")
async def test_progress_is_told_while_a_tool_runs(room: Open) -> None:
    r = room(sequence(call("Bash", command="make"), say("Done.")))
    r.host.progress = ("10 %", "90 %")
    events = await drive(r.session())
    about = [event for event in events if isinstance(event, ToolStarted | ToolProgressed | ToolFinished)]
    assert [getattr(event, "text", "started") for event in about][:3] == ["started", "10 %", "90 %"]
    assert isinstance(about[-1], ToolFinished)


@pytest.mark.req("T4")
async def test_todos_are_kept_and_told(room: Open) -> None:
    todos = [{"content": "a", "status": "completed"}, {"content": "b", "status": "in_progress", "activeForm": "b-ing"}]
    r = room(sequence(call("TodoRead"), call("TodoWrite", todos=todos), call("TodoRead"), say("Done.")))
    session = r.session(mode=Mode.PLAN)
    events = await drive(session)
    empty, _, full = (result["content"] for result in results(session))
    assert empty == "The todo list is empty."
    assert full == "☑ a\n▶ b"
    told = of(events, TodosChanged)[-1]
    assert told.todos == (("a", "completed"), ("b", "in_progress"))
    assert told.shown == (("a", "completed"), ("b-ing", "in_progress"))
    assert TodosChanged(told.agent, told.todos).shown == told.todos


@pytest.mark.req("T4")
async def test_tools_ask_the_host_in_its_words(room: Open) -> None:
    sent = several(
        call("Grep", pattern="x", offset=5, **{"-A": 2, "-n": True}),
        call("Glob", pattern="*.py"),
        call("LS", path=".", ignore=["*.pyc"]),
        call("Read", file_path="/home/checkout/a.py", offset=3),
        call("Write", file_path="./a.py", content=""),
        call("MultiEdit", file_path="a.py", edits=[{"old_string": "a", "new_string": "b"}]),
        call("Bash", command="make", timeout=1000),
    )
    r = room(sequence(sent, say("Done.")))
    r.host.answer = lambda name, _: ToolOutput("x", stamps={"a.py": "s1"} if name == "Read" else {})
    await outcome(r)
    edits = [{"old_string": "a", "new_string": "b"}]
    assert r.host.calls == [
        ("Grep", {"pattern": "x", "offset": 5, "-A": 2, "-n": True}),
        ("Glob", {"pattern": "*.py"}),
        ("LS", {"path": ".", "ignore": ["*.pyc"]}),
        ("Read", {"file_path": "/home/checkout/a.py", "offset": 3}),
        ("Write", {"file_path": "./a.py", "content": "", "stamp": "s1"}),
        ("MultiEdit", {"file_path": "a.py", "edits": edits, "stamp": "s1"}),
        ("Bash", {"command": "make", "timeout": 1000}),
        ("Changed", {"stamps": {"a.py": "s1"}}),
    ]


@pytest.mark.parametrize(
    ("path", "key"),
    (("a", "a"), ("/home/checkout/a", "a"), ("./b/../a", "a"), ("/etc/passwd", "../../etc/passwd"), ("..", "..")),
)
def test_a_stamp_is_found_however_the_file_is_named(path: str, key: str) -> None:
    assert relative(path, "/home/checkout") == key


@pytest.mark.req("M5")
def test_schemas_are_small_sorted_and_strict() -> None:
    made = schemas(by_name(ALL))
    names = [tool["name"] for tool in made]
    assert names == sorted(names)
    grep = next(tool["input_schema"] for tool in made if tool["name"] == "Grep")
    assert grep["additionalProperties"] is False
    assert grep["properties"]["-A"] == {"minimum": 0, "type": "integer"}
    text = str(made)
    assert "'title'" not in text
    assert "'default'" not in text
    assert "'null'" not in text
    assert made == schemas(by_name(reversed(ALL)))
    assert made[0]["input_schema"] is schemas(by_name(ALL))[0]["input_schema"]  # each is made once a process


def test_a_choice_of_types_stays_a_choice() -> None:
    class Either(ToolInput):
        value: int | str | None = None

    made = schemas({"Either": Tool("Either", "", Either, never, lambda _: CallKind.READ)})
    assert made[0]["input_schema"]["properties"]["value"] == {"anyOf": [{"type": "integer"}, {"type": "string"}]}


_kinds = st.lists(st.sampled_from(["Read", "Grep", "Write", "Look", "Make", "Go", "Fly"]), min_size=1, max_size=25)
INPUTS: dict[str, tuple[str, Json]] = {
    "Read": ("Read", {"file_path": "a"}),
    "Grep": ("Grep", {"pattern": "a"}),
    "Write": ("Write", {"file_path": "a", "content": ""}),
    "Look": ("Bash", {"command": "ls"}),
    "Make": ("Bash", {"command": "make"}),
    "Go": ("Bash", {"command": "cd src"}),
    "Fly": ("Fly", {}),
}
ALONE = {"Write", "Make", "Go"}


class Watched(DeskHost):
    """A host that holds each call until all that may run beside it have begun, and sees who runs beside a writer."""

    async def call(self, operation: str, arguments: Json, **more: Any) -> ToolOutput:
        writes = operation == "Write" or arguments.get("command") in {"make", "cd src"}
        assert not (writes and self.running)
        output = await super().call(operation, arguments, **more)
        assert not writes or self.running == 0
        return output

    async def wait(self) -> None:
        for _ in range(100):
            await asyncio.sleep(0)


async def dispatched(host: DeskHost, calls: list[Json], filled: dict[str, Json]) -> list[ToolFinished]:
    """Run these calls as one message's, in a session that may edit."""
    world = SessionResources(Silent(), MemoryTranscripts(), HandClock(), PermissionGate(), Ledger())
    log = SessionLog(SessionId("s"), AgentId("main"), world)
    context = ToolContext(host, "/w", Mode.ACCEPT_EDITS, LightCalls(log, ""))
    session = Session(log, RequestPrefix("main", "m", (), ()), by_name(ALL), context, Monitor(world.clock))
    prepared = [dispatch.prepare(session, each) for each in calls]
    events: list[AgentEvent | AnswerStarted] = []

    async def emit(event: AgentEvent | AnswerStarted) -> None:
        events.append(event)

    await dispatch.run(session, prepared, filled, emit=emit)
    return of(events, ToolFinished)


@pytest.mark.req("T2")
@given(_kinds)
def test_batches_keep_order_and_bounds(names: list[str]) -> None:
    """Whatever is called: every call has one result, in order; what changes something runs alone, after all before it
    and before all behind it; what only looks runs side by side, ten at most."""
    host = Watched()
    calls = [
        {"type": "tool_use", "id": f"t{n}", "name": INPUTS[k][0], "input": INPUTS[k][1]} for n, k in enumerate(names)
    ]
    filled: dict[str, Json] = {}
    finished = asyncio.run(dispatched(host, calls, filled))
    assert [block["tool_use_id"] for block in dispatch.collect_results(calls, filled)] == [each["id"] for each in calls]
    assert set(filled) == {each["id"] for each in calls}
    assert len(finished) == len(calls)
    asked = [operation for operation, _ in host.calls]
    assert sorted(asked) == sorted(INPUTS[name][0] for name in names if name != "Fly")
    groups = "".join("|" if name in ALONE else "." if name != "Fly" else "" for name in names).split("|")
    assert host.most <= AT_ONCE
    assert host.most >= min(AT_ONCE, max(map(len, groups)))
