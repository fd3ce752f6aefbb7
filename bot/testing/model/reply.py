"""The answers of a policy: a reply of the model, or a fault of the service.

A policy is a plain function from a request to one of the two. It runs on its own thread and may block. Constructors
return whole replies; `several` joins them into one.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from bot.core.transcript import Line, LineKind
from bot.testing.model.request_view import Json, ModelRequest, blocks


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class Thought:
    """A thinking block. The server signs it, and omits its text if the request asks for that.

    A block cut by the output limit is not `whole` and has no signature.
    """

    text: str
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Call:
    """A tool_use block. If set, `malformed` is streamed verbatim instead of the input's JSON."""

    name: str
    input: Mapping[str, Any]
    malformed: str | None = None


@dataclass(frozen=True, slots=True)
class Verbatim:
    block: Json


Block: TypeAlias = Text | Thought | Call | Verbatim


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of the model.

    If `stop_reason` is None, it is derived from the blocks and the request's max_tokens. `usage` overrides single
    fields of the computed usage. `pace` is the seconds to sleep before each event of a stream.
    """

    blocks: tuple[Block, ...]
    stop_reason: str | None = None
    stop_details: Json | None = None
    usage: Mapping[str, int] = field(default_factory=dict)
    pace: float = 0.0
    at_once: bool = False  # whether message_start holds the whole answer, as after a programmatic tool call


UNFINISHED = Reply((Text("This answer will not be finished."),))


@dataclass(frozen=True, slots=True)
class Fault:
    """One failure of the service. A fault in mid-stream first sends the first `after` events of `reply`."""

    kind: Literal["status", "error_event", "stall", "truncate", "disconnect", "reset", "garble"]
    code: int = 529
    retry_after: float | None = None
    error_code: str | None = None
    message: str = ""  # the message of an error status; "" for a default text
    page: bytes = b""
    should_retry: bool | None = None  # the value of the header x-should-retry, or None to omit it
    ping_every: float = 0.0
    error_type: str = "overloaded_error"
    seconds: float = 0.0
    reply: Reply = UNFINISHED
    after: int = 4

    @staticmethod
    def status(code: int, **details: Any) -> Fault:
        return Fault("status", code, **details)

    @staticmethod
    def error_event(error_type: str = "overloaded_error", *, reply: Reply = UNFINISHED, after: int = 4) -> Fault:
        """Return a fault that sends an SSE `error` event after a 200; without streaming, the status of that type."""
        return Fault("error_event", error_type=error_type, after=after, reply=reply)

    @staticmethod
    def stall(seconds: float, *, reply: Reply = UNFINISHED, after: int = 4, ping_every: float = 0.0) -> Fault:
        """Return a fault that pauses (silence or only pings) before the rest; without streaming, the answer is late."""
        return Fault("stall", seconds=seconds, after=after, ping_every=ping_every, reply=reply)

    @staticmethod
    def truncate(*, reply: Reply = UNFINISHED, after: int = 4) -> Fault:
        """Return a fault that ends a stream without its message_stop; without streaming, it cuts the connection."""
        return Fault("truncate", after=after, reply=reply)

    @staticmethod
    def disconnect(*, reply: Reply = UNFINISHED, after: int = 4) -> Fault:
        return Fault("disconnect", after=after, reply=reply)

    @staticmethod
    def reset(*, reply: Reply = UNFINISHED, after: int = 4) -> Fault:
        return Fault("reset", after=after, reply=reply)

    @staticmethod
    def garble(page: bytes, *, reply: Reply = UNFINISHED, after: int = 4) -> Fault:
        """Return a fault that adds an event with these bytes as data; without streaming, they replace the answer."""
        return Fault("garble", page=page, after=after, reply=reply)


Policy: TypeAlias = Callable[[ModelRequest], Reply | Fault]


def say(text: str) -> Reply:
    return Reply((Text(text),))


def answer(value: object) -> Reply:
    return say(json.dumps(value, ensure_ascii=False))


def think(text: str) -> Reply:
    return Reply((Thought(text),))


def call(name: str, /, **arguments: object) -> Reply:
    return Reply((Call(name, arguments),))


def malformed_call(name: str, text: str) -> Reply:
    return Reply((Call(name, {}, malformed=text),))


def verbatim(block: Json) -> Reply:
    return Reply((Verbatim(block),))


def stop(reason: str, *, category: str | None = None, explanation: str | None = None) -> Reply:
    details: Json | None = None
    if reason == "refusal":
        details = {"type": "refusal", "category": category, "explanation": explanation}
    return Reply((), stop_reason=reason, stop_details=details)


def several(*replies: Reply) -> Reply:
    """Return one reply with the blocks of all, in order. The last stop reason that is set applies to the whole."""
    whole = Reply(tuple(block for reply in replies for block in reply.blocks))
    for reply in replies:
        whole = replace(
            whole, stop_reason=reply.stop_reason or whole.stop_reason,
            stop_details=reply.stop_details or whole.stop_details, usage={**whole.usage, **reply.usage},
            pace=max(whole.pace, reply.pace), at_once=whole.at_once or reply.at_once,
        )  # fmt: skip
    return whole


def sequence(*replies: Reply | Fault) -> Policy:
    """Return a policy that returns the replies in order, for any request. One request too many is an error."""
    lock = threading.Lock()
    rest: Iterator[Reply | Fault] = iter(replies)

    def policy(request: ModelRequest) -> Reply | Fault:
        with lock:
            reply = next(rest, None)
        if reply is None:
            raise AssertionError(f"the script has {len(replies)} replies and was asked for one more: {request.texts()}")
        return reply

    return policy


# A session is identified by the text of its first message. Its answers come in their original order. Ids and signatures
# are created again, because they are bound to the request they answer.


def replay_policy(*transcripts: Iterable[Line]) -> Policy:
    """Return a policy that replays these sessions. A further request, or one of another session, is an error."""
    lock = threading.Lock()
    sessions: dict[str, Iterator[Reply]] = {}
    for lines in transcripts:
        stored = list(lines)
        first = next(line.body["message"] for line in stored if line.kind is LineKind.MESSAGE)
        answers = [line for line in stored if line.kind is LineKind.MESSAGE]
        bodies = [line.body for line in answers if line.body["message"]["role"] == "assistant"]
        replies = [
            Reply(tuple(map(_block, blocks(body["message"]["content"]))), body.get("stop_reason")) for body in bodies
        ]
        sessions[_words(first)] = iter(replies)

    def policy(request: ModelRequest) -> Reply:
        words = _words(request.messages[0])
        with lock:
            reply = next(sessions.get(words, iter(())), None)
        if reply is None:
            raise AssertionError(f"no transcript has a further answer for the session on {words[:200]!r}")
        return reply

    return policy


def _words(message: Json) -> str:
    return str(blocks(message["content"])[-1].get("text"))


def _block(block: Json) -> Block:
    match block["type"]:
        case "text":
            return Text(block["text"])
        case "thinking":
            return Thought(block["thinking"])
        case "tool_use":
            return Call(block["name"], block["input"])
        case _:
            return Verbatim(block)
