"""The transcript of one session: append-only lines of JSON, format 1 (L9).

A line is an object ``{"v": 1, "at": time, "kind": ..., ...}``. Kinds:

``opened``   the session's frozen parts, exactly as every request sends them: model, system, tools, agent type
``message``  a message exactly as it was sent or received (key order, unknown blocks and empty thinking included),
             with `usage` and `model` for an assistant message and `seen` (file stamps) for tool results
``compacted`` `history`: the messages that are sent from now on instead of all before them, which stay stored (C4)
``note``     something that happened and is never sent: a mode change, a retry, a fallback, an error, the end, an
             answer whose calls to sub-agents are under way

Rules: a line is never changed or removed; an assistant message that calls tools is written together with the message
that carries all its results (one `append`), so a crash loses at most the message in flight; what is replayed is the
stored object, never a rendering.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final, TypeAlias

from bot.core.errors import Broken, Refused

FORMAT = 1
THINKING: Final = frozenset({"thinking", "redacted_thinking"})
"""The types of blocks that are bound to what came before them."""

# The last line of a failed command's result (bot/toolhost/shell.py).
_ENDING: Final = re.compile(
    r"(?:killed by \w+: )?exit code (\d{1,3})(?: \(.*\))?|[a-z].*: all of it was ended(?: \(.*\))?"
)

Json: TypeAlias = dict[str, Any]


class LineKind(StrEnum):
    """What a line of a transcript holds."""

    OPENED = "opened"
    MESSAGE = "message"
    COMPACTED = "compacted"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a transcript."""

    kind: LineKind
    at: datetime
    body: Json = field(default_factory=dict)

    def encode(self) -> str:
        """Give the line as one line of JSON, key order kept, without a newline; a body may not hold the head's keys."""
        head = {"v": FORMAT, "at": self.at.astimezone(UTC).isoformat(), "kind": str(self.kind)}
        if taken := sorted(head.keys() & self.body.keys()):
            raise Broken(f"a line's body may not hold {', '.join(taken)}", where=str(self.kind))
        return json.dumps(head | self.body, separators=(",", ":"), ensure_ascii=False)


def decode(text: str, number: int) -> Line:
    """Read a line back; refuse another format, naming the line's number."""
    try:
        value = json.loads(text)
        if value.pop("v") != FORMAT:
            raise ValueError("another format")
        return Line(LineKind(value.pop("kind")), datetime.fromisoformat(value.pop("at")), value)
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise Refused(f"not a transcript line of format {FORMAT}", where=f"line {number}", mend=str(error)) from error


def well_formed(message: Json) -> Json:
    """Give a message that can be sent: halves of surrogate pairs, which JSON can write and UTF-8 cannot, are U+FFFD."""
    return sendable(message)[0]


def sendable(message: Json) -> tuple[Json, bytes]:
    """Give a message that can be sent, as `well_formed` does, and its bytes."""
    try:
        return message, encode_json(message)
    except UnicodeEncodeError:
        text = json.dumps(message, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        value: Json = json.loads(text)
        return value, encode_json(value)


def encode_json(value: Json) -> bytes:
    """Give JSON as it is sent: compact, key order kept, UTF-8; ValueError for what JSON or UTF-8 cannot hold."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def without_empty_text(answer: Json) -> Json:
    """Give a received message as it is, but for texts that are empty: the service sends them, and takes none back.

    https://platform.claude.com/docs/en/api/messages: no text is empty, and the last one is not white space alone.
    """
    content = answer["content"]
    last = len(content) - 1
    texts = {at: block["text"] for at, block in enumerate(content) if block.get("type") == "text"}
    empty = {at for at, text in texts.items() if not text or (at == last and not text.strip())}
    return {**answer, "content": [each for at, each in enumerate(content) if at not in empty]} if empty else answer


def without_last_thinking(answer: Json) -> Json:
    """Give an answer up to its last block that is no thinking: what the output limit cut has no signature, and none is
    taken back without one; from the end thinking may be left out.

    https://platform.claude.com/docs/en/build-with-claude/preserved-thinking
    """
    content = list(answer["content"])
    while content and content[-1].get("type") in THINKING:
        content.pop()
    return {**answer, "content": content}


def messages(lines: Iterable[Line]) -> list[Json]:
    """List the messages to send, as stored: what a compaction left, and all after it."""
    sent: list[Json] = []
    for line in lines:
        if line.kind is LineKind.COMPACTED:
            sent = list(line.body["history"])
        elif line.kind is LineKind.MESSAGE:
            sent.append(line.body["message"])
    return sent


def all_messages(lines: Iterable[Line]) -> list[Json]:
    """List all messages that were ever said, those that are sent no more included."""
    return [line.body["message"] for line in lines if line.kind is LineKind.MESSAGE]


def tool_calls(message: Json) -> list[Json]:
    """List the tool_use blocks of an assistant message, in order (server tools are not among them)."""
    content = message["content"]
    return [block for block in content if block.get("type") == "tool_use"] if isinstance(content, list) else []


def todos_of(said: Iterable[Json]) -> list[tuple[str, str]]:
    """Give the todo list that a session wrote last and was saved, as (content, status); none where it wrote none."""
    todos: list[tuple[str, str]] = []
    for answer, results in pairwise(said):
        calls = [call for call in tool_calls(answer) if call["name"] == "TodoWrite"]
        blocks = results["content"] if calls and isinstance(results["content"], list) else []
        failed = {block["tool_use_id"] for block in blocks if block.get("is_error")}
        for call in calls:
            if call["id"] not in failed:
                todos = [(todo["content"], todo["status"]) for todo in call["input"]["todos"]]
    return todos


def commands_of(said: Iterable[Json]) -> list[tuple[str, int | None]]:
    """Return the shell commands that a session ran, in order, with their exit codes; None for one that was ended.

    Only what the toolhost reports counts: that a result is no error, or the line that it ends an error with. Calls that
    were not run are left out.
    """
    found: list[tuple[str, int | None]] = []
    for answer, results in pairwise(said):
        calls = [call for call in tool_calls(answer) if call["name"] == "Bash"]
        blocks = results["content"] if calls and isinstance(results["content"], list) else []
        given = {block.get("tool_use_id"): block for block in blocks}
        for call in calls:
            block = given.get(call["id"])
            if block is None or not isinstance(block["content"], str):
                continue
            ending = _ENDING.fullmatch(block["content"].rpartition("\n")[2])
            if not block.get("is_error"):
                found.append((call["input"]["command"], 0))
            elif ending is not None:
                found.append((call["input"]["command"], int(ending[1]) if ending[1] else None))
    return found


def text_of(message: Json) -> str:
    """Join the text blocks of a message."""
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block.get("type") == "text").strip()


def is_unresolved(history: Sequence[Json]) -> bool:
    """Tell whether the service is to go on with the last message: no text may follow its own call without a result.

    https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons#pause-turn
    """
    content = history[-1]["content"] if history and history[-1]["role"] == "assistant" else []
    blocks = [block for block in content if isinstance(block, dict)]
    done = {block.get("tool_use_id") for block in blocks}
    return any(block.get("type") == "server_tool_use" and block.get("id") not in done for block in blocks)


def pending_calls(history: Sequence[Json]) -> list[Json]:
    """List the calls of the last message that nobody has answered: what a suspended session waits for (L8)."""
    return tool_calls(history[-1]) if history and history[-1]["role"] == "assistant" else []
