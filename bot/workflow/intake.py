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

from bot.agent.modes import Mode, following
from bot.core import comment, reply_text
from bot.core.command import Command, Mistaken, Verb, parse
from bot.core.errors import Transient
from bot.core.gate import ON_ENTER, PLAN_MAY_BE_SHOWN, TRANSITIONS, Move, Stage
from bot.core.plan import Hidden
from bot.core.transcript import Json
from bot.core.turn import Sign, Turn
from bot.workflow import rewinding
from bot.workflow.asking import waits_for
from bot.workflow.desk import Desk, Done, working_mode
from bot.workflow.ledger import append, defer, settle
from bot.workflow.naming import beginning
from bot.workflow.quota import over_quota
from bot.workflow.record import HEARD, Record, renewed, taken
from bot.workflow.rights import may_act, may_ask, may_command

_UNDER_WAY: Final = frozenset(ON_ENTER)
"""Stages in which there is something to stop."""
_INTERRUPTED: Final = frozenset({Stage.STOPPED, Stage.FAILED, Stage.LIMIT, Stage.STALE, Stage.EXPIRED})


SIGNS_A_DAY: Final = 20
"""So many signs are put under what one person may not say, on one thread and day (UTC): each is a write."""
WITH_IT: Final = timedelta(minutes=1)
"""A label that is set so soon after an issue was opened is part of opening it."""


async def take_in(desk: Desk, record: Record) -> Record:
    """Journal every new turn; at a terminal, where there is none and the thread was interrupted, go on from there.

    Raises Unreadable where the journal was set back.
    """
    turns = await desk.dialogue.turns(record.seen, record.heard_to, may_act=partial(may_act, desk, record))
    record = await rewinding.checked(desk, record, turns)
    turns = [turn for turn in turns if turn.key not in record.seen]
    waiting = [turn for turn in turns if turn.role is None]
    desk.unheard[:] = sorted({turn.actor.login for turn in waiting})
    passed, refused = list[Turn](), list[Turn]()
    for turn in turns:
        if turn.aside or (turn.mark and _asked_already(record, turn)):
            passed.append(turn)
        elif turn.role is not None and not _may_speak(desk, record, turn):
            refused.append(turn)  # nobody who may speak waits until the signs are put
        elif turn.role is not None:
            record = await _take(desk, record, replace(turn, waits=_since(record, waiting)))
            waiting += [turn] if turn.key not in record.seen else []
    since = _since(record, waiting)
    left = [taken(replace(turn, waits=since)) for turn in passed]
    for turn in refused:
        left.append(await _refused(desk, record, replace(turn, waits=since), left))
    record = defer(desk, record, HEARD, *left)
    if desk.orders.same_session and not turns and record.stage in _INTERRUPTED:
        record = await append(desk, record, Done(_again(record)))
    return record


def all_heard(desk: Desk) -> None:
    """Raise Transient where somebody's words still wait, so that whoever looked looks again."""
    if desk.unheard:
        names = ", ".join(f"@{login}" for login in desk.unheard)
        mend = "this is tried again; where it stays so, see which permissions the token has"
        raise Transient(f"the role of {names} cannot be looked up", where="collaborators", mend=mend)


async def take_kept(desk: Desk, record: Record) -> Record:
    """Begin with the oldest turn that was kept while approved work ran."""
    facts = {key: value for key, value in record.kept[0].body.items() if key not in {"kept", "waits"}}
    record, start = await _start(desk, record)
    return await append(desk, record, Done(Move.REQUESTED, facts | start))


def _since(record: Record, waiting: Sequence[Turn]) -> str | None:
    """Say when the oldest turn was said that waits to be heard, or that none does any more."""
    oldest = min((turn.at for turn in waiting), default=None)
    return oldest.isoformat() if oldest else "" if record.fact("waits") else None


def _may_speak(desk: Desk, record: Record, turn: Turn) -> bool:
    """Tell whether somebody may say this here."""
    said = _said(desk, turn)
    return may_ask(desk, turn) or (isinstance(said, Command) and may_command(desk, record, turn, said.verb))


async def _refused(desk: Desk, record: Record, turn: Turn, left: Sequence[Json]) -> Json:
    """Give what to journal of a turn whose author may not say it; the first of a day get a sign."""
    day, who = f"{turn.at:%Y-%m-%d}", turn.actor.id
    before = [*(entry.body for entry in record.entries), *left]
    if sum((body.get("refused"), body.get("actor")) == (day, who) for body in before) < SIGNS_A_DAY:
        await desk.dialogue.acknowledge(turn, Sign.MAY_NOT)
    return taken(turn) | {"refused": day}


async def _take(desk: Desk, record: Record, turn: Turn) -> Record:
    """Take one turn in, by what it says and by who says it."""
    said = _said(desk, turn)
    await desk.dialogue.acknowledge(turn, Sign.SEEN)
    if desk.orders.refusal:
        return await _heard(desk, record, turn, owes=comment.refused(desk.orders.refusal))
    if record.stage is Stage.ASKED and waits_for(record, turn) and not _is_command(said):
        return record  # it may be the answer: what is not is taken in when the question is settled
    match said:
        case None:
            return await _request(desk, record, turn, turn.text)
        case Command(Verb.APPROVE | Verb.REJECT) if turn.edited and record.stage is Stage.AWAITING_APPROVAL:
            return await _heard(desk, record, turn)  # the verdict says why it does not count
        case Command() | Mistaken() if turn.edited:
            return await _heard(desk, record, turn, owes=reply_text.EDITED)
        case Mistaken():
            return await _heard(desk, record, turn, owes=reply_text.did_you_mean(said.line, said.nearest))
        case Command():
            return await _command(desk, record, turn, said)


def _asked_already(record: Record, mark: Turn) -> bool:
    """Tell whether a mark came with the issue's own words, and these were accepted: both are one turn."""
    bodies = (entry for entry in record.entries if entry.body.get("turn") == "issue")
    accepted = [
        entry
        for entry in bodies
        if entry.kind in {Move.REQUESTED, Move.NOTED} or ("owes" in entry.body and "quota" not in entry.body)
    ]
    opened = ((entry.at, datetime.fromisoformat(entry.body["turn_at"]) + WITH_IT) for entry in accepted)
    return any(mark.at <= max(times) for times in opened)


def _said(desk: Desk, turn: Turn) -> Command | Mistaken | None:
    """Find the command of a turn, which is its first line."""
    lines = turn.text.split("\n", 1)
    return parse(lines[0], desk.orders.mention)


def _is_command(said: Command | Mistaken | None) -> bool:
    """Tell whether somebody meant a command; one word that is like none is an answer."""
    return isinstance(said, Command) or (isinstance(said, Mistaken) and bool(said.nearest))


async def _request(desk: Desk, record: Record, turn: Turn, text: str) -> Record:
    """Begin to plan, or note a turn that comes while the bot works; leave what is beyond its author's quota."""
    if await over_quota(desk, record, turn):
        return await _left(desk, record, turn)
    facts = taken(turn) | {"text": text}
    if beside := await desk.dialogue.hidden(turn):
        facts["beside"] = Hidden.of(beside).to_json()
    if Move.REQUESTED in TRANSITIONS[record.stage] and not (record.stage is Stage.ASKED and record.steers):
        record, start = await _start(desk, record)
        return await append(desk, record, Done(Move.REQUESTED, facts | start))
    return await append(desk, record, Done(Move.NOTED, facts | {"kept": record.stage is not Stage.PLANNING}))


async def _left(desk: Desk, record: Record, turn: Turn) -> Record:
    """Leave a request that is beyond its author's quota: told once a day on each thread, then by a few signs alone."""
    day, who = f"{turn.at:%Y-%m-%d}", turn.actor.id
    before = sum((entry.body.get("quota"), entry.body.get("actor")) == (day, who) for entry in record.entries)
    if before:
        if before <= SIGNS_A_DAY:
            await desk.dialogue.acknowledge(turn, Sign.MAY_NOT)
        return await _heard(desk, record, turn, quota=day)
    owes = reply_text.quota(turn.actor.login, desk.orders.ask_per_day, desk.orders.mention)
    return await _heard(desk, record, turn, owes=owes, quota=day)


async def _start(desk: Desk, record: Record) -> tuple[Record, Json]:
    """Return what a request begins on; where the round's pull request is closed, that begins a new round (PR2)."""
    start, is_over = await beginning(desk, record)
    if is_over and Move.CLOSED in TRANSITIONS[record.stage]:
        record = await append(desk, record, Done(Move.CLOSED))
    return record, start


async def _command(desk: Desk, record: Record, turn: Turn, said: Command) -> Record:
    """Carry out a command, or say why not."""
    allowed = may_command(desk, record, turn, said.verb)
    match said.verb:
        case Verb.REVISE:
            _, *below = turn.text.split("\n")
            return await _request(desk, record, turn, "\n".join((said.argument, *below)).strip())
        case Verb.STOP if allowed and record.stage in _UNDER_WAY:
            owes = reply_text.stopped(turn.actor.login, desk.orders.mention)
            return await append(desk, record, Done(Move.STOPPED, taken(turn) | {"owes": owes}))
        case Verb.RETRY if allowed and record.stage is Stage.STALE:
            record, start = await _start(desk, record)
            return await append(desk, record, Done(Move.REQUESTED, renewed(record, turn) | start))
        case Verb.RETRY if allowed and record.stage in _INTERRUPTED:
            return await append(desk, record, Done(_again(record), taken(turn)))
        case Verb.BUDGET if allowed:
            owes = reply_text.budget(said.argument)
            return await _heard(desk, record, turn, owes=owes, budget_usd=float(said.argument))
        case Verb.MODE if allowed:
            return await _mode(desk, record, turn, said.argument)
        case Verb.APPROVE | Verb.REJECT if turn.key.startswith("review"):
            return await _heard(desk, record, turn, owes=reply_text.DECIDE_IN_A_COMMENT)
        case verb:
            counted = verb in {Verb.APPROVE, Verb.REJECT} and _counted(record, turn)
            owes = "" if counted else _reply(verb, record, mention=desk.orders.mention, allowed=allowed)
            return await _heard(desk, record, turn, owes=owes)


async def _mode(desk: Desk, record: Record, turn: Turn, name: str) -> Record:
    """Choose the mode that approved work will run in; it never leaves plan mode (P1)."""
    bypass = desk.orders.mode is Mode.BYPASS
    chosen = following(working_mode(desk, record), bypass_available=bypass) if name == "next" else name
    working = {Mode.DEFAULT, Mode.ACCEPT_EDITS, *([Mode.BYPASS] if bypass else [])}
    if chosen is Mode.PLAN:
        chosen = following(Mode.PLAN, bypass_available=bypass)
    if chosen not in working:
        return await _heard(
            desk, record, turn, owes=reply_text.did_you_mean(f"mode {name}", f"mode {Mode.ACCEPT_EDITS}")
        )
    return await _heard(desk, record, turn, owes=reply_text.mode(chosen), mode=str(chosen))


def _counted(record: Record, turn: Turn) -> bool:
    """Tell whether a word was part of a decision already: a live look can see a comment before it is taken in."""
    if not record.has(Move.APPROVED, Move.REJECTED):
        return False
    decided = record.last(Move.APPROVED, Move.REJECTED)
    return turn.actor.login in decided.body.get("by", ()) and turn.at <= decided.at


def _reply(verb: Verb, record: Record, *, mention: str, allowed: bool) -> str:
    """Give the answer to a command that changes nothing here; "" where the gate gives it."""
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
            return reply_text.helping(mention)


async def _heard(desk: Desk, record: Record, turn: Turn, *, owes: str = "", **facts: str | float) -> Record:
    """Journal a turn that moves nothing, with the answer that it is owed; what is owed is on record before it is told.

    One that is owed nothing goes with what comes next, such as the decision that it is.
    """
    heard = defer(desk, record, HEARD, taken(turn) | facts | ({"owes": owes} if owes else {}))
    return await settle(desk, heard) if owes else heard


def _again(record: Record) -> Move:
    """Go on with approved work, or plan again where there is none."""
    approved = record.thread.approved is not None and record.thread.approved == record.thread.digest
    return Move.RESUMED if approved and Move.RESUMED in TRANSITIONS[record.stage] else Move.RETRIED
