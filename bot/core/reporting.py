"""What is reported outside of the thread: rows of the audit, and notifications (RC8)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from bot.core import moves
from bot.core.comment import plan_text
from bot.core.decision_evidence import DecisionEvidence
from bot.core.events import JournalEvent, decode_event
from bot.core.gate import Move
from bot.core.moves import Entry, JournaledTurn
from bot.core.names import ThreadAddress
from bot.core.notes import Operated, OtherTurn
from bot.core.question import Grant
from bot.core.thread.state import ThreadState, fold_entries
from bot.core.transcript import Json

# --- Audit rows (RC8) ------------------------------------------------------------------------------------------------
# They are made from a thread's journal: who asked, approved, and refused, what was pushed, and the cost.

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
    """The cost that this entry adds to the journal, in dollars; the sum over all rows is the total cost."""


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
        case OtherTurn() if event.refused or event.quota:
            return "refused", _asker(event.said), "", "may not ask" if event.refused else "over the daily quota"
        case OtherTurn():
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


def _command_row(event: OtherTurn) -> tuple[str, str, str, str] | None:
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


# --- Notifications to the operator's webhook -------------------------------------------------------------------------
# A notification is a function of the journal up to one move, so every process computes the same one, with the same id.

WAITING, DONE, FAILED = "waiting", "done", "failed"
MOVES: Final[Mapping[str, tuple[str, str | None]]] = MappingProxyType(
    {
        Move.PROPOSED: (WAITING, "approval"),
        Move.WITHDRAWN: (WAITING, "approval"),
        Move.ASKED: (WAITING, "answer"),
        Move.ANSWERED: (DONE, None),
        Move.PUBLISHED: (DONE, None),
        Move.FAILED: (FAILED, None),
        Move.LIMITED: (FAILED, None),
    }
)
"""The moves that are reported: the type of the notification, and what the thread waits for."""


@dataclass(frozen=True, slots=True)
class Notification:
    """One move that is reported. `entries` ends with it."""

    address: ThreadAddress
    entries: Sequence[Entry]

    @property
    def id(self) -> str:
        """The same for the same move, however often it is sent: repository, thread, journal position, and hash."""
        move = self.entries[-1]
        return f"{self.address.repository}-{self.address.number}-{move.n}-{move.chain_hash[:12]}"

    @property
    def at(self) -> datetime:
        return self.entries[-1].at

    def payload(self, server_url: str) -> Json:
        """Return the body, in the form that https://www.standardwebhooks.com recommends. Folds the whole journal."""
        state = fold_entries(self.entries)
        kind, waiting_for = MOVES[self.entries[-1].kind]
        at = self.at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        thread = f"{server_url}/{self.address.full_name}/issues/{self.address.number}"
        data = {
            "repository": self.address.full_name,
            "number": self.address.number,
            "title": (state.request.newest.title if state.request.newest else None) or "",
            "stage": str(state.stage),
            "waiting_for": waiting_for,
            "plan_digest": state.gate.digest,
            "plan": plan_text(plan) if waiting_for == "approval" and (plan := state.plan.newest) else None,
            "pull_request": state.work.pull_request_url or None,
            "cost_usd": state.costs.total_usd,
            "url": _comment_url(state, waiting_for) or thread,
            "at": at,
        }
        return {"type": kind, "timestamp": at, "data": data}


def notifications(address: ThreadAddress, entries: Sequence[Entry], since: datetime) -> Iterator[Notification]:
    """Yield what is reported of the entries from a time on, newest first."""
    for end in range(len(entries), 0, -1):
        if entries[end - 1].at < since:
            return
        if entries[end - 1].kind in MOVES:
            yield Notification(address, entries[:end])


def _comment_url(state: ThreadState, waiting_for: str | None) -> str:
    """Return the URL of the comment to act on; "" if that is the thread as a whole."""
    return state.plan.comment_url if waiting_for == "approval" else ""
