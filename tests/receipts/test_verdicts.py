"""`plangate verify`: what a valid receipt is, and that everything else gets the verdict that says what is wrong."""

import base64
import copy
import io
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.cli.receipts import NO_RECEIPT, VerifyOptions, print_verdicts
from bot.core.errors import Misconfigured, Unreadable
from bot.core.receipt import canonical_statement
from bot.core.transcript import Json
from bot.receipts.envelope import (
    SIZE_LIMIT,
    PublicKey,
    decode_keys,
    encode_keys,
    parse_envelope,
    sign_statement,
    signing_key,
    with_current_key,
)
from bot.receipts.statement import statement_objections
from bot.receipts.verdicts import (
    EXIT_CODES,
    CommitFacts,
    ReceiptCheck,
    ReceiptVerdict,
    Trust,
    exit_code,
    verify_receipt,
)
from tests.receipts.conftest import KEY, OTHER_KEY, Clone
from tests.receipts.random_receipts import CONTRADICTIONS, contradict, mutations, random_receipt
from tests.rows import every_row

NOW = datetime(2026, 11, 21, tzinfo=UTC)
SCHEMA: Json = json.loads((Path(__file__).parents[2] / "docs/receipts/plan-approval-v1.schema.json").read_text())
PINNED = Trust((KEY.public,))


def failing(verdicts: tuple[ReceiptVerdict, ...]) -> list[str]:
    return [str(verdict.check) for verdict in verdicts if not verdict.passes]


@pytest.fixture
def done(clone: Clone) -> tuple[Json, CommitFacts]:
    """The statement about some work, and what git says about its commit."""
    commit, statement = clone.work()
    return statement, clone.facts(commit)


@pytest.mark.req("RC3")
def test_a_valid_receipt(clone: Clone) -> None:
    """Every check passes, offline, against the commit that the work made."""
    commit, statement = clone.work()
    clone.issue(commit, statement)
    checked = clone.opened().check_commit("HEAD", None, NOW)
    assert (checked.commit, checked.by_agent) == (commit, True)
    assert [verdict.check for verdict in checked.verdicts] == list(ReceiptCheck)
    assert (failing(checked.verdicts), exit_code(checked.verdicts)) == ([], 0)


@pytest.mark.req("RC3", "RC4")
def test_replayed_elsewhere(clone: Clone) -> None:
    """On another commit, in another repository, and in a fork: binding fails, and nothing else."""
    commit, statement = clone.work()
    envelope = clone.issue(commit, statement)
    other = clone.commit("three\n", "Something else")
    assert failing(clone.opened().check_commit(other, envelope, NOW).verdicts) == ["binding"]
    for elsewhere in ("mallory/site", "git.example.com/acme/site"):
        found = clone.opened(repository=elsewhere).check_commit(commit, envelope, NOW)
        assert failing(found.verdicts) == ["binding"]


@pytest.mark.req("RC3")
def test_every_field_counts(clone: Clone) -> None:
    """Whoever changes one field and has no key fails the signature; a signer who lies fails another check, or tells a
    story in which the changed field is no claim about the commit or the rule."""
    commit, statement = clone.work()
    good = sign_statement(statement, KEY)
    facts = clone.facts(commit)
    tried = 0
    for changed in changes(statement):
        envelope = json.loads(good) | {"payload": base64.b64encode(canonical_statement(changed)).decode()}
        verdicts = verify_receipt(json.dumps(envelope).encode(), facts, PINNED, NOW)
        assert {"syntax", "signature"} & set(failing(verdicts)), changed
        tried += 1
    assert tried > 150


@pytest.mark.req("RC3")
@every_row(("check", "where", "value"), CONTRADICTIONS)
def test_a_signer_that_contradicts_itself(check: str, where: str, value: Any, done: tuple[Json, CommitFacts]) -> None:
    """A receipt with a valid signature that claims what cannot be: the check that fails names it."""
    statement, facts = done
    changed = contradict(copy.deepcopy(statement), where, value)
    verdicts = verify_receipt(sign_statement(changed, KEY), facts, PINNED, NOW)
    assert failing(verdicts) == [check]
    assert exit_code(verdicts) == EXIT_CODES[ReceiptCheck(check)]


@pytest.mark.req("RC3")
def test_four_eyes_and_standing(clone: Clone) -> None:
    """Nobody approves their own request under four eyes; a standing approval never covers tier high."""
    commit, statement = clone.work()
    facts = clone.facts(commit)

    def policy(**changes: Any) -> list[str]:
        changed = copy.deepcopy(statement)
        changed["predicate"]["policy"] |= changes
        if changes.get("fewer") == "standing":
            changed["predicate"]["approvals"][0]["by"] = []
            changed["predicate"]["policy"]["approver_is_not_requester"] = False
        return failing(verify_receipt(sign_statement(changed, KEY), facts, PINNED, NOW))

    assert policy(four_eyes=True) == []
    assert policy(four_eyes=True, requesters=[7, 9]) == ["policy"]
    assert policy(fewer="standing") == []
    assert policy(fewer="standing", four_eyes=True) == ["policy"]
    assert policy(needed=2, fewer="nobody_else") == []


@pytest.mark.req("RC4")
def test_keys(clone: Clone) -> None:
    """A key of the repository alone is not trusted; another key's signature is none; rotation and revocation count by
    the time of the journal, not of the check."""
    commit, statement = clone.work()
    envelope, facts = sign_statement(statement, KEY), clone.facts(commit)
    made = datetime.fromisoformat(statement["predicate"]["journal"]["at"])

    def with_keys(*keys: PublicKey, found: tuple[PublicKey, ...] = ()) -> list[str]:
        return failing(verify_receipt(envelope, facts, Trust(keys, found), NOW))

    assert with_keys() == ["signature", "trust"]
    assert with_keys(OTHER_KEY.public) == ["signature", "trust"]
    assert with_keys(found=(KEY.public,)) == ["trust"]
    assert with_keys(OTHER_KEY.public, found=(KEY.public,)) == ["trust"]
    assert with_keys(replace(KEY.public, until=made + timedelta(1))) == []
    assert with_keys(replace(KEY.public, until=made)) == ["trust"]
    assert with_keys(replace(KEY.public, since=made + timedelta(1))) == ["trust"]
    assert with_keys(replace(KEY.public, revoked=made - timedelta(1))) == ["trust"]
    assert with_keys(replace(KEY.public, revoked=made + timedelta(1))) == []
    forged = json.loads(envelope)
    forged["signatures"][0]["keyid"] = OTHER_KEY.public.id
    verdicts = verify_receipt(json.dumps(forged).encode(), facts, Trust((KEY.public, OTHER_KEY.public)), NOW)
    assert failing(verdicts) == ["signature", "trust"]


@pytest.mark.req("RC4")
def test_the_list_of_keys() -> None:
    """Rotation ends the old key and dates the new one; the list comes back as it was written; a false id is refused."""
    first = with_current_key((), KEY.public, NOW)
    assert first == with_current_key(first, KEY.public, NOW + timedelta(9))
    second = with_current_key(first, OTHER_KEY.public, NOW)
    assert [(key.id, key.since, key.until) for key in second] == [
        (KEY.public.id, None, NOW),
        (OTHER_KEY.public.id, NOW, None),
    ]
    revoked = (replace(second[0], revoked=NOW), second[1])
    assert decode_keys(encode_keys(revoked)) == revoked
    assert with_current_key(revoked, OTHER_KEY.public, NOW) == revoked
    false = json.loads(encode_keys(first))
    false["keys"][0]["id"] = "0" * 16
    for bad in (json.dumps(false), "[]", "{}", "no", '{"v": 1, "keys": [{}]}', '{"v": 2, "keys": []}'):
        with pytest.raises(Unreadable, match="not a list of keys"):
            decode_keys(bad.encode())


def test_the_signing_key(tmp_path: Path) -> None:
    """An Ed25519 file signs; an RSA file signs commits alone; no file is an error that names the variable."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    derived, path = b"d" * 32, tmp_path / "key"
    secret = Ed25519PrivateKey.generate()
    path.write_bytes(secret.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    assert signing_key(path, derived).public.raw == secret.public_key().public_bytes_raw()
    assert "secret" not in repr(signing_key(path, derived)).lower()
    rsa = generate_private_key(65537, 2048)
    path.write_bytes(rsa.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    assert signing_key(path, derived).public == signing_key(None, derived).public
    with pytest.raises(Misconfigured, match="PLANGATE_SIGNING_KEY_PATH"):
        signing_key(tmp_path / "none", derived)


_GOOD = {
    "payload": "e30=",
    "payloadType": "application/vnd.in-toto+json",
    "signatures": [{"keyid": "a", "sig": "AA=="}],
}


@pytest.mark.req("RC3")
@every_row(
    ("content", "objection"),
    (
        (b"", "is not JSON"),
        (b"\xff", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "is not a JSON object"),
        (b" " * (SIZE_LIMIT + 1), "larger than"),
        (b'{"payload": 1, "payload": 2}', "is repeated"),
        (b'{"payload": NaN}', "is not a JSON number"),
        (json.dumps(_GOOD | {"more": 1}).encode(), "exactly payload"),
        (json.dumps(_GOOD | {"payloadType": "text/plain"}).encode(), "not of type"),
        (json.dumps(_GOOD | {"payload": "e30"}).encode(), "not base64"),
        (json.dumps(_GOOD | {"payload": "e31="}).encode(), "base64 in its usual spelling"),
        (json.dumps(_GOOD | {"payload": base64.b64encode(b"{ }").decode()}).encode(), "not canonical"),
        (json.dumps(_GOOD | {"payload": base64.b64encode(b"[]").decode()}).encode(), "payload is not a JSON object"),
        (json.dumps(_GOOD | {"signatures": []}).encode(), "1 to 16 signatures"),
        (json.dumps(_GOOD | {"signatures": [{}]}).encode(), "exactly keyid and sig"),
        (json.dumps(_GOOD).encode(), "lacks"),
    ),
)
def test_what_is_no_receipt(content: bytes, objection: str) -> None:
    """Hostile or broken files fail the syntax check with the reason, and no other check is tried."""
    (verdict,) = verify_receipt(content, None, Trust(), NOW)
    assert verdict.check is ReceiptCheck.SYNTAX
    assert objection in " ".join(verdict.objections)


@pytest.mark.req("RC3")
def test_the_published_schema_and_ours_accept_the_same() -> None:
    """Each field of random receipts is changed, doubled, and left out: the library's check agrees on all."""
    import jsonschema_rs

    validator = jsonschema_rs.validator_for(SCHEMA)
    tried = 0
    for receipt in map(random_receipt, range(3)):
        assert validator.is_valid(receipt.statement)
        assert not list(statement_objections(receipt.statement))
        for place, changed in mutations(receipt.statement):
            assert bool([*statement_objections(changed)]) != validator.is_valid(changed), place
            tried += 1
    assert tried > 1_000


@pytest.mark.req("RC3")
@pytest.mark.parametrize(
    ("where", "value", "objection"),
    (
        ("thread", True, "statement.predicate.thread: Input should be a valid integer"),
        ("thread", 2**53, "statement.predicate.thread: Input should be less than or equal to"),
        ("plan.base", "a" * 40 + "\n", "statement.predicate.plan.base: String should match pattern"),
        ("missing", ["x"] * 100_001, "statement.predicate.missing: List should have at most 100000 items"),
        ("builder", {"run": "", "version": "", "more": 1}, "statement.predicate.builder has an unknown key more"),
        ("builder", {"run": ""}, "statement.predicate.builder lacks version"),
    ),
)
def test_an_objection_names_the_place(where: str, value: Any, objection: str, done: tuple[Json, CommitFacts]) -> None:
    (said,) = statement_objections(contradict(copy.deepcopy(done[0]), where, value))
    assert said.startswith(objection)


def test_a_digest_that_names_nothing_is_refused(done: tuple[Json, CommitFacts]) -> None:
    changed = copy.deepcopy(done[0])
    changed["subject"][0]["digest"] = {}
    (said,) = statement_objections(changed)
    assert said == "statement.subject.0.digest: Value error, it is empty"


@pytest.mark.req("RC3")
def test_random_bytes_never_raise() -> None:
    """Whatever a file holds, the answer is a verdict."""
    chance = random.Random(7)
    good = json.dumps(_GOOD).encode()
    for _ in range(300):
        spoiled = bytearray(good)
        for _ in range(chance.randrange(1, 6)):
            spoiled[chance.randrange(len(spoiled))] = chance.randrange(256)
        assert failing(verify_receipt(bytes(spoiled), None, PINNED, NOW))
    with pytest.raises(Unreadable):
        parse_envelope(b"{}")


def run(clone: Clone, **given: Any) -> tuple[int, str]:
    """Run the command and return its exit code and output."""
    options = VerifyOptions("", "", clone.path, clone.keys, "", "", as_json=False)
    out = io.StringIO()
    return print_verdicts(replace(options, **given), out), out.getvalue()


@pytest.mark.req("RC3")
def test_the_command(clone: Clone, tmp_path: Path) -> None:
    """A commit, a file, and a range; JSON; and an exit code per failed check."""
    base = clone.head
    commit, statement = clone.work()
    assert run(clone, subject="HEAD") == (NO_RECEIPT, run(clone, subject="HEAD")[1])
    envelope = clone.issue(commit, statement)
    file = tmp_path / "receipt.json"
    file.write_bytes(envelope)
    code, said = run(clone, subject="HEAD")
    assert (code, said.splitlines()[-2]) == (0, "  completeness  ok")
    assert "receipt is valid" in run(clone, subject=str(file))[1]
    assert run(clone, subject=str(file), commit=base)[0] == EXIT_CODES[ReceiptCheck.BINDING]
    assert run(clone, subject="HEAD", keys=None)[0] == EXIT_CODES[ReceiptCheck.TRUST]
    clone.commit("four\n", "By hand")
    assert run(clone, revisions=f"{base}..HEAD")[0] == 0
    (newest, of_agent) = json.loads(run(clone, revisions=f"{base}..HEAD", as_json=True)[1])
    assert (newest["by_agent"], of_agent["valid"], list(of_agent["verdicts"])) == (
        False,
        True,
        list(map(str, ReceiptCheck)),
    )
    clone.git("update-ref", "-d", f"refs/plangate/receipts/{commit}")
    code, said = run(clone, revisions=f"{base}..HEAD")
    assert (code, "git fetch origin" in said) == (NO_RECEIPT, True)


@pytest.mark.req("RC3")
def test_a_linked_worktree(clone: Clone, tmp_path: Path) -> None:
    """HEAD is that of the worktree in which the command runs, and not that of the main one."""
    commit, statement = clone.work()
    clone.issue(commit, statement)
    linked = tmp_path / "linked"
    clone.git("worktree", "add", "-q", "--detach", str(linked), commit)
    clone.commit("three\n", "By hand")
    assert run(clone, subject="HEAD", folder=linked)[0] == 0
    assert run(clone, subject="HEAD")[0] == NO_RECEIPT


@pytest.mark.req("RC3")
def test_a_mirror(clone: Clone, tmp_path: Path) -> None:
    """A bare clone has every ref at once. One that lies among the files of a clone is not taken for it."""
    commit, statement = clone.work()
    clone.issue(commit, statement)
    mirror = tmp_path / "mirror.git"
    clone.git("clone", "-q", "--mirror", str(clone.path), str(mirror))
    assert run(clone, subject="HEAD", folder=mirror, repository="acme/site")[0] == 0
    inside = clone.path / "mirror.git"
    mirror.rename(inside)
    clone.commit("three\n", "By hand")
    assert run(clone, subject="HEAD", folder=inside, repository="acme/site")[0] == NO_RECEIPT


def test_mistakes_of_the_command(clone: Clone, tmp_path: Path) -> None:
    """Each is one line that says what, where, and how to fix it."""
    with pytest.raises(Misconfigured, match="no such commit"):
        run(clone, subject="nothing")
    with pytest.raises(Misconfigured, match="not a range"):
        run(clone, revisions="HEAD")
    with pytest.raises(Misconfigured, match="not a git clone"):
        run(clone, subject="HEAD", folder=tmp_path)
    with pytest.raises(Misconfigured, match=r"cannot be read: No such file or directory .*none.*: name another one"):
        run(clone, subject="HEAD", keys=tmp_path / "none")
    (tmp_path / "mine.json").write_text("no keys")
    with pytest.raises(Unreadable, match=r"not a list of keys: .*mine\.json"):
        run(clone, subject="HEAD", keys=tmp_path / "mine.json")
    with pytest.raises(Misconfigured, match="it is not clear what to verify"):
        run(clone)
    for name in ("site", "a/b/c/d", "acme/", "acme/my site"):
        with pytest.raises(Misconfigured, match="write OWNER/REPO or HOST/OWNER/REPO"):
            run(clone, subject="HEAD", repository=name)
    (tmp_path / "receipt.json").write_text("{}")
    with pytest.raises(Unreadable, match="it lacks 'v'"):
        run(clone, subject="HEAD", keys=tmp_path / "receipt.json")


@pytest.mark.req("RC2", "RC3")
def test_who_asked_and_who_approved(clone: Clone) -> None:
    """The command says it of a receipt that a trusted key signed for this commit, and of no other one."""
    commit, statement = clone.work()
    plan = f"plan 1 ({statement['predicate']['plan']['digest'][:12]})"
    receipt = clone.issue(commit, statement)
    assert run(clone, subject=commit)[1].splitlines()[1:3] == [
        "  requested     will (id 7), in thread 2",
        f"  approved      maya (id 9, maintain, reaction) at 2026-11-20T08:35:00+00:00, {plan}",
    ]
    assert "maya" not in run(clone, subject=commit, keys=None)[1]
    statement["predicate"]["approvals"][0]["by"] = []
    statement["predicate"]["policy"] |= {"fewer": "standing", "approver_is_not_requester": False}
    clone.issue(commit, statement)
    assert f"  approved      the configuration alone, {plan}\n" in run(clone, subject=commit)[1]
    (clone.path / "receipt.json").write_bytes(receipt)
    clone.commit("three\n", "By hand")
    code, said = run(clone, subject=str(clone.path / "receipt.json"))
    assert code == EXIT_CODES[ReceiptCheck.BINDING]
    assert f"it is about https://github.com/acme/site/commit/{commit}, not about commit" in said
    assert "maya" not in said


def changes(value: Any) -> Iterator[Json]:
    """Yield copies of a statement in which one value differs."""
    for path in _paths(value):
        changed = copy.deepcopy(value)
        *steps, last = path
        target = changed
        for step in steps:
            target = target[step]
        for other in _others(target[last]):
            target[last] = other
            yield copy.deepcopy(changed)


def _paths(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if above:
        yield above
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from _paths(each, (*above, key))


def _others(value: Any) -> list[Any]:
    match value:
        case bool():
            return [not value]
        case int():
            return [value + 1, 0] if value else [1]
        case str():
            return [f"{value}x", value[:-1]] if value else ["x"]
        case list():
            return [[*value, "x"]]
        case None:
            return [1]
        case _:
            return [{}]
