"""Which deliveries need a look, judged by their payloads."""

import json
from collections.abc import Mapping
from typing import TypeAlias

import pytest

from bot.github.deliveries import KnownBot, needs_check, parse_delivery

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
    """It never needs a look, wherever it is. The sender of a check only pushed a commit."""
    facts = {"issue": TALK | {"user": {"id": BOT}}, "comment": COMMENT | {"user": {"id": BOT}, "body": "@plangate"}}
    assert not judged("issue_comment", facts, doer=BOT, is_open=True)
    assert judged("check_run", checked("plangate/3-free-shipping"), doer=BOT)
