"""Decides whether a plan is approved: one pure function, `evaluate` (A1-A5), and standing approval (MT6)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from bot.core.errors import Broken
from bot.core.names import SHORT_DIGEST
from bot.core.paths import Tier, is_path_covered, normalized_path
from bot.core.plan import PlanDocument
from bot.core.turn import Actor, ActorKind, Role

# --- Standing approval of a scheduled task (MT6) ---------------------------------------------------------------------
# The configuration of the default branch can approve a plan by itself. This part only says whether a plan stays inside
# what that configuration allows. `prove` makes the proof.

_WILD: Final = frozenset("*?[]{}!")
_COMPARED: Final = frozenset("[]{}!\\")
"""Signs of globs that are only compared as a whole."""
_ANY_NAME: Final = "\ue000" * 64
"""A name that only a glob for any name matches."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What `approval: standing` of a task allows, as the file on the default branch says now."""

    task: str
    paths: tuple[str, ...]
    hosts: tuple[str, ...] = ()
    asked_before: bool = False
    """Whether people approved a plan of exactly this task before. The first plan always needs people."""


def standing_objection(plan: PlanDocument, standing: Standing, *, four_eyes: bool) -> str:
    """Return why a plan needs people although its task has standing approval, or "" if it needs none."""
    if four_eyes:
        return "approve.four_eyes asks for a second person"
    if not standing.asked_before:
        return "it is the first plan of this task, or of its changed version"
    if plan.tier not in {Tier.LOW, Tier.NORMAL}:
        return f"its tier is {plan.tier}"
    if plan.operations:
        return "it has operations on issues"
    named = [glob for glob in plan.contract.scope if not glob.startswith("!")]
    if not named:
        return "it names no files"
    if outside := [glob for glob in named if not is_glob_inside(glob, standing.paths)]:
        return f"it names files outside the task's paths ({outside[0]})"
    if further := sorted(set(plan.contract.hosts) - set(standing.hosts)):
        return f"it reaches a host that the configuration does not list ({further[0]})"
    return ""


def is_glob_inside(glob: str, paths: Sequence[str]) -> bool:
    """Return whether everything that a glob of a plan reaches is reached by one of the task's globs as well.

    False if that is not certain, so that people are asked. A glob that excludes files reaches none.
    """
    return any(_is_inside(glob, path) for path in paths)


def _is_inside(glob: str, path: str) -> bool:
    """Return whether one glob reaches all of another. `core.paths` says what a glob reaches."""
    plain = normalized_path(glob)
    if plain == normalized_path(path) and glob.startswith("/") == path.startswith("/"):
        return True
    if plain.startswith(".") or not _COMPARED.isdisjoint(glob + path):
        return False
    steps = plain.strip("/").split("/")
    if len(steps) == 1 and not glob.startswith("/"):  # it reaches that name in every folder
        return "/" not in path and _WILD.isdisjoint(glob) and is_path_covered(glob, path)
    fixed = steps[: next((n for n, step in enumerate(steps) if not _WILD.isdisjoint(step)), len(steps))]
    rest_of_path = [] if len(fixed) == len(steps) else [_ANY_NAME]
    return bool(fixed) and is_path_covered("/".join([*fixed, *rest_of_path]), path)


# --- The verdict on a plan (A1-A5) -----------------------------------------------------------------------------------
# Rules
# - Only this file can make an `ApprovedPlan`. An executor takes that value, never a flag.
# - Unknown means not approved: a failed look-up leaves the verdict pending.
# - Every candidate that does not count is named with its reason.


class Way(StrEnum):
    """How an opinion was given."""

    REACTION = "reaction"
    TICK = "tick"
    COMMAND = "command"
    MAIL = "mail"
    DASHBOARD = "dashboard"
    TERMINAL = "terminal"


class Opinion(StrEnum):
    APPROVE = "approve"
    REJECT = "reject"
    REVISE = "revise"


class Reason(StrEnum):
    """Why a candidate or a whole plan does not count, or why tier high needs fewer approvals here.

    core/comment.py has the sentence for each.
    """

    NOT_A_USER = "not_a_user"
    IS_THE_BOT = "is_the_bot"
    ROLE_UNKNOWN = "role_unknown"
    ROLE_TOO_LOW = "role_too_low"
    TEAM_UNKNOWN = "team_unknown"
    FOUR_EYES = "four_eyes"
    TOO_OLD = "too_old"
    SAID_BEFORE = "said_before"
    SAME_SECOND = "same_second"
    OTHER_PLAN = "other_plan"
    NO_DIGEST = "no_digest"
    COMMENT_EDITED = "comment_edited"
    SENT_BY_MAIL = "sent_by_mail"
    REVISION_ASKED = "revision_asked"
    TOO_FEW = "too_few"
    CODE_OWNER = "code_owner"
    NOBODY_ELSE = "nobody_else"
    PLAN_CHANGED = "plan_changed"
    PLAN_HIDDEN = "plan_hidden"
    THREAD_CLOSED = "thread_closed"
    THREAD_LOCKED = "thread_locked"
    OVERTAKEN = "overtaken"
    SCOPE_DRIFTED = "scope_drifted"
    PLAN_EXPIRED = "plan_expired"
    LOOKUP_FAILED = "lookup_failed"
    NOBODY = "nobody"
    STANDING = "standing"


class VerdictOutcome(StrEnum):
    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    STALE = "stale"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A person who gave an opinion on the plan, with what was looked up about them in the same snapshot."""

    actor: Actor
    way: Way
    opinion: Opinion
    at: datetime
    role: Role | None
    """The role looked up live; None when the look-up failed."""
    listed: bool | None = False
    """Whether approve.users or a team of approve.teams names the person; None if GitHub hides team membership."""
    digest: str = ""
    """The hex digits that came with a command; empty for none."""
    edited: bool = False
    """Whether anybody ever edited the comment that carried the command (A4a)."""


@dataclass(frozen=True, slots=True)
class ShownPlan:
    """The plan comment as people see it now."""

    since: datetime
    """The later of the posting and the last edit of the content (A2: lastEditedAt, not updated_at)."""
    intact: bool = True
    """Whether it shows the stored document and every edit is explained by a tick that was seen."""
    hidden: bool = False
    """Whether it was deleted or minimized."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One live reading of everything that decides about a plan (A1)."""

    shown: ShownPlan
    candidates: tuple[Candidate, ...] = ()
    open: bool = True
    closed_at: datetime | None = None
    """Whether the thread is neither closed nor transferred, and when it was closed without a merge."""
    locked: bool = False
    """Whether the conversation is locked. Nobody can react then, so only a comment that names the digest approves."""
    overtaken: bool = False
    """Whether the branch of the pull request that the plan adds to is gone, or that pull request was merged."""
    drifted: tuple[str, ...] = ()
    """Files in the plan's scope that changed on the base branch since the plan's base."""
    complete: bool = True
    """Whether every look-up succeeded and every page was read."""
    requesters: frozenset[int] = frozenset()
    """Ids of the people whose words the plan was made for: who asked, who added to it, and who may have edited it."""
    plans: int = 1
    """The number of plan versions that the request has had."""
    approvers: frozenset[int] | None = None
    """Numeric ids of all who may approve, including the bot if it may; None when unknown."""
    standing: Standing | None = None
    """The configuration's standing approval of the thread's scheduled task; None if there is none."""
    owners: frozenset[int] = frozenset()
    """Numeric ids of the people who approved and, per the default branch's CODEOWNERS, own all that may change."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Who may approve, and how many approvals are needed."""

    role: Role = Role.MAINTAIN
    four_eyes: bool = False
    high_needs: int = 2
    bot: int = 0
    """The numeric id of the bot's own account."""

    def may_decide(self, actor: Actor, role: Role | None, *, listed: bool) -> bool:
        """Return whether an account may decide: a user other than the bot who is listed or has the required role."""
        person = actor.kind is ActorKind.USER and actor.id != self.bot
        return person and (listed or (role or Role.NONE) >= self.role)


@dataclass(frozen=True, slots=True)
class VerdictReason:
    """One reason and the person it is about (None: the plan as a whole)."""

    reason: Reason
    actor: Actor | None = None


_CAUSED_BY_ACTIONS: Final = frozenset(
    {
        Reason.PLAN_CHANGED,
        Reason.PLAN_HIDDEN,
        Reason.THREAD_CLOSED,
        Reason.THREAD_LOCKED,
        Reason.REVISION_ASKED,
        Reason.TOO_FEW,
    }
)
"""Reasons that people cause by an action on the plan or the thread, not by an opinion that does not count."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of evaluating a snapshot, always with reasons. `by` names the people whose opinion decided."""

    outcome: VerdictOutcome
    by: tuple[Actor, ...] = ()
    reasons: tuple[VerdictReason, ...] = ()

    @property
    def needs_explanation(self) -> bool:
        """Whether to explain why the plan waits: somebody tried to decide or did something to the plan (A5)."""
        return any(why.actor is not None or why.reason in _CAUSED_BY_ACTIONS for why in self.reasons)


class ApprovedPlan:
    """Proof that exactly this document was approved. Only `prove` makes one."""

    __slots__ = ("_at", "_document", "_verdict")

    def __init__(self, key: object, document: PlanDocument, verdict: Verdict, at: datetime) -> None:
        if key is not _KEY:
            raise Broken("an ApprovedPlan is made by approval.prove alone")
        self._document, self._verdict, self._at = document, verdict, at

    @property
    def document(self) -> PlanDocument:
        return self._document

    @property
    def verdict(self) -> Verdict:
        """The verdict: who approved, and why their number was enough."""
        return self._verdict

    @property
    def at(self) -> datetime:
        return self._at


_KEY: Final = object()


def evaluate(plan: PlanDocument, snapshot: Snapshot, policy: Policy, now: datetime) -> Verdict:
    """Return the verdict on a plan for one live snapshot. The same input always gives the same verdict."""
    blocked = _blocking_verdict(plan, snapshot, now)
    if blocked is not None:
        return blocked
    judged = [(candidate, _objection(plan, snapshot, policy, candidate)) for candidate in snapshot.candidates]
    reasons = tuple(VerdictReason(reason, candidate.actor) for candidate, reason in judged if reason is not None)
    counted = tuple(candidate for candidate, reason in judged if reason is None)
    newest = newest_of_each_person(counted)
    if refused := _rejecters(newest):
        return Verdict(VerdictOutcome.REJECTED, refused, reasons)
    if any(candidate.opinion is Opinion.REVISE for candidate in newest):
        return Verdict(VerdictOutcome.PENDING, (), (*reasons, VerdictReason(Reason.REVISION_ASKED)))
    if snapshot.locked:  # an approval that the lock voids still replaces the person's earlier opinion
        reasons += tuple(
            VerdictReason(Reason.THREAD_LOCKED, candidate.actor) for candidate in counted if _is_unnamed(candidate)
        )
        newest = newest_of_each_person(candidate for candidate in counted if not _is_unnamed(candidate))
    approvals = tuple(candidate for candidate in newest if candidate.opinion is Opinion.APPROVE)
    return _approval_verdict(plan, snapshot, policy, approvals, reasons=reasons)


def prove(plan: PlanDocument, snapshot: Snapshot, policy: Policy, now: datetime) -> tuple[Verdict, ApprovedPlan | None]:
    """Return the verdict and, when it approves, the proof; otherwise None in place of the proof."""
    verdict = evaluate(plan, snapshot, policy, now)
    if verdict.outcome is not VerdictOutcome.APPROVED:
        return verdict, None
    return verdict, ApprovedPlan(_KEY, plan, verdict, now)


def rejecters(plan: PlanDocument, snapshot: Snapshot, policy: Policy) -> tuple[Actor, ...]:
    """Return the people who may decide and whose last opinion is a rejection, which stops work in progress.

    Later changes to the plan or its comment do not matter: an edit must not keep the work going.
    """
    ageless = replace(snapshot, shown=ShownPlan(datetime.min.replace(tzinfo=UTC)))
    may_decide = [candidate for candidate in snapshot.candidates if not _objection(plan, ageless, policy, candidate)]
    return _rejecters(newest_of_each_person(may_decide))


def approval_attempts(snapshot: Snapshot, policy: Policy, since: datetime) -> tuple[Actor, ...]:
    """Return the people who may decide and who approved after `since`, other than by command.

    Commands get their own answer.
    """
    return tuple(
        candidate.actor
        for candidate in snapshot.candidates
        if candidate.opinion is Opinion.APPROVE
        and candidate.way not in {Way.COMMAND, Way.MAIL}
        and candidate.at > since
        and _objection_to_actor(snapshot, policy, candidate) in {None, Reason.FOUR_EYES}
    )


def _blocking_verdict(plan: PlanDocument, snapshot: Snapshot, now: datetime) -> Verdict | None:
    """Return the verdict that holds regardless of opinions, or None if there is none."""
    if now >= plan.expires:
        return Verdict(VerdictOutcome.EXPIRED, (), (VerdictReason(Reason.PLAN_EXPIRED),))
    if snapshot.overtaken:
        return Verdict(VerdictOutcome.STALE, (), (VerdictReason(Reason.OVERTAKEN),))
    if snapshot.drifted:
        return Verdict(VerdictOutcome.STALE, (), (VerdictReason(Reason.SCOPE_DRIFTED),))
    waits = {
        Reason.LOOKUP_FAILED: not snapshot.complete,
        Reason.THREAD_CLOSED: not snapshot.open,
        Reason.PLAN_HIDDEN: snapshot.shown.hidden,
        Reason.PLAN_CHANGED: not snapshot.shown.intact,
    }
    reasons = tuple(VerdictReason(reason) for reason, holds in waits.items() if holds)
    return Verdict(VerdictOutcome.PENDING, (), reasons) if reasons else None


def _rejecters(candidates: Iterable[Candidate]) -> tuple[Actor, ...]:
    return tuple(candidate.actor for candidate in candidates if candidate.opinion is Opinion.REJECT)


def _objection(plan: PlanDocument, snapshot: Snapshot, policy: Policy, candidate: Candidate) -> Reason | None:
    return _objection_to_actor(snapshot, policy, candidate) or _objection_to_opinion(plan, snapshot, candidate)


def _objection_to_actor(snapshot: Snapshot, policy: Policy, candidate: Candidate) -> Reason | None:
    if candidate.actor.id == policy.bot:
        return Reason.IS_THE_BOT
    if candidate.actor.kind is not ActorKind.USER:
        return Reason.NOT_A_USER
    if candidate.role is None:
        return Reason.ROLE_UNKNOWN
    if candidate.role < policy.role and not candidate.listed:
        return Reason.TEAM_UNKNOWN if candidate.listed is None else Reason.ROLE_TOO_LOW
    if policy.four_eyes and candidate.actor.id in snapshot.requesters and candidate.opinion is Opinion.APPROVE:
        return Reason.FOUR_EYES
    return None


def _objection_to_opinion(plan: PlanDocument, snapshot: Snapshot, candidate: Candidate) -> Reason | None:
    if candidate.edited:
        return Reason.COMMENT_EDITED
    if candidate.way is Way.MAIL and candidate.opinion is not Opinion.REJECT:  # it may quote somebody else (A6)
        return Reason.SENT_BY_MAIL
    if candidate.at <= snapshot.shown.since:
        return _reason_too_early(candidate, snapshot.shown.since)
    if candidate.digest:
        exact = len(candidate.digest) >= SHORT_DIGEST and plan.digest.startswith(candidate.digest.lower())
        return None if exact else Reason.OTHER_PLAN
    if candidate.way is Way.COMMAND and snapshot.plans > 1 and candidate.opinion is Opinion.APPROVE:
        return Reason.NO_DIGEST
    return None


def _reason_too_early(candidate: Candidate, since: datetime) -> Reason:
    """Return the reason for an opinion that is not newer than the plan.

    Unlike a reaction, a comment cannot be re-added.
    """
    if candidate.way not in {Way.COMMAND, Way.MAIL}:
        return Reason.TOO_OLD
    return Reason.SAME_SECOND if candidate.at == since else Reason.SAID_BEFORE


def _is_unnamed(candidate: Candidate) -> bool:
    return candidate.opinion is Opinion.APPROVE and not candidate.digest


def newest_of_each_person(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Return each person's newest opinion.

    In the same second a rejection outranks a revision, which outranks an approval.
    """
    weight = {Opinion.APPROVE: 0, Opinion.REVISE: 1, Opinion.REJECT: 2}
    ordered = sorted(candidates, key=lambda candidate: (candidate.at, weight[candidate.opinion]))
    return tuple({candidate.actor.id: candidate for candidate in ordered}.values())


def _approval_verdict(
    plan: PlanDocument,
    snapshot: Snapshot,
    policy: Policy,
    approvals: tuple[Candidate, ...],
    *,
    reasons: tuple[VerdictReason, ...],
) -> Verdict:
    """Return the verdict for the approvals that count. One is enough, except for tier high."""
    if not approvals and _holds_standing(plan, snapshot, policy):
        return Verdict(VerdictOutcome.APPROVED, (), (*reasons, VerdictReason(Reason.STANDING)))
    if not approvals:
        is_stated = any(reason.reason is Reason.THREAD_LOCKED for reason in reasons)
        why = Reason.THREAD_LOCKED if snapshot.locked and not is_stated else Reason.NOBODY
        return Verdict(VerdictOutcome.PENDING, (), (*reasons, VerdictReason(why)))
    by = tuple(candidate.actor for candidate in approvals)
    if plan.tier != Tier.HIGH or len(by) >= policy.high_needs:
        return Verdict(VerdictOutcome.APPROVED, by, reasons)
    reason_for_fewer = _reason_fewer_suffice(snapshot, policy, approvals)
    if reason_for_fewer is None:
        return Verdict(VerdictOutcome.PENDING, (), (*reasons, VerdictReason(Reason.TOO_FEW)))
    return Verdict(VerdictOutcome.APPROVED, by, (*reasons, VerdictReason(reason_for_fewer)))


def _holds_standing(plan: PlanDocument, snapshot: Snapshot, policy: Policy) -> bool:
    """Return whether the configuration approves the plan by itself, as one of a scheduled task (MT6)."""
    standing = snapshot.standing
    return standing is not None and not standing_objection(plan, standing, four_eyes=policy.four_eyes)


def _reason_fewer_suffice(snapshot: Snapshot, policy: Policy, approvals: tuple[Candidate, ...]) -> Reason | None:
    """Return why fewer approvals than tier high needs are enough; None when they are not."""
    if any(candidate.actor.id in snapshot.owners for candidate in approvals):
        return Reason.CODE_OWNER
    others = (snapshot.approvers or frozenset()) - {policy.bot, *(snapshot.requesters if policy.four_eyes else ())}
    return Reason.NOBODY_ELSE if others and others <= {candidate.actor.id for candidate in approvals} else None
