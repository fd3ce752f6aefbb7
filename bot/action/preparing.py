"""What a job does only if it has work: it prepares the machine for a sandbox, and switches the sweep.

Most jobs only read: they install nothing. While a job works, the sweep stays on, so that the work of a job that dies is
found soon. At the end it stays on if something waits for people.
"""

import asyncio
import subprocess
from dataclasses import dataclass, field
from typing import Final

from bot.action.runner import Runner
from bot.compose.looks import repository_of
from bot.compose.sweep_switch import SWEEP, SweepSwitch, sweep_switch
from bot.config.action_inputs import ActionSettings
from bot.core.errors import PlangateError

_SECONDS: Final = 120
"""Seconds after which the script is ended. It limits itself to less."""
_COSTS: Final = (
    "A 👍 is then found only by the daily run or beside another event; a ticked box or a comment is still seen at once."
)


@dataclass(slots=True)
class Preparation:
    """What one job has prepared. `switch` is None where nobody can switch the sweep."""

    given: ActionSettings
    runner: Runner
    switch: SweepSwitch | None = None
    _began: bool = field(default=False, init=False)

    async def before_work(self) -> None:
        """Keep the sweep on, and prepare the machine for a sandbox. Does this once in a job, and never raises."""
        if self._began:
            return
        self._began = True
        if self.switch is not None:
            try:
                await self.switch.turn(on=True)
            except PlangateError as error:  # told at the end, if something waits then
                self.runner.say(f"plangate: the scheduled check was not switched on: {error}")
        if self.given.sandbox_script is not None:
            for line in await asyncio.to_thread(_run_script, self.given):
                self.runner.warning(line)

    async def turn_sweep(self, *, on: bool) -> None:
        """Switch the sweep on or off. If that fails, say once what it costs."""
        if self.switch is None:
            return
        try:
            await self.switch.turn(on=on)
        except PlangateError as error:
            if on:
                fix = f"add {SWEEP} (`plangate init` writes it), and grant this job `actions: write`"
                warning = f"The scheduled check cannot be switched on: {error.what}. {_COSTS} To fix it, {fix}."
                self.runner.warning(warning)
                self.runner.add_summary(f"> {warning}", self.given.summary)


def preparation(action: ActionSettings, runner: Runner) -> Preparation:
    """Return the preparation of a job. Raises Misconfigured if the repository's name is none."""
    at, token = repository_of(action.repository), action.job_token
    return Preparation(action, runner, sweep_switch(action.settings, at, token) if token else None)


def _run_script(action: ActionSettings) -> list[str]:
    """Run the script, and return one line for each thing that it could not do."""
    try:
        result = subprocess.run(
            ["bash", str(action.sandbox_script)],
            env={"PATH": action.settings.path},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"the sandbox was not set up: {error}"]
    return result.stderr.splitlines()
