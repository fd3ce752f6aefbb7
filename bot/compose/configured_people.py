"""Puts numeric ids in place of the logins in a configuration: of those who had them when the file was new (A7)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from bot.compose.parts import key_of
from bot.config.settings import Settings
from bot.core.names import RepositoryId
from bot.github.repository import account_id
from bot.service.connections import RepositoryAccess
from bot.store.keys import marker_key
from bot.store.pinned_accounts import Pins, pin_accounts

if TYPE_CHECKING:
    from bot.config.repository_file import Configuration


@dataclass(frozen=True, slots=True)
class ConfiguredPeople:
    """The people whom configuration files list. What the remote holds for a version of a file never changes."""

    settings: Settings
    known: dict[tuple[RepositoryId, str], Pins] = field(default_factory=dict)

    async def pin(
        self, access: RepositoryAccess, number: RepositoryId, keys: "Configuration", *, blob: str
    ) -> "Configuration":
        """Return the configuration of a file, whose git blob id is given, with ids in place of the logins of people.

        A login without an account stays, and names nobody.
        """
        logins = [person for person in (*keys.ask.users, *keys.approve.users) if isinstance(person, str)]
        if not logins:
            return keys
        if (number, blob) not in self.known:
            key, find = marker_key(key_of(self.settings), number), partial(account_id, access.client)
            pins = await pin_accounts(access.refs, blob, key, logins=logins, find=find)
            self.known[number, blob] = pins
        return _with_ids(keys, self.known[number, blob])


def _with_ids(keys: "Configuration", pins: Pins) -> "Configuration":
    def account_ids(people: Sequence[str | int]) -> list[str | int]:
        return [(pins.get(person.lower()) or person) if isinstance(person, str) else person for person in people]

    ask = keys.ask.model_copy(update={"users": account_ids(keys.ask.users)})
    approve = keys.approve.model_copy(update={"users": account_ids(keys.approve.users)})
    return keys.model_copy(update={"ask": ask, "approve": approve})
