"""Receipts on a remote that other people may push to: the bot shows and keeps none but its own."""

import asyncio
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from bot.core.names import CommitId
from bot.core.receipt import KEYS_FILE, KEYS_REF, RECEIPT_FILE, receipt_ref
from bot.core.transcript import Json
from bot.ports import Clock
from bot.receipts.envelope import ReceiptKey, decode_keys, is_receipt_of, sign_statement, with_current_key_file
from bot.store.receipt_refs import Issuer, ReceiptRefs
from bot.store.thread_refs import ThreadRefs
from tests.store.conftest import Repository

_COMMIT: Final = CommitId("c" * 40)
_KEY: Final = ReceiptKey.of(b"k" * 32)
_OTHER: Final = ReceiptKey.of(b"o" * 32)
_STATEMENT: Final[Json] = {"subject": [{"digest": {"gitCommit": _COMMIT}}], "builder": "one"}
_OURS: Final = sign_statement(_STATEMENT, _KEY)

IssueReceipt = Callable[[], bytes]


@pytest.fixture
def issue(refs_on: Callable[[str], ThreadRefs], tmp_path: Path, clock: Clock) -> IssueReceipt:
    """Return a function that issues the receipt of the commit."""
    issuer = Issuer(
        partial(sign_statement, key=_KEY),
        partial(is_receipt_of, key=_KEY.public),
        partial(with_current_key_file, current=_KEY.public),
    )
    receipts = ReceiptRefs(refs_on("one"), issuer, clock, tmp_path / "receipts")
    return lambda: asyncio.run(receipts.issue(_STATEMENT, _COMMIT))


def push_file(repository: Repository, ref: str, name: str, content: bytes) -> None:
    """Have a ref hold one file, as whoever may push can."""
    blob = repository.git("hash-object", "-w", "--stdin", stdin=content)
    tree = repository.git("mktree", stdin=f"100644 blob {blob}\t{name}\n")
    commit = repository.git("-c", "user.name=x", "-c", "user.email=x@y", "commit-tree", tree, "-m", "x")
    repository.git("update-ref", ref, commit)


def kept(repository: Repository) -> bytes:
    return repository.git("cat-file", "blob", f"{receipt_ref(_COMMIT)}:{RECEIPT_FILE}").encode() + b"\n"


@pytest.mark.req("RC4", "RC5")
@pytest.mark.parametrize(
    "planted",
    (
        b"\xff **anything** @everybody",
        sign_statement(_STATEMENT, _OTHER),
        sign_statement({**_STATEMENT, "subject": "another commit"}, _KEY),
    ),
    ids=["text", "another key", "another commit"],
)
def test_a_ref_that_somebody_made_before(repository: Repository, issue: IssueReceipt, planted: bytes) -> None:
    """A commit's id can be known before its push. What stands under its name then is replaced, and never shown."""
    push_file(repository, receipt_ref(_COMMIT), RECEIPT_FILE, planted)
    assert (issue(), kept(repository)) == (_OURS, _OURS)


@pytest.mark.req("RC5")
def test_a_ref_that_points_to_no_commit(repository: Repository, issue: IssueReceipt) -> None:
    """Git cannot list the files of a blob. That does not keep the pull request waiting."""
    repository.git("update-ref", receipt_ref(_COMMIT), repository.git("hash-object", "-w", "--stdin", stdin=b"x"))
    assert (issue(), kept(repository)) == (_OURS, _OURS)


@pytest.mark.req("RC5")
def test_a_receipt_of_an_earlier_process(repository: Repository, issue: IssueReceipt) -> None:
    """A receipt that this key signed for the commit stays, whatever else it says."""
    earlier = sign_statement({**_STATEMENT, "builder": "two"}, _KEY)
    push_file(repository, receipt_ref(_COMMIT), RECEIPT_FILE, earlier)
    assert (issue(), kept(repository)) == (earlier, earlier)


@pytest.mark.req("RC4")
@pytest.mark.parametrize(
    "planted",
    (
        b"[" * 100_000,
        b'{"v":1,"keys":[{"id":"%s","public":"%s","since":"0001-01-01T00:00:00+14:00"}]}'
        % (_OTHER.public.id.encode(), b64encode(_OTHER.public.raw)),
    ),
    ids=["deep", "before all times"],
)
def test_a_list_of_keys_that_nobody_can_read(repository: Repository, issue: IssueReceipt, planted: bytes) -> None:
    """It is replaced, and does not end the publishing."""
    push_file(repository, KEYS_REF, KEYS_FILE, planted)
    assert issue() == _OURS
    published = repository.git("cat-file", "blob", f"{KEYS_REF}:{KEYS_FILE}").encode()
    assert [key.id for key in decode_keys(published)] == [_KEY.public.id]
