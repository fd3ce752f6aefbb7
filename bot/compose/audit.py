"""Reads every journal of a repository for `plangate audit`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from bot.compose.github import HostSetup
from bot.config.settings import Settings
from bot.core.audit import AuditRow, audit_rows
from bot.core.names import ThreadNumber
from bot.github.repository import Address
from bot.service.connections import key_of
from bot.store.git_journal import GitJournal


@dataclass(frozen=True, slots=True)
class AuditExport:
    """The rows of a repository, and what they lack."""

    rows: Sequence[AuditRow]
    """The rows of every thread, oldest first."""
    unreadable: Sequence[ThreadNumber]
    """Threads that are left out, because another state key wrote them, or because somebody altered them."""


async def read_audit(settings: Settings, repo: str, since: datetime) -> AuditExport:
    """Return the export of a repository since a moment. Memory holds all rows, and one journal at a time.

    Raises Misconfigured if `repo` does not name a repository.
    """
    at = Address.parse(repo, where="audit")
    async with HostSetup(settings) as host:
        served = await host.connections.repository_by_name(at)
        reached = await host.connections.reach_served(served)
        journal = GitJournal(reached.refs, served.id, key=key_of(settings), clock=host.clock)
        rows: list[AuditRow] = []
        unreadable: list[ThreadNumber] = []
        async for thread, entries in journal.read_each_since(since):
            if entries is None:
                unreadable.append(thread)
            rows += audit_rows(thread, entries or (), since)
    return AuditExport(sorted(rows, key=lambda row: (row.at, row.thread, row.entry)), unreadable)
