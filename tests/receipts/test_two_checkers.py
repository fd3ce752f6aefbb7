"""The checker in docs/receipts/checker.html, written apart from Plangate's code: both agree on every receipt (RC7)."""

import hashlib
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from bot.compose.receipt_check import parse_commit
from bot.core.errors import Unreadable
from bot.core.transcript import Json
from bot.receipts.approvers import AllowedSigners, ApproverSignature, approver_verdict, approvers, check_signature
from bot.receipts.envelope import decode_keys, encode_keys, parse_envelope, sign_statement
from bot.receipts.verdicts import CommitFacts, Trust, verify_receipt
from tests.receipts.conftest import KEY, Clone
from tests.receipts.test_verdicts import NOW, failing

DOCS = Path(__file__).parents[2] / "docs/receipts"
CORPUS = DOCS / "corpus.json"


@pytest.fixture(scope="module")
def checker(browser: Any) -> Iterator[Any]:
    page = browser.new_context(offline=True).new_page()
    page.goto((DOCS / "checker.html").as_uri())
    yield page
    page.close()


def answer(checker: Any, case: Json) -> list[str]:
    verdicts = checker.evaluate("given => check(given)", case)
    return [name for name, objections in verdicts.items() if objections]


def case_of(clone: Clone, commit: str, receipt: bytes) -> Json:
    facts = clone.facts(commit)
    return {
        "receipt": receipt.decode(),
        "keys": encode_keys([KEY.public]).decode(),
        "commit": clone.git("cat-file", "commit", commit) + "\n",
        "paths": list(facts.paths),
        "repository": facts.repository,
        "now": NOW.isoformat(),
    }


@pytest.mark.req("RC7")
@pytest.mark.parametrize("case", json.loads(CORPUS.read_text()), ids=lambda case: case["name"])
def test_the_corpus(case: Json, checker: Any) -> None:
    """The public corpus has an answer for each receipt, and both checkers give it."""
    assert answer(checker, case) == case["fails"]
    commit = case["commit"].encode()
    digest = hashlib.sha1(b"commit %d\0%b" % (len(commit), commit), usedforsecurity=False).hexdigest()
    tree, parents, message = parse_commit(commit)
    facts = CommitFacts(digest, tree, parents, tuple(case["paths"]), message, case["repository"])
    trust, now = Trust(decode_keys(case["keys"].encode())), datetime.fromisoformat(case["now"])
    failed = failing(verify_receipt(case["receipt"].encode(), facts, trust, now))
    assert failed + (["approver"] if "signers" in case and not is_signed(case) else []) == case["fails"]


def is_signed(case: Json) -> bool:
    """Return whether the approver signed the receipt of a case."""
    envelope, signers = parse_envelope(case["receipt"].encode()), AllowedSigners(case["signers"], {})
    (maya,) = approvers(envelope.statement)
    answered = check_signature(envelope.payload, case["signature"].encode(), maya.login, signers=signers, at=NOW)
    found = [ApproverSignature(maya.actor_id, maya.login, answered.problem)] if case["signature"] else []
    return not approver_verdict(envelope.statement, found).objections


@pytest.mark.req("RC7")
def test_a_key_that_stands_twice_in_two_spellings(clone: Clone, checker: Any) -> None:
    commit, statement = clone.work()
    receipt = sign_statement(statement, KEY).replace(b'{"payload":', b'{"payload":"e30=","p\\u0061yload":')
    assert failing(verify_receipt(receipt, clone.facts(commit), Trust((KEY.public,)), NOW)) == ["syntax"]
    assert answer(checker, case_of(clone, commit, receipt)) == ["syntax"]


@pytest.mark.req("RC7")
def test_the_page_as_a_person_uses_it(clone: Clone, checker: Any) -> None:
    commit, statement = clone.work()
    case = case_of(clone, commit, sign_statement(statement, KEY))
    for name in ("receipt", "keys", "commit", "repository"):
        checker.fill(f"#{name}", case[name])
    checker.fill("#paths", "\n".join(case["paths"]))
    checker.click("button")
    checker.wait_for_selector("td")
    assert checker.locator("tr").all_inner_texts() == [
        *(
            f"{name}\t✓ ok"
            for name in ("syntax", "signature", "trust", "binding", "freshness", "policy", "completeness")
        ),
        "approver\tsigned by the service alone",
    ]
    digest = statement["predicate"]["plan"]["digest"]
    assert (checker.inner_text("#answer"), checker.inner_text("#claims")) == (
        "The receipt is valid.",
        "Requested by will (id 7), in thread 2.\n"
        f"Approved by maya (id 9, maintain, reaction) at 2026-11-20T08:35:00+00:00, plan 1 ({digest[:12]}).",
    )
    checker.fill("#repository", "github.com/mallory/site")
    assert [checker.inner_text(each) for each in ("#answer", "#claims", "#verdicts")] == ["", "", ""]
    checker.click("button")
    checker.wait_for_selector("#answer.bad")
    assert checker.inner_text("#answer") == "The receipt is NOT valid: binding."
    assert checker.inner_text("#claims") == ""


@pytest.mark.parametrize("keys", ("", "nonsense", "{}", "null"))
def test_the_page_says_which_field_is_wrong(clone: Clone, checker: Any, keys: str) -> None:
    """A text that is no list of keys is told as that, and not in the words of a JSON reader."""
    commit, statement = clone.work()
    case = case_of(clone, commit, sign_statement(statement, KEY)) | {"keys": keys}
    for name in ("receipt", "keys", "commit", "repository"):
        checker.fill(f"#{name}", case[name])
    checker.click("button")
    told = checker.locator("tr", has_text="cannot check").first.inner_text()
    assert checker.inner_text("#answer") == "The receipt cannot be checked."
    assert told == "cannot check\t✗ the keys are no list of keys: paste the file plangate-keys.json"


@pytest.mark.req("RC4", "RC7")
@pytest.mark.parametrize("zone", ("+24:00", "-99:99", "+23:60"))
def test_a_revocation_at_no_time_that_exists_is_not_passed_over(clone: Clone, checker: Any, zone: str) -> None:
    commit, statement = clone.work()
    case = case_of(clone, commit, sign_statement(statement, KEY))
    case["keys"] = case["keys"].replace('"id"', f'"revoked": "2026-01-01T00:00:00{zone}", "id"')
    with pytest.raises(Unreadable):
        decode_keys(case["keys"].encode())
    with pytest.raises(Exception, match="the keys have no time in revoked"):
        answer(checker, case)
