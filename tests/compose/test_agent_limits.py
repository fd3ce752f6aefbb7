"""What a project's file says about sub-agents and long conversations reaches those that obey it."""

from dataclasses import replace

import pytest

from bot.agent.subagents.types import LIMITS
from bot.compose.parts import configured_model, work_settings
from bot.config.environment import configuration
from bot.core.exchange import CLEAR_AT
from tests.agent.ground import Silent


@pytest.mark.req("S9")
def test_limits_of_each_type() -> None:
    """A key changes its own type and limit alone; a file that says nothing leaves the limits that the agents have."""
    assert work_settings(configuration("")).agents == LIMITS
    keys = configuration(
        "agents:\n  explore:\n    calls: 80\n  plan:\n    minutes: 1.5\n  code:\n    reads: 7\n    tokens: 9000\n"
    )
    assert work_settings(keys).agents == {
        "explore": replace(LIMITS["explore"], tool_calls=80),
        "plan": replace(LIMITS["plan"], seconds=90),
        "code": replace(LIMITS["code"], file_reads=7, context_tokens=9_000),
    }


@pytest.mark.req("C2")
def test_when_old_results_are_cleared() -> None:
    """The size is that of the file."""
    assert configured_model(configuration(""), Silent()).clear_at == CLEAR_AT
    assert configured_model(configuration("compaction:\n  clear_at_tokens: 50000\n"), Silent()).clear_at == 50_000
