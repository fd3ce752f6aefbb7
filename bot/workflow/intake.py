"""Takes in what people said since the journal's last turn, and what a request begins on."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Final

from bot.agent.permissions.tool_gate import Mode, next_mode
from bot.core import reply_text
from bot.core.errors import Transient, Unreadable
from bot.core.gate import ON_ENTER, PLAN_MAY_BE_SHOWN, TRANSITIONS, Move, Stage
from bot.core.moves import Closed, JournaledTurn, Noted, Requested, Resumed, Retried, Stopped
from bot.core.names import thread_ref
from bot.core.notes import OtherTurn
from bot.core.plan import Hidden
from bot.core.reply_text import configuration_error
from bot.core.thread.request import RequestEntry
from bot.core.thread.state import ThreadState
from bot.core.turn import (
    Acknowledgment,
    Command,
    Role,
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
from bot.workflow.thread_run import ThreadRun

# --- A request: its base, branch, and pull request
# The same journal always gives the same names.


async def new_request(run: ThreadRun, said: JournaledTurn, beside: Hidden | None = None) -> tuple[Requested, bool]:
    """Return the request that a turn makes, and whether the round's pull request is closed, which ends the round (PR2).

    It begins on the thread's or its round's open pull request, else on the base.
    """
    place, published = run.location, run.state.work.published
    request = Requested(said=said, hidden_elsewhere=beside, base=place.base, title=place.title, onto=place.branch)
    if published is None:
        return request, False
    if (head := await run.pulls.head(published.pull_number)) is None:
        return request, True
    return replace(request, base=head, onto=published.branch), False


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


def thread_title(run: ThreadRun) -> str:
    """Return the redacted title of the thread as it was at the request, so that an edit makes no second branch."""
    title = run.state.request.current.title
    return run.redactor.redact(run.location.title if title is None else title)


def pull_title(run: ThreadRun) -> str:
    """Return the redacted title of the finished work, or the thread's title if it has none."""
    return run.redactor.redact(run.state.work.current.title or "") or thread_title(run)


def branch_name(run: ThreadRun) -> str:
    """Return this round's branch: the existing one, else a name made from the thread."""
    place = run.location
    if branch := place.branch or run.state.request.onto:
        return branch
    name, suffix = place.new_branch(thread_title(run), run.state.gate.round), run.state.work.branch_suffix
    return f"{name}-{suffix}" if suffix else name  # a journal that was set back may have lost the plain name's branch


def pull_number(run: ThreadRun) -> int:
    """Return the number of the pull request that the work adds to, or 0 if it gets a branch of its own."""
    if run.location.branch:
        return run.location.thread
    published = run.state.work.published
    return published.pull_number if run.state.request.onto and published is not None else 0


# --- A journal that was set back (A4b)
# Work on its thread continues only after an approver has decided. Anybody who can push can set a thread's ref back to
# an older state, or delete it, and every older state is genuine. But the bot's comments stay, and each records the
# length of the journal at that time.
# - The comments are read first and the journal after them: a journal that is then behind them was set back.
# - While it is behind, nothing is written to it, so that it never catches up.
# - An approver decides by a comment that is newer than the notice, each time anew.
# - Then the request is planned again, so that no earlier approval counts.

PAUSES: Final = (0.0, 2.0, 6.0)
"""Seconds before each new reading of a journal that seems to be behind: another process may be writing to it."""


async def require_newest(run: ThreadRun, turns: Sequence[Turn]) -> None:
    """Read the thread again if it seems to be behind the bot's comments.

    Raises Unreadable if it is behind and no approver has decided yet. The notice has then been posted.
    """
    if run.state.turns.forgotten_comment:
        run.dialogue.ignore_comments_until(run.state.turns.forgotten_comment)
    number = await run.dialogue.find_unrecorded_comment(run.state.position, run.state.gate.ask)
    for pause in PAUSES if number else ():
        await run.clock.sleep(pause)
        await run.read()
        if not (number := await run.dialogue.find_unrecorded_comment(run.state.position, run.state.gate.ask)):
            return
    if number:
        await _wait_for_decision(run, turns, number)


async def _wait_for_decision(run: ThreadRun, turns: Sequence[Turn], number: int) -> None:
    """Post the notice once, and continue if an approver has decided since."""
    since = await run.dialogue.warn_of_rewind(
        number, reply_text.journal_set_back(thread_ref(run.location.thread), run.configuration.mention)
    )
    decisions = (turn for turn in turns if turn.at > since and _decides(run, turn))
    decision = None if run.conditions.refusal else next(decisions, None)
    if decision is None:
        raise Unreadable(
            "the journal is older than the comments on the thread: its ref was reset or deleted",
            where=thread_ref(run.location.thread),
            fix="somebody who may approve has to comment `retry` there",
        )
    await run.dialogue.acknowledge(decision, Acknowledgment.SEEN)
    run.dialogue.ignore_comments_until(number)
    if run.state.request.newest is None:  # no request to plan again: every turn of the thread is taken in again
        await run.note(OtherTurn(said=JournaledTurn.of(decision), forgotten=number, branch_suffix=number))
    else:
        request, _ = await new_request(run, renewed_request(run.state, decision))
        await run.restart(replace(request, forgotten=number, branch_suffix=number))


def _decides(run: ThreadRun, turn: Turn) -> bool:
    """Return whether an approver says `retry`, in a comment that was neither edited nor sent by mail."""
    command = _parse_command(run, turn)
    is_retry = isinstance(command, Command) and command.verb is Verb.RETRY
    return is_retry and not (turn.edited or turn.by_mail) and run.may_approve(turn)


# --- Who may say what, and how often (docs/commands.md)


def may_act(run: ThreadRun, turn: Turn) -> bool:
    """Return whether the turn's author may say anything here. Called before the text is read."""
    return any(may_command(run, turn, verb) for verb in (Verb.REVISE, Verb.APPROVE, Verb.STOP))


def may_command(run: ThreadRun, turn: Turn, verb: Verb) -> bool:
    """Return whether the turn's author may give this command."""
    match verb:
        case Verb.APPROVE | Verb.REJECT | Verb.BUDGET | Verb.MODE:
            return run.may_approve(turn)
        case Verb.STOP | Verb.FINISH | Verb.RETRY:
            requesters = (entry.said.actor.id for entry in run.state.request.entries)
            return (turn.role or Role.NONE) >= Role.WRITE or turn.actor.id in requesters
        case Verb.REVISE | Verb.STATUS | Verb.HELP:
            return run.may_ask(turn)


async def is_over_quota(run: ThreadRun, turn: Turn, *, elsewhere: Collection[str] = ()) -> bool:
    """Return whether the turn's author has already used up the requests of one person and day.

    `elsewhere` lists requests on other threads that were not made by comments, each as ``thread/key``.
    """
    limit = run.configuration.ask.per_day
    today = turn.actor.id, f"{turn.at:%Y-%m-%d}"
    here = {key for *day, key in run.state.turns.requests if tuple(day) == today and key != turn.key}
    asked = {*elsewhere, *(f"{run.location.thread}/{key}" for key in here)}  # deleted comments count as well
    return len(asked) >= limit or len(asked | set(await run.dialogue.asked_before(turn))) >= limit


# --- Takes in new turns, and continues interrupted work
# - Turns of people who may act come first. People who may not ask get a reaction and no reply, and only a few a day.
# - Every accepted turn is acknowledged at once. A command is one line of a comment that nobody ever edited.
# - A turn that arrives while the bot works is noted. If that work was approved, the turn is kept for afterward.
# - No turn is dropped. If an author's role cannot be looked up, the turn waits and delays nobody else. Turns that are
#   taken in meanwhile record since when it waits, so that it is read again, however many turns follow.
# - Posts that turn out not to be turns are journaled as well, so that no later check parses them again.

_ENDS: Final = {Verb.STOP: frozenset(ON_ENTER), Verb.FINISH: frozenset({Stage.EXECUTING})}
"""Stages in which there is something to stop, or to finish."""
_INTERRUPTED: Final = frozenset({Stage.STOPPED, Stage.FAILED, Stage.LIMIT, Stage.STALE, Stage.EXPIRED})
_POSTS: Final = frozenset({"issue", "comment", "review"})
"""The first parts of the keys of texts that people wrote."""
SIGNS_A_DAY: Final = 20
"""Maximum reactions to one person's refused turns on one thread and day (UTC): each one is a write to GitHub."""
ANSWERS_A_DAY: Final = 20
"""Maximum number of one person's commands on one thread and day (UTC) that are answered, or that start work again."""
OPENING_SPAN: Final = timedelta(minutes=1)
"""A label that is set within this time after an issue was opened is part of opening it."""


async def journal_turns(run: ThreadRun) -> None:
    """Journal every new turn. Continue an interrupted thread if the check itself is a retry, as at a terminal.

    Raises Unreadable if the journal was set back.
    """
    planned = _unedited_requests(run.state)
    seen = (run.state.turns.seen - planned) | set(map(version_key, planned))
    turns = await run.dialogue.turns(seen, run.state.turns.until, may_act=partial(may_act, run))
    await require_newest(run, turns)
    for edit in [turn for turn in turns if turn.key in planned]:
        await _journal_edit(run, edit)
    turns = [turn for turn in turns if turn.key not in run.state.turns.seen]
    waiting = [turn for turn in turns if turn.role is None]
    run.unknown_roles = tuple(sorted({turn.actor.login for turn in waiting}))
    accepted, refused = list[Turn](), list[Turn]()
    for turn in turns:
        if turn.aside or (turn.mark and _asked_already(run.state, turn)):
            accepted.append(turn)
        elif turn.role is not None and not _may_speak(run, turn):
            refused.append(turn)  # refused last, so that nobody who may speak waits for the reactions
        elif turn.role is not None:
            await _journal_turn(run, replace(turn, waits=_oldest_waiting(run.state, waiting)))
            waiting += [turn] if turn.key not in run.state.turns.seen else []
    since = _oldest_waiting(run.state, waiting)
    run.defer(*(_turn_note(replace(turn, waits=since)) for turn in accepted))
    for turn in refused:
        await _refuse(run, replace(turn, waits=since))
    if not turns and run.state.stage in _INTERRUPTED and run.dialogue.is_retry():
        await run.append(_resume_move(run.state))


def _unedited_requests(state: ThreadState) -> frozenset[str]:
    """Return the keys of the requests that are being planned and were not edited when they were taken in."""
    entries = state.request.newest_entries if state.stage is Stage.PLANNING else ()
    keys = (entry.said.key for entry in entries if not entry.said.foreign)
    return frozenset(key for key in keys if key.partition("-")[0] in _POSTS)  # a label is no text that can be edited


async def _journal_edit(run: ThreadRun, turn: Turn) -> None:
    """Add the new text of a request that was edited while it is planned: people expect the edit to count."""
    if run.state.stage is not Stage.PLANNING or turn.version in run.state.turns.seen or not run.may_ask(turn):
        return
    said = JournaledTurn.of(replace(turn, key=turn.version, text=reply_text.edited_request(turn.text)))
    await run.append(Noted(said=said))


def require_known_roles(run: ThreadRun) -> None:
    """Raise Transient if a turn still waits for its author's role, so that the caller tries again."""
    if run.unknown_roles:
        names = ", ".join(f"@{login}" for login in run.unknown_roles)
        fix = "Plangate tries again; if this persists, check the permissions of its token"
        raise Transient(f"the role of {names} cannot be looked up", where="collaborators", fix=fix)


async def begin_kept_turn(run: ThreadRun) -> None:
    """Begin a request with the oldest turn that was kept while approved work ran."""
    kept = run.state.request.kept_turns[0]
    return await _begin(run, replace(kept.said, waits=None), kept.hidden_elsewhere)


def _oldest_waiting(state: ThreadState, waiting: Sequence[Turn]) -> str | None:
    """Return the time of the oldest waiting turn, "" if none waits any more, or None if none waited before either."""
    oldest = min((turn.at for turn in waiting), default=None)
    return oldest.isoformat() if oldest else "" if state.turns.waiting_since else None


def _may_speak(run: ThreadRun, turn: Turn) -> bool:
    command = _parse_command(run, turn)
    return run.may_ask(turn) or (isinstance(command, Command) and may_command(run, turn, command.verb))


async def _refuse(run: ThreadRun, turn: Turn) -> None:
    """Note a turn that its author may not say. The first few of a day get a reaction."""
    day = f"{turn.at:%Y-%m-%d}"
    if run.state.turns.refusals.get((day, turn.actor.id), 0) < SIGNS_A_DAY:
        await run.dialogue.acknowledge(turn, Acknowledgment.MAY_NOT)
    run.defer(replace(_turn_note(turn), refused=day))


async def _journal_turn(run: ThreadRun, turn: Turn) -> None:
    """Take in one turn: run its command, begin its request, or reply."""
    command = _parse_command(run, turn)
    await run.dialogue.acknowledge(turn, Acknowledgment.SEEN)
    if run.conditions.refusal:
        await _note(run, _turn_note(turn, configuration_error(run.conditions.refusal)))
        return
    match command:
        case _ if run.state.stage is Stage.ASKED and may_be_answer(run.state, turn) and not _is_command(command):
            pass  # it may be the answer; if not, it is taken in once the question is answered
        case None if not turn.mark and run.state.stage in PLAN_MAY_BE_SHOWN and (line := undecided_line(turn.text)):
            await _note(run, _turn_note(turn, reply_text.no_decision(line, run.configuration.mention)))
        case None:
            await _request(run, turn, turn.text)
        case Command(Verb.APPROVE | Verb.REJECT) if _is_explained(run.state, turn):
            run.defer(_turn_note(turn))
        case Command() | UnknownCommand() if why := _refusal(turn, command):
            await _note(run, _turn_note(turn, why))
        case UnknownCommand():
            await _note(run, _turn_note(turn, reply_text.did_you_mean(command.line, command.nearest)))
        case Command():
            await _command(run, turn, command)


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
    if state.turns.opening_accepted is None:
        return False
    journaled_at, said_at = state.turns.opening_accepted
    return mark.at <= max(journaled_at, said_at + OPENING_SPAN)


def _parse_command(run: ThreadRun, turn: Turn) -> Command | UnknownCommand | None:
    """Find the command of a turn, which is its first line."""
    return parse(turn.text.split("\n", 1)[0], run.configuration.mention)


def _is_command(command: Command | UnknownCommand | None) -> bool:
    """Return whether somebody meant a command. A single word that resembles none is an answer."""
    return isinstance(command, Command) or (isinstance(command, UnknownCommand) and bool(command.nearest))


async def _request(run: ThreadRun, turn: Turn, text: str) -> None:
    """Begin a request, or note a turn that comes while the bot works. Refuse one beyond its author's quota."""
    if await is_over_quota(run, turn):
        await _refuse_over_quota(run, turn)
        return
    request, fragments = JournaledTurn.of(replace(turn, text=text)), await run.dialogue.hidden_fragments(turn)
    beside = Hidden.of(fragments) if fragments else None
    stage = run.state.stage
    if Move.REQUESTED in TRANSITIONS[stage] and not (stage is Stage.ASKED and run.state.has_approved_work):
        await _begin(run, request, beside)
    else:
        await run.append(Noted(said=request, hidden_elsewhere=beside, kept=stage is not Stage.PLANNING))


async def _refuse_over_quota(run: ThreadRun, turn: Turn) -> None:
    """Refuse a request beyond its author's quota: with a comment once a day on each thread, then with reactions."""
    day = f"{turn.at:%Y-%m-%d}"
    refusals = run.state.turns.over_quota.get((day, turn.actor.id), 0)
    if refusals:
        if refusals <= SIGNS_A_DAY:
            await run.dialogue.acknowledge(turn, Acknowledgment.MAY_NOT)
        run.defer(replace(_turn_note(turn), quota=day))
    else:
        text = reply_text.quota_reached(turn.actor.login, run.configuration.ask.per_day, run.configuration.mention)
        await _note(run, replace(_turn_note(turn, text), quota=day))


async def _begin(run: ThreadRun, said: JournaledTurn, beside: Hidden | None = None) -> None:
    """Begin a request. If the round's pull request is closed, a new round begins with it (PR2)."""
    request, is_round_over = await new_request(run, said, beside)
    if is_round_over and Move.CLOSED in TRANSITIONS[run.state.stage]:
        await run.append(Closed())
    await run.append(request)


async def _command(run: ThreadRun, turn: Turn, command: Command) -> None:
    is_allowed = may_command(run, turn, command.verb)
    may_retry = is_allowed and _answers_today(run.state, JournaledTurn.of(turn)) < ANSWERS_A_DAY
    match command.verb:
        case Verb.REVISE:
            _, *below = turn.text.split("\n")
            await _request(run, turn, "\n".join((command.argument, *below)).strip())
        case Verb.STOP | Verb.FINISH if is_allowed and run.state.stage in _ENDS[command.verb]:
            await _end_work(run, turn, command.verb)
        case Verb.RETRY if may_retry and await _is_plan_gone(run):
            await _begin(run, renewed_request(run.state, turn))
        case Verb.RETRY if may_retry and run.state.stage in _INTERRUPTED:
            await run.append(_resume_move(run.state, JournaledTurn.of(turn)))
        case Verb.BUDGET if is_allowed:
            text = reply_text.budget_raised(command.argument)
            await _note(run, replace(_turn_note(turn, text), budget_usd=float(command.argument)))
        case Verb.MODE if is_allowed:
            await _mode(run, turn, command.argument)
        case Verb.APPROVE | Verb.REJECT if turn.key.startswith("review"):
            await _note(run, _turn_note(turn, reply_text.DECIDE_IN_A_COMMENT))
        case verb:
            is_counted = verb in {Verb.APPROVE, Verb.REJECT} and _is_already_counted(run.state, turn)
            reply = _command_reply(verb, run.state, mention=run.configuration.mention, is_allowed=is_allowed)
            await _note(run, _turn_note(turn, "" if is_counted else reply))


async def _is_plan_gone(run: ThreadRun) -> bool:
    """Return whether the plan can't be approved any more: it is stale, or its comment is gone or changed."""
    if run.state.stage is not Stage.AWAITING_APPROVAL:
        return run.state.stage is Stage.STALE
    shown = (await live_snapshot(run)).shown
    return shown.hidden or not shown.intact


async def _end_work(run: ThreadRun, turn: Turn, verb: Verb) -> None:
    """Stop what is under way, or have approved work end with what is there."""
    if verb is Verb.FINISH:
        text = reply_text.work_finishing(turn.actor.login)
        await _note(run, replace(_turn_note(turn, text), finish=run.state.gate.ask))
    else:
        text = reply_text.work_stopped(turn.actor.login, run.configuration.mention)
        await run.append(Stopped(said=JournaledTurn.of(turn), text_to_post=text))


async def _mode(run: ThreadRun, turn: Turn, name: str) -> None:
    """Choose the mode that approved work will run in; it never leaves plan mode (P1)."""
    bypass = Mode(run.configuration.execution.mode) is Mode.BYPASS
    mode = next_mode(run.working_mode, bypass_available=bypass) if name == "next" else name
    if name == "next" and mode is Mode.PLAN:
        mode = next_mode(Mode.PLAN, bypass_available=bypass)
    working = [Mode.DEFAULT, Mode.ACCEPT_EDITS, *([Mode.BYPASS] if bypass else [])]
    if mode in working:
        await _note(run, replace(_turn_note(turn, reply_text.mode_chosen(Mode(mode))), mode=str(mode)))
    elif name == Mode.PLAN:
        await _note(run, _turn_note(turn, reply_text.plan_mode_stays(working)))
    else:
        await _note(run, _turn_note(turn, reply_text.did_you_mean(f"mode {name}", f"mode {Mode.ACCEPT_EDITS}")))


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


async def _note(run: ThreadRun, note: OtherTurn) -> None:
    """Note a turn that makes no move. If it carries a reply, journal it now, before the reply is posted.

    Otherwise it is journaled with the next entry, such as the decision that it led to. A person who was answered
    ANSWERS_A_DAY times gets one notice of that, and then no reply for the rest of the day.
    """
    answers = _answers_today(run.state, note.said)
    if note.text_to_post and answers >= ANSWERS_A_DAY:
        reached = reply_text.answers_reached(note.said.actor.login, answers, run.configuration.mention)
        note = replace(note, text_to_post=reached if answers == ANSWERS_A_DAY else "")
    run.defer(note)
    if note.text_to_post:
        await run.flush()


def _answers_today(state: ThreadState, said: JournaledTurn) -> int:
    return state.turns.answered.get(said.day_and_author, 0)


def _turn_note(turn: Turn, text: str = "") -> OtherTurn:
    return OtherTurn(said=JournaledTurn.of(turn), text_to_post=text)


def _resume_move(state: ThreadState, turn: JournaledTurn | None = None) -> Resumed | Retried:
    """Return the move that continues approved work, or that plans again if there is none."""
    can_resume = state.has_approved_work and Move.RESUMED in TRANSITIONS[state.stage]
    return Resumed(said=turn) if can_resume else Retried(said=turn)
