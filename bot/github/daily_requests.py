"""Counts what a person asked on one day in a whole repository. The count comes from GitHub, so nothing is stored.

A day is a UTC day, and only what was asked before a given moment counts. So a request stays within the quota or beyond
it, no matter how often and by which process it is counted. Deleted comments are not counted.
"""

from collections.abc import AsyncIterator

from bot.core.command import Command, UnknownCommand, Verb, parse
from bot.core.turn import Turn
from bot.github.activity import active_threads, repository_activity
from bot.github.client import GitHubClient
from bot.github.parsed_texts import ParsedText, ParsedTextCache
from bot.github.repository import Address
from bot.github.turns import BotIdentity


async def asked_before(
    client: GitHubClient, address: Address, identity: BotIdentity, turn: Turn, *, parsed_texts: ParsedTextCache
) -> AsyncIterator[tuple[int, str]]:
    """Yield the thread and key of each request that the turn's author made before it on the same day."""
    day = turn.at.replace(hour=0, minute=0, second=0, microsecond=0)
    async for activity in active_threads(client, await repository_activity(client, address), day):
        for post in activity.thread.everything():
            is_own = post.actor.id == turn.actor.id
            is_earlier_today = day <= post.at and (post.at, post.key) < (turn.at, turn.key)
            if not (is_own and is_earlier_today and identity.is_addressed(activity.thread, post, parsed_texts)):
                continue
            parsed = parsed_texts.parse(post.body, identity.mention, by_mail=post.by_mail)
            if _is_request(parsed, identity.mention):
                yield int(activity.thread.number), post.key


def _is_request(parsed: ParsedText, mention: str) -> bool:
    """Return whether something that addresses the bot asks for work. Of the commands, only `revise` does."""
    lines = (parse(line, mention) for line in parsed.lines)
    first = next((line for line in lines if line is not None), None)
    match first:
        case Command(verb):
            return verb is Verb.REVISE
        case UnknownCommand():
            return False
        case _:
            return True
