"""The journal's entries in plain words, one line each."""

from typing import Final, assert_never

from bot.core import moves, notes
from bot.core.events import JournalEvent
from bot.core.markdown.elements import shorten_line
from bot.core.names import SHORT_DIGEST

LONGEST: Final = 200
"""Characters of a text by people or a model that a line quotes."""


def describe_event(event: JournalEvent) -> str:
    """Return what an entry records, as one line of plain text."""
    return _describe_move(event) if isinstance(event, moves.MoveEvent) else _describe_note(event)


def people_of(event: JournalEvent) -> tuple[str, ...]:
    """Return the logins of the people who caused an entry."""
    match event:
        case moves.Requested() | moves.Noted() | notes.OtherTurn():
            return (event.said.actor.login,)
        case moves.Stopped() | moves.Retried() | moves.Resumed() if event.said is not None:
            return (event.said.actor.login,)
        case moves.Approved() | moves.Stopped():
            return event.by
        case moves.Rejected():
            return event.by or ()
        case moves.Replied() | moves.Instructed():
            return (event.login,) if event.login else event.by
        case notes.OccurrenceDue() | notes.FindingOffered():
            return (event.by,) if event.by else ()
        case _:
            return ()


def _describe_move(event: moves.MoveEvent) -> str:  # noqa: C901, PLR0911, PLR0912 - one for each kind of entry
    match event:
        case moves.Requested():
            return f"{_speaker(event.said)} asked: {_quote(event.said.text)}"
        case moves.Noted():
            later = ", kept until the approved work is over" if event.kept else ""
            return f"{_speaker(event.said)} added{later}: {_quote(event.said.text)}"
        case moves.Stopped():
            return f"Stopped by {_speaker(event.said) or ', '.join(event.by) or 'Plangate'}"
        case moves.Retried():
            return f"{_speaker(event.said) or 'Plangate'} asked to plan again"
        case moves.Resumed():
            return f"{_speaker(event.said) or 'Plangate'} continued the approved work"
        case moves.Closed():
            return "The pull request was closed"
        case moves.Planned():
            return f"Plan {event.plan.plan} is ready, tier {event.plan.tier}"
        case moves.Outgrew():
            return f"The work outgrew its plan; plan {event.plan.plan} amends it"
        case moves.Proposed():
            return f"The plan {(event.digest or '')[:SHORT_DIGEST]} is shown"
        case moves.Approved():
            return f"Approved by {', '.join(event.by) or 'the configuration'}"
        case moves.Rejected():
            return _with_reason(f"Rejected by {', '.join(event.by or ()) or 'Plangate'}", event.reasons)
        case moves.Drifted():
            return _with_reason("The plan is stale", event.detail)
        case moves.Expired():
            return _with_reason("Expired", event.detail)
        case moves.Withdrawn():
            return _with_reason("The approval no longer stands", event.reasons)
        case moves.Answered():
            return f"Answered: {_quote(event.answer or event.text_to_post)}"
        case moves.Asked():
            questions = " ".join(question.text for question in event.asking.questions)
            return f"Asked: {_quote(event.asking.subject or questions)}"
        case moves.Replied() | moves.Instructed():
            who = event.login or ", ".join(event.by) or "Plangate"
            return f"{who} answered: {_quote(event.reply or str(event.grant or ''))}"
        case moves.Executed():
            passed = sum(check.get("exit_code") == 0 for check in event.checks)
            return "The work is done" + (f", {passed} of {len(event.checks)} checks pass" if event.checks else "")
        case moves.Published():
            return f"Opened pull request #{event.pull_number} from {event.branch}"
        case moves.Delivered():
            return f"Delivered the branch {event.branch}" if event.branch else "Delivered"
        case moves.Failed():
            return _with_reason("Failed", event.detail)
        case moves.Limited():
            return _with_reason("Reached a limit", event.detail)
        case _:
            assert_never(event)


def _describe_note(event: notes.Note) -> str:  # noqa: C901, PLR0911, PLR0912 - one for each kind of entry
    match event:
        case notes.OtherTurn():
            why = "may not ask" if event.refused else "is over the daily quota" if event.quota else "commented"
            return f"{_speaker(event.said)} {why}: {_quote(event.said.text)}"
        case notes.TextPosted():
            return "Posted a comment"
        case notes.Shown():
            return "The question is shown"
        case notes.Folded():
            return f"Folded {event.folded} comments of a plan that is no longer valid"
        case notes.Noticed():
            return "Somebody approved a plan that cannot be approved"
        case notes.Explained():
            return _with_reason("Explained why the plan waits", event.reasons)
        case notes.TaskChanged():
            return f"Tracks the scheduled task {event.task}"
        case notes.OccurrenceDue() if event.by:
            return f"{event.by} asked to run the task now"
        case notes.OccurrenceDue():
            return f"The task is due ({event.due:%Y-%m-%d %H:%M})"
        case notes.OccurrenceEnded():
            return f"The occurrence ended: {_quote(event.outcome)}"
        case notes.FindingOffered():
            return f"{event.by} offered a rejected finding again: {_quote(event.finding)}"
        case notes.PullRequestEnded():
            return f"Pull request #{event.pull_number} was {'merged' if event.merged else 'closed'}"
        case notes.NetworkReached():
            return f"Network decisions: {len(event.reached)} hosts"
        case notes.Prepared():
            return f"Ran {len(event.commands or ())} set-up commands"
        case notes.Taken():
            return "Another process took the thread over"
        case notes.Spent():
            return f"Spent ${event.cost_usd:.2f}"
        case notes.Queued():
            return "Waits for a free session" if event.queued else "A session is free"
        case notes.Pushing():
            return f"Pushes {event.made.commit[:SHORT_DIGEST]} to {event.made.branch}"
        case notes.Operated():
            return f"Operation {event.operation + 1} of the plan: {_quote(event.outcome)}"
        case notes.Unknown():
            return f"Recorded by a newer version of Plangate: {_quote(event.kind)}"
        case _:
            assert_never(event)


def _speaker(turn: moves.JournaledTurn | None) -> str:
    return turn.actor.login if turn is not None else ""


def _with_reason(text: str, reason: str | None) -> str:
    return f"{text}: {_quote(reason)}" if reason else text


def _quote(text: str) -> str:
    return shorten_line(text, LONGEST)
