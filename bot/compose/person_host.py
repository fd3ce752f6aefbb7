"""What the service knows about people who speak through the API, read live from GitHub."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.compose.github import GitHubHost
from bot.compose.parts import policy_of, work_settings
from bot.core.actor import Actor
from bot.github.client import GitHubClient
from bot.github.permissions import Roles
from bot.github.repository import Address
from bot.service.connections import ServedRepository
from bot.service.person_turns import Participation

if TYPE_CHECKING:
    from bot.config.repository_file import Configuration


@dataclass(frozen=True, slots=True)
class GitHubPersonHost:
    """The PersonHost port on GitHub."""

    host: GitHubHost

    def person_client(self, token: str) -> GitHubClient:
        """Return a client that speaks as the person whose token this is, and for nobody else."""
        return self.host.connections.person_client(token)

    async def participation(self, at: Address, person: Actor) -> Participation:
        """Return a person's part in a repository that is served, read live. Raises Missing for any other repository."""
        served = await self.host.connections.repository_by_name(at)
        keys = (await self.host.current_configuration(served)).keys
        mention = self.host.settings.overrides.mention or keys.mention
        return Participation(served.id, await self._is_allowed(served, keys, person), mention)

    async def _is_allowed(self, served: ServedRepository, keys: "Configuration", person: Actor) -> bool:
        """Return whether a person may ask or decide. The bot's own account may not."""
        connections = self.host.connections
        reached = await connections.reach_served(served)
        bot = await connections.bot(reached.client)
        approve, members = keys.approve, connections.members(served.installation)
        roles = Roles(reached.client, served.at, approve.users, approve.teams, members)
        role = await roles.of(person)
        if person.id == bot.id or work_settings(keys).may_ask(person, role):
            return person.id != bot.id
        return policy_of(keys, bot.id).may_decide(person, role, listed=bool(await roles.is_listed(person)))
