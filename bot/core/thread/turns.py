"""The part of a thread's state about turns: what people said, and the texts that are still to be posted to them.

Each entry with a turn marks it as seen and counts it by day and author; a text to post stays until its `TextPosted`.
Verbs ask up to when turns were taken in, what was refused or answered, and which texts are due.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, TypeVar

from bot.core import moves, notes
from bot.core.events import JournalEvent
from bot.core.maintenance import ASKED
from bot.core.moves import JournaledTurn
from bot.core.thread import NEVER, EntryStep

ISSUE: Final = "issue"
"""The key of the turn that holds an issue's own text."""
LEFT_BEHIND: Final = timedelta(minutes=2)
"""After this time, a reply that nobody posted counts as left behind by a process that died."""

_K = TypeVar("_K")


@dataclass(frozen=True, slots=True)
class UnpostedText:
    n: int
    """The entry's number in the journal; `TextPosted.answers` names it once its text is posted."""
    at: datetime
    event: JournalEvent


@dataclass(frozen=True, slots=True)
class TurnState:
    seen: frozenset[str] = frozenset()
    """The keys of all turns that were taken in or set aside."""
    last_request_at: datetime = NEVER
    """When somebody last asked for work, added to a request, or asked for a retry."""
    newest_turn_at: datetime = NEVER
    waiting_since: str = ""
    """The time (ISO 8601) of the oldest turn that waits because its author's role is unknown; "" if none waits."""
    opening_accepted: tuple[datetime, datetime] | None = None
    """When the issue's own text was accepted: the time of its entry, and the time of the text. None if it was not."""
    requests: frozenset[tuple[int, str, str]] = frozenset()
    """One (author's id, day, key) for every turn that asked for work."""
    refusals: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """Number of refused turns by day and author's id."""
    over_quota: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """Number of requests beyond the author's quota, by day and author's id."""
    answered: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """Number of turns that were answered, or that resumed or retried, without a request, by day and author's id."""
    forgotten_comment: int = 0
    """If the journal was set back: the number of the bot's newest comment that it no longer records; else 0 (A4b)."""
    unposted_texts: tuple[UnpostedText, ...] = ()
    """The entries whose text was not posted yet, oldest first."""

    def apply(self, step: EntryStep) -> "TurnState":
        event, part = step.event, self
        if event.text_to_post:
            part = replace(part, unposted_texts=(*part.unposted_texts, UnpostedText(step.n, step.at, event)))
        if (said := step.turn) is not None:
            part = part._add_turn(step, said)
        match event:
            case notes.TextPosted(answers=n):
                unposted = tuple(unposted for unposted in part.unposted_texts if unposted.n != n)
                return replace(part, unposted_texts=unposted)
            case moves.Answering(turn=turn) if turn:
                return replace(part, seen=part.seen | {turn})
            case notes.OtherTurn(refused=refused, quota=quota) if refused or quota:
                who = event.said.actor.id
                return replace(
                    part,
                    refusals=_add_one(part.refusals, (refused, who)) if refused else part.refusals,
                    over_quota=_add_one(part.over_quota, (quota, who)) if quota else part.over_quota,
                )
            case _:
                return part

    def _add_turn(self, step: EntryStep, turn: JournaledTurn) -> "TurnState":
        event, opening = step.event, self.opening_accepted
        is_request = isinstance(event, moves.Requested | moves.Noted)
        if turn.key == ISSUE and (
            is_request or (event.text_to_post and not (isinstance(event, notes.OtherTurn) and event.quota))
        ):
            opening = (step.at, turn.at) if opening is None else (max(opening[0], step.at), max(opening[1], turn.at))
        asks = is_request or isinstance(event, moves.Retried)
        # The bot is the author of a request that a tick made; the person who ticked is in its `editors`.
        people = turn.editors if turn.key.startswith(ASKED) else (turn.actor.id,)
        forgotten = event.forgotten if isinstance(event, moves.Requested | notes.OtherTurn) else 0
        day, _ = turn.day_and_author
        is_reply = isinstance(event, notes.OtherTurn) and bool(event.text_to_post)
        is_answered = is_reply or isinstance(event, moves.Retried | moves.Resumed)
        return replace(
            self,
            seen=self.seen | {turn.key},
            forgotten_comment=forgotten or self.forgotten_comment,
            answered=_add_one(self.answered, turn.day_and_author) if is_answered else self.answered,
            last_request_at=max(self.last_request_at, turn.at) if asks else self.last_request_at,
            newest_turn_at=max(self.newest_turn_at, turn.at),
            waiting_since=self.waiting_since if turn.waits is None else turn.waits,
            opening_accepted=opening,
            requests=self.requests | {(who, day, turn.key) for who in people} if is_request else self.requests,
        )

    @property
    def until(self) -> datetime | None:
        """The time up to which every turn was taken in: that of the oldest turn that waits, else of the newest turn."""
        if self.waiting_since:
            return datetime.fromisoformat(self.waiting_since)
        return None if self.newest_turn_at == NEVER else self.newest_turn_at

    def texts_to_post(self, at: datetime) -> tuple[UnpostedText, ...]:
        """Return what a check at that time must post: the texts of moves, and replies that were left behind."""
        return tuple(
            unposted
            for unposted in self.unposted_texts
            if not isinstance(unposted.event, notes.OtherTurn) or unposted.at < at - LEFT_BEHIND
        )


def _add_one(counts: Mapping[_K, int], key: _K) -> dict[_K, int]:
    return {**counts, key: counts.get(key, 0) + 1}
