"""Intake: takes in what people said since the journal's last turn, and carries on what was interrupted.

Rules (product.md, Turns): whoever may act is heard first; who may not ask gets a sign and nothing more, and after some
of a day not even that; every accepted turn is acknowledged at once; a command is one line of a comment that nobody ever
edited; a turn that comes while the bot works is noted, and kept for afterwards where the work was approved. No turn is
dropped: one whose author's role cannot be looked up keeps nobody else waiting, and is asked for again; what was heard
meanwhile says since when it waits, so that it is read again however much was said after it. What turned out to be no
turn is journaled as well, so that no later look parses it again.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from bot.agent.permissions.modes import Mode, next_mode
from bot.core import comment, reply_text
from bot.core.command import Command, UnknownCommand, Verb, parse
from bot.core.errors import Transient
from bot.core.gate import ON_ENTER, PLAN_MAY_BE_SHOWN, TRANSITIONS, Move, Stage
from bot.core.plan import Hidden
from bot.core.transcript import Json
from bot.core.turn import Acknowledgment, Turn
from bot.workflow import rewinding
from bot.workflow.asking import waits_for
from bot.workflow.ledger import append, defer, settle
from bot.workflow.naming import beginning
from bot.workflow.quota import over_quota
from bot.workflow.record import HEARD, Record, renewed_request, turn_facts
from bot.workflow.rights import may_act, may_ask, may_command
from bot.workflow.thread_context import EffectResult, ThreadContext, working_mode

_UNDER_WAY: Final = frozenset(ON_ENTER)
"""Stages in which there is something to stop."""
_INTERRUPTED: Final = frozenset({Stage.STOPPED, Stage.FAILED, Stage.LIMIT, Stage.STALE, Stage.EXPIRED})


SIGNS_A_DAY: Final = 20
"""So many signs are put under what one person may not say, on one thread and day (UTC): each is a write."""
WITH_IT: Final = timedelta(minutes=1)
"""A label that is set so soon after an issue was opened is part of opening it."""


async def take_in(context: ThreadContext, record: Record) -> Record:
    """Journal every new turn. At a terminal without new turns, continue an interrupted thread.

    Raises Unreadable where the journal was set back.
    """
    turns = await context.dialogue.turns(record.seen, record.heard_to, may_act=partial(may_act, context, record))
    record = await rewinding.require_newest(context, record, turns)
    turns = [turn for turn in turns if turn.key not in record.seen]
    waiting = [turn for turn in turns if turn.role is None]
    context.unheard[:] = sorted({turn.actor.login for turn in waiting})
    passed, refused = list[Turn](), list[Turn]()
    for turn in turns:
        if turn.aside or (turn.mark and _asked_already(record, turn)):
            passed.append(turn)
        elif turn.role is not None and not _may_speak(context, record, turn):
            refused.append(turn)  # nobody who may speak waits until the signs are put
        elif turn.role is not None:
            record = await _take(context, record, replace(turn, waits=_since(record, waiting)))
            waiting += [turn] if turn.key not in record.seen else []
    since = _since(record, waiting)
    left = [turn_facts(replace(turn, waits=since)) for turn in passed]
    for turn in refused:
        left.append(await _refusal_facts(context, record, replace(turn, waits=since), left))
    record = defer(context, record, HEARD, *left)
    if context.settings.same_session and not turns and record.stage in _INTERRUPTED:
        record = await append(context, record, EffectResult(_resume_move(record)))
    return record


def all_heard(context: ThreadContext) -> None:
    """Raise Transient where somebody's words still wait, so that whoever looked looks again."""
    if context.unheard:
        names = ", ".join(f"@{login}" for login in context.unheard)
        mend = "this is tried again; where it stays so, see which permissions the token has"
        raise Transient(f"the role of {names} cannot be looked up", where="collaborators", mend=mend)


async def take_kept(context: ThreadContext, record: Record) -> Record:
    """Begin with the oldest turn that was kept while approved work ran."""
    facts = {key: value for key, value in record.kept[0].body.items() if key not in {"kept", "waits"}}
    record, start = await _start(context, record)
    return await append(context, record, EffectResult(Move.REQUESTED, facts | start))


def _since(record: Record, waiting: Sequence[Turn]) -> str | None:
    """Return when the oldest waiting turn was said, "" if none waits any more, or None if none ever did."""
    oldest = min((turn.at for turn in waiting), default=None)
    return oldest.isoformat() if oldest else "" if record.fact("waits") else None


def _may_speak(context: ThreadContext, record: Record, turn: Turn) -> bool:
    """Return whether the turn's author may say this here."""
    said = _parse_command(context, turn)
    return may_ask(context, turn) or (isinstance(said, Command) and may_command(context, record, turn, said.verb))


async def _refusal_facts(context: ThreadContext, record: Record, turn: Turn, left: Sequence[Json]) -> Json:
    """Return what to journal of a turn whose author may not say it. The first few a day get a sign."""
    day, who = f"{turn.at:%Y-%m-%d}", turn.actor.id
    before = [*(entry.body for entry in record.entries), *left]
    if sum((body.get("refused"), body.get("actor")) == (day, who) for body in before) < SIGNS_A_DAY:
        await context.dialogue.acknowledge(turn, Acknowledgment.MAY_NOT)
    return turn_facts(turn) | {"refused": day}


async def _take(context: ThreadContext, record: Record, turn: Turn) -> Record:
    """Take one turn in, by what it says and by who says it."""
    said = _parse_command(context, turn)
    await context.dialogue.acknowledge(turn, Acknowledgment.SEEN)
    if context.settings.refusal:
        return await _note_turn(context, record, turn, owes=comment.configuration_error(context.settings.refusal))
    if record.stage is Stage.ASKED and waits_for(record, turn) and not _is_command(said):
        return record  # it may be the answer: what is not is taken in when the question is settled
    match said:
        case None:
            return await _request(context, record, turn, turn.text)
        case Command(Verb.APPROVE | Verb.REJECT) if turn.edited and record.stage is Stage.AWAITING_APPROVAL:
            return await _note_turn(context, record, turn)  # the verdict says why it does not count
        case Command() | UnknownCommand() if turn.edited:
            return await _note_turn(context, record, turn, owes=reply_text.EDITED)
        case UnknownCommand():
            return await _note_turn(context, record, turn, owes=reply_text.did_you_mean(said.line, said.nearest))
        case Command():
            return await _command(context, record, turn, said)


def _asked_already(record: Record, mark: Turn) -> bool:
    """Return whether a label or assignment came with the issue's own accepted words, so that both are one turn."""
    bodies = (entry for entry in record.entries if entry.body.get("turn") == "issue")
    accepted = [
        entry
        for entry in bodies
        if entry.kind in {Move.REQUESTED, Move.NOTED} or ("owes" in entry.body and "quota" not in entry.body)
    ]
    opened = ((entry.at, datetime.fromisoformat(entry.body["turn_at"]) + WITH_IT) for entry in accepted)
    return any(mark.at <= max(times) for times in opened)


def _parse_command(context: ThreadContext, turn: Turn) -> Command | UnknownCommand | None:
    """Find the command of a turn, which is its first line."""
    lines = turn.text.split("\n", 1)
    return parse(lines[0], context.settings.mention)


def _is_command(said: Command | UnknownCommand | None) -> bool:
    """Return whether somebody meant a command. A single word that resembles none is an answer."""
    return isinstance(said, Command) or (isinstance(said, UnknownCommand) and bool(said.nearest))


async def _request(context: ThreadContext, record: Record, turn: Turn, text: str) -> Record:
    """Begin to plan, or note a turn that comes while the bot works; leave what is beyond its author's quota."""
    if await over_quota(context, record, turn):
        return await _leave_over_quota(context, record, turn)
    facts = turn_facts(turn) | {"text": text}
    if beside := await context.dialogue.hidden_fragments(turn):
        facts["beside"] = Hidden.of(beside).to_json()
    if Move.REQUESTED in TRANSITIONS[record.stage] and not (record.stage is Stage.ASKED and record.steers):
        record, start = await _start(context, record)
        return await append(context, record, EffectResult(Move.REQUESTED, facts | start))
    return await append(context, record, EffectResult(Move.NOTED, facts | {"kept": record.stage is not Stage.PLANNING}))


async def _leave_over_quota(context: ThreadContext, record: Record, turn: Turn) -> Record:
    """Leave a request that is beyond its author's quota: told once a day on each thread, then by a few signs alone."""
    day, who = f"{turn.at:%Y-%m-%d}", turn.actor.id
    before = sum((entry.body.get("quota"), entry.body.get("actor")) == (day, who) for entry in record.entries)
    if before:
        if before <= SIGNS_A_DAY:
            await context.dialogue.acknowledge(turn, Acknowledgment.MAY_NOT)
        return await _note_turn(context, record, turn, quota=day)
    owes = reply_text.quota_reached(turn.actor.login, context.settings.ask_per_day, context.settings.mention)
    return await _note_turn(context, record, turn, owes=owes, quota=day)


async def _start(context: ThreadContext, record: Record) -> tuple[Record, Json]:
    """Return what a request begins on; where the round's pull request is closed, that begins a new round (PR2)."""
    start, is_over = await beginning(context, record)
    if is_over and Move.CLOSED in TRANSITIONS[record.stage]:
        record = await append(context, record, EffectResult(Move.CLOSED))
    return record, start


async def _command(context: ThreadContext, record: Record, turn: Turn, said: Command) -> Record:
    """Carry out a command, or say why not."""
    allowed = may_command(context, record, turn, said.verb)
    match said.verb:
        case Verb.REVISE:
            _, *below = turn.text.split("\n")
            return await _request(context, record, turn, "\n".join((said.argument, *below)).strip())
        case Verb.STOP if allowed and record.stage in _UNDER_WAY:
            owes = reply_text.work_stopped(turn.actor.login, context.settings.mention)
            return await append(context, record, EffectResult(Move.STOPPED, turn_facts(turn) | {"owes": owes}))
        case Verb.RETRY if allowed and record.stage is Stage.STALE:
            record, start = await _start(context, record)
            return await append(context, record, EffectResult(Move.REQUESTED, renewed_request(record, turn) | start))
        case Verb.RETRY if allowed and record.stage in _INTERRUPTED:
            return await append(context, record, EffectResult(_resume_move(record), turn_facts(turn)))
        case Verb.BUDGET if allowed:
            owes = reply_text.budget_raised(said.argument)
            return await _note_turn(context, record, turn, owes=owes, budget_usd=float(said.argument))
        case Verb.MODE if allowed:
            return await _mode(context, record, turn, said.argument)
        case Verb.APPROVE | Verb.REJECT if turn.key.startswith("review"):
            return await _note_turn(context, record, turn, owes=reply_text.DECIDE_IN_A_COMMENT)
        case verb:
            counted = verb in {Verb.APPROVE, Verb.REJECT} and _is_already_counted(record, turn)
            owes = "" if counted else _command_reply(verb, record, mention=context.settings.mention, allowed=allowed)
            return await _note_turn(context, record, turn, owes=owes)


async def _mode(context: ThreadContext, record: Record, turn: Turn, name: str) -> Record:
    """Choose the mode that approved work will run in; it never leaves plan mode (P1)."""
    bypass = context.settings.mode is Mode.BYPASS
    chosen = next_mode(working_mode(context, record), bypass_available=bypass) if name == "next" else name
    working = {Mode.DEFAULT, Mode.ACCEPT_EDITS, *([Mode.BYPASS] if bypass else [])}
    if chosen is Mode.PLAN:
        chosen = next_mode(Mode.PLAN, bypass_available=bypass)
    if chosen not in working:
        return await _note_turn(
            context, record, turn, owes=reply_text.did_you_mean(f"mode {name}", f"mode {Mode.ACCEPT_EDITS}")
        )
    return await _note_turn(context, record, turn, owes=reply_text.mode_chosen(chosen), mode=str(chosen))


def _is_already_counted(record: Record, turn: Turn) -> bool:
    """Return whether an earlier decision counted this word: a live look can see a comment before intake."""
    if not record.has(Move.APPROVED, Move.REJECTED):
        return False
    decided = record.last(Move.APPROVED, Move.REJECTED)
    return turn.actor.login in decided.body.get("by", ()) and turn.at <= decided.at


def _command_reply(verb: Verb, record: Record, *, mention: str, allowed: bool) -> str:
    """Return the answer to a command that changes nothing here, or "" if the gate answers it."""
    match verb:
        case Verb.APPROVE | Verb.REJECT:
            return "" if record.stage in PLAN_MAY_BE_SHOWN else reply_text.NO_PLAN_WAITS
        case Verb.BUDGET | Verb.MODE:
            return reply_text.APPROVERS_ONLY
        case Verb.STOP | Verb.RETRY if not allowed:
            return reply_text.NOT_YOURS
        case Verb.STOP:
            return reply_text.NOTHING_TO_STOP
        case Verb.RETRY:
            return reply_text.NOTHING_TO_RETRY
        case Verb.STATUS:
            return reply_text.status(record.stage, record.mode)
        case _:
            return reply_text.help_text(mention)


async def _note_turn(
    context: ThreadContext, record: Record, turn: Turn, *, owes: str = "", **facts: str | float
) -> Record:
    """Journal a turn that moves nothing, with the reply that it is owed. The debt is on record before it is told.

    One that is owed nothing goes with what comes next, such as the decision that it is.
    """
    heard = defer(context, record, HEARD, turn_facts(turn) | facts | ({"owes": owes} if owes else {}))
    return await settle(context, heard) if owes else heard


def _resume_move(record: Record) -> Move:
    """Go on with approved work, or plan again where there is none."""
    approved = record.thread.approved is not None and record.thread.approved == record.thread.digest
    return Move.RESUMED if approved and Move.RESUMED in TRANSITIONS[record.stage] else Move.RETRIED
