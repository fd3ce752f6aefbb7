"""The switch of the workflow that looks for reactions: on while a thread waits for people, off while none does."""

from dataclasses import dataclass
from typing import Final

from bot.clock import SystemClock
from bot.config.settings import Secret, Settings
from bot.core.secrets.redaction import Redactor
from bot.github import workflows
from bot.github.client import GitHubClient
from bot.github.repository import Address
from bot.github.tokens import StaticToken
from bot.service.connections import github_client

SWEEP: Final = "plangate-sweep.yml"


@dataclass(frozen=True, slots=True)
class SweepSwitch:
    """Switches the sweep of one repository, with the job's own token: the workflow grants it `actions: write`."""

    client: GitHubClient
    at: Address

    async def turn(self, *, on: bool) -> None:
        """Switch the sweep on or off, unless it is so already.

        Raises Missing if the repository has no sweep, Refused if the job may not switch it, and Transient.
        """
        if (await workflows.workflow_state(self.client, self.at, SWEEP) == "active") != on:
            await (workflows.enable if on else workflows.disable)(self.client, self.at, SWEEP)


def sweep_switch(settings: Settings, at: Address, token: Secret) -> SweepSwitch:
    """Return the switch of a repository's sweep, for the job with that token."""
    return SweepSwitch(github_client(settings, StaticToken(token.reveal), SystemClock(), redactor=Redactor()), at)
