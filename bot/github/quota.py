"""How much somebody asked on one day, over a whole repository: counted in what GitHub shows, so that nothing is kept.

A day is one of UTC, and what counts is what was asked before a moment: however often it is counted, and by whichever
process, a request is within the quota or beyond it for good. Comments that were deleted are not seen from here.
"""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Final

from bot.core.command import Command, UnknownCommand, Verb, parse
from bot.core.names import RepositoryId
from bot.core.turn import Turn
from bot.github.client import GitHubClient
from bot.github.errors import Missing
from bot.github.news import Fresh, MovedRepository, fresh
from bot.github.readings import Reading, Readings
from bot.github.repository import Address
from bot.github.turns import Listener

# https://docs.github.com/en/graphql/reference/objects#repository
_REPOSITORY: Final = (
    "query ($owner: String!, $name: String!) { repository(owner: $owner, name: $name) { id databaseId } }"
)


async def asked_before(
    door: GitHubClient, address: Address, listener: Listener, turn: Turn, *, readings: Readings
) -> AsyncIterator[tuple[int, str]]:
    """Yield thread and key of each request that the turn's author made before it on the same day."""
    day = turn.at.replace(hour=0, minute=0, second=0, microsecond=0)
    async for each in _updated_threads(door, address, day, turn.at):
        for said in each.thread.everything():
            mine = said.actor.id == turn.actor.id and day <= said.at
            earlier = (said.at, said.key) < (turn.at, turn.key)
            if not (mine and earlier and listener.is_addressed(each.thread, said, readings)):
                continue
            if is_request(readings.read(said.body, listener.mention), listener.mention):
                yield int(each.thread.number), said.key


async def _updated_threads(
    door: GitHubClient, address: Address, since: datetime, until: datetime
) -> AsyncIterator[Fresh]:
    """Yield the threads of a repository that moved since then."""
    found = (await door.graphql(_REPOSITORY, {"owner": address.owner, "name": address.name}))["repository"]
    if found is None:
        raise Missing("GitHub has no such repository, or this token may not see it", where=address.path)
    repository = MovedRepository(RepositoryId(found["databaseId"]), found["id"], address, until, until)
    async for each in fresh(door, repository, since):
        yield each


def is_request(reading: Reading, mention: str) -> bool:
    """Tell whether something that speaks to the bot asks for work: no command does, but one to revise."""
    lines = (parse(line, mention) for line in reading.lines)
    first = next((line for line in lines if line is not None), None)
    match first:
        case Command(verb):
            return verb is Verb.REVISE
        case UnknownCommand():
            return False
        case _:
            return True
