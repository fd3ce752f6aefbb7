"""An approver's own signature of a receipt: who may add one, and what the signatures of a receipt are worth (RC2).

The service attests what GitHub reported. An approver who signs the same payload with an SSH key of their own attests
that this approval is theirs. Both signatures are kept apart, so that neither changes the bytes of the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bot.core.transcript import Json

APPROVER_CODE = 28
"""The exit code of `plangate verify` if signatures of approvers were asked for and are not there."""


@dataclass(frozen=True, slots=True)
class Approver:
    """A person whose approval of the published plan a receipt states."""

    actor_id: int
    login: str
    role: str
    """"" for somebody whom the configuration lists."""
    way: str
    at: str


@dataclass(frozen=True, slots=True)
class ApproverSignature:
    """One signature that is kept for a receipt."""

    actor_id: int
    login: str
    """"" if the receipt names no approver of that number."""
    problem: str
    """Why it does not count; "" if it does."""
    key: str = ""


@dataclass(frozen=True, slots=True)
class ApproverVerdict:
    """Whether the approvers of a receipt signed it themselves."""

    signatures: tuple[ApproverSignature, ...]
    is_checked: bool
    """Whether the verifier said which keys may sign. If not, nothing is known but that there are signatures."""
    objections: tuple[str, ...] = ()


def approvers(statement: Json) -> tuple[Approver, ...]:
    """Return the people whose approval of the published plan counted, as a well-formed receipt states them."""
    predicate = statement["predicate"]
    approvals = [approval for approval in predicate["approvals"] if approval["plan"] == predicate["plan"]["digest"]]
    people = approvals[-1]["by"] if approvals else ()
    names = ("actor_id", "login", "role", "way", "at")
    return tuple(Approver(*(person[name] for name in names)) for person in people)


def approver_verdict(statement: Json, signatures: Sequence[ApproverSignature]) -> ApproverVerdict:
    """Return the verdict on checked signatures: as many approvers must have signed as the receipt's rule needs."""
    people = approvers(statement)
    signed = {signature.actor_id for signature in signatures if not signature.problem}
    policy = statement["predicate"]["policy"]
    needed = min(max(policy["needed"] if policy else 1, 1), len({person.actor_id for person in people}))
    objections = [
        f"{signature.login or signature.actor_id}: {signature.problem}" for signature in signatures if signature.problem
    ]
    if not people:
        objections.insert(0, "the receipt names nobody who approved, so nobody can have signed")
    elif len(signed) < needed:
        objections.insert(0, f"{len(signed)} of {needed} approvers signed")
    else:
        objections = []  # what somebody else put there takes nothing from a good signature
    return ApproverVerdict(tuple(signatures), is_checked=True, objections=tuple(objections))
