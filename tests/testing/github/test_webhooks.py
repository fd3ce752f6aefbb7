"""Webhooks: signed, in GitHub's shapes, and as unreliable as a test wants them."""

import hashlib
import hmac
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest

from bot.testing.github import code_changes
from bot.testing.github.code_changes import LineNote
from bot.testing.github.entities import CheckRun
from bot.testing.host import host_application
from tests.testing.github.ground import NAME, Ground
from tests.testing.github.oracles import WEBHOOKS, needs_oracles

NEWER = {"user_view_type", "client_id"}
"""Fields that GitHub sends now and that the schemas, which are no longer kept up, do not know."""


class Receiver:
    """Takes deliveries; answers what it is told to."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.status = 202

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        self.got.append(({name.decode(): value.decode() for name, value in scope["headers"]}, body))
        await send({"type": "http.response.start", "status": self.status, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    @property
    def bodies(self) -> list[str]:
        return [json.loads(body)["comment"]["body"] for headers, body in self.got if b'"comment"' in body]


@pytest.fixture
def receiver(ground: Ground) -> Iterator[Receiver]:
    with receiving(ground) as receiver:
        yield receiver


@contextmanager
def receiving(ground: Ground) -> Iterator[Receiver]:
    receiver = Receiver()
    with host_application(receiver) as url:
        ground.github.webhooks.hook_app(ground.github.app, url)
        ground.github.webhooks.drain()
        receiver.got.clear()
        yield receiver


def test_a_comment_is_told_signed(ground: Ground, receiver: Receiver) -> None:
    alice = ground.github.world.person("alice")
    alice.open_issue(NAME, "Broken", "Please")
    alice.comment(NAME, 1, "Hello")
    ground.github.webhooks.drain()
    assert [headers["x-github-event"] for headers, _ in receiver.got] == ["issues", "issue_comment"]
    headers, body = receiver.got[1]
    told = json.loads(body)
    assert (told["action"], told["comment"]["body"], told["sender"]["login"]) == ("created", "Hello", "alice")
    assert told["installation"]["id"] == ground.installation.id
    secret = ground.github.app.webhook_secret.encode()
    assert headers["x-hub-signature-256"] == f"sha256={hmac.new(secret, body, hashlib.sha256).hexdigest()}"


def test_reactions_are_told_to_nobody(ground: Ground, receiver: Receiver) -> None:
    alice = ground.github.world.person("alice")
    alice.open_issue(NAME, "Broken")
    comment = alice.comment(NAME, 1, "Hello")
    ground.github.webhooks.drain()
    receiver.got.clear()
    alice.react(comment, "+1")
    alice.minimize(comment.id)
    ground.github.webhooks.drain()
    assert receiver.got == []


def test_deliveries_get_lost_come_twice_and_out_of_order(ground: Ground, receiver: Receiver) -> None:
    alice, webhooks = ground.github.world.person("alice"), ground.github.webhooks
    alice.open_issue(NAME, "Broken")
    for mishap in ("drop", "double", "hold", "hold"):
        webhooks.next(mishap, "issue_comment")
    for text in ("lost", "twice", "late", "later", "plain"):
        alice.comment(NAME, 1, text)
    webhooks.drain()
    assert receiver.bodies == ["twice", "twice", "plain"]
    webhooks.release()
    webhooks.drain()
    assert receiver.bodies[3:] == ["later", "late"]
    guids = [headers["x-github-delivery"] for headers, body in receiver.got if b'"twice"' in body]
    assert len(set(guids)) == 1


def test_a_failed_delivery_is_repeated_on_request_with_its_guid(ground: Ground, receiver: Receiver) -> None:
    receiver.status = 503
    ground.github.world.person("alice").open_issue(NAME, "Broken")
    ground.github.webhooks.drain()
    listed = ground.ask("GET", "/app/hook/deliveries", token=ground.jwt()).json
    assert (listed[0]["status_code"], listed[0]["event"], len(receiver.got)) == (503, "issues", 1)
    receiver.status = 202
    tried = ground.ask("POST", f"/app/hook/deliveries/{listed[0]['id']}/attempts", token=ground.jwt())
    ground.github.webhooks.drain()
    assert tried.status == 202
    (first, body), (second, again) = receiver.got
    assert (first["x-github-delivery"], body) == (second["x-github-delivery"], again)
    newest = ground.ask("GET", "/app/hook/deliveries", token=ground.jwt()).json[0]
    assert (newest["redelivery"], newest["status_code"]) == (True, 202)


@needs_oracles
def test_payloads_have_githubs_shape(ground: Ground, receiver: Receiver) -> None:
    import jsonschema_rs

    assert WEBHOOKS is not None
    definitions = json.loads(WEBHOOKS.read_text())["definitions"]
    validator = cache(
        lambda kind: jsonschema_rs.Draft7Validator({"$ref": f"#/definitions/{kind}", "definitions": definitions})
    )
    _everything(ground)
    ground.github.webhooks.drain()
    wrong = set()
    for headers, body in receiver.got:
        name, told = headers["x-github-event"], _without_newer(json.loads(body))
        kind = f"{name}${told['action']}" if "action" in told else f"{name}$event"
        for error in validator(kind).iter_errors(told):
            wrong.add(f"{kind} {'/'.join(map(str, error.instance_path))} {error.message[-150:]}")
    assert sorted(wrong) == []
    assert len({headers["x-github-event"] for headers, _ in receiver.got}) == 7


def _everything(ground: Ground) -> None:
    world = ground.github.world
    alice = world.person("alice")
    alice.open_issue(NAME, "Broken", "Please")
    alice.edit_issue(NAME, 1, title="Very broken")
    alice.label(NAME, 1, "bug")
    alice.unlabel(NAME, 1, "bug")
    alice.assign(NAME, 1, "bob")
    comment = alice.comment(NAME, 1, "Hello")
    alice.edit_comment(comment.id, "Hello again")
    alice.delete_comment(comment.id)
    alice.lock(NAME, 1)
    alice.unlock(NAME, 1)
    alice.close(NAME, 1)
    alice.reopen(NAME, 1)
    sha = alice.push(NAME, {"new.txt": "x"}, branch="topic")
    alice.open_pull(NAME, "New", head="topic", body="Closes #1")
    alice.review(NAME, 2, "Fine", notes=[LineNote("new.txt", 1, "Why?")])
    alice.push(NAME, {"new.txt": "y"}, branch="topic")
    run = CheckRun(world.next_id(), ground.repository.id, ground.github.app.id, "plan", sha, "queued", world.now())
    code_changes.check(alice, run)
    alice.merge(NAME, 2)


def _without_newer(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_newer(each) for each in value]
    if isinstance(value, dict):
        return {key: _without_newer(each) for key, each in value.items() if key not in NEWER}
    return value
