"""Who may say what on a thread, by their role, and how often (docs/commands.md).

Some commands do not need the right to ask: people who may approve can approve, and people can stop what they asked
for.
"""

from collections.abc import Collection

from bot.core.actor import Role
from bot.core.command import Verb
from bot.core.thread.state import ThreadState
from bot.core.turn import Turn
from bot.workflow.thread_context import ThreadContext


def may_ask(context: ThreadContext, turn: Turn) -> bool:
    """Return whether the turn's author may ask for work."""
    return context.settings.askers.may_ask(turn.actor, turn.role)


def may_approve(context: ThreadContext, turn: Turn) -> bool:
    """Return whether the turn's author may decide about plans. The verdict says whether an opinion counts."""
    return context.policy.may_decide(turn.actor, turn.role, listed=turn.listed)


def may_act(context: ThreadContext, state: ThreadState, turn: Turn) -> bool:
    """Return whether the turn's author may say anything here. Called before the text is read."""
    return any(may_command(context, state, turn, verb) for verb in (Verb.REVISE, Verb.APPROVE, Verb.STOP))


def may_command(context: ThreadContext, state: ThreadState, turn: Turn, verb: Verb) -> bool:
    """Return whether the turn's author may give this command."""
    match verb:
        case Verb.APPROVE | Verb.REJECT | Verb.BUDGET | Verb.MODE:
            return may_approve(context, turn)
        case Verb.STOP | Verb.FINISH | Verb.RETRY:
            return (turn.role or Role.NONE) >= Role.WRITE or turn.actor.id in _requesters(state)
        case Verb.REVISE | Verb.STATUS | Verb.HELP:
            return may_ask(context, turn)


def _requesters(state: ThreadState) -> frozenset[int]:
    """Return the ids of the people who made the newest request or added to it."""
    return frozenset(entry.said.actor.id for entry in state.request.entries)


async def is_over_quota(
    context: ThreadContext, state: ThreadState, turn: Turn, *, elsewhere: Collection[str] = ()
) -> bool:
    """Return whether the turn's author has already used up the requests of one person and day.

    `elsewhere` lists requests on other threads that were not made by comments, each as ``thread/key``.
    """
    limit = context.settings.ask_per_day
    if not limit:
        return False
    here = {*elsewhere, *(f"{context.location.thread}/{key}" for key in _asked_here(state, turn))}
    return len(here) >= limit or len(here | set(await context.dialogue.asked_before(turn))) >= limit


def _asked_here(state: ThreadState, turn: Turn) -> set[str]:
    """Return the keys of the author's other requests on that day, including those of deleted comments."""
    today = turn.actor.id, f"{turn.at:%Y-%m-%d}"
    return {key for *day, key in state.heard.requests if tuple(day) == today and key != turn.key}
