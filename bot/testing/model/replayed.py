"""Makes a policy from stored transcripts, so that recorded sessions can be replayed.

A session is identified by the text of its first message. Its answers come in their original order. Ids and signatures
are created again, because they are bound to the request they answer.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

from bot.core.transcript import Line, LineKind
from bot.testing.model.reply import Block, Call, Policy, Reply, Text, Thought, Verbatim
from bot.testing.model.request_view import ModelRequest
from bot.testing.model.wire import Json, blocks


def replay_policy(*transcripts: Iterable[Line]) -> Policy:
    """Return a policy that replays these sessions. A further request, or one of another session, is an error."""
    lock = threading.Lock()
    sessions: dict[str, Iterator[Reply]] = {}
    for lines in transcripts:
        stored = list(lines)
        first = next(line.body["message"] for line in stored if line.kind is LineKind.MESSAGE)
        sessions[_words(first)] = iter([_reply(line.body) for line in stored if _answers(line)])

    def policy(request: ModelRequest) -> Reply:
        words = _words(request.messages[0])
        with lock:
            reply = next(sessions.get(words, iter(())), None)
        if reply is None:
            raise AssertionError(f"no transcript has a further answer for the session on {words[:200]!r}")
        return reply

    return policy


def _answers(line: Line) -> bool:
    return line.kind is LineKind.MESSAGE and line.body["message"]["role"] == "assistant"


def _words(message: Json) -> str:
    return str(blocks(message["content"])[-1].get("text"))


def _reply(body: Json) -> Reply:
    content = blocks(body["message"]["content"])
    return Reply(tuple(_block(block) for block in content), stop_reason=body.get("stop_reason"))


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
