"""Paths outside of the approved plan: who works is told once of each, by an edit or by what git reports (K5)."""

from typing import Final

import pytest

from bot.agent.permissions.tool_gate import CallKind
from bot.agent.resources import NOTE, SHOWN, ScopeWatch, outside_notice
from bot.core.errors import Transient
from bot.core.plan import Contract
from bot.core.transcript import Json, Line, LineKind
from bot.ports import ToolOutput
from tests.agent.ground import HandClock

REACHES: Final = Contract(("src/**",)).reaches
STATUS: Final = ' M src/a.py\n?? new.txt\n M README.md\n?? "odd\\tname"\nnot an entry'


class Host:
    """A toolhost on which git reports the same each time."""

    def __init__(self, said: str = STATUS, *, dead: bool = False, fails: bool = False) -> None:
        self.said, self.dead, self.fails, self.calls = said, dead, fails, 0

    async def call(self, operation: str, arguments: Json, **_: object) -> ToolOutput:
        assert (operation, arguments["command"].partition(" ")[0]) == ("Bash", "git")
        self.calls += 1
        if self.dead:
            raise Transient("nobody is there")
        return ToolOutput(self.said, self.fails)

    async def close(self) -> None:
        """Do nothing."""


@pytest.mark.req("K5")
async def test_edits() -> None:
    """An edit's path is told once; one that the plan reaches, or that lies outside of the checkout, never."""
    watch, host = ScopeWatch(REACHES), Host()
    found = [
        await watch.new_paths(host, CallKind.EDIT, {key: path})
        for key, path in (
            ("file_path", "src/a.py"),
            ("file_path", "README.md"),
            ("file_path", "README.md"),
            ("notebook_path", "a.ipynb"),
            ("file_path", "/tmp/try.py"),
            ("file_path", "../other"),
        )
    ]
    assert found == [[], ["README.md"], [], ["a.ipynb"], [], []]
    assert host.calls == 0


@pytest.mark.req("K5")
async def test_commands() -> None:
    """After a command git tells what changed; what set-up left, and what was told before, is not told again."""
    watch = ScopeWatch(REACHES, {"README.md"})
    assert await watch.new_paths(Host(), CallKind.COMMAND, {}) == ["new.txt", "odd\\tname"]
    assert await watch.new_paths(Host(), CallKind.COMMAND, {}) == []
    assert await watch.for_subagent().new_paths(Host("?? x.txt"), CallKind.COMMAND, {}) == ["x.txt"]
    assert await watch.new_paths(Host("?? x.txt"), CallKind.COMMAND, {}) == ["x.txt"]


@pytest.mark.parametrize("host", (Host(dead=True), Host(fails=True), Host("(no output)")))
async def test_git_that_tells_nothing(host: Host) -> None:
    """Where git cannot tell, nothing is said: what is published is checked elsewhere."""
    assert await ScopeWatch(REACHES).new_paths(host, CallKind.COMMAND, {}) == []


async def test_calls_that_only_look() -> None:
    """They touch nothing, so git is not asked."""
    host = Host()
    assert await ScopeWatch(REACHES).new_paths(host, CallKind.READ_COMMAND, {"command": "ls"}) == []
    assert host.calls == 0


@pytest.mark.req("K5", "L9")
def test_a_session_that_goes_on() -> None:
    """It knows from its transcript what it was told."""
    at = HandClock().now()
    watch = ScopeWatch(REACHES)
    watch.recall([Line(LineKind.NOTE, at, {"note": NOTE, "paths": ["a"]}), Line(LineKind.NOTE, at, {"note": "mode"})])
    assert watch.reported == {"a"}


def test_what_is_said() -> None:
    """One path or several, the first twenty, each as code that nothing in it can leave."""
    assert outside_notice(["a`b"]) == (
        "(`` a`b `` is outside the approved plan's files. Revert it, or go on knowing that the change needs another "
        "approval.)"
    )
    said = outside_notice([f"{n}.py" for n in range(SHOWN + 2)])
    assert "`19.py` and 2 more are outside the approved plan's files. Revert them, or go on" in said
