"""Writes docs/receipts/corpus.json: receipts for whoever writes a checker, each with the checks that it must fail.

Run it with ``python -m tests.receipts.make_corpus``. Its keys sign nothing else.
"""

import copy
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from bot.core.receipt import KEYS_FILE, canonical_statement
from bot.core.transcript import Json
from bot.receipts.envelope import PublicKey, encode_keys, sign_statement
from tests.receipts.conftest import KEY, OTHER_KEY, Clone, make_clone
from tests.receipts.random_receipts import CONTRADICTIONS, contradict
from tests.receipts.ssh_people import make_person
from tests.receipts.test_verdicts import NOW

CORPUS = Path(__file__).parents[2] / "docs/receipts/corpus.json"
_DATES = {"GIT_AUTHOR_DATE": "2026-11-20T08:30:00Z", "GIT_COMMITTER_DATE": "2026-11-20T08:30:00Z"}


def cases(clone: Clone) -> Iterator[Json]:
    commit, statement = clone.work()
    made = datetime.fromisoformat(statement["predicate"]["journal"]["at"])
    good = sign_statement(statement, KEY).decode()

    def case(name: str, fails: list[str], receipt: str = good, *keys: PublicKey, of: str = commit, **more: Any) -> Json:
        facts = clone.facts(of)
        return {
            "name": name,
            "fails": fails,
            "receipt": receipt,
            "keys": encode_keys(keys or (KEY.public,)).decode(),
            "commit": clone.git("cat-file", "commit", of) + "\n",
            "paths": list(facts.paths),
            "repository": "github.com/acme/site",
            "now": NOW.isoformat(),
            **more,
        }

    yield case("valid", [])
    yield case("another case of the repository's name", [], repository="GitHub.com/Acme/Site")
    yield case("a fork", ["binding"], repository="github.com/mallory/site")
    yield case("another server", ["binding"], repository="git.example.com/acme/site")
    yield case("signed by an unknown key", ["signature", "trust"], sign_statement(statement, OTHER_KEY).decode())
    later = made + timedelta(1)
    yield case("a key that was replaced later", [], good, replace(KEY.public, until=later), OTHER_KEY.public)
    yield case("a key that was replaced before", ["trust"], good, replace(KEY.public, until=made))
    yield case("a key that was made later", ["trust"], good, replace(KEY.public, since=later))
    yield case("a key that was revoked before", ["trust"], good, replace(KEY.public, revoked=made))
    yield case("a key that was revoked later", [], good, replace(KEY.public, revoked=later))
    for n, (check, where, value) in enumerate(CONTRADICTIONS, start=1):
        changed = contradict(copy.deepcopy(statement), where, value)
        yield case(f"contradiction {n}: {where}", [check], sign_statement(changed, KEY).decode())
    spoiled = json.loads(good)
    for name, change in {
        "an unknown key": {"more": 1},
        "another payload type": {"payloadType": "text/plain"},
        "no signature": {"signatures": []},
        "base64 without padding": {"payload": spoiled["payload"].rstrip("=") + "x"},
    }.items():
        yield case(name, ["syntax"], json.dumps(spoiled | change))
    yield from _envelope_cases(case, statement)
    yield case("no JSON", ["syntax"], "receipt")
    yield case("a key twice", ["syntax"], good.replace('{"payload"', '{"payload":"","payload"', 1))
    yield case("a repository that nobody names", ["binding"], repository="")
    yield from _approver_cases(case, statement)
    other = clone.commit("three\n", "Something else")
    yield case("another commit", ["binding"], of=other)


def _envelope_cases(case: Callable[..., Json], statement: Json) -> Iterator[Json]:
    """Yield receipts with several signatures, and with other subjects than the two that a receipt has."""
    whole, other = (json.loads(sign_statement(statement, key)) for key in (KEY, OTHER_KEY))
    (good,), (strange,) = whole["signatures"], other["signatures"]
    for name, fails, signatures in (
        ("a signature of an unknown key beside a good one", [], [strange, good]),
        ("a signature under another key's name beside a good one", [], [strange | {"keyid": good["keyid"]}, good]),
        ("a signature under another key's name", ["signature", "trust"], [strange | {"keyid": good["keyid"]}]),
    ):
        yield case(name, fails, json.dumps(whole | {"signatures": signatures}))
    commit, tree = statement["subject"]
    for name, subjects in {
        "subjects in another order": [tree, commit],
        "a subject of another name": [commit | {"name": tree["name"]}, tree],
        "another commit beside this one": [
            commit | {"digest": {"gitCommit": "e" * 40}},
            {**tree, "digest": _both(tree, commit)},
        ],
    }.items():
        yield case(name, ["binding"], sign_statement(statement | {"subject": subjects}, KEY).decode())


def _both(*subjects: Json) -> Json:
    return {name: value for each in subjects for name, value in each["digest"].items()}


def _approver_cases(case: Callable[..., Json], statement: Json) -> Iterator[Json]:
    """Yield receipts that an approver signed with ssh-keygen as well, or that somebody else did."""
    payload = canonical_statement(statement)
    with tempfile.TemporaryDirectory() as folder:
        maya, eve = (make_person(Path(folder), login) for login in ("maya", "eve"))
        signers = f"maya {maya.public}\neve {eve.public}\n"
        of_maya = maya.sign(payload)
        for name, fails, signature, allowed in (
            ("signed by the approver", [], of_maya, signers),
            ("signed by the approver, in another case of the login", [], of_maya, f"maya,Maya {maya.public}\n"),
            ("not signed by the approver", ["approver"], b"", signers),
            ("signed by somebody who did not approve", ["approver"], eve.sign(payload), signers),
            ("signed by the approver with another key", ["approver"], of_maya, f"maya {eve.public}\n"),
            ("signed by the approver for another purpose", ["approver"], maya.sign(payload, "git"), signers),
            ("another text signed by the approver", ["approver"], maya.sign(payload + b" "), signers),
            ("a key for another purpose", ["approver"], of_maya, f'maya namespaces="git" {maya.public}\n'),
        ):
            yield case(name, fails, signature=signature.decode(), signers=allowed)


def main() -> None:
    os.environ.update(_DATES)
    with tempfile.TemporaryDirectory() as folder:
        clone = make_clone(Path(folder) / "clone", Path(folder) / KEYS_FILE)
        CORPUS.write_text(json.dumps(list(cases(clone)), indent=1) + "\n")


if __name__ == "__main__":
    main()
