"""Planned faults between a client and GitHub, and the record of every request.

A plan selects requests by "METHOD /path" (shell-style wildcards) and optionally by text in their body, and sets how
often the fault occurs. https://docs.github.com/en/rest/using-the-rest-api/troubleshooting-the-rest-api
"""

from __future__ import annotations

import asyncio
import fnmatch
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bot.testing.github.world import GitHubState

Kind = Literal["status", "lost", "delay", "reset", "truncate", "stale", "alter"]


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault. "status" answers with an error status instead of serving the request; "lost" serves it first."""

    kind: Kind
    status: int = 502
    seconds: float = 0.0
    """For "delay": seconds to wait. For "reset": seconds before the break, so that a test can stop the client."""
    done: bool = False
    """For "reset" and "delay": whether the request is carried out before the connection breaks or the wait begins."""
    headers: Mapping[str, str] = field(default_factory=dict)
    message: str = "Server Error"
    world: GitHubState | None = None
    alter: Callable[[Logged, Any], Any] | None = None
    """For "alter": returns what is sent in place of the JSON of an answer."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A fault, the requests it applies to, and how many strikes remain. The first `after` requests are spared.

    After the last strike, the plans in `then` become active.
    """

    requests: str
    fault: Fault
    times: int = 1
    containing: str = ""
    after: int = 0
    then: tuple[Plan, ...] = ()

    def strikes(self, name: str, body: bytes) -> bool:
        return self.times > 0 and fnmatch.fnmatchcase(name, self.requests) and self.containing.encode() in body


@dataclass(slots=True)
class Logged:
    """One request and its answer. The status is 0 if there was no answer."""

    method: str
    path: str
    query: str
    body: bytes
    status: int = 0
    credential: str = "none"
    """The kind of credential: "installation", "personal", "job", "jwt", or "anonymous"; "none" if it was refused."""
    cost: int = 0
    sent: int = 0

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


class Faults:
    def __init__(self, world: GitHubState) -> None:
        self._world = world
        self._plans: list[Plan] = []
        self.struck = 0
        self._lock = threading.Lock()

    def plan(self, requests: str, fault: Fault, *, times: int = 1, containing: str = "", after: int = 0) -> None:
        self.add(Plan(requests, fault, times, containing, after))

    def add(self, plan: Plan) -> None:
        with self._lock:
            self._plans.append(plan)

    def fail(self, requests: str, status: int, *, times: int = 1, done: bool = False, containing: str = "") -> None:
        """Answer with an error status; with `done`, carry out the request first."""
        self.plan(requests, Fault("lost" if done else "status", status), times=times, containing=containing)

    def limit(self, requests: str, *, seconds: int) -> None:
        message = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
        self.plan(requests, Fault("status", 403, headers={"retry-after": str(seconds)}, message=message))

    def stale(self, requests: str, *, times: int = 1) -> None:
        self.plan(requests, Fault("stale", world=copy_world(self._world)), times=times)

    def clear(self) -> None:
        with self._lock:
            self._plans.clear()

    @property
    def remaining_strikes(self) -> int:
        with self._lock:
            return sum(plan.times for plan in self._plans)

    def take(self, name: str, body: bytes) -> Fault | None:
        with self._lock:
            for index, plan in enumerate(self._plans):
                if not plan.strikes(name, body):
                    continue
                if plan.after:
                    self._plans[index] = replace(plan, after=plan.after - 1)
                    continue
                self._plans[index] = replace(plan, times=plan.times - 1)
                self.struck += 1
                if plan.times == 1:
                    self._plans += plan.then
                return plan.fault
        return None


class FaultInjector:
    def __init__(self, app: ASGIApp, faults: Faults, record: list[Logged]) -> None:
        self._app, self._faults, self._record = app, faults, record

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        body = await _whole(receive)
        logged = Logged(scope["method"], scope["path"], scope["query_string"].decode(), body)
        self._record.append(logged)
        scope["state"] = {**scope.get("state", {}), "logged": logged}
        answer = _Answer(self._app, scope, receive, body, logged)
        fault = self._faults.take(logged.name, body)
        if fault is None:
            await answer.pass_on(send)
        else:
            await self._strike(fault, answer, send)

    async def _strike(self, fault: Fault, answer: _Answer, send: Send) -> None:
        if fault.kind == "stale":
            answer.scope["state"]["world"] = fault.world
        if fault.kind in {"lost", "truncate", "alter"} or fault.done:
            await answer.collect()
        if fault.kind in {"delay", "reset"}:
            await asyncio.sleep(fault.seconds)
        match fault.kind:
            case "delay" if fault.done:
                await answer.give(send)
            case "stale" | "delay":
                await answer.pass_on(send)
            case "status" | "lost":
                await answer.refuse(send, fault)
            case "truncate":
                await answer.cut(send)
            case "alter":
                await answer.change(send, fault)
            case _:
                await answer.abort()


@dataclass(slots=True)
class _Answer:
    app: ASGIApp
    scope: Scope
    later: Receive
    body: bytes
    logged: Logged
    messages: list[Message] = field(default_factory=list)
    _was_read: bool = False

    async def pass_on(self, send: Send) -> None:
        async def watch(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.logged.status = message["status"]
            self.logged.sent += len(message.get("body", b""))
            await send(message)

        await self.app(self.scope, self._receive, watch)

    async def collect(self) -> None:
        async def keep(message: Message) -> None:
            self.messages.append(message)

        await self.app(self.scope, self._receive, keep)

    async def give(self, send: Send) -> None:
        self.logged.status = self.messages[0]["status"]
        for message in self.messages:
            await send(message)

    async def refuse(self, send: Send, fault: Fault) -> None:
        self.logged.status = fault.status
        data = json.dumps({"message": fault.message, "documentation_url": "", "status": str(fault.status)}).encode()
        headers = {"content-type": "application/json", "content-length": str(len(data)), **fault.headers}
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": fault.status, "headers": pairs})
        await send({"type": "http.response.body", "body": data})

    async def cut(self, send: Send) -> None:
        start, *rest = self.messages
        body = b"".join(message.get("body", b"") for message in rest)
        await send(start)
        await send({"type": "http.response.body", "body": body[: len(body) // 2], "more_body": True})
        await self.abort()

    async def change(self, send: Send, fault: Fault) -> None:
        start, *rest = self.messages
        data = b"".join(message.get("body", b"") for message in rest)
        headers = [(name, value) for name, value in start["headers"] if name != b"content-length"]
        if fault.alter is not None and data.startswith((b"{", b"[")):
            data = json.dumps(fault.alter(self.logged, json.loads(data))).encode()
        self.logged.status = start["status"]
        await send({**start, "headers": [*headers, (b"content-length", str(len(data)).encode())]})
        await send({"type": "http.response.body", "body": data})

    async def abort(self) -> None:
        self.scope["extensions"]["connection.abort"]["abort"]()
        await asyncio.sleep(0)

    async def _receive(self) -> Message:
        if self._was_read:
            return await self.later()
        self._was_read = True
        return {"type": "http.request", "body": self.body, "more_body": False}


def copy_world(world: GitHubState) -> GitHubState:
    """Return a copy of a world that later changes do not affect. The copy shares the original's git data."""
    with world.lock:
        names = ("users", "repositories", "roles", "issues", "comments", "reactions", "reviews", "review_comments",
                 "check_runs", "workflow_runs", "workflows", "labels", "tokens", "installations")  # fmt: skip
        copies: dict[str, Any] = {name: dict(getattr(world, name)) for name in names}
        return replace(world, **copies, listeners=[])


async def _whole(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)
