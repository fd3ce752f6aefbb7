"""`plangate sign`: an approver's own signature of a receipt, made by the real ssh-keygen, and what is none (RC2)."""

import copy
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.cli.receipts import VerifyOptions, print_signature, print_verdicts
from bot.compose.receipt_check import ApproverCheck, ReceiptRepository
from bot.core.errors import Misconfigured, PlangateError, Refused
from bot.core.receipt import SIGNATURE_FILE, canonical_statement, signature_ref
from bot.core.transcript import Json
from bot.receipts.approvers import APPROVER_CODE, NAMESPACE, SIGNATURE_LIMIT, AllowedSigners, check_signature
from bot.receipts.envelope import sign_statement
from bot.receipts.verdicts import exit_code
from bot.store.plumbing import GitResult, Plumbing
from tests.receipts.conftest import KEY, OTHER_KEY, Clone, make_clone
from tests.receipts.ssh_people import Person, make_person

MAYA = 9
"""The number of the account that approved."""
NOW = datetime(2026, 11, 21, tzinfo=UTC)
pytestmark = pytest.mark.req("RC2")


@pytest.fixture(scope="module")
def maya(tmp_path_factory: pytest.TempPathFactory) -> Person:
    return make_person(tmp_path_factory.mktemp("people"), "maya")


@pytest.fixture
def issued(clone: Clone) -> tuple[str, Json]:
    """A commit that has a receipt, and the receipt's statement."""
    commit, statement = clone.work()
    clone.issue(commit, statement)
    return commit, statement


def sign(clone: Clone, person: Person, login: str = "") -> str:
    """Run `plangate sign HEAD`, and return what it prints."""
    out = io.StringIO()
    checked = ReceiptRepository.at(clone.path, keys=clone.keys, repository="")
    assert print_signature(checked, "HEAD", person.key, login=login, out=out) == 0
    return out.getvalue()


def verify(clone: Clone, signers: Sequence[Path], revoked: Path | None = None) -> tuple[int, Json]:
    """Run `plangate verify HEAD --json`, and return its exit code and the verdict on approvers."""
    out = io.StringIO()
    options = VerifyOptions("HEAD", "", clone.path, clone.keys, "", "", as_json=True)
    code = print_verdicts(replace(options, signers=tuple(signers), revoked=revoked), out)
    return code, json.loads(out.getvalue())[0]["approver"]


def keep(clone: Clone, commit: str, signature: bytes, actor_id: int = MAYA) -> None:
    clone.keep(signature_ref(commit, actor_id), SIGNATURE_FILE, signature)


def test_an_approver_signs(clone: Clone, issued: tuple[str, Json], maya: Person, tmp_path: Path) -> None:
    """It says what is signed and how to push it; the receipt stays as it was; `verify` finds the signature."""
    commit, _ = issued
    before = clone.git("rev-parse", f"refs/plangate/receipts/{commit}")
    assert verify(clone, [maya.listed(tmp_path)])[0] == APPROVER_CODE
    told = sign(clone, maya)
    assert told.startswith("As maya you sign: I approved this plan, and this commit is the work that I approved.\n")
    assert f"\n  approved      2026-11-20T08:35:00+00:00, by reaction\n  commit        {commit}\n" in told
    assert told.endswith(f"Signed. Push it: git push origin refs/plangate/signatures/{commit}/9\n")
    assert clone.git("rev-parse", f"refs/plangate/receipts/{commit}") == before
    code, verdict = verify(clone, [maya.listed(tmp_path)])
    assert (code, verdict["objections"], verdict["is_checked"]) == (0, [], True)
    (signature,) = verdict["signatures"]
    assert (signature["actor_id"], signature["login"], signature["problem"]) == (MAYA, "maya", "")
    assert signature["key"].startswith("ED25519 key SHA256:")


def test_it_is_shown_and_not_demanded(clone: Clone, issued: tuple[str, Json], maya: Person) -> None:
    """Without a word on who may sign, a signature is named as not checked, and the receipt is as valid as ever."""
    options = VerifyOptions("HEAD", "", clone.path, clone.keys, "", "", as_json=False)
    for state in ("signed by the service alone", "signatures of maya, not checked (--allowed-signers FILE)"):
        out = io.StringIO()
        assert print_verdicts(options, out) == 0
        assert out.getvalue().splitlines()[-1] == f"  approver      {state}"
        sign(clone, maya)


@pytest.mark.parametrize("kind", ("ecdsa", "rsa"))
def test_other_kinds_of_keys(clone: Clone, issued: tuple[str, Json], tmp_path: Path, kind: str) -> None:
    """Whatever ssh-keygen can sign with, and the list that GitHub serves may name the login in another case."""
    sign(clone, make_person(tmp_path, "maya", kind))
    listed = replace(make_person(tmp_path, "maya", "ed25519"), login="Maya", key=tmp_path / f"maya-{kind}")
    assert verify(clone, [listed.listed(tmp_path)])[0] == 0


def test_signatures_that_do_not_count(clone: Clone, issued: tuple[str, Json], maya: Person, tmp_path: Path) -> None:
    """Another key, another purpose, another receipt, another text, and what is no signature at all."""
    commit, statement = issued
    payload, signers = canonical_statement(statement), [maya.listed(tmp_path)]
    other = copy.deepcopy(statement)
    other["predicate"]["thread"] += 1
    for signature, problem in {
        make_person(tmp_path, "eve").sign(payload): "made by no key that may sign for maya",
        maya.sign(payload, "git"): "namespace does not match",
        maya.sign(canonical_statement(other)): "incorrect signature",
        maya.sign(sign_statement(statement, KEY)): "incorrect signature",
        b"no signature": "missing header",
        b"x" * (SIGNATURE_LIMIT + 1): "larger than",
    }.items():
        keep(clone, commit, signature)
        code, verdict = verify(clone, signers)
        assert (code, verdict["objections"][0]) == (APPROVER_CODE, "0 of 1 approvers signed")
        assert problem in verdict["objections"][1]


def test_somebody_who_did_not_approve(clone: Clone, issued: tuple[str, Json], maya: Person, tmp_path: Path) -> None:
    commit, statement = issued
    will = make_person(tmp_path, "will")
    signers = [maya.listed(tmp_path), will.listed(tmp_path)]
    with pytest.raises(Misconfigured, match="will did not approve this plan; maya did"):
        sign(clone, will, "will")
    for actor_id, problem in ((7, "the receipt names no such approver"), (MAYA, "no key that may sign for maya")):
        keep(clone, commit, will.sign(canonical_statement(statement)), actor_id)
        code, verdict = verify(clone, signers)
        assert code == APPROVER_CODE
        assert any(problem in each for each in verdict["objections"])
    keep(clone, commit, maya.sign(canonical_statement(statement)))
    code, verdict = verify(clone, signers)
    assert (code, verdict["objections"]) == (0, [])


def test_replayed_on_another_commit(clone: Clone, issued: tuple[str, Json], maya: Person, tmp_path: Path) -> None:
    """A signature of one receipt says nothing about the next one, with the same approver and plan."""
    _, statement = issued
    signature = maya.sign(canonical_statement(statement))
    again, following = clone.work("three\n")
    clone.issue(again, following)
    keep(clone, again, signature)
    assert verify(clone, [maya.listed(tmp_path)])[0] == APPROVER_CODE
    elsewhere = make_clone(tmp_path / "elsewhere", tmp_path / "keys.json")
    commit, _ = elsewhere.work("elsewhere\n")
    elsewhere.issue(commit, statement)
    keep(elsewhere, commit, signature)
    assert verify(elsewhere, [maya.listed(tmp_path)])[0] == 23


def test_a_receipt_that_was_signed_anew(clone: Clone, issued: tuple[str, Json], maya: Person, tmp_path: Path) -> None:
    commit, statement = issued
    sign(clone, maya)
    clone.issue(commit, statement, OTHER_KEY)
    assert verify(clone, [maya.listed(tmp_path)])[1]["objections"] == []


def test_revoked_and_expired(clone: Clone, issued: tuple[str, Json], maya: Person, tmp_path: Path) -> None:
    """Revocation counts always; dates count at the time of the work, as they do for the service's keys."""
    sign(clone, maya)
    revoked, allowed = tmp_path / "revoked", tmp_path / "allowed_signers"
    revoked.write_text(f"{maya.public}\n")
    code, verdict = verify(clone, [maya.listed(tmp_path)], revoked)
    assert (code, "or it is revoked" in verdict["objections"][1]) == (APPROVER_CODE, True)
    for options, wanted in {
        'valid-before="20261120"': APPROVER_CODE,
        'valid-after="20261121"': APPROVER_CODE,
        'valid-after="20261119",valid-before="20261121"': 0,
        'namespaces="git"': APPROVER_CODE,
        f'namespaces="git,{NAMESPACE}"': 0,
    }.items():
        allowed.write_text(f"maya {options} {maya.public}\n")
        assert verify(clone, [allowed])[0] == wanted, options


def test_two_approvers(clone: Clone, maya: Person, tmp_path: Path) -> None:
    """Where the rule needs two approvals, both people must sign, and say who they are; one of them twice is one."""
    commit, statement = clone.work()
    people = statement["predicate"]["approvals"][0]["by"]
    people.append({**people[0], "actor_id": 8, "login": "ana"})
    statement["predicate"]["policy"]["needed"] = 2
    clone.issue(commit, statement)
    ana = make_person(tmp_path, "ana")
    signers = [maya.listed(tmp_path), ana.listed(tmp_path)]
    with pytest.raises(Misconfigured, match=r"maya, ana approved this plan .*: name the one that you are"):
        sign(clone, maya)
    sign(clone, maya, "maya")
    keep(clone, commit, maya.sign(canonical_statement(statement)), 8)
    assert verify(clone, signers)[1]["objections"][0] == "1 of 2 approvers signed"
    sign(clone, ana, "ana")
    assert verify(clone, signers)[0] == 0


def test_a_configuration_that_approved(clone: Clone, maya: Person, tmp_path: Path) -> None:
    """Where nobody approved, nobody can sign, and a demand for signatures is not met."""
    commit, statement = clone.work()
    statement["predicate"]["approvals"][0]["by"] = []
    statement["predicate"]["policy"]["approver_is_not_requester"] = False
    statement["predicate"]["policy"]["fewer"] = "standing"
    clone.issue(commit, statement)
    with pytest.raises(Misconfigured, match="nobody approved"):
        sign(clone, maya)
    assert verify(clone, [maya.listed(tmp_path)])[0] == APPROVER_CODE


def test_what_is_not_signed(clone: Clone, issued: tuple[str, Json], maya: Person, tmp_path: Path) -> None:
    """A receipt that is not valid, a commit without one, and a key that is not there."""
    commit, statement = issued
    with pytest.raises(Refused, match=r"ssh-keygen made no signature: .*No such file"):
        sign(clone, replace(maya, key=tmp_path / "none"))
    clone.issue(commit, statement, OTHER_KEY)
    with pytest.raises(Refused, match="the receipt is not valid: signature"):
        sign(clone, maya)
    clone.commit("three\n", "By hand")
    with pytest.raises(Misconfigured, match="the commit has no receipt"):
        sign(clone, maya)


@pytest.mark.parametrize("content", (b"<html>Not found</html>", b"maya ssh-ed25519 AAAA", b"\xff"))
def test_lists_that_are_none(tmp_path: Path, content: bytes) -> None:
    """What is no list of public keys is an error, not an empty list."""
    path = tmp_path / "maya.keys"
    path.write_bytes(content)
    with pytest.raises(PlangateError, match=r"maya\.keys"):
        AllowedSigners.read([path], None)
    with pytest.raises(Misconfigured, match="no such file"):
        AllowedSigners.read([], tmp_path / "none")


@pytest.mark.parametrize("login", ("*", "-r", "maya\n* namespaces", "", "\udcff", "\0"))
def test_logins_that_are_not_names(tmp_path: Path, maya: Person, login: str) -> None:
    """A login in a receipt that is a pattern, an option, or a line of its own finds no key."""
    signers = AllowedSigners.read([maya.listed(tmp_path)], None)
    assert check_signature(b"x", maya.sign(b"x"), login, signers=signers, at=NOW).problem


@dataclass(frozen=True, slots=True)
class CountedGit(Plumbing):
    """Git that counts its processes."""

    started: list[str] = field(default_factory=list)

    def run(self, *arguments: str, stdin: bytes = b"") -> GitResult:
        """Run one, and note its command."""
        self.started.append(arguments[0])
        return Plumbing.run(self, *arguments, stdin=stdin)


@pytest.mark.req("RC3")
def test_a_long_range_starts_no_more_processes(clone: Clone) -> None:
    base = clone.head
    for n in range(6):
        clone.issue(*clone.work(f"{n}\n"))

    def processes(end: str) -> list[str]:
        opened = clone.opened()
        git = CountedGit(opened.git.directory, opened.git.environment)
        opened = replace(opened, git=git)
        own = ApproverCheck.of(opened, None)
        checked = list(opened.check_range(f"{base}..{end}", NOW))
        assert all(not exit_code(each.verdicts) and own.verdict(each).signatures == () for each in checked)
        return git.started

    assert processes("HEAD") == processes("HEAD~5")
