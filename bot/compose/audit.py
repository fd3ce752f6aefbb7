"""Reads every journal of a repository for `plangate audit`."""

from collections.abc import Sequence
from datetime import datetime

from bot.compose.github import GitHubHost
from bot.compose.parts import key_of
from bot.config.settings import Settings
from bot.core.audit import AuditRow, audit_rows
from bot.core.errors import Misconfigured
from bot.core.names import RepositoryId
from bot.github import repository
from bot.store.git_journal import GitJournal


async def read_audit(settings: Settings, repo: str, since: datetime) -> Sequence[AuditRow]:
    """Return the rows of every thread of a repository since a moment, oldest first.

    Raises Misconfigured if it is no repository. Threads of another state key are not in it.
    """
    owner, _, name = repo.partition("/")
    if not (owner and name) or "/" in name:
        raise Misconfigured(f"not a repository: {repo!r}", where="audit", fix="write OWNER/REPO")
    async with GitHubHost(settings) as host:
        installation, number, at = await host.find(repository.Address(owner, name))
        reached = await host.connections.reach(installation, number, at)
        journal = GitJournal(reached.refs, RepositoryId(number), key=key_of(settings), clock=host.clock)
        threads = await journal.since(since)
    rows = [row for thread, entries in threads.items() for row in audit_rows(thread, entries, since)]
    return sorted(rows, key=lambda row: (row.at, row.thread, row.entry))
