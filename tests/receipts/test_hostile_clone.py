"""`plangate verify` in a clone that somebody else prepared: it runs nothing, and no file in it stops or bends it."""

import io
import json
import shutil
import subprocess
from base64 import b64encode
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.cli.receipts import VerifyOptions, print_verdicts
from bot.compose.receipt_check import sign_receipt, signable_receipt
from bot.core.errors import Misconfigured
from bot.core.receipt import KEYS_FILE, KEYS_REF, RECEIPT_FILE, receipt_ref
from bot.receipts.envelope import PAYLOAD_TYPE, SIZE_LIMIT, sign_statement
from bot.receipts.verdicts import EXIT_CODES, ReceiptCheck, Trust, exit_code, verify_receipt
from tests.receipts.conftest import KEY, Clone
from tests.receipts.ssh_people import make_person

NOW = datetime(2026, 11, 21, tzinfo=UTC)
PROGRAMS = (
    "core.fsmonitor core.pager core.editor core.askPass core.sshCommand core.gitProxy core.alternateRefsCommand "
    "credential.helper diff.external diff.evil.command diff.evil.textconv filter.evil.clean filter.evil.smudge "
    "filter.evil.process gpg.program gpg.ssh.program gpg.x509.program pager.rev-list pager.diff-tree pager.cat-file "
    "uploadpack.packObjectsHook receive.procReceiveRefs"
).split()
"""Where git's configuration names programs: https://git-scm.com/docs/git-config"""


def is_valid(clone: Clone, commit: str) -> bool:
    """Return whether the receipt of a commit is found and valid."""
    checked = clone.opened(repository="acme/site").check_commit(commit, None, NOW)
    return bool(checked.verdicts) and not exit_code(checked.verdicts)


@pytest.mark.req("RC3")
def test_a_missing_object_starts_no_program(clone: Clone, tmp_path: Path) -> None:
    """A partial clone may name the program that fetches what is missing. It is not asked."""
    commit, statement = clone.work()
    clone.issue(commit, statement)
    tree = clone.git("rev-parse", f"{commit}^{{tree}}")
    ran = tmp_path / "ran"
    for name, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "far",
        "remote.far.promisor": "true",
        "remote.far.url": str(clone.path),
        "remote.far.uploadpack": f"touch {ran}; false",
    }.items():
        clone.git("config", name, value)
    (clone.path / ".git/objects" / tree[:2] / tree[2:]).unlink()
    with pytest.raises(Exception, match="git"):
        is_valid(clone, commit)
    assert not ran.exists()


@pytest.mark.req("RC2", "RC3")
def test_no_program_of_the_configuration_is_started(clone: Clone, tmp_path: Path) -> None:
    """Neither `verify` nor `sign` starts a hook, a monitor, a filter, a pager, or a program for diffs or signatures."""
    ran = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    base = clone.head
    attributes = clone.path / ".git/info/attributes"
    attributes.parent.mkdir(exist_ok=True)
    attributes.write_text("* diff=evil filter=evil\n")
    commit, statement = clone.work()
    clone.issue(commit, statement)
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for hook in ("reference-transaction", "post-index-change", "post-commit", "pre-commit"):
        (hooks / hook).symlink_to(program)
    values = dict.fromkeys(PROGRAMS, str(program)) | {"core.hooksPath": str(hooks), "log.showSignature": "true"}
    for name, value in values.items():
        subprocess.run(["git", "-C", str(clone.path), "config", name, value], check=True)
    subprocess.run(["git", "-C", str(clone.path), "update-ref", "refs/x", commit], check=False, capture_output=True)
    assert ran.exists(), "the trap works"
    ran.unlink()
    assert is_valid(clone, commit)
    assert [exit_code(each.verdicts) for each in clone.opened().check_range(f"{base}..HEAD", NOW)] == [0]
    opened = clone.opened()
    sign_receipt(opened, signable_receipt(opened, commit, login="", now=NOW), make_person(tmp_path, "maya").key)
    assert not ran.exists()


@pytest.mark.req("RC3")
def test_objects_in_another_place(clone: Clone, tmp_path: Path) -> None:
    """Objects may lie in an alternate. What lies there under another one's name is not believed."""
    commit, statement = clone.work()
    clone.issue(commit, statement)
    other = clone.commit("evil\n", "Other")
    objects, elsewhere = clone.path / ".git/objects", tmp_path / "elsewhere"
    shutil.copytree(objects, elsewhere)
    name = Path(commit[:2]) / commit[2:]
    (objects / name).unlink()
    (objects / "info/alternates").write_text(f"{elsewhere}\n")
    assert is_valid(clone, commit)
    (elsewhere / name).unlink()
    shutil.copy(elsewhere / other[:2] / other[2:], elsewhere / name)
    with pytest.raises(Misconfigured):
        is_valid(clone, commit)


@pytest.mark.req("RC3")
def test_replaced_objects_are_seen_through(clone: Clone) -> None:
    commit, statement = clone.work()
    clone.issue(commit, statement)
    other = clone.commit("evil\n", "Other")
    clone.git("replace", commit, other)
    assert is_valid(clone, commit)


@pytest.mark.req("RC3")
def test_a_file_that_is_named_like_a_commit(clone: Clone) -> None:
    commit, statement = clone.work()
    clone.issue(commit, statement)
    clone.commit("x\n", "Add a file", path=commit)
    newest, older = clone.opened().check_range("HEAD~2..HEAD", NOW)
    assert (newest.verdicts, exit_code(older.verdicts)) == ((), 0)


@pytest.mark.req("RC3", "RC4")
@pytest.mark.parametrize("keys", (b"not JSON", b"[" * 100_000, b'{"v": 1, "keys": [{"id": "%s"}]}' % (b"9" * 5000)))
def test_keys_in_the_repository_that_cannot_be_read(clone: Clone, keys: bytes) -> None:
    """Whoever can push can write that list. The keys that the verifier brought still count."""
    commit, statement = clone.work()
    clone.issue(commit, statement)
    clone.keep(KEYS_REF, KEYS_FILE, keys)
    assert is_valid(clone, commit)


@pytest.mark.req("RC3")
def test_refs_with_odd_names_and_huge_files(clone: Clone) -> None:
    """Other people's receipts say nothing about this one, whatever they are named and however large they are."""
    commit, statement = clone.work()
    clone.issue(commit, statement)
    clone.git("update-ref", "refs/plangate/receipts/caf\udce9", commit)  # é in Latin-1
    clone.git("config", "remote.origin.url", "caf\udce9")
    other = clone.commit("three\n", "Other")
    clone.keep(receipt_ref(other), RECEIPT_FILE, b"x" * (SIZE_LIMIT + 1))
    assert is_valid(clone, commit)
    assert clone.opened().check_commit(other, None, NOW).verdicts == ()


@pytest.mark.req("RC3")
def test_an_unsigned_receipt_that_draws_on_the_terminal(clone: Clone) -> None:
    """What a receipt claims is printed without control characters, which could hide the verdict."""
    commit, statement = clone.work()
    envelope = json.loads(sign_statement(statement, KEY))
    envelope["signatures"][0]["keyid"] = "\x9b2K\x9b1A\u202eok"
    clone.keep(receipt_ref(commit), RECEIPT_FILE, json.dumps(envelope, ensure_ascii=False).encode())
    out = io.StringIO()
    options = VerifyOptions(commit, "", clone.path, clone.keys, "", "", as_json=False)
    assert print_verdicts(options, out) == EXIT_CODES[ReceiptCheck.SIGNATURE]
    assert not {"\x9b", "\u202e"} & set(out.getvalue())


@pytest.mark.req("RC3")
def test_a_number_without_end() -> None:
    """1e999 reads as infinite, which no statement can hold."""
    payload = b64encode(b'{"n":1e999}').decode()
    content = json.dumps({"payload": payload, "payloadType": PAYLOAD_TYPE, "signatures": []})
    assert [each.check for each in verify_receipt(content.encode(), None, Trust(), NOW)] == [ReceiptCheck.SYNTAX]


@pytest.mark.req("RC3")
def test_the_last_time_there_is(clone: Clone) -> None:
    commit, statement = clone.work()
    last = "9999-12-31T23:59:59+00:00"
    statement["predicate"]["journal"]["at"] = last
    statement["predicate"]["approvals"][0]["observed_at"] = last
    clone.issue(commit, statement)
    assert not is_valid(clone, commit)
