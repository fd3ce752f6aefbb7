"""What bounds a sub-agent, from one place: the same rules for every type, whatever its session's owner asks."""

import pytest

from bot.agent.light_calls import LightCalls
from bot.agent.permissions.tool_gate import Mode
from bot.agent.resources import SessionLog
from bot.agent.subagents.policy import SubagentPolicy, SubagentSettings
from bot.agent.subagents.types import LIMITS, RESTRICTED, TYPES
from bot.agent.tools.tool import ToolContext
from bot.core.names import SessionId
from bot.core.network import NO_NETWORK, Network
from bot.ports import Access
from bot.testing.model.reply import say
from tests.agent.conftest import Open
from tests.agent.ground import FOLDER, MAIN, DeskHost

OPEN = Network(("pypi.org",))
EXPLORE, CODE = TYPES["explore"], TYPES["code"]


def parent(policy: SubagentPolicy, mode: Mode) -> ToolContext:
    log = SessionLog(SessionId("thread-1"), MAIN, policy.resources)
    return ToolContext(DeskHost(), FOLDER, mode, LightCalls(log, ""))


@pytest.mark.req("S2", "S4", "S9", "P4")
@pytest.mark.parametrize("untrusted", (True, False))
def test_one_that_reads_and_one_that_writes(room: Open, untrusted: bool) -> None:
    """One that reads is in plan mode, without a network, on a tree that it cannot change; strangers restrict it alone.
    None has Task, and the web tools are there only where a rule opens them."""
    settings = SubagentSettings("claude-sonnet-5-5", TYPES, untrusted=untrusted)
    policy = SubagentPolicy(room(lambda _: say("?")).world, settings, OPEN)
    reads = policy.bounds(EXPLORE, parent(policy, Mode.ACCEPT_EDITS))
    writes = policy.bounds(CODE, parent(policy, Mode.ACCEPT_EDITS))
    assert (reads.access, reads.network, reads.mode) == (Access.READ, NO_NETWORK, Mode.PLAN)
    assert (writes.access, writes.network, writes.mode) == (Access.WRITE, OPEN, Mode.ACCEPT_EDITS)
    assert (reads.limits, writes.limits) == (RESTRICTED if untrusted else LIMITS["explore"], LIMITS["code"])
    assert (reads.role, writes.role) == ("restricted" if untrusted else "subagent", "subagent")
    names = {tool.name for tool in (*reads.tools, *writes.tools)}
    assert names.isdisjoint({"Task", "WebFetch", "WebSearch", "GitHubRead"})
    assert "resource_request" in names


@pytest.mark.req("S1", "S7", "P4")
def test_how_many(room: Open) -> None:
    """Places are counted for one task of several too; no writer starts in plan mode, and no task of it is shared."""
    settings = SubagentSettings("claude-sonnet-5-5", TYPES, in_all=4, on_one=3)
    policy = SubagentPolicy(room(lambda _: say("?")).world, settings)
    assert [policy.agents_on_one_task(EXPLORE, used) for used in (0, 1, 2)] == [3, 2, 1]
    assert policy.agents_on_one_task(CODE, 0) == 1
    assert policy.refusal(EXPLORE, parent(policy, Mode.PLAN), 3) == ""
    assert "All 4 sub-agents" in policy.refusal(EXPLORE, parent(policy, Mode.PLAN), 4)
    assert "cannot write" in policy.refusal(CODE, parent(policy, Mode.PLAN), 0)
