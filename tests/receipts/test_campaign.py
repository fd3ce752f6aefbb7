"""Random receipts: whoever changes one field is refused by both checkers, with the right verdict (RC3, RC7)."""

import base64
import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from bot.core.receipt import canonical_statement
from bot.core.transcript import Json
from bot.receipts.envelope import PublicKey, encode_keys, sign_statement
from bot.receipts.statement import statement_objections
from bot.receipts.verdicts import CommitFacts, Trust, verify_receipt
from tests.receipts.conftest import KEY, OTHER_KEY
from tests.receipts.random_receipts import RandomReceipt, mutations, random_receipt
from tests.receipts.test_two_checkers import checker
from tests.receipts.test_verdicts import NOW, failing

__all__ = ("checker",)
pytestmark = [pytest.mark.req("RC3", "RC4", "RC7"), pytest.mark.timeout(600)]
_EVERY = """async ([given, receipts]) => {
    const found = []
    for (const receipt of receipts) {
        const verdicts = await check({...given, receipt})
        found.push(Object.keys(verdicts).filter(name => verdicts[name].length))
    }
    return found
}"""
_SAMPLE = 1
_STEP = 7
"""Every day the page in a browser, the slower one of the two, checks one of seven."""
_ALL = [each if each < _SAMPLE else pytest.param(each, marks=pytest.mark.soak) for each in range(200)]


def case_of(receipt: RandomReceipt, facts: CommitFacts | None = None, key: PublicKey = KEY.public) -> Json:
    """Return what the page is given beside the receipt."""
    about = facts or receipt.facts
    return {
        "keys": encode_keys([key]).decode(),
        "commit": receipt.commit,
        "paths": list(about.paths),
        "repository": about.repository,
        "now": NOW.isoformat(),
    }


def with_payload(envelope: bytes, statement: Any) -> bytes:
    """Return an envelope with the payload of another statement, and its signature as it was."""
    payload = base64.b64encode(canonical_statement(statement)).decode()
    return json.dumps(json.loads(envelope) | {"payload": payload}).encode()


def expected(changed: Any, fails_signed: list[str]) -> list[str]:
    """Return the checks that fail for a statement that somebody without the key changed."""
    if any(statement_objections(changed)):
        return ["syntax"]
    return ["signature", "trust", *fails_signed]


@pytest.mark.parametrize("seed", _ALL)
def test_every_mutation(checker: Any, seed: int) -> None:
    """Without the key each fails syntax, or signature and trust beside what it contradicts. Signed by the key that is
    trusted, both checkers say the same of it."""
    receipt = random_receipt(seed)
    envelope = sign_statement(receipt.statement, KEY)
    trust, facts = Trust((KEY.public,)), receipt.facts
    assert failing(verify_receipt(envelope, facts, trust, NOW)) in ([], ["completeness"])
    changed = [statement for _, statement in mutations(receipt.statement)]
    spoiled = [with_payload(envelope, each) for each in changed]
    signed = [sign_statement(each, KEY) for each in changed]
    both = [envelope, *spoiled, *signed]
    ours = [failing(verify_receipt(each, facts, trust, NOW)) for each in both]
    step = 1 if seed else _STEP
    theirs = checker.evaluate(_EVERY, [case_of(receipt), [each.decode() for each in both[::step]]])
    for n, each in enumerate(changed, start=1):
        of_signer = ours[n + len(changed)]
        assert ours[n] == expected(each, [check for check in of_signer if check not in {"signature", "trust"}])
    assert ours[::step] == theirs
    assert len(changed) > 300


@pytest.mark.parametrize("seed", _ALL)
def test_every_key_and_place(checker: Any, seed: int) -> None:
    """Rotated, revoked, and unknown keys; another commit, repository, server, and fork; other files."""
    receipt = random_receipt(seed)
    envelope, facts = sign_statement(receipt.statement, KEY), receipt.facts
    made = datetime.fromisoformat(receipt.statement["predicate"]["journal"]["at"])
    lacks = failing(verify_receipt(envelope, facts, Trust((KEY.public,)), NOW))
    tick = timedelta(microseconds=1)
    for key, fails in (
        (replace(KEY.public, until=made + tick), []),
        (replace(KEY.public, until=made), ["trust"]),
        (replace(KEY.public, since=made), []),
        (replace(KEY.public, since=made + tick), ["trust"]),
        (replace(KEY.public, revoked=made + tick), []),
        (replace(KEY.public, revoked=made), ["trust"]),
        (OTHER_KEY.public, ["signature", "trust"]),
    ):
        assert failing(verify_receipt(envelope, facts, Trust((key,)), NOW)) == [*fails, *lacks]
        assert checker.evaluate(_EVERY, [case_of(receipt, key=key), [envelope.decode()]]) == [[*fails, *lacks]]
    elsewhere = random_receipt(seed + 1)
    for about, text in (
        (elsewhere.facts, elsewhere.commit),
        (replace(facts, repository="github.com/mallory/site"), receipt.commit),
        (replace(facts, repository="github.com/acme/site.fork"), receipt.commit),
        (replace(facts, repository="git.example.com/acme/site"), receipt.commit),
        (replace(facts, paths=(*facts.paths, "more.py")), receipt.commit),
        (replace(facts, paths=facts.paths[1:]), receipt.commit),
    ):
        assert failing(verify_receipt(envelope, about, Trust((KEY.public,)), NOW)) == ["binding", *lacks]
        case = case_of(receipt, about) | {"commit": text}
        assert checker.evaluate(_EVERY, [case, [envelope.decode()]]) == [["binding", *lacks]]
