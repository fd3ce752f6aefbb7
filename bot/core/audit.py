"""Audit rows: who asked, approved, refused, and what was pushed, with the cost, from a thread's journal (RC8)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bot.core import moves
from bot.core.decision_evidence import DecisionEvidence
from bot.core.entry import Entry, JournaledTurn
from bot.core.events import JournalEvent, decode_event
from bot.core.notes import Heard, Operated
from bot.core.question import Grant

_WITHOUT_ROW: Final = (moves.Noted, moves.Asked, moves.Replied, moves.Instructed, moves.Proposed)
"""Moves that decide nothing: what was said and shown on the way."""


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One line of an export. Missing values are ""."""

    at: datetime
    thread: int
    entry: int
    """The number of the journal entry."""
    event: str
    """``requested``, ``approved``, ``refused``, ``pushed``, ...; ``spent`` for what only cost something."""
    people: str
    """Logins, comma-separated, with account ids and roles if the journal has them."""
    plan: str
    """The digest of the plan that the row is about."""
    commit: str
    detail: str
    cost_usd: float | None
    """What the journal first accounts for in this entry, in dollars; the sum over all rows is the total cost."""


def audit_rows(thread: int, entries: Sequence[Entry], since: datetime) -> Iterator[AuditRow]:
    """Yield the rows of one thread from a moment on. Entries that neither decide nor cost anything have none."""
    for entry in entries:
        if entry.at < since:
            continue
        event = decode_event(entry.kind, entry.body)
        row = _describe(event)
        if row is None and event.cost_usd is None:
            continue
        name, people, commit, detail = row or ("spent", "", "", "")
        digest = event.digest or ""
        yield AuditRow(entry.at, thread, entry.n, name, people, digest, commit, detail, event.cost_usd)


def _describe(event: JournalEvent) -> tuple[str, str, str, str] | None:
    """Return event, people, commit, and detail; None for an entry that is no event of an audit."""
    match event:
        case Heard() if event.refused or event.quota:
            return "refused", _asker(event.said), "", "may not ask" if event.refused else "over the daily quota"
        case Heard():
            return _command_row(event)
        case moves.Answering() if event.grant is not None:
            name = "denied" if event.grant is Grant.NO else "permitted"
            return name, ", ".join(event.by), "", f"{event.tool} {event.subject} ({event.grant})"
        case moves.Published():
            return "pushed", "", event.commit, event.pull_request
        case moves.Delivered():
            return "pushed", "", event.commit, event.branch
        case Operated():
            return str(event.kind), "", "", event.outcome
        case _ if isinstance(event, moves.MoveEvent) and not isinstance(event, _WITHOUT_ROW):
            return str(event.kind), _people(event), "", _detail(event)
        case _:
            return None


def _command_row(event: Heard) -> tuple[str, str, str, str] | None:
    """Return the row of a command that sets what work may cost or do, or when it ends; None for any other words."""
    if event.budget_usd is not None:
        return "budget_set", _asker(event.said), "", f"${event.budget_usd:.2f}"
    if event.mode:
        return "mode_set", _asker(event.said), "", event.mode
    return ("finish_asked", _asker(event.said), "", "") if event.finish else None


def _people(event: JournalEvent) -> str:
    match event:
        case moves.Requested() | moves.Retried() | moves.Resumed():
            return _asker(event.said)
        case moves.Stopped():
            return _asker(event.said) or ", ".join(event.by)
        case moves.Approved() | moves.Rejected():
            return _deciders(event.evidence) or ", ".join(event.by or ())
        case _:
            return ""


def _detail(event: JournalEvent) -> str:
    match event:
        case moves.Planned() | moves.Outgrew():
            return f"tier {event.plan.tier}, version {event.plan.plan}"
        case moves.Approved() | moves.Rejected() | moves.Withdrawn():
            return event.reasons or ""
        case moves.Expired() | moves.Drifted() | moves.Failed() | moves.Limited():
            return event.detail or ""
        case moves.Executed():
            return f"model {event.model or 'unknown'}"
        case _:
            return ""


def _asker(turn: JournaledTurn | None) -> str:
    return f"{turn.actor.login} (id {turn.actor.id})" if turn else ""


def _deciders(evidence: DecisionEvidence | None) -> str:
    people = evidence.opinions if evidence else ()
    return ", ".join(
        f"{person.actor.login} (id {person.actor.id}, {person.role or 'listed'}, {person.way})" for person in people
    )
