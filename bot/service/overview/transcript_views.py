"""One session as people read it: its steps in order, made from its stored lines."""

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from bot.core.checks import result_text
from bot.core.comment import mode_text
from bot.core.markdown.elements import cut_middle, shorten_line
from bot.core.names import RepositoryId, SessionId, ThreadAddress, ThreadNumber
from bot.core.secrets.redaction import Redactor
from bot.core.transcript import Json, Line, LineKind, spoken_blocks
from bot.ports import Usage
from bot.service.connections import Connections, key_of
from bot.service.overview.views import redact_view
from bot.store.transcripts import SpooledTranscripts


class PartKind(StrEnum):
    """What one part of a step is."""

    BRIEF = "brief"
    """Text that the session was given."""
    TEXT = "text"
    """Markdown that the model wrote."""
    THINKING = "thinking"
    CALL = "call"
    AGENT = "agent"
    """A sub-agent began."""
    NOTE = "note"
    """Something that happened and was not sent to the model."""


@dataclass(frozen=True, slots=True)
class FileReplacement:
    """One replacement in a file. `old` is "" for a file that was written as a whole."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool, and its result."""

    tool: str
    subject: str
    """What the call is about: a path, a command, or a pattern; "" if none stands out."""
    arguments: str
    """The other arguments as JSON; "" for none."""
    replacements: tuple[FileReplacement, ...]
    """What the call changes in the file that `subject` names."""
    result: str
    failed: bool
    ended: bool
    """Whether the transcript has the result."""


@dataclass(frozen=True, slots=True)
class StepPart:
    """One part of a step."""

    kind: PartKind
    text: str = ""
    call: ToolCall | None = None
    session: str = ""
    """The session of the sub-agent that began."""


@dataclass(frozen=True, slots=True)
class TranscriptStep:
    """One answer of the model, with the results of its calls. Step 0 is what the session began with."""

    number: int
    at: datetime
    tokens: int
    """Tokens of the prompt and the answer."""
    cost_usd: float | None
    """None: the model has no known price, or the step has no answer."""
    parts: tuple[StepPart, ...]


@dataclass(frozen=True, slots=True)
class TranscriptPage:
    """One page of a session's transcript."""

    session: str
    sessions: tuple[str, ...]
    """All sessions of the thread whose transcripts are stored."""
    agent_type: str
    model: str
    mode: str
    began: datetime
    seconds: float
    """From the first line of the transcript to the last."""
    answers: int
    tokens: int
    cost_usd: float
    """What the answers with a known price cost, without those of sub-agents."""
    page: int
    """From 1."""
    pages: int
    steps: tuple[TranscriptStep, ...]


# --- Pages are made from the stored lines. Secrets are removed before anything is cut or compared.

STEPS_EACH: Final = 20
"""Steps on one page."""
LONGEST: Final = 8_000
"""Characters of one text that is shown. A longer one loses its middle."""
NOTE_LENGTH: Final = 300
_SUBJECTS: Final = ("file_path", "notebook_path", "command", "pattern", "url", "query", "description", "path")
"""Arguments that can be the subject of a call, the preferred one first."""
_CHANGES: Final = frozenset({"old_string", "new_string", "content", "edits", "new_source"})
_TITLES: Final = {
    "dropped": "An answer was not kept",
    "failed": "A call to the model failed for good",
    "light": "A small question to the light model failed",
    "outside": "Paths outside the plan",
    "retry": "A call to the model failed and was made again",
    "silence": "Nothing came from the model for a long time",
    "uncached": "What sub-agents share was not cached",
    "unsummarised": "The history could not be summarized",
    "untrusted": "Words of people who may not ask were read",
    "void": "An answer broke off",
}
"""The titles of notes whose names do not speak for themselves."""
_NOT_SHOWN: Final = frozenset({"note", "message", "usage", "left_out"})


def transcript_page(session: str, lines: Sequence[Line], number: int, redactor: Redactor) -> TranscriptPage:
    """Return one page of a transcript with at least one line, without secrets. `number` is brought into range."""
    groups = _groups(lines)
    pages = max(1, -(-len(groups) // STEPS_EACH))
    page = min(max(1, number), pages)
    first = (page - 1) * STEPS_EACH
    numbered = enumerate(groups[first : first + STEPS_EACH], start=first)
    opening = next((line.body for line in lines if line.kind is LineKind.OPENED), {})
    answers = [line.body for line in lines if _is_answer(line)]
    view = TranscriptPage(
        session=session,
        sessions=(),
        agent_type=str(opening.get("agent_type", "")),
        model=str(opening.get("model", "")),
        mode=str(opening.get("mode", "")),
        began=lines[0].at,
        seconds=(lines[-1].at - lines[0].at).total_seconds(),
        answers=len(answers),
        tokens=sum(map(_tokens, answers)),
        cost_usd=sum(_cost(line) for line in lines),
        page=page,
        pages=pages,
        steps=tuple(_step(at, group, redactor) for at, group in numbered),
    )
    return redact_view(view, redactor)


def _groups(lines: Iterable[Line]) -> list[list[Line]]:
    """Return the lines by step: an answer begins one, and what follows it belongs to it."""
    groups: list[list[Line]] = [[]]
    for line in lines:
        if _is_answer(line):
            groups.append([])
        groups[-1].append(line)
    return [group for group in groups if group]


def _is_answer(line: Line) -> bool:
    return line.kind is LineKind.MESSAGE and line.body["message"]["role"] == "assistant"


def _tokens(body: Json) -> int:
    return Usage(**body.get("usage", {})).context


def _cost(line: Line) -> float:
    """Return the cost that a line books. An answer that waits for its sub-agents is booked once they have reported."""
    is_open = line.kind is LineKind.OPENED or line.body.get("note") == "asked"
    return 0.0 if is_open else float(line.body.get("cost_usd") or 0)


def _step(number: int, unredacted: Sequence[Line], redactor: Redactor) -> TranscriptStep:
    lines = [Line(line.kind, line.at, redactor.redact_json(line.body)) for line in unredacted]
    results = dict(_results(lines))
    answers = [line.body for line in lines if _is_answer(line)]
    prices = [body["cost_usd"] for body in answers if body.get("cost_usd") is not None]
    return TranscriptStep(
        number=number,
        at=lines[0].at,
        tokens=sum(map(_tokens, answers)),
        cost_usd=sum(prices) if prices else None,
        parts=tuple(part for line in lines for part in _parts(line, results)),
    )


def _results(lines: Iterable[Line]) -> Iterator[tuple[str, Json]]:
    """Yield the result of each call, by the call's id."""
    for line in lines:
        content = line.body["message"]["content"] if line.kind is LineKind.MESSAGE else ()
        for block in content if isinstance(content, list) else ():
            if block.get("type") == "tool_result":
                yield str(block["tool_use_id"]), block


def _parts(line: Line, results: Mapping[str, Json]) -> Iterator[StepPart]:
    match line.kind:
        case LineKind.OPENED:
            return
        case LineKind.COMPACTED:
            sizes = f"from {line.body.get('before', 0):,} to {line.body.get('after', 0):,} tokens"
            yield StepPart(PartKind.NOTE, f"The history was compacted {sizes}")
        case LineKind.NOTE if line.body.get("note") == "subagent":
            body = line.body
            yield StepPart(PartKind.AGENT, f"{body['description']} ({body['type']})", session=str(body["session"]))
        case LineKind.NOTE:
            if words := _note(line.body):
                yield StepPart(PartKind.NOTE, shorten_line(words, NOTE_LENGTH))
        case LineKind.MESSAGE:
            message = line.body["message"]
            for block in spoken_blocks(message):
                yield from _block(block, results, is_answer=message["role"] == "assistant")


def _note(body: Json) -> str:
    """Return a note in words; "" for one that only the harness needs."""
    match body.get("note"):
        case "asked":  # the answer comes once its sub-agents have reported
            return ""
        case "aside":
            return f"A short answer by {body.get('model')}"
        case "mode":
            return f"Mode changed by {body.get('by')}: {mode_text(str(body.get('mode')))}"
        case "baseline":
            results = ", ".join(f"{check['command']} {result_text(check)}" for check in body["checks"])
            return f"Checks before the work: {results}"
        case "subagent_ended":
            report = f": {body['report']}" if body.get("report") else ""
            return f"Sub-agent {body.get('agent')} {body.get('state')}{report}"
        case name:
            facts = ", ".join(f"{key} {_text(value)}" for key, value in body.items() if key not in _NOT_SHOWN)
            title = _TITLES.get(str(name), str(name).replace("_", " ").capitalize())
            return f"{title}: {facts}" if facts else title


def _block(block: Json, results: Mapping[str, Json], *, is_answer: bool) -> Iterator[StepPart]:
    match block.get("type"):
        case "text":
            yield StepPart(PartKind.TEXT if is_answer else PartKind.BRIEF, _shorten(str(block["text"])))
        case "thinking":
            if block.get("thinking"):
                yield StepPart(PartKind.THINKING, _shorten(str(block["thinking"])))
        case "tool_use":
            yield StepPart(PartKind.CALL, call=_call(block, results.get(str(block["id"]))))
        case "tool_result" | "redacted_thinking":
            return
        case other:
            yield StepPart(PartKind.NOTE, f"({other})")


def _call(block: Json, result: Json | None) -> ToolCall:
    arguments: Json = block["input"] if isinstance(block["input"], dict) else {"input": block["input"]}
    about = next((name for name in _SUBJECTS if isinstance(arguments.get(name), str)), "")
    replacements = tuple(_replacements(arguments)) if about in {"file_path", "notebook_path"} else ()
    shown_names = {about, *_CHANGES} if replacements else {about}
    others = {name: value for name, value in arguments.items() if name not in shown_names}
    return ToolCall(
        tool=str(block["name"]),
        subject=_shorten(str(arguments.get(about, ""))),
        arguments=_shorten(json.dumps(others, ensure_ascii=False, indent=2)) if others else "",
        replacements=replacements,
        result=_shorten(_text(result.get("content", ""))) if result is not None else "",
        failed=bool(result and result.get("is_error")),
        ended=result is not None,
    )


def _replacements(tool_input: Json) -> Iterator[FileReplacement]:
    """Yield what an edit replaces (Write, Edit, MultiEdit, NotebookEdit)."""
    new = next((tool_input[name] for name in ("content", "new_string", "new_source") if name in tool_input), None)
    if new is not None:
        yield FileReplacement(_shorten(str(tool_input.get("old_string", ""))), _shorten(str(new)))
    for edit in tool_input.get("edits") or ():
        if isinstance(edit, dict):
            yield FileReplacement(_shorten(str(edit.get("old_string", ""))), _shorten(str(edit.get("new_string", ""))))


def _text(content: Any) -> str:
    """Return the text of a result, with the type of each other block in parentheses."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    blocks = (block if isinstance(block, dict) else {"text": block} for block in content)
    return "\n".join(str(block.get("text", f"({block.get('type')})")) for block in blocks)


def _shorten(text: str) -> str:
    return cut_middle(text, LONGEST)


@dataclass(slots=True)
class StoredTranscripts:
    """The transcripts of a service, read beside the sessions that write them. Raises Refused if one does not open.

    A session that runs on another machine is shown as of its newest push.
    """

    connections: Connections

    async def transcripts(self, address: ThreadAddress) -> Sequence[str]:
        """Return the sessions of a thread whose transcripts are stored."""
        return await asyncio.to_thread((await self._open(address)).sessions)

    async def transcript(self, address: ThreadAddress, session: str) -> Sequence[Line]:
        """Return the lines of a session that `transcripts` lists."""
        return await asyncio.to_thread((await self._open(address)).peek, SessionId(session))

    async def extent(self, address: ThreadAddress, session: str) -> str:
        """Return a word that changes whenever `transcript` would return more."""
        return await asyncio.to_thread((await self._open(address)).extent, SessionId(session))

    async def _open(self, address: ThreadAddress) -> SpooledTranscripts:
        settings, reached = self.connections.settings, await self.connections.reach_thread(address)
        place = RepositoryId(address.repository), ThreadNumber(address.number)
        return SpooledTranscripts(reached.refs, *place, key=key_of(settings), spool=settings.data_dir / "transcripts")
