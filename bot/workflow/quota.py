"""The quota of requests: how often one person may ask in a repository on one day (product.md, Turns; ask.per_day)."""

from datetime import datetime

from bot.core.gate import Move
from bot.core.turn import Turn
from bot.ports import Entry
from bot.workflow.record import Record
from bot.workflow.thread_context import ThreadContext


async def over_quota(context: ThreadContext, record: Record, turn: Turn) -> bool:
    """Return whether the turn's author has already used up the requests of one person and day."""
    allowed = context.settings.ask_per_day
    if not allowed:
        return False
    here = {f"{context.location.thread}/{entry.body['turn']}" for entry in record.entries if _counts(entry, turn)}
    return len(here) >= allowed or len(here | set(await context.dialogue.asked_before(turn))) >= allowed


def _counts(entry: Entry, turn: Turn) -> bool:
    """Return whether an entry is another request by that person on that day, even if its comment is gone."""
    body = entry.body
    if entry.kind not in {Move.REQUESTED, Move.NOTED} or body.get("turn") == turn.key:
        return False
    return body["actor"] == turn.actor.id and datetime.fromisoformat(body["turn_at"]).date() == turn.at.date()
