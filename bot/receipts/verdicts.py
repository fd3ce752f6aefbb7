"""Checks a receipt: one verdict for each check, with the objections, so that a failure says what is wrong (RC3, RC4).

Pure: the caller passes the time, the keys, and what git says about the commit. A receipt is trusted if a pinned key,
which the verifier got from elsewhere (`--keys`), signed it and counted at the time when the work was journaled as done.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from bot.core.errors import Unreadable
from bot.core.paths import Tier
from bot.core.transcript import Json
from bot.core.turn import Role
from bot.receipts.envelope import DsseEnvelope, PublicKey, parse_envelope
from bot.receipts.statement import statement_objections

CLOCK_SKEW: Final = timedelta(minutes=5)
"""How far the signer's clock may be ahead of the verifier's."""
_STANDING: Final = "standing"


class ReceiptCheck(StrEnum):
    """The checks of a receipt, in this order."""

    SYNTAX = "syntax"
    SIGNATURE = "signature"
    TRUST = "trust"
    BINDING = "binding"
    FRESHNESS = "freshness"
    POLICY = "policy"
    COMPLETENESS = "completeness"


EXIT_CODES: Final = {check: code for code, check in enumerate(ReceiptCheck, start=20)}
"""The exit code of `plangate verify` for the first check that fails."""


@dataclass(frozen=True, slots=True)
class ReceiptVerdict:
    """The answer to one check. `objections` is empty if it passes."""

    check: ReceiptCheck
    objections: tuple[str, ...] = ()

    @property
    def passes(self) -> bool:
        return not self.objections


@dataclass(frozen=True, slots=True)
class CommitFacts:
    """What git says about the commit that a receipt is checked against."""

    commit: str
    tree: str
    parents: tuple[str, ...]
    paths: tuple[str, ...]
    """The paths that differ from the first parent."""
    message: str
    repository: str = ""
    """``HOST/OWNER/NAME`` that the commit must belong to; "" if it is not known, which fails binding."""


@dataclass(frozen=True, slots=True)
class Trust:
    """Which keys a verifier trusts, and which it merely found."""

    pinned: tuple[PublicKey, ...] = ()
    """Keys that the verifier got from elsewhere than the repository."""
    found: tuple[PublicKey, ...] = ()
    """Keys in the repository itself, where everybody who can push can put one."""


def verify_receipt(
    content: bytes, facts: CommitFacts | None, trust: Trust, now: datetime
) -> tuple[ReceiptVerdict, ...]:
    """Return one verdict per check, in order. After a failed syntax check there are no others.

    Without commit facts, binding fails: a receipt on its own says nothing about any commit.
    """
    try:
        envelope = parse_envelope(content)
        objections = tuple(_short_lines(statement_objections(envelope.statement)))
    except Unreadable as error:
        return (ReceiptVerdict(ReceiptCheck.SYNTAX, (f"{error.what} ({error.where})",)),)
    if objections:
        return (ReceiptVerdict(ReceiptCheck.SYNTAX, objections),)
    predicate = envelope.statement["predicate"]
    signers = _signers(envelope, (*trust.pinned, *trust.found))
    checks: dict[ReceiptCheck, Callable[[], Iterable[str]]] = {
        ReceiptCheck.SIGNATURE: lambda: _signature_objections(envelope, signers),
        ReceiptCheck.TRUST: lambda: _trust_objections(predicate, signers, trust),
        ReceiptCheck.BINDING: lambda: _binding_objections(envelope.statement, facts),
        ReceiptCheck.FRESHNESS: lambda: _freshness_objections(predicate, now),
        ReceiptCheck.POLICY: lambda: _policy_objections(predicate),
        ReceiptCheck.COMPLETENESS: lambda: _completeness_objections(predicate),
    }
    return (
        ReceiptVerdict(ReceiptCheck.SYNTAX),
        *(ReceiptVerdict(check, tuple(_short_lines(ask()))) for check, ask in checks.items()),
    )


def exit_code(verdicts: Sequence[ReceiptVerdict]) -> int:
    """Return 0 if every check passes, else the code of the first that fails."""
    return next((EXIT_CODES[verdict.check] for verdict in verdicts if not verdict.passes), 0)


def _signers(envelope: DsseEnvelope, keys: Iterable[PublicKey]) -> tuple[PublicKey, ...]:
    """Return the keys whose signature of the envelope is valid."""
    by_id = {key.id: key for key in reversed(tuple(keys))}  # a pinned key outranks one of the same id that was found
    claimed = (
        (by_id[signature.key_id], signature.value) for signature in envelope.signatures if signature.key_id in by_id
    )
    return tuple(key for key, value in claimed if key.verify(value, envelope.signed_bytes))


def _signature_objections(envelope: DsseEnvelope, signers: Sequence[PublicKey]) -> Iterator[str]:
    if not signers:
        ids = ", ".join(signature.key_id[:16] for signature in envelope.signatures)
        yield f"no key at hand made a valid signature; the receipt names {ids}"


def _trust_objections(predicate: Json, signers: Sequence[PublicKey], trust: Trust) -> Iterator[str]:
    pinned = [key for key in signers if key in trust.pinned]
    if not pinned:
        known = ", ".join(key.id for key in signers)
        signed = (
            f"signed by {known}, which is not among the keys that you trust" if known else "no trusted key signed it"
        )
        yield signed if trust.pinned else f"no keys to trust were given (--keys FILE); {signed}"
        return
    objections = [key.objection(moment(predicate["journal"]["at"])) for key in pinned]
    if all(objections):
        yield from objections


def _binding_objections(statement: Json, facts: CommitFacts | None) -> Iterator[str]:
    if facts is None:
        yield "there is no commit to compare it with: run it in a clone that has the commit"
        return
    predicate = statement["predicate"]
    named = predicate["repository"]
    if statement["subject"] != _subjects(f"https://{named['host']}/{named['name']}", facts):
        yield f"it is about {statement['subject'][0]['name'][:150]}, not about commit {facts.commit} with its tree"
    if predicate["plan"]["base"] not in facts.parents:
        yield f"the commit's parent is not the plan's base {predicate['plan']['base']}"
    if sorted(predicate["scope"]["changed"]) != sorted(facts.paths):
        yield "the commit does not change the files that the receipt lists"
    if predicate["verification"]["tree"] not in {"", facts.tree}:
        yield f"the checks ran on tree {predicate['verification']['tree']}, and not on the commit's"
    if f"Plangate-Plan: {predicate['plan']['digest']}" not in facts.message.split("\n"):
        yield "the commit's message does not name the plan"
    if not facts.repository:
        yield f"it was made for {named['host']}/{named['name']}; is this that repository? Name yours (--repo)"
    elif facts.repository.lower() != f"{named['host']}/{named['name']}".lower():
        yield f"it was made for {named['host']}/{named['name']}, not for {facts.repository}"


def _subjects(repository: str, facts: CommitFacts) -> list[Json]:
    """Return all subjects that a receipt may have: a further one could name another commit."""
    return [
        {"name": f"{repository}/commit/{facts.commit}", "digest": {"gitCommit": facts.commit}},
        {"name": f"{repository}/tree/{facts.commit}", "digest": {"gitTree": facts.tree}},
    ]


def _freshness_objections(predicate: Json, now: datetime) -> Iterator[str]:
    """Yield impossible times: an approval of an expired plan, or an event before its cause."""
    finished, expires = moment(predicate["journal"]["at"]), moment(predicate["plan"]["expires"])
    if finished - now > CLOCK_SKEW:  # unlike a sum, a difference of times cannot overflow
        yield f"it was made in the future, at {finished.isoformat()}"
    for approval in predicate["approvals"]:
        observed = moment(approval["observed_at"])
        if observed >= expires and approval["plan"] == predicate["plan"]["digest"]:
            yield "the plan had expired when it was approved"
        if observed - finished > CLOCK_SKEW:
            yield "the work was done before it was approved"
        if any(moment(person["at"]) - observed > CLOCK_SKEW for person in approval["by"]):
            yield "an approval was observed before it was given"


def _policy_objections(predicate: Json) -> Iterator[str]:
    """Yield the rules in the receipt that the approval of the published plan does not meet."""
    plan, policy = predicate["plan"], predicate["policy"]
    approvals = [approval for approval in predicate["approvals"] if approval["plan"] == plan["digest"]]
    if not approvals:
        yield "nobody approved the plan that was published"
        return
    if policy is None:
        return  # an old journal has no rule; completeness says so
    people = approvals[-1]["by"]
    distinct = {person["actor_id"] for person in people}
    standing = not people and policy["fewer"] == _STANDING
    if not people and not standing:
        yield "it names nobody who approved"
    if standing and (plan["tier"] == Tier.HIGH or policy["four_eyes"]):
        yield "the configuration alone cannot approve a plan of tier high, or against four eyes"
    if people and len(distinct) < policy["needed"] and not policy["fewer"]:
        yield f"{len(distinct)} of {policy['needed']} approvals were given"
    if plan["tier"] == Tier.HIGH and policy["needed"] < 1:
        yield "no approval was asked for"
    yield from (f"{person['login']} may not approve" for person in people if not _may_approve(person, policy))
    if policy["four_eyes"] and distinct & set(policy["requesters"]):
        yield "with four eyes, nobody approves their own request"
    if policy["approver_is_not_requester"] != bool(distinct - set(policy["requesters"])):
        yield "approver_is_not_requester contradicts the approvals"
    verified = predicate["verification"]["tree"]
    if plan["scope_tree"] and verified and verified != plan["scope_tree"]:
        yield "another tree was verified than the one that was approved"


def _may_approve(person: Json, policy: Json) -> bool:
    try:
        return bool(person["listed"]) or Role[person["role"].upper()] >= Role[policy["required_role"].upper()]
    except KeyError:
        return False


def _completeness_objections(predicate: Json) -> Iterator[str]:
    yield from predicate["missing"]
    if predicate["complete"] == bool(predicate["missing"]):
        yield "complete contradicts the list of what is missing"


def _short_lines(objections: Iterable[str], most: int = 5) -> Iterator[str]:
    """Yield the first objections, each as one short line."""
    for _, objection in zip(range(most), objections, strict=False):
        yield objection[:300]


def moment(text: str) -> datetime:
    """Return a time in the schema's format; the earliest time for one that does not exist, such as February 30."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
