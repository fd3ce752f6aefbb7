"""Reads every journal of a repository for `plangate audit`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from bot.compose.github import GitHubHost
from bot.compose.parts import key_of
from bot.config.settings import Settings
from bot.core.audit import AuditRow, audit_rows
from bot.core.errors import Misconfigured
from bot.core.names import RepositoryId, ThreadNumber
from bot.github import repository
from bot.store.git_journal import GitJournal


@dataclass(frozen=True, slots=True)
class AuditExport:
    """The rows of a repository, and what they lack."""

    rows: Sequence[AuditRow]
    """The rows of every thread, oldest first."""
    unreadable: Sequence[ThreadNumber]
    """Threads that are not in it, because another state key wrote them, or because somebody altered them."""


async def read_audit(settings: Settings, repo: str, since: datetime) -> AuditExport:
    """Return the export of a repository since a moment. Memory holds all rows, and one journal at a time.

    Raises Misconfigured if it is no repository.
    """
    owner, _, name = repo.partition("/")
    if not (owner and name) or "/" in name:
        raise Misconfigured(f"not a repository: {repo!r}", where="audit", fix="write OWNER/REPO")
    async with GitHubHost(settings) as host:
        installation, number, at = await host.find(repository.Address(owner, name))
        reached = await host.connections.reach(installation, number, at)
        journal = GitJournal(reached.refs, RepositoryId(number), key=key_of(settings), clock=host.clock)
        rows: list[AuditRow] = []
        unreadable: list[ThreadNumber] = []
        async for thread, entries in journal.read_each_since(since):
            if entries is None:
                unreadable.append(thread)
            rows += audit_rows(thread, entries or (), since)
    return AuditExport(sorted(rows, key=lambda row: (row.at, row.thread, row.entry)), unreadable)
