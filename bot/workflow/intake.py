"""Takes in what people said since the journal's last turn, and what a request begins on."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Final

from bot.agent.permissions.tool_gate import Mode, next_mode
from bot.core import reply_text
from bot.core.errors import Transient, Unreadable
from bot.core.gate import ON_ENTER, PLAN_MAY_BE_SHOWN, TRANSITIONS, Move, Stage
from bot.core.moves import Closed, JournaledTurn, Noted, Requested, Resumed, Retried, Stopped
from bot.core.names import CommitId, thread_ref
from bot.core.notes import Heard
from bot.core.plan import Hidden
from bot.core.reply_text import configuration_error
from bot.core.thread.request import RequestEntry
from bot.core.thread.state import ThreadState
from bot.core.turn import (
    Acknowledgment,
    Command,
    Turn,
    UnknownCommand,
    Verb,
    counts_by_mail,
    parse,
    undecided_line,
    version_key,
)
from bot.workflow.approving import live_snapshot
from bot.workflow.asking import may_be_answer
from bot.workflow.journal import append_move, append_notes, defer_notes, flush_notes, read_state, restart
from bot.workflow.thread_context import (
    ThreadContext,
    is_over_quota,
    may_act,
    may_approve,
    may_ask,
    may_command,
    working_mode,
)

# --- A request: the commit that it begins on, its text if it repeats an earlier one, and the names of its branch and
#     pull request
# The same journal always gives the same names.


@dataclass(frozen=True, slots=True)
class RequestStart:
    """The commit, title, and branch that a request begins on."""

    base: CommitId
    title: str
    onto: str = ""
    """The branch of the pull request that the work adds to; "" for a branch of its own."""
    closes_round: bool = False
    """Whether the round's pull request is closed, so that a new round begins (PR2)."""

    def request(self, turn: JournaledTurn, beside: Hidden | None = None) -> Requested:
        """Return the request that a turn makes."""
        return Requested(said=turn, beside=beside, base=self.base, title=self.title, onto=self.onto)


async def find_start(context: ThreadContext, state: ThreadState) -> RequestStart:
    """Return what a request begins on: the thread's or its round's open pull request, else the base (PR2)."""
    place, published = context.location, state.work.published
    start = RequestStart(place.base, place.title, place.branch)
    if published is None:
        return start
    head = await context.pulls.head(published.pull_number)
    if head is None:
        return replace(start, closes_round=True)
    return replace(start, base=head, onto=published.branch)


def renewed_request(state: ThreadState, turn: Turn) -> JournaledTurn:
    """Return a request that repeats everything asked so far, for a turn that adds no words of its own.

    The entries of the repeated words record who may have edited them (`RequestState.entries`).
    """
    request, *additions = state.request.newest_entries
    return replace(
        JournaledTurn.of(turn),
        actor=request.said.actor,
        text="\n\n".join((request.said.text, *map(addition_text, additions))),
        foreign=any(entry.said.foreign for entry in state.request.newest_entries),
        strangers=any(entry.said.strangers for entry in state.request.newest_entries),
        editors=(),
        hidden=state.request.hidden,
    )


def addition_text(entry: RequestEntry) -> str:
    """Return an addition to a request, as the planner reads it."""
    return f"@{entry.said.actor.login} adds: {entry.said.text}"


def thread_title(context: ThreadContext, state: ThreadState) -> str:
    """Return the redacted title of the thread as it was at the request, so that an edit makes no second branch."""
    title = state.request.current.title
    return context.redactor.redact(context.location.title if title is None else title)


def pull_title(context: ThreadContext, state: ThreadState) -> str:
    """Return the redacted title of the finished work, or the thread's title if it has none."""
    return context.redactor.redact(state.work.current.title or "") or thread_title(context, state)


def branch_name(context: ThreadContext, state: ThreadState) -> str:
    """Return this round's branch: the existing one, else a name made from the thread."""
    place = context.location
    if branch := place.branch or state.request.onto:
        return branch
    name = place.new_branch(thread_title(context, state), state.gate.round)
    return (
        f"{name}-{state.work.branch_suffix}" if state.work.branch_suffix else name
    )  # a journal that was set back may have lost a branch of the plain name


def pull_number(context: ThreadContext, state: ThreadState) -> int:
    """Return the number of the pull request that the work adds to, or 0 if it gets a branch of its own."""
    if context.location.branch:
        return context.location.thread
    return state.work.published.pull_number if state.request.onto and state.work.published is not None else 0


# --- Detects a journal that was set back. Work on its thread continues only after an approver has decided (A4b) ------
# Anybody who can push can set a thread's ref back to an older state, or delete it, and every older state is genuine.
# But
# the bot's comments stay, and each records the length of the journal at that time.
#
# Rules
# - The comments are read first and the journal after them. A journal that is behind the comments then was set back.
# - While the journal is behind, nothing is written to it, so that it never catches up.
# - An approver decides by a comment that is newer than the notice. Each time that the journal is set back needs its
#   own.
# - Then the request is planned again, so that no earlier approval counts.

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


# --- Intake: takes in what people said since the journal's last turn, and continues what was interrupted -------------
# Rules
# - People who may act are heard first. People who may not ask get a reaction and no reply, and only a few a day.
# - Every accepted turn is acknowledged at once. A command is one line of a comment that nobody ever edited.
# - A turn that arrives while the bot works is noted. If that work was approved, the turn is kept for afterward.
# - No turn is dropped. If an author's role cannot be looked up, the turn waits and delays nobody else. Turns that are
#   heard meanwhile record since when it waits, so that it is read again however much is said after it.
# - Posts that turn out not to be turns are journaled as well, so that no later check parses them again.

_ENDS: Final = {Verb.STOP: frozenset(ON_ENTER), Verb.FINISH: frozenset({Stage.EXECUTING})}
"""Stages in which there is something to stop, or to finish."""
_INTERRUPTED: Final = frozenset({Stage.STOPPED, Stage.FAILED, Stage.LIMIT, Stage.STALE, Stage.EXPIRED})


_POSTS: Final = frozenset({"issue", "comment", "review"})
"""How the keys of what people wrote begin."""
SIGNS_A_DAY: Final = 20
"""Maximum reactions to one person's refused turns on one thread and day (UTC): each one is a write to GitHub."""
ANSWERS_A_DAY: Final = 20
"""Maximum number of one person's commands on one thread and day (UTC) that are answered, or that start work again."""
OPENING_SPAN: Final = timedelta(minutes=1)
"""A label that is set within this time after an issue was opened is part of opening it."""


async def journal_turns(context: ThreadContext, state: ThreadState) -> ThreadState:
    """Journal every new turn. Continue an interrupted thread if the check itself is a retry, as at a terminal.

    Raises Unreadable if the journal was set back.
    """
    planned = _unedited_requests(state)
    seen = (state.heard.seen - planned) | set(map(version_key, planned))
    turns = await context.dialogue.turns(seen, state.heard.until, may_act=partial(may_act, context, state))
    state = await require_newest(context, state, turns)
    for edit in [turn for turn in turns if turn.key in planned]:
        state = await _journal_edit(context, state, edit)
    turns = [turn for turn in turns if turn.key not in state.heard.seen]
    waiting = [turn for turn in turns if turn.role is None]
    context.thread_check.unknown_roles = tuple(sorted({turn.actor.login for turn in waiting}))
    accepted, refused = list[Turn](), list[Turn]()
    for turn in turns:
        if turn.aside or (turn.mark and _asked_already(state, turn)):
            accepted.append(turn)
        elif turn.role is not None and not _may_speak(context, state, turn):
            refused.append(turn)  # refused last, so that nobody who may speak waits for the reactions
        elif turn.role is not None:
            state = await _journal_turn(context, state, replace(turn, waits=_oldest_waiting(state, waiting)))
            waiting += [turn] if turn.key not in state.heard.seen else []
    since = _oldest_waiting(state, waiting)
    state = defer_notes(context, state, *(_heard(replace(turn, waits=since)) for turn in accepted))
    for turn in refused:
        state = await _refuse(context, state, replace(turn, waits=since))
    if not turns and state.stage in _INTERRUPTED and context.dialogue.is_retry():
        state = await append_move(context, state, _resume_move(state))
    return state


def _unedited_requests(state: ThreadState) -> frozenset[str]:
    """Return the keys of the requests that are being planned and were not edited when they were heard."""
    entries = state.request.newest_entries if state.stage is Stage.PLANNING else ()
    keys = (entry.said.key for entry in entries if not entry.said.foreign)
    return frozenset(key for key in keys if key.partition("-")[0] in _POSTS)  # a label is no text that can be edited


async def _journal_edit(context: ThreadContext, state: ThreadState, turn: Turn) -> ThreadState:
    """Add the new text of a request that was edited while it is planned: people expect the edit to count."""
    if state.stage is not Stage.PLANNING or turn.version in state.heard.seen or not may_ask(context, turn):
        return state
    said = JournaledTurn.of(replace(turn, key=turn.version, text=reply_text.edited_request(turn.text)))
    return await append_move(context, state, Noted(said=said))


def require_known_roles(context: ThreadContext) -> None:
    """Raise Transient if a turn still waits for its author's role, so that the caller tries again."""
    if context.thread_check.unknown_roles:
        names = ", ".join(f"@{login}" for login in context.thread_check.unknown_roles)
        fix = "Plangate tries again; if this persists, check the permissions of its token"
        raise Transient(f"the role of {names} cannot be looked up", where="collaborators", fix=fix)


async def begin_kept_turn(context: ThreadContext, state: ThreadState) -> ThreadState:
    """Begin a request with the oldest turn that was kept while approved work ran."""
    kept = state.request.kept_turns[0]
    return await _begin(context, state, replace(kept.said, waits=None), kept.beside)


def _oldest_waiting(state: ThreadState, waiting: Sequence[Turn]) -> str | None:
    """Return the time of the oldest waiting turn, "" if none waits any more, or None if none waited before either."""
    oldest = min((turn.at for turn in waiting), default=None)
    return oldest.isoformat() if oldest else "" if state.heard.waiting_since else None


def _may_speak(context: ThreadContext, state: ThreadState, turn: Turn) -> bool:
    """Return whether the turn's author may say this here."""
    command = _parse_command(context, turn)
    return may_ask(context, turn) or (isinstance(command, Command) and may_command(context, state, turn, command.verb))


async def _refuse(context: ThreadContext, state: ThreadState, turn: Turn) -> ThreadState:
    """Note a turn that its author may not say. The first few of a day get a reaction."""
    day = f"{turn.at:%Y-%m-%d}"
    if state.heard.refusals.get((day, turn.actor.id), 0) < SIGNS_A_DAY:
        await context.dialogue.acknowledge(turn, Acknowledgment.MAY_NOT)
    return defer_notes(context, state, replace(_heard(turn), refused=day))


async def _journal_turn(context: ThreadContext, state: ThreadState, turn: Turn) -> ThreadState:
    """Take in one turn: run its command, begin its request, or reply."""
    command = _parse_command(context, turn)
    await context.dialogue.acknowledge(turn, Acknowledgment.SEEN)
    if context.settings.refusal:
        return await _note(context, state, _heard(turn, configuration_error(context.settings.refusal)))
    if state.stage is Stage.ASKED and may_be_answer(state, turn) and not _is_command(command):
        return state  # it may be the answer; if not, it is taken in once the question is answered
    match command:
        case None if not turn.mark and state.stage in PLAN_MAY_BE_SHOWN and (line := undecided_line(turn.text)):
            return await _note(context, state, _heard(turn, reply_text.no_decision(line, context.settings.mention)))
        case None:
            return await _request(context, state, turn, turn.text)
        case Command(Verb.APPROVE | Verb.REJECT) if _is_explained(state, turn):
            return defer_notes(context, state, _heard(turn))
        case Command() | UnknownCommand() if why := _refusal(turn, command):
            return await _note(context, state, _heard(turn, why))
        case UnknownCommand():
            return await _note(context, state, _heard(turn, reply_text.did_you_mean(command.line, command.nearest)))
        case Command():
            return await _command(context, state, turn, command)


def _is_explained(state: ThreadState, turn: Turn) -> bool:
    """Return whether the verdict on the plan that waits says why a decision does not count, or counts it."""
    is_unsure = turn.edited or turn.by_mail
    return is_unsure and state.stage is Stage.AWAITING_APPROVAL and not turn.key.startswith("review")


def _refusal(turn: Turn, command: Command | UnknownCommand) -> str:
    """Return why a comment is not accepted as a command, or "" if it is."""
    if turn.edited:
        return reply_text.EDITED
    return "" if not turn.by_mail or counts_by_mail(command) else reply_text.SENT_BY_MAIL


def _asked_already(state: ThreadState, mark: Turn) -> bool:
    """Return whether a label or assignment came with the issue's own accepted words, so that both are one turn."""
    if state.heard.opening_accepted is None:
        return False
    journaled_at, said_at = state.heard.opening_accepted
    return mark.at <= max(journaled_at, said_at + OPENING_SPAN)


def _parse_command(context: ThreadContext, turn: Turn) -> Command | UnknownCommand | None:
    """Find the command of a turn, which is its first line."""
    lines = turn.text.split("\n", 1)
    return parse(lines[0], context.settings.mention)


def _is_command(command: Command | UnknownCommand | None) -> bool:
    """Return whether somebody meant a command. A single word that resembles none is an answer."""
    return isinstance(command, Command) or (isinstance(command, UnknownCommand) and bool(command.nearest))


async def _request(context: ThreadContext, state: ThreadState, turn: Turn, text: str) -> ThreadState:
    """Begin a request, or note a turn that comes while the bot works. Refuse one beyond its author's quota."""
    if await is_over_quota(context, state, turn):
        return await _refuse_over_quota(context, state, turn)
    request, fragments = JournaledTurn.of(replace(turn, text=text)), await context.dialogue.hidden_fragments(turn)
    beside = Hidden.of(fragments) if fragments else None
    if Move.REQUESTED in TRANSITIONS[state.stage] and not (state.stage is Stage.ASKED and state.has_approved_work):
        return await _begin(context, state, request, beside)
    return await append_move(context, state, Noted(said=request, beside=beside, kept=state.stage is not Stage.PLANNING))


async def _refuse_over_quota(context: ThreadContext, state: ThreadState, turn: Turn) -> ThreadState:
    """Refuse a request beyond its author's quota: with a comment once a day on each thread, then with reactions."""
    day = f"{turn.at:%Y-%m-%d}"
    refusals = state.heard.over_quota.get((day, turn.actor.id), 0)
    if refusals:
        if refusals <= SIGNS_A_DAY:
            await context.dialogue.acknowledge(turn, Acknowledgment.MAY_NOT)
        return defer_notes(context, state, replace(_heard(turn), quota=day))
    owes = reply_text.quota_reached(turn.actor.login, context.settings.ask_per_day, context.settings.mention)
    return await _note(context, state, replace(_heard(turn, owes), quota=day))


async def _begin(
    context: ThreadContext, state: ThreadState, request: JournaledTurn, beside: Hidden | None = None
) -> ThreadState:
    """Begin a request. If the round's pull request is closed, a new round begins with it (PR2)."""
    start = await find_start(context, state)
    if start.closes_round and Move.CLOSED in TRANSITIONS[state.stage]:
        state = await append_move(context, state, Closed())
    return await append_move(context, state, start.request(request, beside))


async def _command(context: ThreadContext, state: ThreadState, turn: Turn, command: Command) -> ThreadState:
    """Carry out a command, or reply why not."""
    is_allowed = may_command(context, state, turn, command.verb)
    may_retry = is_allowed and _answers_today(state, JournaledTurn.of(turn)) < ANSWERS_A_DAY
    match command.verb:
        case Verb.REVISE:
            _, *below = turn.text.split("\n")
            return await _request(context, state, turn, "\n".join((command.argument, *below)).strip())
        case Verb.STOP | Verb.FINISH if is_allowed and state.stage in _ENDS[command.verb]:
            return await _end_work(context, state, turn, command.verb)
        case Verb.RETRY if may_retry and await _is_plan_gone(context, state):
            return await _begin(context, state, renewed_request(state, turn))
        case Verb.RETRY if may_retry and state.stage in _INTERRUPTED:
            return await append_move(context, state, _resume_move(state, JournaledTurn.of(turn)))
        case Verb.BUDGET if is_allowed:
            owes = reply_text.budget_raised(command.argument)
            return await _note(context, state, replace(_heard(turn, owes), budget_usd=float(command.argument)))
        case Verb.MODE if is_allowed:
            return await _mode(context, state, turn, command.argument)
        case Verb.APPROVE | Verb.REJECT if turn.key.startswith("review"):
            return await _note(context, state, _heard(turn, reply_text.DECIDE_IN_A_COMMENT))
        case verb:
            is_counted = verb in {Verb.APPROVE, Verb.REJECT} and _is_already_counted(state, turn)
            owes = (
                ""
                if is_counted
                else _command_reply(verb, state, mention=context.settings.mention, is_allowed=is_allowed)
            )
            return await _note(context, state, _heard(turn, owes))


async def _is_plan_gone(context: ThreadContext, state: ThreadState) -> bool:
    """Return whether the plan can't be approved any more: it is stale, or its comment is gone or changed."""
    if state.stage is not Stage.AWAITING_APPROVAL:
        return state.stage is Stage.STALE
    shown = (await live_snapshot(context, state)).shown
    return shown.hidden or not shown.intact


async def _end_work(context: ThreadContext, state: ThreadState, turn: Turn, verb: Verb) -> ThreadState:
    """Stop what is under way, or have approved work end with what is there."""
    if verb is Verb.FINISH:
        owes = reply_text.work_finishing(turn.actor.login)
        return await _note(context, state, replace(_heard(turn, owes), finish=state.gate.ask))
    owes = reply_text.work_stopped(turn.actor.login, context.settings.mention)
    return await append_move(context, state, Stopped(said=JournaledTurn.of(turn), owes=owes))


async def _mode(context: ThreadContext, state: ThreadState, turn: Turn, name: str) -> ThreadState:
    """Choose the mode that approved work will run in; it never leaves plan mode (P1)."""
    bypass = context.settings.mode is Mode.BYPASS
    mode = next_mode(working_mode(context, state), bypass_available=bypass) if name == "next" else name
    working = [Mode.DEFAULT, Mode.ACCEPT_EDITS, *([Mode.BYPASS] if bypass else [])]
    if name == Mode.PLAN:
        return await _note(context, state, _heard(turn, reply_text.plan_mode_stays(working)))
    if mode is Mode.PLAN:
        mode = next_mode(Mode.PLAN, bypass_available=bypass)
    if mode not in working:
        owes = reply_text.did_you_mean(f"mode {name}", f"mode {Mode.ACCEPT_EDITS}")
        return await _note(context, state, _heard(turn, owes))
    return await _note(context, state, replace(_heard(turn, reply_text.mode_chosen(mode)), mode=str(mode)))


def _is_already_counted(state: ThreadState, turn: Turn) -> bool:
    """Return whether a decision already counted this command: a live snapshot can include a comment before intake."""
    decision = state.approval.decision
    return decision is not None and turn.actor.login in decision.by and turn.at <= decision.at


def _command_reply(verb: Verb, state: ThreadState, *, mention: str, is_allowed: bool) -> str:
    """Return the reply to a command that changes nothing here, or "" if the verdict on the plan answers it."""
    match verb:
        case Verb.APPROVE | Verb.REJECT:
            return "" if state.stage in PLAN_MAY_BE_SHOWN else reply_text.NO_PLAN_WAITS
        case Verb.BUDGET | Verb.MODE:
            return reply_text.APPROVERS_ONLY
        case Verb.STOP | Verb.FINISH | Verb.RETRY if not is_allowed:
            return reply_text.NOT_YOURS
        case Verb.STOP:
            return reply_text.NOTHING_TO_STOP
        case Verb.FINISH:
            return reply_text.NOTHING_TO_FINISH
        case Verb.RETRY:
            return reply_text.NOTHING_TO_RETRY
        case Verb.STATUS:
            return reply_text.status(state.stage, state.approval.mode)
        case _:
            return reply_text.help_text(mention)


async def _note(context: ThreadContext, state: ThreadState, note: Heard) -> ThreadState:
    """Note a turn that makes no move. If it is owed a reply, journal it now, before the reply is posted.

    Otherwise it is journaled with the next entry, such as the decision that it led to. A person who was answered
    ANSWERS_A_DAY times is told so once, and then owed no reply for the rest of the day.
    """
    answers = _answers_today(state, note.said)
    if note.owes and answers >= ANSWERS_A_DAY:
        reached = reply_text.answers_reached(note.said.actor.login, answers, context.settings.mention)
        note = replace(note, owes=reached if answers == ANSWERS_A_DAY else "")
    state = defer_notes(context, state, note)
    return await flush_notes(context, state) if note.owes else state


def _answers_today(state: ThreadState, said: JournaledTurn) -> int:
    return state.heard.answered.get(said.day_and_author, 0)


def _heard(turn: Turn, owes: str = "") -> Heard:
    return Heard(said=JournaledTurn.of(turn), owes=owes)


def _resume_move(state: ThreadState, turn: JournaledTurn | None = None) -> Resumed | Retried:
    """Return the move that continues approved work, or that plans again if there is none."""
    return (
        Resumed(said=turn)
        if state.has_approved_work and Move.RESUMED in TRANSITIONS[state.stage]
        else Retried(said=turn)
    )
