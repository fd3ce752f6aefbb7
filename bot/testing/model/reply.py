"""One job: what a policy answers with: a reply of the model, or a fault of the service.

A policy is a plain function from a request to one of the two. It runs on a thread of its own and may block.
Constructors return whole replies; `several` joins them into one.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from bot.testing.model.request import ModelRequest
from bot.testing.model.wire import Json


@dataclass(frozen=True, slots=True)
class Text:
    """A text block."""

    text: str


@dataclass(frozen=True, slots=True)
class Thought:
    """A thinking block; the server signs it, and leaves its text out where the request asks for that.

    One that the output limit cuts is `whole` no more, and has no signature.
    """

    text: str
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Call:
    """A tool_use block; `malformed` is streamed instead of the input's JSON, as it stands."""

    name: str
    input: Mapping[str, Any]
    malformed: str | None = None


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A block that is sent as it stands: server tools, redacted thinking, types of the future."""

    block: Json


Block: TypeAlias = Text | Thought | Call | Verbatim


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of the model.

    `stop_reason` is derived from the blocks and the request's max_tokens where it is None; `usage` overrides single
    fields of the computed usage; `pace` is the seconds slept before each event of a stream, `pings` how many ping
    events follow its start.
    """

    blocks: tuple[Block, ...]
    stop_reason: str | None = None
    stop_details: Json | None = None
    usage: Mapping[str, int] = field(default_factory=dict)
    pace: float = 0.0
    pings: int = 1


@dataclass(frozen=True, slots=True)
class Fault:
    """One failure of the service; a fault in mid-stream sends the first `after` events of `reply` before it strikes."""

    kind: Literal["status", "error_event", "stall", "truncate", "disconnect", "reset", "garble"]
    code: int = 529
    retry_after: float | None = None
    error_code: str | None = None
    page: bytes = b""
    """What stands for the answer's body, or for an event of the stream: bytes that are none of the API's."""
    should_retry: bool | None = None
    """The header x-should-retry, where it is sent."""
    ping_every: float = 0.0
    error_type: str = "overloaded_error"
    seconds: float = 0.0
    reply: Reply = Reply((Text("This answer will not be finished."),))
    after: int = 4

    @staticmethod
    def status(
        code: int,
        *,
        retry_after: float | None = None,
        error_code: str | None = None,
        page: bytes = b"",
        should_retry: bool | None = None,
    ) -> Fault:
        """An error with this HTTP status; `page` is sent in its place, as a proxy would that stands between."""
        made = Fault("status", code=code, error_code=error_code, page=page)
        return replace(made, retry_after=retry_after, should_retry=should_retry)

    @staticmethod
    def error_event(error_type: str = "overloaded_error", *, reply: Reply | None = None, after: int = 4) -> Fault:
        """An SSE `error` event after a 200; without streaming, the status that belongs to the type."""
        return _cut(Fault("error_event", error_type=error_type, after=after), reply)

    @staticmethod
    def stall(seconds: float, *, reply: Reply | None = None, after: int = 4, ping_every: float = 0.0) -> Fault:
        """Silence on the wire for that long, or pings alone, then the rest of the reply; unstreamed, a late answer."""
        return _cut(Fault("stall", seconds=seconds, after=after, ping_every=ping_every), reply)

    @staticmethod
    def truncate(*, reply: Reply | None = None, after: int = 4) -> Fault:
        """A stream that ends in good order but without its message_stop; without streaming, a cut connection."""
        return _cut(Fault("truncate", after=after), reply)

    @staticmethod
    def disconnect(*, reply: Reply | None = None, after: int = 4) -> Fault:
        """A connection that is cut in mid-answer."""
        return _cut(Fault("disconnect", after=after), reply)

    @staticmethod
    def reset(*, reply: Reply | None = None, after: int = 4) -> Fault:
        """A connection that is reset in mid-answer: what was on its way is lost."""
        return _cut(Fault("reset", after=after), reply)

    @staticmethod
    def garble(page: bytes, *, reply: Reply | None = None, after: int = 4) -> Fault:
        """These bytes as the data of one more event, and then the rest; without streaming, in place of the answer."""
        return _cut(Fault("garble", page=page, after=after), reply)


def _cut(fault: Fault, reply: Reply | None) -> Fault:
    return fault if reply is None else replace(fault, reply=reply)


Policy: TypeAlias = Callable[[ModelRequest], Reply | Fault]


def say(text: str) -> Reply:
    """A reply of one text block."""
    return Reply((Text(text),))


def answer(value: object) -> Reply:
    """A reply whose text is the JSON of a value, as a structured output is."""
    return say(json.dumps(value, ensure_ascii=False))


def think(text: str) -> Reply:
    """A reply of one thinking block; join it with others."""
    return Reply((Thought(text),))


def call(name: str, /, **arguments: object) -> Reply:
    """A reply that calls one tool with these arguments as its input."""
    return Reply((Call(name, arguments),))


def malformed_call(name: str, text: str) -> Reply:
    """A reply that calls one tool with input that is not valid JSON."""
    return Reply((Call(name, {}, malformed=text),))


def verbatim(block: Json) -> Reply:
    """A reply of one block that is sent as it stands."""
    return Reply((Verbatim(block),))


def stop(reason: str, *, category: str | None = None, explanation: str | None = None) -> Reply:
    """An empty reply with this stop reason; a refusal carries its details."""
    details: Json | None = None
    if reason == "refusal":
        details = {"type": "refusal", "category": category, "explanation": explanation}
    return Reply((), stop_reason=reason, stop_details=details)


def several(*replies: Reply) -> Reply:
    """One reply with the blocks of all, in order; the last one that says why it stopped decides for the whole."""
    whole = Reply(tuple(block for reply in replies for block in reply.blocks))
    for reply in replies:
        whole = replace(
            whole,
            stop_reason=reply.stop_reason or whole.stop_reason,
            stop_details=reply.stop_details or whole.stop_details,
            usage={**whole.usage, **reply.usage},
            pace=max(whole.pace, reply.pace),
            pings=max(whole.pings, reply.pings),
        )
    return whole


def sequence(*replies: Reply | Fault) -> Policy:
    """A policy that gives the replies one after another, whoever asks; one request too many is an error."""
    lock = threading.Lock()
    rest: Iterator[Reply | Fault] = iter(replies)

    def policy(request: ModelRequest) -> Reply | Fault:
        with lock:
            reply = next(rest, None)
        if reply is None:
            raise AssertionError(f"the script has {len(replies)} replies and was asked for one more: {request.texts()}")
        return reply

    return policy
