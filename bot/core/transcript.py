"""The transcript of one session: append-only lines of JSON, format 1 (L9).

A line is an object ``{"v": 1, "at": time, "kind": ..., ...}``. Kinds:

``opened``   the session's frozen parts, exactly as every request sends them: model, system, tools, agent type
``message``  a message exactly as it was sent or received (key order, unknown blocks and empty thinking included),
             with `usage` and `model` for an assistant message and `seen` (file stamps) for tool results
``compacted`` `history`: the messages that are sent from now on instead of all before them, which stay stored (C4)
``note``     something that happened and is never sent: a mode change, a retry, a fallback, an error, the end, an
             answer whose calls to sub-agents are under way

Rules: A line is never changed or removed. An assistant message that calls tools is written together with the message
that carries all its results (one `append`), so a crash loses at most the message in flight. A replay sends the stored
object, never a new rendering.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

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
    OPENED = "opened"
    MESSAGE = "message"
    COMPACTED = "compacted"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Line:
    kind: LineKind
    at: datetime
    body: Json = field(default_factory=dict)

    def encode(self) -> str:
        """Return the line as JSON without a newline, in key order. The body may not contain the head's keys."""
        head = {"v": FORMAT, "at": self.at.astimezone(UTC).isoformat(), "kind": str(self.kind)}
        if reserved := sorted(head.keys() & self.body.keys()):
            raise Broken(f"a line's body may not hold {', '.join(reserved)}", where=str(self.kind))
        return json.dumps(head | self.body, separators=(",", ":"), ensure_ascii=False)


def decode(text: str, number: int) -> Line:
    """Return the line in a text. Raises Refused, naming the line's number, for another format."""
    try:
        value = json.loads(text)
        if value.pop("v") != FORMAT:
            raise ValueError("another format")
        return Line(LineKind(value.pop("kind")), datetime.fromisoformat(value.pop("at")), value)
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise Refused(f"not a transcript line of format {FORMAT}", where=f"line {number}", fix=str(error)) from error


def well_formed(message: Json) -> Json:
    """Return a message that can be sent. Lone surrogates, valid in JSON but not in UTF-8, become U+FFFD."""
    return sendable(message)[0]


def sendable(message: Json) -> tuple[Json, bytes]:
    """Return a message that can be sent, as `well_formed` does, and its bytes."""
    try:
        return message, encode_json(message)
    except UnicodeEncodeError:
        text = json.dumps(message, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        value: Json = json.loads(text)
        return value, encode_json(value)


def encode_json(value: Json) -> bytes:
    """Return JSON as it is sent: compact, in key order, UTF-8. Raises ValueError if JSON or UTF-8 cannot hold it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def decode_json(content: bytes) -> Any:
    """Return the JSON in some bytes of UTF-8. Raises ValueError also for what readers disagree about.

    That is a key that an object has twice, of which some readers take the first and some the last, and a number that is
    none, such as NaN.
    """
    return json.loads(
        content.decode(), object_pairs_hook=_unique, parse_constant=finite_number, parse_float=finite_number
    )


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key is repeated in one object")
    return value


def finite_number(text: str) -> float:
    """Return a number. Raises ValueError for what only Python reads as one: NaN, Infinity, and 1e999."""
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text} is not a JSON number")
    return number


def without_empty_text(answer: Json) -> Json:
    """Return a received message without empty texts, because the service sends them but does not accept them.

    https://platform.claude.com/docs/en/api/messages: no text is empty, and the last one is not only white space.
    """
    content = answer["content"]
    last = len(content) - 1
    texts = {at: block["text"] for at, block in enumerate(content) if block.get("type") == "text"}
    empty = {at for at, text in texts.items() if not text or (at == last and not text.strip())}
    return {**answer, "content": [block for at, block in enumerate(content) if at not in empty]} if empty else answer


def without_last_thinking(answer: Json) -> Json:
    """Return an answer without the thinking blocks at its end.

    A block cut off by the output limit has no signature, and the service does not accept it without one. Thinking
    blocks at the end may be left out.

    https://platform.claude.com/docs/en/build-with-claude/preserved-thinking
    """
    content = list(answer["content"])
    while content and content[-1].get("type") in THINKING:
        content.pop()
    return {**answer, "content": content}


def messages(lines: Iterable[Line]) -> list[Json]:
    """Return the messages to send, as stored: the result of the last compaction and everything after it."""
    history: list[Json] = []
    for line in lines:
        if line.kind is LineKind.COMPACTED:
            history = list(line.body["history"])
        elif line.kind is LineKind.MESSAGE:
            history.append(line.body["message"])
    return history


def all_messages(lines: Iterable[Line]) -> list[Json]:
    return [line.body["message"] for line in lines if line.kind is LineKind.MESSAGE]


def notes_of(lines: Iterable[Line], kind: str) -> list[Json]:
    noted = (line.body for line in lines if line.kind is LineKind.NOTE)
    return [body for body in noted if body.get("note") == kind]


def tool_calls(message: Json) -> list[Json]:
    """Return the tool_use blocks of an assistant message, in order, without server tools."""
    content = message["content"]
    return [block for block in content if block.get("type") == "tool_use"] if isinstance(content, list) else []


def todos_of(messages: Iterable[Json]) -> list[tuple[str, str]]:
    """Return the last todo list that a session saved, as (content, status); no items if it saved none."""
    todos: list[tuple[str, str]] = []
    for call, result in _calls_with_results(messages, "TodoWrite"):
        if not result.get("is_error"):
            todos = [(todo["content"], todo["status"]) for todo in call["input"]["todos"]]
    return todos


def _calls_with_results(messages: Iterable[Json], tool: str) -> Iterator[tuple[Json, Json]]:
    """Yield each call of a tool with the block of its result; an empty one if there is none."""
    for answer, results in pairwise(messages):
        calls = [call for call in tool_calls(answer) if call["name"] == tool]
        blocks = results["content"] if calls and isinstance(results["content"], list) else []
        by_call = {block.get("tool_use_id"): block for block in blocks}
        yield from ((call, by_call.get(call["id"], {})) for call in calls)


class CommandRun(NamedTuple):
    command: str
    exit_code: int | None
    """None for a command that was ended before it finished."""
    output: str
    """The part of its output that the session saw."""


def commands_of(messages: Iterable[Json]) -> list[CommandRun]:
    """Return the shell commands that a session ran, in order.

    Only reports of the toolhost count: a result that is not an error, or the line that ends an error. Calls that were
    not run are left out, and commands in the background, whose result says only that they began.
    """
    runs: list[CommandRun] = []
    for call, result in _calls_with_results(messages, "Bash"):
        command, output = call["input"].get("command"), result.get("content")
        in_background = call["input"].get("run_in_background")
        if in_background or not (isinstance(command, str) and isinstance(output, str)):
            continue  # a call without a command was refused
        ending = _ENDING.fullmatch(output.rpartition("\n")[2])
        if not result.get("is_error"):
            runs.append(CommandRun(command, 0, output))
        elif ending is not None:
            runs.append(CommandRun(command, int(ending[1]) if ending[1] else None, output))
    return runs


def text_of(message: Json) -> str:
    """Return the text of an answer: texts that follow each other as one, those apart on lines of their own."""
    if isinstance(message["content"], str):
        return message["content"]
    return "\n".join(block["text"] for block in spoken_blocks(message) if block.get("type") == "text").strip()


def spoken_blocks(message: Json) -> list[Json]:
    """Return the blocks of a message. In an answer, texts that follow each other are one block, because the service
    splits a sentence at each citation.

    https://platform.claude.com/docs/en/build-with-claude/citations
    """
    content = message["content"]
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    blocks: list[Json] = []
    for block in content:
        if blocks and message.get("role") != "user" and block.get("type") == blocks[-1].get("type") == "text":
            blocks[-1] = {"type": "text", "text": blocks[-1]["text"] + block["text"]}
        else:
            blocks.append(block)
    return blocks


def result_text(result: Json) -> str:
    content = result.get("content") or ""
    return content if isinstance(content, str) else text_of({"role": "user", "content": content})


def is_unresolved(history: Sequence[Json]) -> bool:
    """Return whether the service must continue the last message.

    No text may follow the service's own call without a result.

    https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons#pause-turn
    """
    content = history[-1]["content"] if history and history[-1]["role"] == "assistant" else []
    blocks = [block for block in content if isinstance(block, dict)]
    answered = {block.get("tool_use_id") for block in blocks}
    return any(block.get("type") == "server_tool_use" and block.get("id") not in answered for block in blocks)


def pending_calls(history: Sequence[Json]) -> list[Json]:
    """Return the unanswered calls of the last message, which a suspended session waits for (L8)."""
    return tool_calls(history[-1]) if history and history[-1]["role"] == "assistant" else []
