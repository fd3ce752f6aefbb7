"""Many sub-agents that write the same files at once, in real sandboxes: nothing lost, the same on every run (S4)."""

from dataclasses import replace
from pathlib import Path

import pytest

from bot.agent.session_events import End
from bot.core.transcript import Json
from bot.testing.model.reply import Reply, call, say, several
from bot.testing.model.request_view import ModelRequest
from tests.agent.conftest import Open
from tests.agent.ground import Room, drive, ended, results
from tests.agent.test_subagents_at_work import CREW, brief, task, team

AGENTS = 20
PLACES = 10
"""Agents n and n + 10 change one line."""


def policy(request: ModelRequest) -> Reply:
    """A parent that sends all, and agents that each write a file of their own and a line that another writes too."""
    name = brief(request)
    if not name:
        return say("Done.") if request.step else several(*(task(str(n)) for n in range(AGENTS)))
    line = 1 + 4 * (int(name) % PLACES)
    edit = call("Bash", command=f"sed -i '{line}s/.*/agent {name}/' shared.txt && echo {name} > own-{name}.txt")
    return say(f"Did {name}.") if request.step else edit


async def once(r: Room, folder: Path) -> tuple[dict[str, str], list[Json]]:
    """Run all, and give the tree that came of it and what the parent was told."""
    folder.mkdir()
    session, checkout, workspace = await team(r, folder, crew=replace(CREW, at_once=PLACES, in_all=AGENTS))
    tree = Path(checkout.path)
    (tree / "shared.txt").write_text("".join(f"line {n}\n" for n in range(4 * PLACES)))
    assert ended(await drive(session)).end is End.ANSWERED
    files = {path.name: path.read_text() for path in sorted(tree.glob("*.txt"))}
    told = results(session)
    await workspace.discard(checkout)
    return files, told


@pytest.mark.long
@pytest.mark.req("S4", "S6")
async def test_twenty_writers_lose_nothing(room: Open, tmp_path: Path) -> None:
    """Each change is in the tree or shown to the parent as a conflict; two runs come to the same."""
    files, told = await once(room(policy), tmp_path / "one")
    again, told_again = await once(room(policy), tmp_path / "two")
    lines = files["shared.txt"].splitlines()
    for n, result in enumerate(told):
        assert files[f"own-{n}.txt"] == f"{n}\n"
        if n < PLACES:
            assert lines[4 * n] == f"agent {n}"
            assert "CONFLICT" not in result["content"]
        else:
            assert "CONFLICT in shared.txt" in result["content"]
            assert f"+agent {n}\n" in result["content"]
            assert f"+agent {n - PLACES}\n" in result["content"]
    assert files == again
    assert [each["content"] for each in told] == [each["content"] for each in told_again]
