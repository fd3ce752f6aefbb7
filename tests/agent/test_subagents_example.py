"""The worked example of docs/subagents.md is what this plays: explore, then plan, then code, as one tree (S12, S13)."""

from pathlib import Path

import pytest

from bot.agent.events import AgentChanged, Lifecycle
from bot.testing.model.reply import Reply, call, say
from bot.testing.model.request import ModelRequest
from tests.agent.conftest import Open
from tests.agent.crew import brief, task, team
from tests.agent.ground import drive, of

DOCUMENT = Path(__file__).parents[2] / "docs/subagents.md"
STAGES = (("explore", "find the auth code"), ("plan", "plan the change"), ("code", "move to JWT"))


def policy(request: ModelRequest) -> Reply:
    """A parent that sends one agent after the other, and agents that look, plan and write."""
    name = brief(request)
    if not name:
        return (
            task(STAGES[request.step][1], STAGES[request.step][0])
            if request.step < len(STAGES)
            else say("Auth uses JWT now.")
        )
    if name == STAGES[0][1]:
        steps = (call("Grep", pattern="session"), call("Read", file_path="auth.py"))
        return steps[request.step] if request.step < 2 else say("Sessions are made in auth.py:12.")
    if name == STAGES[1][1]:
        return call("Read", file_path="auth.py") if not request.step else say("1. Sign a token in auth.py. 2. Test it.")
    edit = call("Edit", file_path="auth.py", old_string="session", new_string="token")
    return edit if not request.step else say("auth.py signs tokens.")


def tree(rows: list[AgentChanged]) -> str:
    """Draw the agents of a session, with what each used."""
    lines = ["main: refactor auth to JWT"]
    for n, row in enumerate(rows, 1):
        branch = "└─" if n == len(rows) else "├─"
        size = f"about {round(row.tokens, -3):,} tokens, ${row.cost_usd:.3f}"
        lines.append(f"{branch} {row.agent} ({row.state}): {row.steps} answers, {row.tool_calls} tool calls, {size}")
    return "\n".join(lines)


@pytest.mark.req("S12", "S13")
async def test_the_example_is_current(room: Open) -> None:
    """The document shows the tree that comes of it, with tokens and dollars."""
    r = room(policy)
    t = team(r)
    events = await drive(t.session)
    drawn = tree(list({row.agent: row for row in of(events, AgentChanged)}.values()))
    assert all(row.state is Lifecycle.COMPLETED for row in t.crew.rows.values())
    assert f"```text\n{drawn}\n```" in DOCUMENT.read_text(), drawn
    assert (t.crew.metrics.started, t.crew.metrics.succeeded, t.crew.metrics.failed) == (3, 3, 0)
    facts = t.crew.metrics.facts()
    assert facts["uses"]["file_reads"] == 2
    assert facts["hints"][-1].startswith("low: 1.0 ran at once on average")
