"""What the service knows about people who speak through the API, read live from GitHub."""

from dataclasses import dataclass

from bot.compose.github import GitHubHost, RepositoryFound
from bot.compose.parts import policy_of, work_settings
from bot.core.actor import Actor
from bot.github.client import GitHubClient
from bot.github.permissions import Roles
from bot.github.repository import Address


@dataclass(frozen=True, slots=True)
class GitHubPersonHost:
    """The PersonHost port on GitHub."""

    host: GitHubHost

    def person_client(self, token: str) -> GitHubClient:
        """Return a client that speaks as the person whose token this is, and for nobody else."""
        return self.host.connections.person_client(token)

    async def repository_id(self, at: Address) -> int:
        """Return the number of a repository that is served. Raises Missing for any other."""
        return (await self.host.find(at))[1]

    async def may_take_part(self, at: Address, person: Actor) -> bool:
        """Return whether a person may ask or decide in a repository, by their live role and the configuration."""
        found = await self._repository(at)
        keys, connections = (await self.host.current_configuration(found)).keys, self.host.connections
        reached = await connections.reach(found.installation, found.id, found.at)
        bot = await connections.bot(reached.client)
        if person.id == bot.id:
            return False
        approve, members = keys.approve, connections.members(found.installation)
        roles = Roles(reached.client, found.at, approve.users, approve.teams, members)
        role = await roles.of(person)
        if work_settings(keys).may_ask(person, role):
            return True
        return policy_of(keys, bot.id).may_decide(person, role, listed=bool(await roles.is_listed(person)))

    async def mention_in(self, at: Address) -> str:
        """Return how a turn addresses the bot in a repository."""
        given = self.host.settings.overrides.mention
        return given or (await self.host.current_configuration(await self._repository(at))).keys.mention

    async def _repository(self, at: Address) -> RepositoryFound:
        return RepositoryFound(*await self.host.connections.repository_by_name(at))
