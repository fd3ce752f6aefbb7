"""Commands in the background, as an agent meets them: who may start one, and what the model is told."""

import pytest

from bot.agent.limits import Limits
from bot.agent.permissions.tool_gate import Mode, PermissionGate
from bot.agent.subagents.types import TYPES
from bot.agent.tools.registry import BACKGROUND
from bot.core.transcript import Json, commands_of
from bot.ports import ToolOutput
from bot.testing.model.reply import call, say, sequence, several
from tests.agent.conftest import Open
from tests.agent.ground import drive, results

START: Json = {"command": "make serve", "run_in_background": True}


@pytest.mark.req("T4")
async def test_the_toolhost_runs_them(room: Open) -> None:
    """Start, read and end are operations of the toolhost, with the field's names; each counts as a tool call."""
    sent = several(
        call("Bash", **START),
        call("BashOutput", bash_id="bash_1", filter="up"),
        call("KillShell", shell_id="bash_1"),
        call("BashOutput", bash_id="bash_1"),
    )
    r = room(sequence(sent, say("Done.")))
    session = r.session(limits=Limits(tool_calls=3))
    await drive(session)
    assert r.host.calls == [
        ("StartShell", START),
        ("BashOutput", {"bash_id": "bash_1", "filter": "up"}),
        ("KillShell", {"shell_id": "bash_1"}),
    ]
    assert results(session)[3]["content"] == "Not run: the limit of 3 tool calls was reached (3 used)."


@pytest.mark.req("P4", "P4a")
@pytest.mark.parametrize(
    ("command", "said"),
    (("git log", "call it without"), ("make", "not known to be read-only"), ("make test", "call it without")),
)
async def test_a_planner_starts_none(room: Open, command: str, said: str) -> None:
    """Not even one that only reads, or that the configuration lets it run on a copy."""
    r = room(sequence(call("Bash", command=command, run_in_background=True), say("Done.")))
    session = r.session(mode=Mode.PLAN, gate=PermissionGate(rehearsed=frozenset({"make test"})))
    await drive(session)
    (result,) = results(session)
    assert result["is_error"]
    assert said in result["content"].lower()
    assert r.host.calls == []


@pytest.mark.req("P7")
async def test_they_need_the_same_permission(room: Open) -> None:
    """Where a command has to be asked for, it has to be in the background too; one that only reads never."""
    reading: Json = {"command": "cat a", "run_in_background": True}
    r = room(sequence(several(call("Bash", **START), call("Bash", **reading)), say("Done.")))
    session = r.session(mode=Mode.DEFAULT)
    await drive(session)
    assert "nobody is at hand" in results(session)[0]["content"]
    assert r.host.calls == [("StartShell", reading)]


@pytest.mark.req("S2")
def test_who_has_them() -> None:
    """Agents that may leave plan mode read and end what they started; the others can start nothing."""
    assert {name for name, kind in TYPES.items() if set(BACKGROUND) & set(kind.tools)} == {"code"}
    assert set(BACKGROUND) <= set(TYPES["code"].tools)


@pytest.mark.req("T4")
@pytest.mark.parametrize("mode", (Mode.ACCEPT_EDITS, Mode.PLAN))
async def test_a_timeout_says_what_to_do(room: Open, mode: Mode) -> None:
    """A command that takes too long is told of the background, but not where plan mode refuses that."""
    ending = "timed out after 120 s: all of it was ended (timeout can be at most 600000 ms)"
    r = room(sequence(call("Bash", command="cat big"), say("Done.")))
    r.host.answer = lambda *_: ToolOutput(ending, is_error=True, details={"ended": "timeout"})
    session = r.session(mode=mode)
    await drive(session)
    hint = " (what takes longer: run_in_background, then BashOutput)" if mode is not Mode.PLAN else ""
    assert results(session)[0]["content"] == ending + hint
    assert [run[:2] for run in commands_of(session.history)] == [("cat big", None)]
