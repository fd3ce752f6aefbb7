"""The open threads of all workers: each check leaves in the database what polling and reconciling need."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from bot.core.names import ThreadAddress
from bot.service.github_host import CheckedThread, GitHubHost
from bot.service.queue.jobs import Jobs
from bot.store.postgres.database import Database

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_LISTENER: Final = """
INSERT INTO plangate_listeners (repository, bot, mention)
SELECT new.* FROM (VALUES (%(repository)s::bigint, %(bot)s::bigint, %(mention)s)) AS new (repository, bot, mention)
WHERE NOT EXISTS (
    SELECT FROM plangate_listeners l WHERE (l.repository, l.bot, l.mention) = (new.repository, new.bot, new.mention)
)
ON CONFLICT (repository) DO UPDATE SET bot = excluded.bot, mention = excluded.mention
"""
_RECORD: Final = """
INSERT INTO plangate_watched (repository, number, facts) VALUES (%(repository)s, %(number)s, %(facts)s)
ON CONFLICT (repository, number) DO UPDATE SET facts = CASE
    WHEN plangate_watched.facts -> 'comment' = excluded.facts -> 'comment' THEN plangate_watched.facts || excluded.facts
    ELSE excluded.facts
END
"""
_KEEP_POLLED: Final = """
UPDATE plangate_watched w SET facts = w.facts || jsonb_build_object('polled', new.polled)
FROM unnest(%(repositories)s::bigint[], %(numbers)s::bigint[], %(comments)s::text[], %(polled)s::text[])
    AS new (repository, number, comment, polled)
WHERE (w.repository, w.number, w.facts ->> 'comment') = (new.repository, new.number, new.comment)
"""
_FORGET: Final = "DELETE FROM plangate_watched WHERE repository = %(repository)s AND number = %(number)s"
_ALL: Final = "SELECT facts FROM plangate_watched"


@dataclass(frozen=True, slots=True)
class Watching:
    """The recorded facts about open threads. They only save requests: a thread without any is checked instead."""

    host: GitHubHost
    database: Database
    jobs: Jobs

    async def record(self, address: ThreadAddress) -> None:
        """Record the result of this process's check of a thread, and then the bot's name there.

        In this order, so that no process skips a thread on which something waits.
        """
        checked, place = self.host.last_check(address), {"repository": address.repository, "number": address.number}
        if checked.comment or checked.rest is not None:
            facts = _reader().dump_json(checked, exclude_defaults=True).decode()  # what is unknown here stays
            await self.database.rows(_RECORD, **place, facts=facts)
        else:
            await self.database.rows(_FORGET, **place)
        if bot := self.host.known_bot(address.repository):
            values = {"repository": address.repository, "bot": bot.id, "mention": bot.mention}
            await self.database.rows(_LISTENER, **values)

    async def threads_to_poll(self) -> tuple[ThreadAddress, ...]:
        """Return the threads with a plan or question on display, after telling the host what all checks found out.

        What this process's polls saw is recorded, so that its successor does not check every thread because of it.
        """
        recorded = [_reader().validate_python(row["facts"]) for row in await self.database.rows(_ALL)]
        for checked in recorded:
            self.host.recall(checked)
        await self._keep_polled(recorded)
        return tuple(checked.address for checked in recorded if checked.comment)

    async def _keep_polled(self, recorded: Sequence[CheckedThread]) -> None:
        known = [(checked, self.host.last_check(checked.address)) for checked in recorded]
        new = [checked for before, checked in known if checked.polled and checked.polled != before.polled]
        if new:
            await self.database.rows(
                _KEEP_POLLED,
                repositories=[checked.address.repository for checked in new],
                numbers=[checked.address.number for checked in new],
                comments=[checked.comment for checked in new],
                polled=[checked.polled for checked in new],
            )

    async def wake_all(
        self,
        wake: Callable[[ThreadAddress], Awaitable[None]],
        *,
        rests: Callable[[ThreadAddress], bool] = lambda _: False,
    ) -> int:
        """Wake every open thread, except those that rest or for which a job waits. Return how many are open."""
        await self.threads_to_poll()
        addresses = await self.host.open_threads()
        waiting = await self.jobs.find_waiting(addresses)
        for address in addresses:
            if not rests(address) and address not in waiting:
                await wake(address)
        return len(addresses)


@cache
def _reader() -> "TypeAdapter[CheckedThread]":
    from pydantic import TypeAdapter

    return TypeAdapter(CheckedThread)
