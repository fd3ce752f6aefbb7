"""Approvers' own signatures of receipts in a local clone: reads and checks them, and adds one (RC2)."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from bot.compose.receipt_check import OFFLINE, CheckedCommit, ReceiptRepository
from bot.core.errors import Misconfigured, Refused
from bot.core.receipt_format import SIGNATURE_FILE, SIGNATURES, signature_ref
from bot.core.transcript import Json
from bot.receipts.approvers import Approver, ApproverSignature, ApproverVerdict, approver_verdict, approvers
from bot.receipts.envelope import DsseEnvelope, parse_envelope
from bot.receipts.ssh_keygen import AllowedSigners, check_signature, make_signature
from bot.receipts.verdicts import ReceiptCheck, moment

_ACTOR: Final = re.compile(r"[1-9][0-9]{0,17}")
_MOST_SIGNATURES: Final = 50
"""Maximum number of signatures that are read for one commit, because everybody who can push can add some."""
_GIT_IDENTITY: Final = {
    f"GIT_{role}_{name}": value
    for role in ("AUTHOR", "COMMITTER")
    for name, value in (("NAME", "Plangate"), ("EMAIL", "plangate@localhost"), ("DATE", "@0 +0000"))
}
_MAY_FAIL: Final = frozenset({ReceiptCheck.COMPLETENESS})
"""Checks that a receipt may fail and still be signed: the receipt itself states what it lacks."""


@dataclass(frozen=True, slots=True)
class SignableReceipt:
    """A receipt that one of its approvers can sign."""

    commit: str
    approver: Approver
    statement: Json
    payload: bytes

    @property
    def ref(self) -> str:
        """The ref that keeps the approver's signature."""
        return signature_ref(self.commit, self.approver.actor_id)


@dataclass(frozen=True, slots=True)
class ApproverCheck:
    """Checks the approvers' signatures in a clone, with no git process for a commit that has none."""

    clone: ReceiptRepository
    signers: AllowedSigners | None
    """None: signatures are listed and not checked."""
    actors: Mapping[str, Sequence[str]]
    """Commit -> the numbers of the accounts whose signatures of it are kept."""

    @classmethod
    def of(cls, clone: ReceiptRepository, signers: AllowedSigners | None) -> "ApproverCheck":
        """Return the check of all signatures that were fetched into a clone."""
        refs = clone.git.ask("for-each-ref", "--format=%(refname)", SIGNATURES).decode("utf-8", "replace")
        actors = defaultdict[str, list[str]](list)
        for ref in refs.split():
            commit, _, actor = ref.removeprefix(SIGNATURES).partition("/")
            if _ACTOR.fullmatch(actor) and len(actors[commit]) < _MOST_SIGNATURES:
                actors[commit].append(actor)
        return cls(clone, signers, actors)

    def verdict(self, checked: CheckedCommit) -> ApproverVerdict:
        """Return the verdict on the approvers' signatures of a commit's well-formed receipt."""
        envelope = parse_envelope(checked.receipt)
        people = {person.actor_id: person for person in approvers(envelope.statement)}
        signed_by = [
            self._signature(actor_id, content, people.get(actor_id), envelope)
            for actor_id, content in self._signatures(checked.commit)
        ]
        if self.signers is None:
            return ApproverVerdict(tuple(signed_by), is_checked=False)
        return approver_verdict(envelope.statement, signed_by)

    def _signature(
        self, actor_id: int, content: bytes, person: Approver | None, envelope: DsseEnvelope
    ) -> ApproverSignature:
        if person is None:
            return ApproverSignature(actor_id, "", "the receipt names no such approver")
        if self.signers is None:
            return ApproverSignature(actor_id, person.login, "not checked")
        at = moment(envelope.statement["predicate"]["journal"]["at"])
        answer = check_signature(envelope.payload, content, person.login, signers=self.signers, at=at)
        return ApproverSignature(actor_id, person.login, answer.problem, answer.key)

    def _signatures(self, commit: str) -> Iterator[tuple[int, bytes]]:
        """Yield the signatures that are kept for a commit, each with the number of the account in its ref."""
        actors = self.actors.get(commit, ())
        if not actors:
            return
        files = self.clone.read_files([f"{SIGNATURES}{commit}/{actor}:{SIGNATURE_FILE}" for actor in actors])
        yield from ((int(name), content) for name, content in zip(actors, files, strict=True) if content is not None)


def signable_receipt(clone: ReceiptRepository, revision: str, *, login: str, now: datetime) -> SignableReceipt:
    """Return the receipt of a commit, to be signed by the approver `login`; "" if only one person approved.

    Raises Refused for a receipt that is not valid, and Misconfigured for a commit without one, and for somebody who
    did not approve.
    """
    checked = clone.check_commit(revision, None, now)
    if not checked.verdicts:
        raise Misconfigured("the commit has no receipt", where=checked.commit, fix=checked.note or "name another one")
    _require_valid(clone, checked)
    envelope = parse_envelope(checked.receipt)
    person = _approver(approvers(envelope.statement), login)
    return SignableReceipt(checked.commit, person, envelope.statement, envelope.payload)


def sign_receipt(clone: ReceiptRepository, receipt: SignableReceipt, key: Path) -> None:
    """Sign a receipt and keep the signature in the clone. Raises Refused if ssh-keygen makes none."""
    _store(clone, receipt.ref, make_signature(receipt.payload, key))


def _require_valid(clone: ReceiptRepository, checked: CheckedCommit) -> None:
    """Raise Refused if a check fails that a signer relies on. Trust counts only with pinned keys."""
    may_fail = _MAY_FAIL if clone.pinned else _MAY_FAIL | {ReceiptCheck.TRUST}
    failing = [verdict for verdict in checked.verdicts if not verdict.passes and verdict.check not in may_fail]
    if failing:
        reasons = "; ".join(f"{verdict.check}: {', '.join(verdict.objections)}" for verdict in failing)
        raise Refused(f"the receipt is not valid: {reasons}", where=checked.commit, fix="sign only what is valid")


def _approver(people: tuple[Approver, ...], login: str) -> Approver:
    matching = [person for person in people if not login or person.login.lower() == login.lower()]
    names = ", ".join(person.login for person in people) or "nobody"
    if login and not matching:
        raise Misconfigured(f"{login} did not approve this plan; {names} did", where="--as", fix="name an approver")
    if len(matching) != 1:
        raise Misconfigured(f"{names} approved this plan", where="--as", fix="name the one that you are")
    return matching[0]


def _store(clone: ReceiptRepository, ref: str, signature: bytes) -> None:
    """Store a signature under a ref of the clone, as a commit without parents."""
    git = replace(clone.git, environment=lambda: {**OFFLINE, **_GIT_IDENTITY})
    blob = git.ask("hash-object", "-w", "--stdin", stdin=signature).decode().strip()
    tree = git.ask("mktree", stdin=f"100644 blob {blob}\t{SIGNATURE_FILE}\n".encode()).decode().strip()
    commit = git.ask("commit-tree", tree, "-m", "signature of an approval").decode().strip()
    git.ask("update-ref", ref, commit)
