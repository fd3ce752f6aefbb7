"""Webhook deliveries: proved, read, and reduced to which thread to check."""

import json
import os
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlencode

import pytest

from bot.github.deliveries import (
    EVENTS,
    BadSignature,
    KnownBot,
    Malformed,
    envelope,
    needs_check,
    parse_delivery,
    verify_signature,
)
from tests.rows import every_row

# GitHub's own test vector: https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
SECRET, BODY = "It's a Secret to Everybody", b"Hello, World!"
SIGNATURE = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
NAME = "X-Hub-Signature-256"

REPOSITORY = {"id": 5, "name": "repo", "owner": {"id": 6, "login": "acme"}}
BASE = {"action": "created", "repository": REPOSITORY, "installation": {"id": 9}, "sender": {"id": 3, "login": "ada"}}


@pytest.mark.req("W1")
def test_published_example_of_a_signed_delivery_is_accepted() -> None:
    verify_signature(SECRET, BODY, [(NAME, SIGNATURE)])


@pytest.mark.req("W1")
@every_row(
    ("secret", "body", "headers"),
    (
        (SECRET, BODY, []),
        (SECRET, BODY, [("X-Hub-Signature", "sha1=01dc10d0c83e72ed246219cdd91669667fe2ca59")]),
        (SECRET, BODY, [(NAME, SIGNATURE), (NAME, SIGNATURE)]),
        (SECRET, BODY, [(NAME, SIGNATURE), (NAME.lower(), SIGNATURE)]),
        (SECRET, BODY, [(NAME, SIGNATURE.upper())]),
        (SECRET, BODY, [(NAME, SIGNATURE + "0")]),
        (SECRET, BODY, [(NAME, SIGNATURE.removeprefix("sha256="))]),
        (SECRET, BODY + b" ", [(NAME, SIGNATURE)]),
        ("another", BODY, [(NAME, SIGNATURE)]),
        ("", BODY, [(NAME, SIGNATURE)]),
    ),
)
def test_delivery_without_exactly_one_valid_sha256_signature_is_refused(
    secret: str, body: bytes, headers: list[tuple[str, str]]
) -> None:
    """Missing, doubled, malformed, SHA-1 alone, another body or secret, no secret: none is accepted."""
    with pytest.raises(BadSignature):
        verify_signature(secret, body, headers)


def test_event_and_guid_are_read_from_headers_in_any_case() -> None:
    found = envelope([("x-github-event", "issues"), ("X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958")])
    assert (found.event, found.guid) == ("issues", "72d3162e-cc78-11e3-81ab-4c9367dc0958")
    assert envelope([("x-github-event", "projects_v2_item"), ("x-github-delivery", "g")]).event == "projects_v2_item"


@pytest.mark.parametrize(
    "headers",
    (
        [("X-GitHub-Event", "issues")],
        [("X-GitHub-Event", "issues"), ("X-GitHub-Event", "ping"), ("X-GitHub-Delivery", "1")],
        [("X-GitHub-Event", "Is sues"), ("X-GitHub-Delivery", "1")],
        [("X-GitHub-Event", "issues"), ("X-GitHub-Delivery", "a b")],
    ),
)
def test_delivery_without_exactly_one_event_and_guid_is_malformed(headers: list[tuple[str, str]]) -> None:
    with pytest.raises(Malformed):
        envelope(headers)


@every_row(
    ("event", "extra", "thread"),
    (
        ("issues", {"issue": {"number": 1}}, 1),
        ("issue_comment", {"issue": {"number": 2}, "comment": {"id": 1}}, 2),
        ("pull_request", {"pull_request": {"number": 3}}, 3),
        ("pull_request_review", {"pull_request": {"number": 4}}, 4),
        ("pull_request_review_comment", {"pull_request": {"number": 5}}, 5),
        ("check_run", {"action": "completed", "check_run": {"pull_requests": [{"number": 6}]}}, 6),
        ("workflow_run", {"action": "completed", "workflow_run": {"pull_requests": [None, {"number": 7}]}}, 7),
        ("installation_repositories", {}, None),
    ),
)
@pytest.mark.req("W2")
def test_event_names_thread_repository_and_installation(
    event: str, extra: dict[str, object], thread: int | None
) -> None:
    wake = parse_delivery(event, json.dumps(BASE | extra).encode())
    assert wake is not None
    assert (wake.event, wake.action, wake.thread) == (event, extra.get("action", "created"), thread)
    assert (wake.installation, wake.repository, wake.owner, wake.name) == (9, 5, "acme", "repo")


@pytest.mark.parametrize(
    ("event", "extra", "told"),
    (
        ("issues", {"action": "opened", "issue": {"number": 1}}, "issue"),
        ("pull_request", {"action": "opened", "pull_request": {"number": 1}}, "issue"),
        ("issues", {"action": "labeled", "issue": {"number": 1}}, ""),
        ("issue_comment", {"issue": {"number": 1}, "comment": {"id": 2**53 + 1}}, f"comment-{2**53 + 1}"),
        ("issue_comment", {"action": "deleted", "issue": {"number": 1}, "comment": {"id": 7}}, ""),
        *(
            ("pull_request_review", {"action": "submitted", "pull_request": {"number": 1}, "review": review}, told)
            for review, told in (({"id": 8, "body": "@plangate no"}, "review-8"), ({"id": 8, "body": None}, ""))
        ),
        *(
            ("pull_request_review", {"action": action, "pull_request": {"number": 1}, "review": review}, told)
            for action, review, told in (
                ("submitted", {"id": 8, "body": None, "state": "commented"}, "review-8"),
                ("submitted", {"id": 8, "body": "", "state": "approved"}, ""),
                ("dismissed", {"id": 8, "body": "No.", "state": "dismissed"}, ""),
            )
        ),
        *(
            (
                "pull_request_review_comment",
                {"action": action, "pull_request": {"number": 1}, "comment": {"id": 9, "body": "x"}},
                told,
            )
            for action, told in (("created", "review-comment-9"), ("edited", ""), ("deleted", ""))
        ),
    ),
)
def test_event_names_the_key_of_what_was_just_said(event: str, extra: dict[str, object], told: str) -> None:
    """By the key that it has in the thread; what is gone, or has no words of its own, is not waited for."""
    wake = parse_delivery(event, json.dumps(BASE | extra).encode())
    assert wake is not None
    assert wake.told == told


@pytest.mark.parametrize(
    ("event", "extra"),
    (
        ("ping", {}),
        ("star", {}),
        ("check_run", {"action": "completed", "check_run": {}}),
        ("check_run", {"check_run": {"pull_requests": [{"number": 6}]}}),
        ("workflow_run", {"workflow_run": {"pull_requests": [None]}}),
    ),
)
def test_events_of_no_thread_wake_nobody(event: str, extra: dict[str, object]) -> None:
    assert parse_delivery(event, json.dumps(BASE | extra).encode()) is None


@every_row(
    "body",
    (
        b"",
        b"[]",
        b"{",
        b"{}",
        json.dumps(BASE).encode(),
        json.dumps(BASE | {"issue": {"number": "1"}}).encode(),
        json.dumps(BASE | {"issue": {"number": -1}}).encode(),
        json.dumps(BASE | {"issue": {"number": 1}, "repository": REPOSITORY | {"name": "../x"}}).encode(),
        b'{"a":' * 10_000,
        b"[" * 100_000,
    ),
)
@pytest.mark.req("X4")
def test_undocumented_body_is_malformed_however_deep(body: bytes) -> None:
    with pytest.raises(Malformed):
        parse_delivery("issues", body)


def form(**fields: object) -> bytes:
    return urlencode({name: json.dumps(value) for name, value in fields.items()}).encode()


FACTS = BASE | {"issue": {"number": 7}, "comment": {"id": 1, "body": "50 % + a & b = ü"}}


@pytest.mark.parametrize(
    ("types", "is_form"),
    (
        ([], False),
        (["application/json"], False),
        (["application/x-www-form-urlencoded"], True),
        (["Application/X-WWW-Form-URLEncoded; charset=utf-8"], True),
        (["multipart/form-data; boundary=application/x-www-form-urlencoded"], False),
    ),
)
def test_the_content_type_says_whether_the_body_is_a_form(types: list[str], is_form: bool) -> None:
    """A repository's hook sends a form unless its owner chose JSON; parameters and case do not matter."""
    headers = [("X-GitHub-Event", "issues"), ("X-GitHub-Delivery", "1")]
    assert envelope([*headers, *(("Content-Type", each) for each in types)]).is_form is is_form


def test_a_form_means_what_its_payload_means() -> None:
    """The field `payload` holds the JSON; other fields do not count, and no other event is decoded at all."""
    wake = parse_delivery("issue_comment", json.dumps(FACTS).encode())
    assert wake is not None
    assert parse_delivery("issue_comment", form(payload=FACTS), is_form=True) == wake
    assert parse_delivery("issue_comment", form(other=1, payload=FACTS, last=2), is_form=True) == wake
    assert parse_delivery("push", b"payload=1&payload=2", is_form=True) is None


@pytest.mark.req("X4")
@pytest.mark.parametrize(
    "body",
    (
        b"",
        json.dumps(FACTS).encode(),
        form(other=FACTS),
        form(payload=FACTS) + b"&" + form(payload=FACTS),
        form(payload=FACTS) + b"&pay%6Coad=1",
        form(payload=FACTS) + b"&a=1" * 8,
        b"payload=%7B%22action%22:%FF%7D",
    ),
)
def test_form_without_exactly_one_payload_in_utf_8_is_malformed(body: bytes) -> None:
    """No payload, several of them however spelled, too many fields, or text that is not UTF-8: refused."""
    with pytest.raises(Malformed):
        parse_delivery("issue_comment", body, is_form=True)


@pytest.mark.req("X4")
def test_form_is_read_in_a_few_times_its_size_of_memory() -> None:
    body = b"payload=" + b"%22" * 400_000
    tracemalloc.start()
    try:
        with pytest.raises(Malformed):
            parse_delivery("issues", body, is_form=True)
        assert tracemalloc.get_traced_memory()[1] < 10 * len(body)
    finally:
        tracemalloc.stop()


def examples() -> list[tuple[str, bytes]]:
    folder = os.environ.get("PLANGATE_ORACLES", "")
    found = sorted(Path(folder).rglob("api.github.com/index.json")) if folder else []
    events = json.loads(found[0].read_text()) if found else []
    return [
        (event["name"], json.dumps(example).encode())
        for event in events
        for example in event["examples"]
        if event["name"] in EVENTS
    ]


@pytest.mark.skipif(not examples(), reason="PLANGATE_ORACLES names no folder with @octokit/webhooks-examples")
def test_published_examples_of_every_handled_event_are_read() -> None:
    for event, body in examples():
        wake = parse_delivery(event, body)
        if event.startswith(("issue", "pull")):
            assert wake is not None
            assert wake.thread
            assert wake.repository


# Which deliveries need a check, judged by their payloads


BOT, PERSON = 99, 3
HERE = {"repository": {"id": 5, "name": "repo", "owner": {"id": 6, "login": "acme"}}, "installation": {"id": 9}}
TALK = {"number": 1, "body": "It hangs.", "user": {"id": PERSON}, "labels": [], "assignees": []}
PULL = TALK | {"merged": False}
COMMENT = {"id": 7, "body": "Me too, see `a@b.example`.", "user": {"id": PERSON}}

Facts: TypeAlias = Mapping[str, object]


def judged(event: str, facts: Facts, *, doer: int = PERSON, is_open: bool = False, mention: str = "@plangate") -> bool:
    body = {"action": "created", "sender": {"id": doer, "login": "somebody"}} | HERE | dict(facts)
    wake = parse_delivery(event, json.dumps(body).encode())
    assert wake is not None
    return needs_check(wake.report, KnownBot(BOT, mention), is_open=is_open)


def checked(branch: str, event: str = "check_run") -> Facts:
    return {"action": "completed", event: {"pull_requests": [None, {"number": 6, "head": {"ref": branch}}]}}


@pytest.mark.req("W2", "E2")
@pytest.mark.parametrize(
    ("event", "facts"),
    (
        ("issue_comment", {"issue": TALK, "comment": COMMENT}),
        ("issue_comment", {"action": "edited", "issue": TALK, "comment": COMMENT}),
        ("issue_comment", {"issue": TALK | {"user": None, "body": None}, "comment": COMMENT | {"user": None}}),
        ("issues", {"action": "opened", "issue": TALK}),
        ("issues", {"action": "labeled", "issue": TALK | {"labels": [None, {"name": "bug"}]}}),
        ("issues", {"action": "assigned", "issue": TALK | {"assignees": [None, {"id": 4}]}}),
        ("issues", {"action": "closed", "issue": TALK | {"labels": None, "assignees": None}}),
        ("pull_request", {"action": "synchronize", "pull_request": PULL}),
        ("pull_request_review", {"action": "submitted", "pull_request": PULL, "review": {"id": 8, "body": None}}),
        ("pull_request_review_thread", {"action": "resolved", "pull_request": PULL}),
        ("check_run", checked("main")),
        ("check_suite", checked("plangate", "check_suite")),
        ("workflow_run", checked("fix/plangate/3-x", "workflow_run")),
    ),
)
def test_talk_among_people_needs_a_check_only_where_something_waits(event: str, facts: Facts) -> None:
    assert not judged(event, facts)
    assert judged(event, facts, is_open=True)


@pytest.mark.req("W2", "PR3")
@pytest.mark.parametrize(
    ("event", "facts"),
    (
        ("issue_comment", {"issue": TALK, "comment": COMMENT | {"body": "Hi **@plan**gate, `/PLANGATE` stop"}}),
        ("issue_comment", {"issue": TALK | {"body": "@plangate please"}, "comment": COMMENT}),
        ("issue_comment", {"action": "edited", "issue": TALK, "comment": COMMENT | {"user": {"id": BOT}}}),
        ("issues", {"action": "opened", "issue": TALK | {"body": "cc @Plangate"}}),
        ("issues", {"action": "opened", "issue": TALK | {"title": "@plangate fix it"}}),
        ("issues", {"action": "edited", "issue": TALK | {"user": {"id": BOT}}}),
        ("issues", {"action": "labeled", "issue": TALK | {"labels": [{"name": "plangate"}]}}),
        ("issues", {"action": "assigned", "issue": TALK | {"assignees": [{"id": BOT}]}}),
        ("pull_request", {"action": "closed", "pull_request": PULL | {"merged": True}}),
        ("pull_request_review", {"pull_request": PULL, "review": {"id": 8, "body": "@plangate fix it"}}),
        ("pull_request_review_comment", {"pull_request": PULL | {"user": {"id": BOT}}, "comment": COMMENT}),
        ("check_run", checked("plangate/3-free-shipping")),
        ("check_suite", checked("plangate/3-free-shipping", "check_suite")),
    ),
)
def test_words_marks_and_merges_that_may_concern_the_bot_need_a_check(event: str, facts: Facts) -> None:
    assert judged(event, facts)


def test_only_the_configured_mention_counts() -> None:
    facts = {"issue": TALK, "comment": COMMENT | {"body": "@helper go"}}
    assert judged("issue_comment", facts, mention="@helper")
    assert not judged("issue_comment", facts)


def test_acts_of_the_bot_itself_need_no_check() -> None:
    """It never needs a check, wherever it is. The sender of a check only pushed a commit."""
    facts = {"issue": TALK | {"user": {"id": BOT}}, "comment": COMMENT | {"user": {"id": BOT}, "body": "@plangate"}}
    assert not judged("issue_comment", facts, doer=BOT, is_open=True)
    assert judged("check_run", checked("plangate/3-free-shipping"), doer=BOT)
