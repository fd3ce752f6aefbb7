"""The gate: one table with every move of a thread.

1. TRANSITIONS holds every move of a thread. Nothing else changes a stage.
2. The gate cannot wait, read, write, or see a clock.
3. Entering a stage asks for at most one effect (ON_ENTER); the shell performs it and answers with an event.
4. An answer names the ask that it answers, so a late or repeated answer changes nothing.

``step(thread, event) -> (thread, effect | None)``; on IllegalEvent nothing has changed. A thread's state is the
fold of `step` over the accepted events of its journal. (thread, ask) is the idempotency key of every effect.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from bot.core.errors import IllegalEvent
from bot.core.names import Digest


class Stage(StrEnum):
    """Where a thread stands. JSON, outputs, journal, and labels use the same words."""

    LISTENING = "listening"
    PLANNING = "planning"
    PROPOSING = "proposing"
    AWAITING_APPROVAL = "awaiting_approval"
    EXECUTING = "executing"
    PUBLISHING = "publishing"
    IN_REVIEW = "in_review"
    ANSWERED = "answered"
    ASKED = "asked"
    DONE = "done"
    REJECTED = "rejected"
    STALE = "stale"
    EXPIRED = "expired"
    STOPPED = "stopped"
    FAILED = "failed"
    LIMIT = "limit"


class Effect(StrEnum):
    """What entering a stage requires. `VERBS` in bot/workflow/engine.py names the function that performs it."""

    PLANNING = "planning"
    PROPOSING = "proposing"
    APPROVING = "approving"
    EXECUTING = "executing"
    PUBLISHING = "publishing"
    ASKING = "asking"


class Move(StrEnum):
    """What can happen to a thread."""

    REQUESTED = "requested"
    NOTED = "noted"
    PLANNED = "planned"
    ANSWERED = "answered"
    ASKED = "asked"
    REPLIED = "replied"
    INSTRUCTED = "instructed"
    PROPOSED = "proposed"
    APPROVED = "approved"
    REJECTED = "rejected"
    DRIFTED = "drifted"
    EXPIRED = "expired"
    EXECUTED = "executed"
    OUTGREW = "outgrew"
    WITHDRAWN = "withdrawn"
    PUBLISHED = "published"
    DELIVERED = "delivered"
    CLOSED = "closed"
    STOPPED = "stopped"
    FAILED = "failed"
    LIMITED = "limited"
    RETRIED = "retried"
    RESUMED = "resumed"


@dataclass(frozen=True, slots=True)
class Event:
    """One move. Answers to an effect name its ask, and events about a plan name its digest."""

    move: Move
    ask: int | None = None
    digest: Digest | None = None


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread's state: the fold of its journal."""

    stage: Stage = Stage.LISTENING
    ask: int = 0
    """The number of effects requested so far."""
    round: int = 1
    """The number of the round. A request after the merge opens a new one."""
    plan: int = 0
    """The number of the newest plan version."""
    digest: Digest | None = None
    """The digest of the plan that is shown or was shown last."""
    approved: Digest | None = None


_REST: Final = {Move.REQUESTED: Stage.PLANNING}
_ENDS: Final = {Move.STOPPED: Stage.STOPPED, Move.FAILED: Stage.FAILED, Move.LIMITED: Stage.LIMIT}
_ROUND: Final = {**_REST, Move.CLOSED: Stage.DONE}
_AGAIN: Final = {**_ROUND, Move.RETRIED: Stage.PLANNING, Move.RESUMED: Stage.EXECUTING}

# A pull request can be merged wherever its thread rests or waits. That ends its round, and a further request begins the
# next one (PR2).
# Stopping a thread that never began or is done leaves it there. A stopped thread can be retried or resumed, which would
# plan what nobody asked for, or repeat finished work under a spent approval.
TRANSITIONS: Final[Mapping[Stage, Mapping[Move, Stage]]] = MappingProxyType(
    {
        Stage.LISTENING: {**_REST, Move.STOPPED: Stage.LISTENING},
        Stage.PLANNING: {
            Move.NOTED: Stage.PLANNING,
            Move.PLANNED: Stage.PROPOSING,
            Move.ANSWERED: Stage.ANSWERED,
            Move.ASKED: Stage.ASKED,
            **_ENDS,
        },
        Stage.PROPOSING: {
            **_ROUND,
            Move.PROPOSED: Stage.AWAITING_APPROVAL,
            **_ENDS,
        },
        Stage.AWAITING_APPROVAL: {
            **_ROUND,
            Move.APPROVED: Stage.EXECUTING,
            Move.REJECTED: Stage.REJECTED,
            Move.DRIFTED: Stage.STALE,
            Move.EXPIRED: Stage.EXPIRED,
            **_ENDS,
        },
        Stage.EXECUTING: {
            Move.NOTED: Stage.EXECUTING,
            Move.EXECUTED: Stage.PUBLISHING,
            Move.WITHDRAWN: Stage.AWAITING_APPROVAL,
            Move.DRIFTED: Stage.STALE,
            Move.ASKED: Stage.ASKED,
            **_ENDS,
        },
        Stage.PUBLISHING: {
            Move.NOTED: Stage.PUBLISHING,
            Move.OUTGREW: Stage.PROPOSING,
            Move.WITHDRAWN: Stage.AWAITING_APPROVAL,
            Move.DRIFTED: Stage.STALE,
            Move.PUBLISHED: Stage.IN_REVIEW,
            Move.DELIVERED: Stage.DONE,
            **_ENDS,
        },
        Stage.IN_REVIEW: {**_ROUND, Move.STOPPED: Stage.IN_REVIEW},
        Stage.ANSWERED: {**_ROUND, Move.STOPPED: Stage.STOPPED},
        # An answer to a planner's question leads back to planning; one that steers approved work, back to that work.
        Stage.ASKED: {
            **_ROUND,
            Move.NOTED: Stage.ASKED,
            Move.REPLIED: Stage.PLANNING,
            Move.INSTRUCTED: Stage.EXECUTING,
            Move.EXPIRED: Stage.EXPIRED,
            Move.STOPPED: Stage.STOPPED,
            Move.FAILED: Stage.FAILED,
        },
        Stage.DONE: {**_REST, Move.STOPPED: Stage.DONE},
        Stage.REJECTED: {**_ROUND, Move.STOPPED: Stage.STOPPED},
        Stage.STALE: {**_ROUND, Move.RETRIED: Stage.PLANNING, Move.STOPPED: Stage.STOPPED},
        Stage.EXPIRED: {**_ROUND, Move.RETRIED: Stage.PLANNING, Move.STOPPED: Stage.STOPPED},
        Stage.STOPPED: {**_AGAIN, Move.STOPPED: Stage.STOPPED},
        Stage.FAILED: {**_AGAIN, Move.STOPPED: Stage.STOPPED},
        Stage.LIMIT: {**_AGAIN, Move.STOPPED: Stage.STOPPED},
    }
)

ON_ENTER: Final[Mapping[Stage, Effect]] = MappingProxyType(
    {
        Stage.PLANNING: Effect.PLANNING,
        Stage.PROPOSING: Effect.PROPOSING,
        Stage.AWAITING_APPROVAL: Effect.APPROVING,
        Stage.EXECUTING: Effect.EXECUTING,
        Stage.PUBLISHING: Effect.PUBLISHING,
        Stage.ASKED: Effect.ASKING,
    }
)

AT_WORK: Final = frozenset({Stage.EXECUTING, Stage.PUBLISHING})
"""Stages in which approved work is in progress."""
WAITS_FOR_PEOPLE: Final = frozenset({Stage.AWAITING_APPROVAL, Stage.ASKED})
"""Stages in which nothing happens until people act."""
PLAN_MAY_BE_SHOWN: Final = frozenset({Stage.PROPOSING, Stage.AWAITING_APPROVAL})
"""Stages in which people may see a plan. The plan is shown before the journal records that it is."""

ANSWERS: Final = frozenset(
    {
        Move.PLANNED,
        Move.ANSWERED,
        Move.ASKED,
        Move.REPLIED,
        Move.INSTRUCTED,
        Move.PROPOSED,
        Move.APPROVED,
        Move.REJECTED,
        Move.DRIFTED,
        Move.EXPIRED,
        Move.EXECUTED,
        Move.OUTGREW,
        Move.WITHDRAWN,
        Move.PUBLISHED,
        Move.DELIVERED,
        Move.FAILED,
        Move.LIMITED,
    }
)
"""Moves that answer an effect. They must name the open ask."""

_NEEDS_DIGEST: Final = frozenset({Move.PLANNED, Move.OUTGREW})
_NEEDS_CURRENT: Final = frozenset(
    {Move.PROPOSED, Move.APPROVED, Move.INSTRUCTED, Move.EXECUTED, Move.PUBLISHED, Move.DELIVERED}
)
_NEEDS_APPROVAL: Final = frozenset({Move.INSTRUCTED, Move.EXECUTED, Move.PUBLISHED, Move.DELIVERED, Move.RESUMED})
_NEW_ROUND: Final = frozenset({Stage.DONE})


def step(thread: Thread, event: Event) -> tuple[Thread, Effect | None]:
    """Return the thread moved by one event, and the effect to perform. It differs only as the table says.

    Raises IllegalEvent if the table has no such move, if an answer names another ask, or if a digest is not the one in
    force. Nothing has changed then.
    """
    target = TRANSITIONS[thread.stage].get(event.move)
    if target is None:
        raise IllegalEvent(f"a thread that is {thread.stage} cannot be {event.move}")
    _check(thread, event)
    moved = _carry(thread, event)
    effect = ON_ENTER.get(target)
    if effect is None or event.move is Move.NOTED:
        return replace(moved, stage=target), None
    return replace(moved, stage=target, ask=thread.ask + 1), effect


def _check(thread: Thread, event: Event) -> None:
    """Raise IllegalEvent for late answers, digests that are not in force, and resumption without approval."""
    if event.move in ANSWERS and event.ask != thread.ask:
        raise IllegalEvent(f"{event.move} answers ask {event.ask}, but ask {thread.ask} is open")
    if event.move in _NEEDS_DIGEST and not event.digest:
        raise IllegalEvent(f"{event.move} must name the digest of its plan")
    if event.move in _NEEDS_CURRENT and event.digest != thread.digest:
        raise IllegalEvent(f"{event.move} names another plan than the one in force")
    if event.move in _NEEDS_APPROVAL and (thread.approved is None or thread.approved != thread.digest):
        raise IllegalEvent(f"{event.move} needs an approved plan")


def _carry(thread: Thread, event: Event) -> Thread:
    """Return the thread with the event's changes to plans, approvals, and rounds."""
    match event.move:
        case Move.PLANNED | Move.OUTGREW:
            return replace(thread, plan=thread.plan + 1, digest=event.digest, approved=None)
        case Move.APPROVED:
            return replace(thread, approved=event.digest)
        case Move.WITHDRAWN | Move.REJECTED | Move.DRIFTED | Move.EXPIRED | Move.RETRIED | Move.REPLIED:
            return replace(thread, approved=None)
        case Move.REQUESTED:
            started = replace(thread, approved=None, digest=None)
            return replace(started, round=thread.round + 1) if thread.stage in _NEW_ROUND else started
        case _:
            return thread
