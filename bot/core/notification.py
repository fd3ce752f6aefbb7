"""What the service reports to the operator's webhook about a thread: which moves, and in which words.

A notification is a function of the journal up to one move, so every process computes the same one, with the same id.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from bot.core.comment import plan_text
from bot.core.entry import Entry
from bot.core.gate import Move
from bot.core.names import ThreadAddress
from bot.core.thread.state import ThreadState, fold_entries
from bot.core.transcript import Json

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
        """When the move was journaled."""
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
