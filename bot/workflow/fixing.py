"""Fixing: takes in red required checks of the bot's own pull request, on the thread of that pull request (MT9).

Such a turn is the bot's own request: it leads to a plan that waits for people, like any other. The checks' output is
data for the planner. Nobody has read it, so the execution session does not get this request (`foreign`).
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bot.agent.history.escaping import as_data
from bot.core.actor import Actor, ActorKind
from bot.core.entry import JournaledTurn
from bot.core.errors import PlangateError
from bot.core.gate import ON_ENTER, TRANSITIONS, Move
from bot.core.names import CommitId
from bot.core.notes import Heard
from bot.core.red_checks import (
    MOST_TURNS,
    CheckRun,
    checks_to_fix,
    may_begin,
    request_text,
    stop_text,
    turn_key,
    turns_begun,
)
from bot.core.thread_state import ThreadState
from bot.workflow.harness_access import CheckAccess
from bot.workflow.journal.writing import append_move, append_notes
from bot.workflow.outbox.outcomes import post_replies
from bot.workflow.requests import find_start
from bot.workflow.thread_context import ThreadContext

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Red:
    """The red checks of a head commit."""

    head: CommitId
    runs: Sequence[CheckRun]
    report: str = ""


async def take_red_checks(context: ThreadContext, state: ThreadState) -> ThreadState:
    """Begin a request about the red checks of the pull request's head, unless there was one for this head.

    Does nothing on other threads, and while something else is under way or waits for people. Checks that cannot be
    read do not stop the look; the next one reads them again.
    """
    if not _may_take(context, state):
        return state
    failing = await _read(context, context.checks, state)
    if failing is None:
        return state
    key, now = turn_key(failing.head), context.resources.clock.now()
    bot = Actor(context.policy.bot, context.settings.mention.removeprefix("@"), ActorKind.BOT)
    if turns_begun(state.seen) == MOST_TURNS:
        turn = JournaledTurn(key, bot, "", now)
        noted = await append_notes(
            context, state, Heard(said=turn, owes=stop_text(failing.runs, context.settings.mention))
        )
        return await post_replies(context, noted, state.position)
    text = request_text(failing.head, failing.runs, as_data(failing.report))
    start = await find_start(context, state)
    return await append_move(context, state, start.request(JournaledTurn(key, bot, text, now, foreign=True)))


def _may_take(context: ThreadContext, state: ThreadState) -> bool:
    """Return whether red checks may become a turn of the thread now, without asking GitHub."""
    at_rest = state.stage not in ON_ENTER and Move.REQUESTED in TRANSITIONS[state.stage]
    place, settings = context.location, context.settings
    may = settings.fix_checks and not settings.refusal and bool(place.branch) and may_begin(place.base, state.seen)
    return may and at_rest and not state.kept_turns


async def _read(context: ThreadContext, checks: CheckAccess, state: ThreadState) -> _Red | None:
    """Return the red checks of the head that a plan would be based on; None if there are none or the head moved."""
    try:
        checked = await checks.read(context.location.thread)
        if checked is None or checked.head != context.location.base or not (red := checks_to_fix(checked)):
            return None
        needed = turns_begun(state.seen) < MOST_TURNS
        return _Red(checked.head, red, await checks.report(checked.head, red) if needed else "")
    except PlangateError as error:
        _log.warning("the checks of #%s cannot be read: %s", context.location.thread, error)
        return None
