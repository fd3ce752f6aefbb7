"""The configuration files of repositories on GitHub, as they are now."""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from bot.config.recipes import FOLDER as RECIPES
from bot.config.recipes import with_recipe
from bot.config.settings import Settings
from bot.core.configuration import Configuration, MaintenanceTask
from bot.core.errors import Misconfigured
from bot.core.names import CommitId, RepositoryId
from bot.github import repository
from bot.github.client import GitHubClient
from bot.github.repository import Address, account_id
from bot.service.connections import RepositoryAccess, key_of
from bot.store.receipt_refs import ConfigurationVersion, Pins, pin_accounts


class CurrentConfiguration(NamedTuple):
    """The configuration file of a branch, as it is now."""

    keys: Configuration
    mistake: str
    """The mistake in it; "" for none. With a mistake, `keys` has the defaults."""
    blob: str
    """The git blob id of the file; "" if there is none."""


@dataclass(frozen=True, slots=True)
class Configurations:
    """Reads configuration files. Each cached value belongs to one version of a file, so nothing can be stale."""

    settings: Settings
    parse: Callable[[str, str], Configuration]
    """Returns the configuration in a text; its second argument is the file's path. Raises Misconfigured, but not for an
    empty text."""
    _newest: dict[RepositoryId, tuple[CommitId, CurrentConfiguration]] = field(default_factory=dict, init=False)
    """The configuration in the newest commit of each repository, and its mistake."""
    _accounts: dict[ConfigurationVersion, Pins] = field(default_factory=dict, init=False)
    """The accounts of the logins in each version of a configuration. Those pinned for a version never change."""

    async def newest(self, client: GitHubClient, facts: repository.Repository) -> CurrentConfiguration:
        """Return the configuration in the default branch's head, read once for each commit.

        A missing file is never cached: GitHub also reports one for a commit that not all of its servers know yet.
        """
        if facts.head is None:
            configuration = await self.read(client, facts.address)
            return configuration._replace(mistake="the repository has no commit yet (push one)")
        cached = self._newest.get(facts.id)
        if cached is None or cached[0] != facts.head:
            cached = facts.head, await self.read(client, facts.address, facts.head)
        if cached[1].blob:
            self._newest[facts.id] = cached
        return cached[1]

    async def read(self, client: GitHubClient, at: Address, ref: str = "") -> CurrentConfiguration:
        """Return the configuration in a commit of the default branch, or in its head, with its mistake if it has one.

        With a mistake, no thread is continued, and people who address the bot get a reply that says so (PR3).
        """
        overrides = self.settings.overrides
        mistake = blob = ""
        try:
            text = await _read(client, at, overrides.path, ref)
            blob = "" if text is None else blob_id(text)
            keys = self.parse(text or "", overrides.path)
        except Misconfigured as error:
            keys, mistake = self.parse("", overrides.path), str(error)
        keys = keys.with_overrides(overrides.mention, overrides.model, overrides.max_cost_usd)
        return CurrentConfiguration(keys, mistake, blob)

    async def pin_people(
        self, access: RepositoryAccess, number: RepositoryId, current: CurrentConfiguration
    ) -> CurrentConfiguration:
        """Return a configuration with numeric ids in place of the logins of people (A7).

        A login without an account stays, and names nobody.
        """
        keys, version = current.keys, (number, current.blob)
        logins = [person for person in (*keys.ask.users, *keys.approve.users) if isinstance(person, str)]
        if logins and version not in self._accounts:
            key, find = key_of(self.settings), partial(account_id, access.client)
            self._accounts[version] = await pin_accounts(access.refs, version, key, logins=logins, find=find)
        return current._replace(keys=keys.with_ids(self._accounts[version])) if logins else current

    async def own_recipe(self, client: GitHubClient, at: Address, name: str | None) -> dict[str, str]:
        """Return the project's own recipe of that name on the default branch: name -> text, empty if there is none."""
        text = None if name is None else await _read(client, at, f"{RECIPES}{name}.md")
        return {} if name is None or text is None else {name: text}

    async def read_task(self, client: GitHubClient, at: Address, name: str) -> MaintenanceTask | None:
        """Return a scheduled task from the default branch now, with its recipe; None if there is no valid one."""
        keys, mistake, _ = await self.read(client, at)
        task = next((task for task in keys.maintenance if task.name == name), None)
        if mistake or task is None:
            return None
        with suppress(Misconfigured):
            return with_recipe(task, await self.own_recipe(client, at, task.recipe))
        return None


def blob_id(text: str) -> str:
    """Return the git blob id of a text file."""
    content = text.encode("utf-8", "surrogateescape")
    return hashlib.sha1(b"blob %d\0%b" % (len(content), content), usedforsecurity=False).hexdigest()


async def _read(client: GitHubClient, at: Address, path: str, ref: str = "") -> str | None:
    """Return a text file of the default branch, or None. A pull request's author controls its branch (M2)."""
    content = await repository.file(client, at, path, ref)
    return None if content is None else content.decode(errors="replace")
