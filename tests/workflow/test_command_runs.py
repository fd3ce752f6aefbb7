"""Commands of the harness: as long as their time lasts, and what was cut short shows nothing."""

from collections.abc import Callable

import pytest

from bot.core.transcript import Json
from bot.ports import ToolOutput
from bot.workflow.verification import run_commands
from tests.agent.ground import HandClock
from tests.workflow.ground import Ground


class Host:
    """A toolhost on which `sleep N` takes N seconds of the clock, at most its timeout."""

    def __init__(self, clock: HandClock) -> None:
        self.clock = clock

    async def call(
        self,
        operation: str,  # noqa: ARG002 - the port's
        arguments: Json,
        *,
        progress: Callable[[str], None] | None = None,  # noqa: ARG002 - the port's
        timeout: float = 660.0,
    ) -> ToolOutput:
        took, most = float(arguments["command"].partition(" ")[2]), arguments["timeout"] / 1000
        assert timeout > most
        self.clock.seconds += min(took, most)
        details = {"exit_code": 0 if took <= most else None, "seconds": min(took, most)}
        return ToolOutput("", details=details)

    async def close(self) -> None:
        """Do nothing."""


@pytest.mark.req("K4")
@pytest.mark.parametrize(
    ("commands", "seconds", "ended"),
    (
        (("sleep 2", "sleep 3"), 10.0, [("sleep 2", 0), ("sleep 3", 0)]),
        (("sleep 2", "sleep 9", "sleep 1"), 10.0, [("sleep 2", 0)]),
        (("sleep 700", "sleep 1"), 1000.0, [("sleep 700", None), ("sleep 1", 0)]),
        (("sleep 700", "sleep 1"), None, [("sleep 700", None), ("sleep 1", 0)]),
    ),
    ids=("enough", "cut short", "their own limit", "any time"),
)
async def test_time(commands: tuple[str, ...], seconds: float | None, ended: list[tuple[str, int | None]]) -> None:
    """One that the shared time cut short is not known; one that ran into its own limit of 10 minutes is."""
    ground = Ground()
    ran = await run_commands(ground.process(), Host(ground.clock), commands, seconds=seconds)
    assert [(each["command"], each["exit_code"]) for each in ran] == ended
