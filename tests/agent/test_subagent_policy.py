"""What bounds a sub-agent, from one place: the same rules for every type, whatever its session's owner asks."""

import pytest

from bot.agent.permissions.tool_gate import Mode
from bot.agent.session_events import AgentChanged, Lifecycle
from bot.agent.subagents.pool import SubagentPool
from bot.agent.subagents.types import LIMITS, RESTRICTED, TYPES
from bot.core.names import AgentId
from bot.core.network import Network
from bot.testing.model.reply import say, several
from tests.agent.conftest import Open
from tests.agent.ground import MAIN, drive
from tests.agent.teams import script, task, team

EXPLORE, CODE = TYPES["explore"], TYPES["code"]


@pytest.mark.req("S2", "S4", "S9", "P4")
@pytest.mark.parametrize("untrusted", (True, False))
async def test_one_that_reads_and_one_that_writes(room: Open, untrusted: bool) -> None:
    """One that reads is in plan mode, without a network, on a tree that it cannot change; strangers restrict it alone.
    None has Task, and the web tools are there only where a rule opens them."""
    r = room(script(several(task("read"), task("write", "code")), lambda _: say("Done.")))
    t = team(r, untrusted=untrusted, network=Network(("pypi.org",)))
    await drive(t.session)
    assert sorted(line for line in t.workspace.log if line.startswith("open")) == [
        "open code-2 to write and pypi.org",
        "open main to read",
    ]
    limits = [t.pool.limits_for(kind) for kind in (EXPLORE, CODE)]
    assert limits == [RESTRICTED if untrusted else LIMITS["explore"], LIMITS["code"]]
    names = {*t.pool.tools_for(EXPLORE), *t.pool.tools_for(CODE)}
    assert names.isdisjoint({"Task", "WebFetch", "WebSearch", "GitHubRead"})
    assert "resource_request" in names


def with_rows(pool: SubagentPool, number: int, state: Lifecycle = Lifecycle.RUNNING) -> SubagentPool:
    pool.rows.update({AgentId(f"{n}"): AgentChanged(AgentId(f"{n}"), MAIN, "code", "", state) for n in range(number)})
    return pool


@pytest.mark.req("S1", "S7", "P4")
def test_places_are_counted_and_no_writer_starts_in_plan_mode(room: Open) -> None:
    pool = team(room(lambda _: say("?")), in_all=4, mode=Mode.PLAN).pool
    assert with_rows(pool, 3).refusal(EXPLORE) == ""
    assert "All 4 sub-agents" in with_rows(pool, 4).refusal(EXPLORE)
    assert "cannot write" in pool.refusal(CODE)
    assert with_rows(pool, 4, Lifecycle.ABORTED).refusal(EXPLORE) == ""


@pytest.mark.req("S7")
@pytest.mark.parametrize(
    ("before", "kind", "agents"), ((0, "explore", 4), (1, "explore", 3), (2, "explore", 1), (0, "code", 1))
)
async def test_how_many_agents_share_one_task(room: Open, before: int, kind: str, agents: int) -> None:
    """The one that merges their reports takes a place too, and a task that writes is not shared."""
    r = room(script(task("look", kind), lambda _: say("Seen.")))
    t = team(r, in_all=4, on_one=3)
    with_rows(t.pool, before)
    await drive(t.session)
    assert len(t.pool.rows) - before == agents
