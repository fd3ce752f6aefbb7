"""Envelopes and payloads that somebody altered: both checkers refuse each for what is wrong with it (RC3, RC7)."""

import copy
import json
import re
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from bot.core.transcript import Json
from bot.receipts.envelope import sign_statement
from bot.receipts.verdicts import Trust, verify_receipt
from tests.receipts.conftest import KEY, OTHER_KEY
from tests.receipts.random_receipts import RandomReceipt, mutations, random_receipt
from tests.receipts.test_attacks import signed_payload
from tests.receipts.test_campaign import _EVERY, case_of
from tests.receipts.test_two_checkers import checker
from tests.receipts.test_verdicts import NOW, SCHEMA, failing

__all__ = ("checker",)
pytestmark = [pytest.mark.req("RC3", "RC4", "RC7"), pytest.mark.timeout(600)]
SYNTAX, UNSIGNED = ["syntax"], ["signature", "trust"]
SEEDS = (0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 50)))
Case = tuple[str, bytes, list[str]]


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


def envelopes(receipt: RandomReceipt) -> Iterator[Case]:
    """Yield altered envelopes of a valid receipt, each with the checks that must fail."""
    content = sign_statement(receipt.statement, KEY)
    whole = json.loads(content)
    (good,) = whole["signatures"]
    (other,) = json.loads(sign_statement(receipt.statement, OTHER_KEY))["signatures"]
    bad = {**good, "sig": b64encode(bytes(64)).decode()}
    for name, fails, signatures in (
        ("a bad one, then a good one", [], [bad, good]),
        ("a good one, then a bad one", [], [good, bad]),
        ("an unknown one, then a good one", [], [other, good]),
        ("a bad one", UNSIGNED, [bad]),
        ("two bad ones", UNSIGNED, [bad, {**other, "keyid": good["keyid"]}]),
        ("none", SYNTAX, []),
        ("no list", SYNTAX, good),
        ("a list in a list", SYNTAX, [[good]]),
        ("null beside a good one", SYNTAX, [good, None]),
    ):
        yield f"signatures: {name}", encoded(whole | {"signatures": signatures}), fails
    for kind in ("", "application/vnd.in-toto+JSON", "application/vnd.in-toto+json; charset=utf-8", "text/plain", None):
        yield f"type {kind}", encoded(whole | {"payloadType": kind}), SYNTAX
    for name, text, fails in (
        ("spaces between tokens", json.dumps(whole, indent=2), []),
        ("another order of keys", json.dumps(dict(reversed(whole.items()))), []),
        ("something after it", content.decode() + "{}", SYNTAX),
        ("a byte order mark", "\ufeff" + content.decode(), SYNTAX),
        ("a list", json.dumps([whole]), SYNTAX),
        ("a string", json.dumps(json.dumps(whole)), SYNTAX),
    ):
        yield name, text.encode(), fails
    yield from _fields(whole, good)
    yield from _spellings(whole, good)


def _fields(whole: Json, good: Json) -> Iterator[Case]:
    """Yield envelopes in which a key is missing, renamed, added, doubled, or has another type."""
    others: tuple[object, ...] = (None, 1, True, {}, "x")
    for key in whole:
        yield f"no {key}", encoded({name: whole[name] for name in whole if name != key}), SYNTAX
        yield f"{key.upper()}", encoded({name.upper() if name == key else name: whole[name] for name in whole}), SYNTAX
        yield from ((f"{key} is {other}", encoded(whole | {key: other}), SYNTAX) for other in others)
        yield f"{key} twice", encoded(whole).replace(b"{", b'{"%b": "e30=", ' % key.encode(), 1), SYNTAX
    yield "one key more", encoded(whole | {"keyid": good["keyid"]}), SYNTAX
    for key in good:
        without = {name: good[name] for name in good if name != key}
        yield f"a signature without {key}", encoded(whole | {"signatures": [without]}), SYNTAX
        yield f"a signature's {key} is null", encoded(whole | {"signatures": [good | {key: None}]}), SYNTAX
        twice = encoded(whole).replace(
            b'"%b":' % key.encode(), b'"%b": "AA==", "%b":' % (key.encode(), key.encode()), 1
        )
        yield f"a signature's {key} twice", twice, SYNTAX
    yield "a signature with more", encoded(whole | {"signatures": [good | {"cert": ""}]}), SYNTAX
    for key_id in ("", good["keyid"].upper(), good["keyid"][:8], f"{good['keyid']} ", "0" * 16):
        fails = [] if key_id == good["keyid"] else UNSIGNED
        yield f"key {key_id!r}", encoded(whole | {"signatures": [good | {"keyid": key_id}]}), fails


def _spellings(whole: Json, good: Json) -> Iterator[Case]:
    """Yield envelopes with other spellings of base64, and with other bytes in the usual one."""
    raw = b64decode(good["sig"])
    for name, other in (("shorter", raw[:-1]), ("longer", raw + b"\0"), ("empty", b""), ("reversed", raw[::-1])):
        signature = good | {"sig": b64encode(other).decode()}
        yield f"a {name} signature", encoded(whole | {"signatures": [signature]}), UNSIGNED
    for text in _other_base64(good["sig"]):
        yield f"sig {text[-9:]!r}", encoded(whole | {"signatures": [good | {"sig": text}]}), SYNTAX
    for text in _other_base64(whole["payload"]):
        yield f"payload {text[-9:]!r}", encoded(whole | {"payload": text}), SYNTAX


def _other_base64(text: str) -> Iterator[str]:
    """Yield spellings that some readers decode to the same bytes, and others not."""
    bare = text.rstrip("=")
    yield f"{text}="
    yield f"{text}===="
    yield f" {text}"
    yield f"{text} "
    yield f"{text[:4]}!{text[4:]}"
    if bare != text:
        yield bare
        last = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
        yield bare[:-1] + last[last.index(bare[-1]) + 1] + "=" * (len(text) - len(bare))
    if (safe := urlsafe_b64encode(b64decode(text)).decode()) != text:
        yield safe


def payloads(receipt: RandomReceipt) -> Iterator[Case]:
    """Yield receipts that the trusted key signed, with a key twice in each object, or with other subjects."""
    for place in _objects(receipt.statement):
        yield f"a key twice in {place}", signed_payload(_text(receipt.statement, place)), SYNTAX
    commit, tree = receipt.statement["subject"]
    stranger = {"gitCommit": "e" * 40}
    for subjects in (
        [tree, commit],
        [commit, commit],
        [tree, tree],
        [commit | {"digest": stranger}, tree | {"digest": tree["digest"] | commit["digest"]}],
        [commit | {"digest": tree["digest"] | commit["digest"]}, tree],
        [commit | {"name": tree["name"]}, tree],
        [commit, tree | {"name": tree["name"].replace("acme", "mallory")}],
    ):
        changed = copy.deepcopy(receipt.statement) | {"subject": subjects}
        lacks = ["completeness"] if receipt.statement["predicate"]["missing"] else []
        yield f"subjects {subjects}", sign_statement(changed, KEY), ["binding", *lacks]


def _objects(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict) and value:
        yield above
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from _objects(each, (*above, key))


def _text(value: Any, doubled: Sequence[Any], above: tuple[Any, ...] = ()) -> bytes:
    """Return canonical JSON, but for one object that has its first key twice."""
    match value:
        case dict():
            keys = sorted(value)
            keys = [*keys[:1], *keys] if tuple(doubled) == above else keys
            pairs = (b"%b:%b" % (_text(key, "-"), _text(value[key], doubled, (*above, key))) for key in keys)
            return b"{%b}" % b",".join(pairs)
        case list():
            return b"[%b]" % b",".join(_text(each, doubled, (*above, n)) for n, each in enumerate(value))
        case _:
            return json.dumps(value, ensure_ascii=False).encode()


@pytest.mark.parametrize("seed", SEEDS)
def test_every_alteration(checker: Any, seed: int) -> None:
    """Fields added, removed, renamed, and doubled; other base64; several signatures; subjects in another order."""
    receipt = random_receipt(seed)
    lacks = ["completeness"] if receipt.statement["predicate"]["missing"] else []
    cases = [
        (name, content, fails if fails == SYNTAX else [*fails, *lacks]) for name, content, fails in envelopes(receipt)
    ]
    cases += payloads(receipt)
    theirs = checker.evaluate(_EVERY, [case_of(receipt), [content.decode() for _, content, _ in cases]])
    for (name, content, fails), other in zip(cases, theirs, strict=True):
        ours = failing(verify_receipt(content, receipt.facts, Trust((KEY.public,)), NOW))
        assert (ours, other) == (fails, fails), name
    assert len(cases) > 80


def test_the_campaign_changes_each_field_of_the_schema() -> None:
    """Random receipts hold every field that a receipt can have, and the campaign changes each of them."""
    changed = {_place(path) for seed in range(12) for path, _ in mutations(random_receipt(seed).statement)}
    assert set(_fields_of(SCHEMA)) <= changed


def _place(path: Sequence[Any]) -> str:
    return re.sub(r"(?<=\.)\d+(?=\.|$)", "0", ".".join(map(str, path)))


def _fields_of(schema: Json, above: str = "") -> Iterator[str]:
    """Yield the place of each field in a schema, with 0 for the items of a list."""
    for name, each in schema.get("properties", {}).items():
        yield f"{above}{name}"
        yield from _fields_of(each, f"{above}{name}.")
    if "items" in schema:
        yield f"{above}0"
        yield from _fields_of(schema["items"], f"{above}0.")
