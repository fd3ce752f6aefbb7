"""The quota of requests: how often one person may ask in a repository on one day (product.md, Turns; ask.per_day)."""

from bot.core.thread_state import ThreadState
from bot.core.turn import Turn
from bot.workflow.thread_context import ThreadContext


async def over_quota(context: ThreadContext, state: ThreadState, turn: Turn) -> bool:
    """Return whether the turn's author has already used up the requests of one person and day."""
    allowed = context.settings.ask_per_day
    if not allowed:
        return False
    here = {f"{context.location.thread}/{key}" for key in _asked_here(state, turn)}
    return len(here) >= allowed or len(here | set(await context.dialogue.asked_before(turn))) >= allowed


def _asked_here(state: ThreadState, turn: Turn) -> set[str]:
    """Return the keys of that person's other requests on that day, even of those whose comment is gone."""
    today = turn.actor.id, f"{turn.at:%Y-%m-%d}"
    return {key for *day, key in state.requests if tuple(day) == today and key != turn.key}
