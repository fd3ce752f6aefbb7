"""The journal's entries in plain words, one line each."""

from typing import Final, assert_never

from bot.core.events import JournalEvent
from bot.core.markdown.elements import shorten_line
from bot.core.moves import (
    Answered,
    Approved,
    Asked,
    Closed,
    Delivered,
    Drifted,
    Executed,
    Expired,
    Failed,
    Instructed,
    JournaledTurn,
    Limited,
    MoveEvent,
    Noted,
    Outgrew,
    Planned,
    Proposed,
    Published,
    Rejected,
    Replied,
    Requested,
    Resumed,
    Retried,
    Stopped,
    Withdrawn,
)
from bot.core.names import SHORT_DIGEST
from bot.core.notes import (
    Explained,
    FindingOffered,
    Folded,
    Heard,
    NetworkReached,
    Note,
    Noticed,
    OccurrenceDue,
    OccurrenceEnded,
    Operated,
    Prepared,
    PullRequestEnded,
    Pushing,
    Queued,
    Shown,
    Spent,
    Taken,
    TaskChanged,
    Told,
    Unknown,
)

LONGEST: Final = 200
"""Characters of a text by people or a model that a line quotes."""


def describe_event(event: JournalEvent) -> str:
    """Return what an entry records, as one line of plain text."""
    return _describe_move(event) if isinstance(event, MoveEvent) else _describe_note(event)


def people_of(event: JournalEvent) -> tuple[str, ...]:
    """Return the logins of the people who caused an entry."""
    match event:
        case Requested() | Noted() | Heard():
            return (event.said.actor.login,)
        case Stopped() | Retried() | Resumed() if event.said is not None:
            return (event.said.actor.login,)
        case Approved() | Stopped():
            return event.by
        case Rejected():
            return event.by or ()
        case Replied() | Instructed():
            return (event.login,) if event.login else event.by
        case OccurrenceDue() | FindingOffered():
            return (event.by,) if event.by else ()
        case _:
            return ()


def _describe_move(event: MoveEvent) -> str:
    match event:
        case Requested() | Noted() | Stopped() | Retried() | Resumed() | Closed():
            return _describe_request(event)
        case Planned() | Outgrew() | Proposed() | Approved() | Rejected() | Drifted() | Expired() | Withdrawn():
            return _describe_decision(event)
        case Answered() | Asked() | Replied() | Instructed():
            return _describe_dialogue(event)
        case Executed() | Published() | Delivered() | Failed() | Limited():
            return _describe_work(event)
        case _:
            assert_never(event)


def _describe_request(event: Requested | Noted | Stopped | Retried | Resumed | Closed) -> str:
    match event:
        case Requested():
            return f"{_speaker(event.said)} asked: {_quote(event.said.text)}"
        case Noted():
            later = ", kept until the approved work is over" if event.kept else ""
            return f"{_speaker(event.said)} added{later}: {_quote(event.said.text)}"
        case Stopped():
            return f"Stopped by {_speaker(event.said) or ', '.join(event.by) or 'Plangate'}"
        case Retried():
            return f"{_speaker(event.said) or 'Plangate'} asked to plan again"
        case Resumed():
            return f"{_speaker(event.said) or 'Plangate'} continued the approved work"
        case Closed():
            return "The pull request was closed"
        case _:
            assert_never(event)


def _describe_decision(
    event: Planned | Outgrew | Proposed | Approved | Rejected | Drifted | Expired | Withdrawn,
) -> str:
    match event:
        case Planned():
            return f"Plan {event.plan.plan} is ready, tier {event.plan.tier}"
        case Outgrew():
            return f"The work outgrew its plan; plan {event.plan.plan} amends it"
        case Proposed():
            return f"The plan {(event.digest or '')[:SHORT_DIGEST]} is shown"
        case Approved():
            return f"Approved by {', '.join(event.by) or 'the configuration'}"
        case Rejected():
            return _with_reason(f"Rejected by {', '.join(event.by or ()) or 'Plangate'}", event.reasons)
        case Drifted():
            return _with_reason("The plan is stale", event.detail)
        case Expired():
            return _with_reason("Expired", event.detail)
        case Withdrawn():
            return _with_reason("The approval no longer stands", event.reasons)
        case _:
            assert_never(event)


def _describe_dialogue(event: Answered | Asked | Replied | Instructed) -> str:
    match event:
        case Answered():
            return f"Answered: {_quote(event.answer or event.owes)}"
        case Asked():
            questions = " ".join(question.text for question in event.asking.questions)
            return f"Asked: {_quote(event.asking.subject or questions)}"
        case Replied() | Instructed():
            who = event.login or ", ".join(event.by) or "Plangate"
            return f"{who} answered: {_quote(event.reply or str(event.grant or ''))}"
        case _:
            assert_never(event)


def _describe_work(event: Executed | Published | Delivered | Failed | Limited) -> str:
    match event:
        case Executed():
            passed = sum(check.get("exit_code") == 0 for check in event.checks)
            checks = f", {passed} of {len(event.checks)} checks pass" if event.checks else ""
            return f"The work is done{checks}"
        case Published():
            return f"Opened pull request #{event.pull_number} from {event.branch}"
        case Delivered():
            return f"Delivered the branch {event.branch}" if event.branch else "Delivered"
        case Failed():
            return _with_reason("Failed", event.detail)
        case Limited():
            return _with_reason("Reached a limit", event.detail)
        case _:
            assert_never(event)


def _describe_note(event: Note) -> str:
    match event:
        case Heard() | Told() | Shown() | Folded() | Noticed() | Explained():
            return _describe_saying(event)
        case TaskChanged() | OccurrenceDue() | OccurrenceEnded() | FindingOffered() | PullRequestEnded():
            return _describe_task(event)
        case NetworkReached() | Prepared() | Taken() | Spent() | Queued() | Pushing() | Operated() | Unknown():
            return _describe_step(event)
        case _:
            assert_never(event)


def _describe_saying(event: Heard | Told | Shown | Folded | Noticed | Explained) -> str:
    match event:
        case Heard():
            why = "may not ask" if event.refused else "is over the daily quota" if event.quota else "commented"
            return f"{_speaker(event.said)} {why}: {_quote(event.said.text)}"
        case Told():
            return "Posted a comment"
        case Shown():
            return "The question is shown"
        case Folded():
            return f"Folded {event.folded} comments of a plan that is no longer valid"
        case Noticed():
            return "Somebody approved a plan that cannot be approved"
        case Explained():
            return _with_reason("Explained why the plan waits", event.reasons)
        case _:
            assert_never(event)


def _describe_task(event: TaskChanged | OccurrenceDue | OccurrenceEnded | FindingOffered | PullRequestEnded) -> str:
    match event:
        case TaskChanged():
            return f"Tracks the scheduled task {event.task}"
        case OccurrenceDue():
            return (
                f"{event.by} asked to run the task now" if event.by else f"The task is due ({event.due:%Y-%m-%d %H:%M})"
            )
        case OccurrenceEnded():
            return f"The occurrence ended: {_quote(event.outcome)}"
        case FindingOffered():
            return f"{event.by} offered a rejected finding again: {_quote(event.finding)}"
        case PullRequestEnded():
            return f"Pull request #{event.pull_number} was {'merged' if event.merged else 'closed'}"
        case _:
            assert_never(event)


def _describe_step(
    event: NetworkReached | Prepared | Taken | Spent | Queued | Pushing | Operated | Unknown,
) -> str:
    match event:
        case NetworkReached():
            return f"Network decisions: {len(event.reached)} hosts"
        case Prepared():
            return f"Ran {len(event.commands or ())} set-up commands"
        case Taken():
            return "Another process took the thread over"
        case Spent():
            return f"Spent ${event.cost_usd:.2f}"
        case Queued():
            return "Waits for a free session" if event.queued else "A session is free"
        case Pushing():
            return f"Pushes {event.made.commit[:SHORT_DIGEST]} to {event.made.branch}"
        case Operated():
            return f"Operation {event.operation + 1} of the plan: {_quote(event.outcome)}"
        case Unknown():
            return f"Recorded by a newer version of Plangate: {_quote(event.kind)}"
        case _:
            assert_never(event)


def _speaker(turn: JournaledTurn | None) -> str:
    return turn.actor.login if turn is not None else ""


def _with_reason(text: str, reason: str | None) -> str:
    return f"{text}: {_quote(reason)}" if reason else text


def _quote(text: str) -> str:
    return shorten_line(text, LONGEST)
