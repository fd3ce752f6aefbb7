"""Detects a journal that was set back. Work on its thread continues only after an approver has decided (A4b).

Anybody who can push can set a thread's ref back to an older state, or delete it, and every older state is genuine. But
the bot's comments stay, and each records the length of the journal at that time.

Rules
- The comments are read first and the journal after them. A journal that is behind the comments then was set back.
- While the journal is behind, nothing is written to it, so that it never catches up.
- An approver decides by a comment that is newer than the notice. Each time that the journal is set back needs its own.
- Then the request is planned again, so that no earlier approval counts.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from bot.core import reply_text
from bot.core.command import Command, Verb, parse
from bot.core.entry import JournaledTurn
from bot.core.errors import Unreadable
from bot.core.names import thread_ref
from bot.core.notes import Heard
from bot.core.thread.state import ThreadState
from bot.core.turn import Acknowledgment, Turn
from bot.workflow.journal.writing import append_notes, read_state, restart
from bot.workflow.requests import find_start, renewed_request
from bot.workflow.rights import may_approve
from bot.workflow.thread_context import ThreadContext

PAUSES: Final = (0.0, 2.0, 6.0)
"""Seconds before each new reading of a journal that seems to be behind: another process may be writing to it."""


async def require_newest(context: ThreadContext, state: ThreadState, turns: Sequence[Turn]) -> ThreadState:
    """Return the thread's state, read again if it seemed to be behind the bot's comments.

    Raises Unreadable if it is behind and no approver has decided yet. The notice was posted then.
    """
    if state.heard.forgotten_comment:
        context.dialogue.ignore_comments_until(state.heard.forgotten_comment)
    number = await _find_unrecorded_comment(context, state)
    for pause in PAUSES if number else ():
        await context.resources.clock.sleep(pause)
        state = await read_state(context)
        if not (number := await _find_unrecorded_comment(context, state)):
            break
    return await _wait_for_decision(context, state, turns, number) if number else state


async def _find_unrecorded_comment(context: ThreadContext, state: ThreadState) -> int:
    return await context.dialogue.find_unrecorded_comment(state.position, state.gate.ask)


async def _wait_for_decision(
    context: ThreadContext, state: ThreadState, turns: Sequence[Turn], number: int
) -> ThreadState:
    """Post the notice once, and continue if an approver has decided since."""
    since = await context.dialogue.warn_of_rewind(
        number, reply_text.journal_set_back(thread_ref(context.location.thread), context.settings.mention)
    )
    decisions = (turn for turn in turns if turn.at > since and _decides(context, turn))
    decision = None if context.settings.refusal else next(decisions, None)
    if decision is None:
        raise Unreadable(
            "the journal is older than the comments on the thread: its ref was reset or deleted",
            where=thread_ref(context.location.thread),
            fix="somebody who may approve has to comment `retry` there",
        )
    await context.dialogue.acknowledge(decision, Acknowledgment.SEEN)
    context.dialogue.ignore_comments_until(number)
    if state.request.newest is None:  # no request to plan again: every turn of the thread is taken in again
        return await append_notes(
            context, state, Heard(said=JournaledTurn.of(decision), forgotten=number, apart=number)
        )
    request = (await find_start(context, state)).request(renewed_request(state, decision))
    return await restart(context, state, replace(request, forgotten=number, apart=number))


def _decides(context: ThreadContext, turn: Turn) -> bool:
    """Return whether a turn is a `retry` command of somebody who may approve, in a comment that was neither edited nor
    sent by mail."""
    command = parse(turn.text.split("\n", 1)[0], context.settings.mention)
    is_retry = isinstance(command, Command) and command.verb is Verb.RETRY
    return is_retry and not (turn.edited or turn.by_mail) and may_approve(context, turn)
