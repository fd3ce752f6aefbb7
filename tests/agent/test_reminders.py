"""Reminders that tools give rise to: said after results, once for each state of things, and never taken back (T7)."""

import pytest

from bot.agent.events import End
from bot.agent.history.reminders import EMPTY, OLD, QUIET
from bot.agent.permissions.modes import Mode
from bot.core.transcript import Json
from bot.ports import ToolOutput
from bot.testing.model.reply import Fault, Reply, call, say
from bot.testing.model.request import ModelRequest
from tests.agent.conftest import Open
from tests.agent.ground import assert_prefixes, drive, ended, valid

LISTED = call("TodoWrite", todos=[{"content": "fix", "status": "in_progress"}])


def looking(count: int, *first: Reply) -> list[Reply]:
    """A model that does this first and then looks so often."""
    return [*first, *(call("LS", path=".") for _ in range(count)), say("Done.")]


def said(history: list[Json]) -> list[str]:
    """The reminders of a history, in order."""
    blocks = [block for message in history[1:] if message["role"] == "user" for block in message["content"]]
    return [block["text"] for block in blocks if block["type"] == "text"]


@pytest.mark.req("T7")
@pytest.mark.parametrize(
    ("first", "text"), (((), EMPTY), ((LISTED,), OLD)), ids=("an empty list", "a list that nobody touched")
)
async def test_the_todo_list_is_recalled(room: Open, first: tuple[Reply, ...], text: str) -> None:
    """After ten answers without a look at it, once; and once more after ten others."""
    script = looking(QUIET * 2 + 3, *first)
    r = room(lambda request: script[request.step])
    session = r.session()
    assert ended(await drive(session)).end is End.ANSWERED
    assert said(session.history) == [text, text]
    assert valid(session.history)
    assert_prefixes(r.api.requests)


@pytest.mark.req("T7")
@pytest.mark.parametrize("mode", (Mode.PLAN, Mode.ACCEPT_EDITS))
async def test_a_list_that_is_done_or_not_yet_needed_is_not_recalled(room: Open, mode: Mode) -> None:
    """While planning there is no work to list, and a list that is ticked off needs nothing."""
    first = () if mode is Mode.PLAN else (call("TodoWrite", todos=[{"content": "fix", "status": "completed"}]),)
    script = looking(QUIET + 3, *first)
    r = room(lambda request: script[request.step])
    session = r.session(mode=mode)
    await drive(session)
    assert said(session.history) == []


@pytest.mark.req("T7")
async def test_a_file_that_a_command_changed_is_named_once(room: Open) -> None:
    """After a command, files that were read are looked at; each change is told once, and the old stamp stays."""
    script = [call("Read", file_path="a.py"), *(call("Bash", command="make fmt") for _ in range(3)), say("Done.")]
    now = iter(["1-b", "1-b", "1-c"])

    def answer(operation: str, _: Json) -> ToolOutput:
        match operation:
            case "Read":
                return ToolOutput("text", stamps={"a.py": "1-a"})
            case "Changed":
                return ToolOutput("1 changed", details={"changed": {"a.py": next(now)}})
            case _:
                return ToolOutput("ok")

    def policy(request: ModelRequest) -> Reply | Fault:
        return script[request.step]

    r = room(policy)
    r.host.answer = answer
    session = r.session()
    await drive(session)
    assert [text.count("a.py") for text in said(session.history)] == [1, 1]
    assert session.context.stamps == {"a.py": "1-a"}
    assert ("Changed", {"stamps": {"a.py": "1-a"}}) in r.host.calls


@pytest.mark.req("T7", "L8")
async def test_todos_and_counts_come_back(room: Open) -> None:
    """A resumed session has the list that was written last and succeeded, and has counted its calls."""
    bad = call("TodoWrite", todos=[{"content": "x", "status": "unheard of"}])
    script = [LISTED, call("LS", path="."), bad, say("Done.")]
    r = room(lambda request: script[request.step])
    first = r.session()
    await drive(first)
    second = r.resumed()
    assert second.context.todos == first.context.todos == [("fix", "in_progress")]
    assert second.monitor.tool_calls == first.monitor.tool_calls == 3
