"""Attacks on receipts: on spellings, frames, names of keys, lists of keys, and on what a clone says of itself."""

import json
import re
import shutil
import subprocess
from base64 import b64decode, b64encode
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.compose.receipt_check import parse_commit
from bot.core.errors import Misconfigured, Refused, Unreadable
from bot.core.receipt import KEYS_FILE, KEYS_REF, canonical_statement
from bot.core.transcript import Json
from bot.receipts.envelope import PAYLOAD_TYPE, SIZE_LIMIT, decode_keys, encode_keys, sign_statement
from bot.receipts.verdicts import Trust, verify_receipt
from tests.core.receipt_story import statement_of
from tests.receipts.conftest import KEY, OTHER_KEY, Clone, make_clone
from tests.receipts.test_two_checkers import answer, case_of, checker
from tests.receipts.test_verdicts import NOW, failing

__all__ = ("checker",)


def signed_payload(payload: bytes, frame: bytes | None = None) -> bytes:
    """Return an envelope of any bytes, signed by the trusted key in the frame of DSSE, or in another one."""
    kind = PAYLOAD_TYPE.encode()
    framed = frame if frame is not None else b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
    signature = {"keyid": KEY.public.id, "sig": b64encode(KEY.sign(framed)).decode()}
    envelope = {"payload": b64encode(payload).decode(), "payloadType": PAYLOAD_TYPE, "signatures": [signature]}
    return json.dumps(envelope).encode()


SPELLINGS: dict[str, tuple[bytes, bytes]] = {
    "a key twice": (b'"thread":2', b'"thread":3,"thread":2'),
    "an escaped letter": (b'"main"', b'"m\\u0061in"'),
    "half a pair": (b'"main"', b'"\\ud800"'),
    "half a pair, raw": (b'"main"', b'"\xed\xa0\x80"'),
    "an escaped slash": (b'"github.com"', b'"github.com\\/"'),
    "a fraction": (b'"thread":2', b'"thread":2.0'),
    "an exponent": (b'"thread":2', b'"thread":2e0'),
    "minus zero": (b'"thread":2', b'"thread":-0'),
    "more than a float can tell": (b'"thread":2', b'"thread":9007199254740993'),
    "a number of many digits": (b'"thread":2', b'"thread":' + b"9" * 5000),
    "true for one": (b'"thread":2', b'"thread":true'),
    "white space": (b'"thread":2', b'"thread": 2'),
    "a byte order mark": (b'{"_type"', b'\xef\xbb\xbf{"_type"'),
    "another order": (b'"complete":true,"execution"', b'"execution":0,"complete":true,"execution"'),
    "a key of every object": (b'"thread":2', b'"thread":2,"toString":1'),
    "a prototype": (b'{"_type"', b'{"__proto__":{},"_type"'),
    "a key in the subject": (b'"name":', b'"constructor":1,"name":'),
    "digits of another script": (b"2026-11-20T09:10:00", "\u0662026-11-20T09:10:00".encode()),
    "no statement": (b'"_type"', b'"_typo"'),
}


@pytest.mark.req("RC3", "RC7")
def test_spellings_of_one_statement(clone: Clone, checker: Any) -> None:
    """Each is signed by the trusted key, and refused by both checkers for its syntax: a statement has one spelling."""
    commit, statement = clone.work()
    facts, case, payload = clone.facts(commit), case_of(clone, commit, b""), canonical_statement(statement)
    for name, (before, after) in SPELLINGS.items():
        assert before in payload, name
        receipt = signed_payload(payload.replace(before, after, 1))
        assert failing(verify_receipt(receipt, facts, Trust((KEY.public,)), NOW)) == ["syntax"], name
        assert answer(checker, case | {"receipt": receipt.decode()}) == ["syntax"], name


@pytest.mark.req("RC3", "RC7")
def test_frames_of_other_protocols(clone: Clone, checker: Any) -> None:
    """A signature of the bare payload, of another type, with other lengths, or by DSSE's older frame is none."""
    commit, statement = clone.work()
    payload = canonical_statement(statement)
    kind, size = PAYLOAD_TYPE.encode(), len(payload)
    for frame in (
        payload,
        b64encode(payload),
        b"DSSEv1 %d %b %d %b" % (10, b"text/plain", size, payload),
        b"DSSEv1 %d %b %d %b" % (len(kind), kind, size - 1, payload),
        b"DSSEv1 %d %b %d %b" % (len(kind) + 1, kind + b" ", size, payload),
        b"DSSEv1 %b %b" % (kind, payload),
        b"DSSEv2 %d %b %d %b" % (len(kind), kind, size, payload),
    ):
        receipt = signed_payload(payload, frame)
        verdicts = verify_receipt(receipt, clone.facts(commit), Trust((KEY.public,)), NOW)
        assert failing(verdicts) == ["signature", "trust"] == answer(checker, case_of(clone, commit, receipt))


@pytest.mark.req("RC4", "RC7")
def test_a_signature_under_another_name(clone: Clone, checker: Any) -> None:
    """The name of a key is a hint: a signature counts under the key that made it and carries that name, or not at all;
    beside a good signature others change nothing."""
    commit, statement = clone.work()
    good, other = (json.loads(sign_statement(statement, key))["signatures"][0] for key in (KEY, OTHER_KEY))
    envelope = json.loads(sign_statement(statement, KEY))
    swapped = [{**good, "keyid": other["keyid"]}, {**other, "keyid": good["keyid"]}]
    for signatures, fails in (
        (swapped, ["signature", "trust"]),
        ([{**good, "keyid": ""}], ["signature", "trust"]),
        ([{**good, "keyid": good["keyid"].upper()}], ["signature", "trust"]),
        ([{**good, "sig": b64encode(b64decode(good["sig"])[:63]).decode()}], ["signature", "trust"]),
        ([*swapped, good], []),
        ([good] * 16, []),
        ([good] * 17, ["syntax"]),
    ):
        receipt = json.dumps(envelope | {"signatures": signatures}).encode()
        verdicts = verify_receipt(receipt, clone.facts(commit), Trust((KEY.public,)), NOW)
        assert failing(verdicts) == fails == answer(checker, case_of(clone, commit, receipt))


@pytest.mark.req("RC4")
def test_keys_that_a_writer_set_back(clone: Clone) -> None:
    """Whoever can push can replace the list in the repository: with an older one, a forged one, or none. The verifier's
    own list decides, also about a key of the same name."""
    commit, statement = clone.work()
    clone.issue(commit, statement)
    revoked = replace(KEY.public, revoked=NOW - timedelta(days=30))
    for listed, pinned, fails in (
        ([KEY.public], [revoked], ["trust"]),
        ([revoked], [KEY.public], []),
        ([OTHER_KEY.public], [KEY.public], []),
        ([KEY.public], [OTHER_KEY.public], ["trust"]),
    ):
        clone.keep(KEYS_REF, KEYS_FILE, encode_keys(listed))
        clone.keys.write_bytes(encode_keys(pinned))
        assert failing(clone.opened().check_commit(commit, None, NOW).verdicts) == fails


@pytest.mark.req("RC4", "RC7")
def test_a_list_of_keys_with_a_mistake(clone: Clone, checker: Any) -> None:
    """A revocation that cannot be read never counts as none: both checkers refuse the list."""
    commit, statement = clone.work()
    case = case_of(clone, commit, sign_statement(statement, KEY))
    changes: tuple[Json, ...] = (
        {"Revoked": "2026-01-01T00:00:00+00:00"},
        {"revoked": "2026-01-01T00:00:00"},
        {"revoked": "2026-01-01 and later"},
        {"revoked": None},
        {"id": "0" * 16},
    )
    for change in changes:
        row = json.loads(encode_keys([KEY.public]))["keys"][0] | change
        listed = json.dumps({"v": 1, "keys": [row]})
        with pytest.raises(Unreadable):
            decode_keys(listed.encode())
        with pytest.raises(Exception, match="key"):
            answer(checker, case | {"keys": listed})


@pytest.mark.req("RC4", "RC7")
def test_both_checkers_refuse_a_list_of_keys_with_a_word_twice(clone: Clone, checker: Any) -> None:
    commit, statement = clone.work()
    case = case_of(clone, commit, sign_statement(statement, KEY))
    whole, revoked = case["keys"], encode_keys([replace(KEY.public, revoked=NOW)]).decode()
    (row,) = json.loads(whole)["keys"]
    for listed in (
        revoked.replace('"revoked":', '"revoked": "2099-01-01T00:00:00+00:00", "revoked":'),
        revoked.replace('"revoked":', '"revoked": "2099-01-01T00:00:00+00:00", "r\\u0065voked":'),
        revoked.replace('"keys":', f'"keys": [{json.dumps(row)}], "keys":'),
        revoked.replace('"keys":', f'"keys": [{json.dumps(row)}], "other":'),
        whole.replace('"v": 1', '"v": 2, "v": 1'),
        whole.replace('"v": 1', '"v": true'),
        re.sub(r"(?<=\d)T(?=\d\d:)", " ", revoked),
    ):
        assert json.loads(listed)["v"] == 1
        with pytest.raises(Unreadable):
            decode_keys(listed.encode())
        with pytest.raises(Exception, match="keys"):
            answer(checker, case | {"keys": listed})
    assert answer(checker, case) == []


@pytest.mark.req("RC4", "RC7")
def test_a_key_twice(clone: Clone, checker: Any) -> None:
    """Two rows of one key could contradict each other."""
    commit, statement = clone.work()
    listed = encode_keys([KEY.public, replace(KEY.public, revoked=NOW)])
    with pytest.raises(Unreadable, match="twice"):
        decode_keys(listed)
    with pytest.raises(Exception, match="twice"):
        answer(checker, case_of(clone, commit, sign_statement(statement, KEY)) | {"keys": listed.decode()})


@pytest.mark.req("RC3", "RC7")
def test_times_that_do_not_exist(clone: Clone, checker: Any) -> None:
    commit, statement = clone.work()
    facts, case = clone.facts(commit), case_of(clone, commit, b"")
    for made, fails in {
        "2026-11-20T09:10:60+00:00": ["freshness"],
        "2026-11-20T24:00:00+00:00": ["freshness"],
        "0000-11-20T09:10:00+00:00": ["freshness"],
        "2026-11-31T09:10:00+00:00": ["freshness"],
        "2026-11-21T00:05:00+00:00": [],
        "2026-11-21T00:05:00.000001+00:00": ["freshness"],
    }.items():
        statement["predicate"]["journal"]["at"] = made
        receipt = sign_statement(statement, KEY)
        assert failing(verify_receipt(receipt, facts, Trust((KEY.public,)), NOW)) == fails, made
        assert answer(checker, case | {"receipt": receipt.decode()}) == fails, made


@pytest.mark.req("RC4", "RC7")
def test_a_repository_that_nobody_names(clone: Clone, checker: Any) -> None:
    """Without a remote or --repo a fork looks like the original: binding fails, and says what to give."""
    commit, statement = clone.work()
    clone.issue(commit, statement)
    clone.git("remote", "remove", "origin")
    (binding,) = [each for each in clone.opened().check_commit(commit, None, NOW).verdicts if not each.passes]
    assert "--repo" in binding.objections[0]
    case = case_of(clone, commit, sign_statement(statement, KEY)) | {"repository": ""}
    assert answer(checker, case) == ["binding"]


@pytest.mark.req("RC3", "RC4", "RC7")
def test_a_repository_of_sha_256(tmp_path: Path, checker: Any) -> None:
    path = tmp_path / "long"
    subprocess.run(["git", "init", "-q", "-b", "main", "--object-format=sha256", str(path)], check=True)
    clone = make_clone(path, tmp_path / KEYS_FILE)
    commit, statement = clone.work()
    receipt = clone.issue(commit, statement)
    assert len(commit) == 64
    checked = clone.opened().check_commit("HEAD", None, NOW)
    assert (checked.receipt, failing(checked.verdicts)) == (receipt, [])
    assert answer(checker, case_of(clone, commit, receipt)) == []
    other = clone.commit("three\n", "Other")
    assert failing(clone.opened().check_commit(other, receipt, NOW).verdicts) == ["binding"]
    assert answer(checker, case_of(clone, other, receipt)) == ["binding"]


@pytest.mark.req("RC3")
def test_a_merge_in_a_range(clone: Clone) -> None:
    """Each commit counts by itself: a merge is a person's own, and what it brings in needs its receipt."""
    base = clone.head
    commit, statement = clone.work()
    clone.git("checkout", "-q", "-b", "side", base)
    clone.commit("side\n", "By hand", path="side.py")
    clone.git("merge", "-q", "--no-ff", "-m", "Merge", commit)
    by_agent = {each.commit: each for each in clone.opened().check_range(f"{base}..side", NOW) if each.by_agent}
    assert (list(by_agent), by_agent[commit].verdicts) == ([commit], ())
    receipt = clone.issue(commit, statement)
    of_merge = clone.opened().check_commit("side", receipt, NOW)
    assert failing(of_merge.verdicts) == ["binding"]


@pytest.mark.req("RC3")
def test_clones_that_leave_commits_out(clone: Clone, tmp_path: Path) -> None:
    """A shallow clone is refused for a range; so is a receipt of a commit whose parent is not there."""
    clone.issue(*clone.work())
    clone.commit("three\n", "By hand")
    shallow = tmp_path / "shallow"
    clone.git("clone", "-q", "--depth", "2", f"file://{clone.path}", str(shallow))
    opened = replace(clone, path=shallow).opened(repository="acme/site")
    with pytest.raises(Misconfigured, match="--unshallow"):
        opened.check_range("HEAD~1..HEAD", NOW)
    assert [opened.check_commit(each, None, NOW).verdicts for each in ("HEAD", "HEAD~1")] == [(), ()]
    clone.git("-C", str(shallow), "fetch", "-q", "--depth", "2", "origin", "refs/plangate/*:refs/plangate/*")
    with pytest.raises(Misconfigured, match="--unshallow"):
        opened.check_commit("HEAD~1", None, NOW)


@pytest.mark.req("RC3")
def test_a_clone_that_lies_about_its_objects(clone: Clone) -> None:
    base = clone.head
    commit, statement = clone.work()
    clone.issue(commit, statement)
    other = clone.commit("evil\n", f"Do it\n\nPlangate-Plan: {statement['predicate']['plan']['digest']}")
    grafts = clone.path / ".git/info/grafts"
    grafts.parent.mkdir(exist_ok=True)
    grafts.write_text(f"{commit}\n")
    assert failing(clone.opened().check_commit(commit, None, NOW).verdicts) == []
    objects = clone.path / ".git/objects"
    target = objects / commit[:2] / commit[2:]
    target.unlink()
    shutil.copy(objects / other[:2] / other[2:], target)
    with pytest.raises(Misconfigured, match="no such commit"):
        clone.opened().check_commit(commit, None, NOW)
    with pytest.raises(Misconfigured, match="damaged"):  # of the commits on the way git looks at none
        list(clone.opened().check_range(f"{base}..{other}", NOW))


@pytest.mark.req("RC3")
def test_line_ends_that_only_some_readers_see() -> None:
    """Git ends a line at a newline alone. No author can write a second parent into the line of their name."""
    author = "author x\u2028parent " + "b" * 40 + "\x85tree " + "c" * 40 + " <e@x> 0 +0000"
    tree, parents, _ = parse_commit(f"tree {'a' * 40}\n{author}\n\nm".encode())
    assert (tree, parents) == ("a" * 40, ())


@pytest.mark.req("RC3")
def test_receipts_that_nobody_would_read() -> None:
    statement = statement_of()
    statement["predicate"]["scope"]["changed"] = ["x" * 100 + str(n) for n in range(SIZE_LIMIT // 100)]
    with pytest.raises(Refused, match="larger than"):
        sign_statement(statement, KEY)
