"""The tool gate as a configuration makes it."""

import pytest

from bot.compose.parts import gate_of
from bot.config.environment import configuration
from bot.core.errors import Misconfigured


@pytest.mark.req("P1")
def test_bypass_needs_the_sandbox() -> None:
    """bypassPermissions without a sandbox is refused, with the key and the cure; with one it stands."""
    keys = configuration("execution: {mode: bypassPermissions}")
    assert gate_of(keys, sandboxed=True).sandboxed
    with pytest.raises(Misconfigured, match=r"bypassPermissions needs the sandbox.*execution\.mode.*acceptEdits"):
        gate_of(keys, sandboxed=False)
