"""Delivers events to webhooks: signed, over HTTP, once, in the background. Results are kept.

https://docs.github.com/en/webhooks/webhook-events-and-payloads
"""

import hashlib
import hmac
import http.client
import json
import queue
import threading
import time
import uuid
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, TypeVar
from urllib.parse import urlsplit

from bot.testing.github.code_changes import commits_between
from bot.testing.github.credentials import reaches
from bot.testing.github.entities import App, CheckRun, Event, Installation, Push, Repository, node_id
from bot.testing.github.git_objects import ABSENT
from bot.testing.github.rest.code import git_commit_json
from bot.testing.github.rest.runs import check_run_json
from bot.testing.github.shapes import (
    Json,
    Site,
    comment_json,
    fields,
    issue_json,
    pull_json,
    review_comment_json,
    review_json,
    stamp,
    web_login,
)
from bot.testing.github.world import GitHubState

T = TypeVar("T")


def payload(site: Site, event: Event, installation: Installation | None) -> Json:
    parts: Json = {}
    if event.action is not None:
        parts["action"] = event.action
    parts |= _subject(site, event)
    if event.changed:
        parts["changes"] = {name: {"from": before} for name, before in event.changed.items()}
    elif event.action == "edited":
        parts["changes"] = {}
    if event.label is not None and event.repository is not None:
        parts["label"] = site.label(event.repository, site.world.labels[event.repository.id][event.label])
    if event.assignee is not None:
        parts["assignee"] = site.user(event.assignee)
    if event.repository is not None:
        parts["repository"] = site.repository(event.repository)
    if installation is not None and event.installation is None:
        parts["installation"] = {"id": installation.id, "node_id": node_id("App", installation.id)}
    parts["sender"] = site.user(event.sender)
    return parts


def ping(site: Site, app: App) -> Json:
    hook = {"type": "App", "id": app.id, "name": "web", "active": True, "events": list(app.events), "app_id": app.id}
    url = f"{site.api_url}/app/hook"
    config = {"content_type": "json", "url": "https://example.com", "insecure_ssl": "0"}
    times = {"updated_at": stamp(app.created_at), "created_at": stamp(app.created_at)}
    links = {"deliveries_url": f"{url}/deliveries"}
    return {"zen": "Design for failure.", "hook_id": app.id, "hook": {**hook, "config": config, **times, **links}}


def _subject(site: Site, event: Event) -> Json:
    match event.name:
        case "issues":
            return {"issue": issue_json(site, _payload_of(event.issue), webhook=True)}
        case "issue_comment":
            written = issue_json(site, _payload_of(event.issue), webhook=True)
            return {"issue": written, "comment": comment_json(site, _payload_of(event.comment))}
        case "pull_request":
            moved = {} if event.push is None else {"before": event.push.before, "after": event.push.after}
            issue = _payload_of(event.issue)
            return {"number": issue.number, "pull_request": pull_json(site, issue), **moved}
        case "pull_request_review":
            review = review_json(site, _payload_of(event.review))
            review["state"] = review["state"].lower()
            return {"review": review, "pull_request": pull_json(site, _payload_of(event.issue), whole=False)}
        case "pull_request_review_comment":
            comment = review_comment_json(site, _payload_of(event.review_comment))
            return {"comment": comment, "pull_request": pull_json(site, _payload_of(event.issue), whole=False)}
        case "check_run":
            return {"check_run": _check_run(site, _payload_of(event.check_run))}
        case "push":
            return _push(site, _payload_of(event.repository), _payload_of(event.push), event.sender)
        case _:
            return _installation(site, event)


def _payload_of(value: T | None) -> T:
    if value is None:
        raise ValueError("an event of that name always has this value")
    return value


def _installation(site: Site, event: Event) -> Json:
    installation = _payload_of(event.installation)
    reached = [repository for repository in site.world.repositories.values() if reaches(installation, repository)]
    keys = ("id", "node_id", "name", "full_name", "private")
    rows = [{key: site.repository(each)[key] for key in keys} for each in reached]
    return {"installation": site.installation(installation), "repositories": rows, "requester": None}


def _check_run(site: Site, run: CheckRun) -> Json:
    written = check_run_json(site, run)
    suite = {
        "id": written["check_suite"]["id"], "node_id": run.node_id, "head_branch": None, "head_sha": run.head_sha,
        "url": f"{site.api(site.world.repositories[run.repository])}/check-suites/{run.id + 1}", "before": None,
        "after": run.head_sha, "pull_requests": written["pull_requests"], "app": written["app"],
        "created_at": written["started_at"], "updated_at": written["started_at"],
    }  # fmt: skip
    return {**written, "check_suite": {**suite, "status": run.status, "conclusion": run.conclusion}}


def _push(site: Site, home: Repository, push: Push, sender: int) -> Json:
    bare, user = site.world.bare(home), site.world.users[sender]
    created, deleted = push.before == ABSENT, push.after == ABSENT
    base = None if created or deleted else bare.merge_base(push.before, push.after)
    start = bare.resolve(f"refs/heads/{home.default_branch}") if created else push.before
    ids = () if deleted else commits_between(bare, start or ABSENT, push.after)
    commits = [_pushed_commit(site, home, sha) for sha in ids]
    head = None if deleted else _pushed_commit(site, home, push.after)
    pusher = {"name": user.login, "email": f"{user.id}+{web_login(user)}@users.noreply.github.com"}
    return {
        **fields(push, "ref before after"), "pusher": pusher, "created": created, "deleted": deleted,
        "forced": not created and not deleted and base != push.before, "base_ref": None,
        "compare": f"{site.web(home)}/compare/{push.before[:12]}...{push.after[:12]}", "commits": commits,
        "head_commit": head,
    }  # fmt: skip


def _pushed_commit(site: Site, home: Repository, sha: str) -> Json:
    git = git_commit_json(site, home, sha)
    people = {role: {**git[role], "username": git[role]["name"]} for role in ("author", "committer")}
    told = site.world.bare(home).text("show", "--name-status", "--no-renames", "--format=", "-z", sha, "--").split("\0")
    changed = list(zip(told[::2], told[1::2], strict=False))
    return {
        "id": sha, "tree_id": git["tree"]["sha"], "distinct": True, "message": git["message"],
        "timestamp": git["committer"]["date"], "url": git["html_url"], **people,
        "added": [path for status, path in changed if status == "A"],
        "removed": [path for status, path in changed if status == "D"],
        "modified": [path for status, path in changed if status == "M"],
    }  # fmt: skip


# https://docs.github.com/en/webhooks/using-webhooks/handling-webhook-deliveries. GitHub does not retry on its own and
# guarantees no order. A redelivery keeps the guid.

TIMEOUT_SECONDS = 10.0  # seconds GitHub waits for a 2xx

Mishap = Literal["drop", "double", "hold"]


@dataclass(frozen=True, slots=True)
class Hook:
    id: int
    url: str
    secret: str = field(repr=False)
    app: int | None = None
    repository: int | None = None
    events: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeliveryAttempt:
    """One delivery attempt. `status_code` is 0 while it is in progress and if there was no answer."""

    id: int
    guid: str
    hook: Hook
    event: str
    action: str | None
    body: bytes
    delivered_at: datetime
    installation: int | None = None
    repository: int | None = None
    redelivery: bool = False
    status: str = "pending"
    status_code: int = 0
    duration: float = 0.0

    def headers(self) -> dict[str, str]:
        # https://docs.github.com/en/webhooks/webhook-events-and-payloads#delivery-headers
        target = ("integration", self.hook.app) if self.hook.app else ("repository", self.hook.repository)
        signed = {
            f"X-Hub-Signature{suffix}": f"{name}={hmac.new(self.hook.secret.encode(), self.body, name).hexdigest()}"
            for suffix, name in (("", "sha1"), ("-256", hashlib.sha256().name))
        }
        return {
            "Accept": "*/*", "Content-Type": "application/json", "User-Agent": "GitHub-Hookshot/0000000",
            "X-GitHub-Delivery": self.guid, "X-GitHub-Event": self.event, "X-GitHub-Hook-ID": str(self.hook.id),
            "X-GitHub-Hook-Installation-Target-ID": str(target[1]),
            "X-GitHub-Hook-Installation-Target-Type": target[0], **(signed if self.hook.secret else {}),
        }  # fmt: skip


class Webhooks:
    """The hooks of one world. Deliveries run in one thread, in order, until `close`."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._hooks: list[Hook] = []
        self.public_hosts: dict[str, str] = {}
        """Base of a public URL -> base of the local URL to which its deliveries go, as through a proxy."""
        self._deliveries: dict[int, DeliveryAttempt] = {}
        self._mishaps: list[tuple[str, Mishap]] = []
        self._held: list[DeliveryAttempt] = []
        self._queue: queue.SimpleQueue[DeliveryAttempt | None] = queue.SimpleQueue()
        self._idle = threading.Condition()
        self._under_way = 0
        self._thread = threading.Thread(target=self._run, name="simulated-webhooks", daemon=True)
        self._thread.start()
        site.world.listeners.append(self._hear)

    @property
    def deliveries(self) -> tuple[DeliveryAttempt, ...]:
        with self._idle:
            return tuple(self._deliveries.values())

    def hook_app(self, app: App, url: str) -> Hook:
        self._hooks = [hook for hook in self._hooks if hook.app != app.id]
        hook = Hook(self._world.small_id(), url, app.webhook_secret, app=app.id, events=app.events)
        self._hooks.append(hook)
        self._send(self._delivery(hook, ping(self._site, app), name=("ping", None)))
        return hook

    def hook_repository(self, repository: Repository, url: str, *, secret: str, events: tuple[str, ...]) -> Hook:
        hook = Hook(self._world.small_id(), url, secret, repository=repository.id, events=events)
        self._hooks.append(hook)
        return hook

    def next(self, mishap: Mishap, event: str = "*") -> None:
        self._mishaps.append((event, mishap))

    def release(self) -> None:
        deliveries, self._held = self._held[::-1], []
        for delivery in deliveries:
            self._enqueue(delivery)

    def redeliver(self, delivery_id: int) -> DeliveryAttempt:
        again = replace(
            self._deliveries[delivery_id], id=self._world.next_id(), delivered_at=self._world.now(), redelivery=True,
            status="pending", status_code=0,
        )  # fmt: skip
        self._enqueue(again)
        return again

    def drain(self, timeout: float = 10.0) -> None:
        with self._idle:
            if not self._idle.wait_for(lambda: self._under_way == 0, timeout):
                raise TimeoutError(f"{self._under_way} webhook deliveries are still under way")

    def close(self) -> None:
        self._world.listeners.remove(self._hear)
        self._queue.put(None)
        self._thread.join(TIMEOUT_SECONDS)

    @property
    def _world(self) -> GitHubState:
        return self._site.world

    def _hear(self, event: Event) -> None:
        for hook in list(self._hooks):
            is_wanted, installation = self._concerns(hook, event)
            if is_wanted:
                body = payload(self._site, event, installation)
                name = (event.name, event.action)
                self._send(self._delivery(hook, body, name=name, event=event, installation=installation))

    def _concerns(self, hook: Hook, event: Event) -> tuple[bool, Installation | None]:
        if hook.app is None:
            is_of_repository = event.repository is not None and event.repository.id == hook.repository
            return is_of_repository and event.name in hook.events, None
        if event.installation is not None:
            return event.installation.app == hook.app, event.installation
        for installation in self._world.installations.values():
            here = event.repository is not None and reaches(installation, event.repository)
            if installation.app == hook.app and here and not installation.suspended:
                return event.name in hook.events, installation
        return False, None

    def _delivery(
        self,
        hook: Hook,
        body: Json,
        *,
        name: tuple[str, str | None],
        event: Event | None = None,
        installation: Installation | None = None,
    ) -> DeliveryAttempt:
        home = event.repository if event else None
        return DeliveryAttempt(
            id=self._world.next_id(), guid=str(uuid.uuid4()), hook=hook, event=name[0], action=name[1],
            body=json.dumps(body, separators=(",", ":")).encode(), delivered_at=self._world.now(),
            installation=installation.id if installation else None, repository=home.id if home else None,
        )  # fmt: skip

    def _send(self, delivery: DeliveryAttempt) -> None:
        planned = next((each for each in self._mishaps if each[0] in {"*", delivery.event}), None)
        if planned:
            self._mishaps.remove(planned)
        mishap = planned[1] if planned else None
        if mishap == "hold":
            self._held.append(delivery)
        elif mishap == "drop":
            lost = replace(delivery, status="failed to connect to host")
            self._deliveries[lost.id] = lost
        else:
            self._enqueue(delivery)
            if mishap == "double":
                self._enqueue(replace(delivery, id=self._world.next_id()))

    def _enqueue(self, delivery: DeliveryAttempt) -> None:
        with self._idle:
            self._deliveries[delivery.id] = delivery
            self._under_way += 1
        self._queue.put(delivery)

    def _run(self) -> None:
        while (delivery := self._queue.get()) is not None:
            url = delivery.hook.url
            public = next((each for each in self.public_hosts if url.startswith(f"{each}/")), "")
            attempt = _post(delivery, self.public_hosts.get(public, "") + url.removeprefix(public))
            with self._idle:
                self._deliveries[attempt.id] = attempt
                self._under_way -= 1
                self._idle.notify_all()


def _post(delivery: DeliveryAttempt, address: str) -> DeliveryAttempt:
    url = urlsplit(address)
    started = time.monotonic()
    connect = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    connection = connect(url.hostname or "", url.port, timeout=TIMEOUT_SECONDS)
    try:
        path = f"{url.path or '/'}{'?' if url.query else ''}{url.query}"
        connection.request("POST", path, delivery.body, delivery.headers())
        response = connection.getresponse()
        response.read()
    except TimeoutError:
        return replace(delivery, status="timed out", duration=TIMEOUT_SECONDS)
    except (OSError, http.client.HTTPException):
        return replace(delivery, status="failed to connect to host")
    finally:
        connection.close()
    code = response.status
    status = "OK" if 200 <= code < 300 else f"Invalid HTTP Response: {code}"
    return replace(delivery, status=status, status_code=code, duration=time.monotonic() - started)
