"""What a crew's work came to, in its own books and in the worked example of docs/subagents.md (S9, S12, S13)."""

import subprocess
import sys
from pathlib import Path

import pytest

from bot.testing.model.reply import Reply, call, say
from bot.testing.model.request_view import ModelRequest
from tests.agent.conftest import Open
from tests.agent.ground import drive
from tests.agent.teams import script, task, team

PROJECT = Path(__file__).parents[2]


@pytest.mark.req("S9", "S13")
async def test_a_crew_keeps_its_books(room: Open) -> None:
    """How many there were, what they used of everything and of their limits, and what that hints at."""

    def child(request: ModelRequest) -> Reply:
        return call("Read", file_path=f"{request.step}.py") if request.step < 5 else say("Seen.")

    r = room(script(task("look"), child))
    t = team(r, untrusted=True)
    await drive(t.session)
    facts = t.pool.metrics.facts()
    assert (facts["started"], facts["succeeded"], facts["failed"]) == (1, 1, 0)
    assert (facts["uses"]["file_reads"], facts["uses"]["tool_calls"]) == (5, 5)
    assert (facts["utilisation"]["file_reads"], facts["utilisation"]["tool_calls"]) == (12, 12)
    assert facts["hints"] == []


@pytest.mark.long
@pytest.mark.req("S12", "S13")
def test_the_example_is_current() -> None:
    """The program that the document names prints the tree that stands there, with tokens and dollars."""
    command = [sys.executable, str(PROJECT / "benchmarks/refactor_auth.py")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert f"```text\n{ran.stdout}```" in (PROJECT / "docs/subagents.md").read_text(), ran.stdout
