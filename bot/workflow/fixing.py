"""Fixing: takes in red required checks of the bot's own pull request, on the thread of that pull request (MT9).

Such a turn is the bot's own request: it leads to a plan that waits for people, like any other. The checks' output is
data for the planner. Nobody has read it, so the execution session does not get this request (`foreign`).
"""

import logging
from collections.abc import Sequence
from typing import Final

from bot.agent.history.escaping import as_data
from bot.core.actor import Actor, ActorKind
from bot.core.entrances import Entrance
from bot.core.entry import JournaledTurn
from bot.core.errors import PlangateError
from bot.core.gate import ON_ENTER, TRANSITIONS, Move
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
from bot.core.thread.state import ThreadState
from bot.workflow.journal.writing import append_move, append_notes
from bot.workflow.outbox.outcomes import post_replies
from bot.workflow.requests import find_start
from bot.workflow.thread_context import ThreadContext

_log: Final = logging.getLogger(__name__)


async def request_fix(context: ThreadContext, state: ThreadState) -> ThreadState:
    """Begin a request about the red checks of the pull request's head, unless there was one for this head.

    Does nothing on other threads, and while something else is under way or waits for people. Checks that cannot be
    read do not stop the check; the next one reads them again.
    """
    if not _may_request_fix(context, state):
        return state
    red, report = await _read_red(context, state)
    if not red:
        return state
    head, now = context.location.base, context.resources.clock.now()
    key = turn_key(head)
    bot = Actor(context.policy.bot, context.settings.mention.removeprefix("@"), ActorKind.BOT)
    if turns_begun(state.heard.seen) == MOST_TURNS:
        owes = stop_text(red, context.settings.mention)
        noted = await append_notes(context, state, Heard(said=JournaledTurn(key, bot, "", now), owes=owes))
        return await post_replies(context, noted)
    text = request_text(head, red, as_data(report))
    start = await find_start(context, state)
    said = JournaledTurn(key, bot, text, now, foreign=True, strangers=Entrance.RED_CHECKS.brings_strangers)
    return await append_move(context, state, start.request(said))


def _may_request_fix(context: ThreadContext, state: ThreadState) -> bool:
    """Return whether red checks may become a turn of the thread now, without asking GitHub."""
    at_rest = state.stage not in ON_ENTER and Move.REQUESTED in TRANSITIONS[state.stage]
    place, settings, seen = context.location, context.settings, state.heard.seen
    may = settings.fix_checks and not settings.refusal and bool(place.branch) and may_begin(place.base, seen)
    return may and at_rest and not state.request.kept_turns


async def _read_red(context: ThreadContext, state: ThreadState) -> tuple[Sequence[CheckRun], str]:
    """Return the red checks of the head that a plan would be based on, and what they report, if that is needed.

    There are none if the head moved.
    """
    try:
        checked = await context.checks.read(context.location.thread)
        if checked is None or checked.head != context.location.base or not (red := checks_to_fix(checked)):
            return (), ""
        needed = turns_begun(state.heard.seen) < MOST_TURNS
        return red, await context.checks.report(checked.head, red) if needed else ""
    except PlangateError as error:
        _log.warning("the checks of #%s cannot be read: %s", context.location.thread, error)
        return (), ""
