"""What a decision on a plan rested on: the opinions that counted, the rule, and the snapshot (RC1).

The journal keeps it with the decision, and a receipt states it. Old decisions have none.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from bot.core.approval import Candidate, Opinion, Policy, Snapshot, Verdict, VerdictOutcome, newest_of_each_person
from bot.core.codec import Form, Inline
from bot.core.names import CommitId
from bot.core.paths import Tier
from bot.core.plan import PlanDocument
from bot.core.turn import Actor

_ACCOUNT: Final = Inline((("id", "actor_id"), ("login", "login")))


def utc_text(at: datetime) -> str:
    return at.astimezone(UTC).isoformat()


@dataclass(frozen=True, slots=True)
class CountedOpinion:
    """One person's opinion that counted, and what was looked up about the person in the same snapshot."""

    actor: Annotated[Actor, _ACCOUNT]
    role: str
    """The role on the repository; "" if the configuration names the person and the role is unknown."""
    listed: bool
    """Whether `approve.users` or a team of `approve.teams` names the person."""
    way: str
    """``reaction``, ``tick``, ``command``, ``mail``, ``dashboard``, or ``terminal``."""
    at: Annotated[datetime, Form(datetime.fromisoformat, utc_text)]


@dataclass(frozen=True, slots=True)
class ConfigurationChange:
    """The newest change of the configuration file on the default branch, and the account that put it there."""

    commit: CommitId
    actor: Annotated[Actor, _ACCOUNT]


@dataclass(frozen=True, slots=True)
class DecisionEvidence:
    snapshot: str
    """SHA-256 of the snapshot in canonical JSON, in hex."""
    opinions: tuple[CountedOpinion, ...]
    """The opinions that decided; none if the configuration alone approved the plan."""
    configuration: str
    """Git blob id of the configuration file that was in force; "" for the defaults."""
    required_role: str
    needed: int
    """The number of approvals that the plan's tier needs."""
    four_eyes: bool
    requesters: tuple[int, ...]
    """Numeric ids of the people whose words the plan was made for, in ascending order."""
    fewer: str = ""
    """Why fewer approvals than `needed` were enough; "" where they were not."""
    change: ConfigurationChange | None = None
    """The newest change of the configuration, if that alone approved the plan; None where people did, or if unknown."""


def decision_evidence(
    plan: PlanDocument, snapshot: Snapshot, policy: Policy, verdict: Verdict, *, configuration: str
) -> DecisionEvidence:
    """Return what a verdict that approves or rejects rested on."""
    opinion = Opinion.REJECT if verdict.outcome is VerdictOutcome.REJECTED else Opinion.APPROVE
    deciding = {actor.id for actor in verdict.by}
    counted = (
        candidate
        for candidate in snapshot.candidates
        if candidate.opinion is opinion and candidate.actor.id in deciding
    )
    needed = policy.high_needs if plan.tier == Tier.HIGH else 1
    reasons = [str(why.reason) for why in verdict.reasons if why.actor is None]
    return DecisionEvidence(
        snapshot=snapshot_digest(snapshot),
        opinions=tuple(map(_counted_opinion, newest_of_each_person(counted))),
        configuration=configuration,
        required_role=policy.role.name.lower(),
        needed=needed,
        four_eyes=policy.four_eyes,
        requesters=tuple(sorted(snapshot.requesters)),
        fewer=reasons[0] if reasons and opinion is Opinion.APPROVE and len(deciding) < needed else "",
    )


def snapshot_digest(snapshot: Snapshot) -> str:
    """Return the SHA-256 of a snapshot in hex. Equal snapshots have equal digests."""
    text = json.dumps(asdict(snapshot), sort_keys=True, separators=(",", ":"), default=_json_value)
    return hashlib.sha256(text.encode()).hexdigest()


def _json_value(value: Any) -> Any:
    if isinstance(value, frozenset | set):
        return sorted(value)
    return utc_text(value) if isinstance(value, datetime) else str(value)


def _counted_opinion(candidate: Candidate) -> CountedOpinion:
    role = "" if candidate.role is None else candidate.role.name.lower()
    return CountedOpinion(candidate.actor, role, bool(candidate.listed), str(candidate.way), candidate.at)
