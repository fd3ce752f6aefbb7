"""Shows a stored transcript as a tree of agents, responses, and tools with cost and time, or a thread's journal. SHELL.

Secrets are redacted, and transcripts are encrypted at rest (L9). A local transcript is decrypted with the key of its
data directory.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TextIO

from bot.compose.local import transcript
from bot.compose.receipts import journal
from bot.config.environment import redactor_for, settings
from bot.core.codepoints import with_visible_codepoints as readable
from bot.core.comment import mode_text, plan_text
from bot.core.errors import Misconfigured
from bot.core.events import decode_event
from bot.core.gate import Move
from bot.core.markdown.elements import shorten_line
from bot.core.moves import Outgrew, Planned
from bot.core.transcript import Json, Line, LineKind, decode, spoken_blocks, tool_calls
from bot.ports import Entry, Usage

SUFFIX = ".jsonl"

_WIDTH = 110
_TINTS = {"user": "36", "assistant": "32", "error": "31", "note": "33", "head": "1"}


@dataclass(slots=True)
class Tally:
    steps: int = 0
    calls: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    seconds: float = 0.0
    agents: list["Tally"] = field(default_factory=list)

    def book(self, body: Json) -> None:
        if "cost_usd" in body:
            self.unpriced += body["cost_usd"] is None
            self.cost_usd += body["cost_usd"] or 0.0

    def __str__(self) -> str:
        unknown = f", {self.unpriced} without a price" if self.unpriced else ""
        own = f"{self.steps} steps, ${self.cost_usd:.4f}{unknown}, {self.calls} tool calls, {self.seconds:.0f} s"
        if not self.agents:
            return own
        return f"{own}; {len(self.agents)} sub-agents of it, ${sum(agent.cost_usd for agent in self.agents):.4f}"


Load = Callable[[str], Iterable[Line]]
"""Returns the transcript of a sub-agent's session; nothing if it is missing."""


def show(path: Path, out: TextIO) -> int:
    """Print a transcript with those of its sub-agents, or a verified journal.

    Raises Misconfigured or Refused if it is neither. For a modified journal, the error names the first modified line.
    """
    tint = _color if out.isatty() else _plain
    try:
        entries = journal(path, settings())
        tree = list(_entries(*entries) if entries else render_tree(_clean(path), Tally(), partial(_beside, path)))
    except (KeyError, TypeError, AttributeError) as error:
        what = f"this is not a transcript: a part is missing ({error})"
        raise Misconfigured(what, where=str(path), fix="name a transcript or a journal") from error
    for kind, text in tree:
        print(tint(kind, readable(text)), file=out)
    return 0


def _entries(entries: Sequence[Entry], checked: str) -> Iterator[tuple[str, str]]:
    """Yield (kind, text) for each entry of a journal. Entries after a request are shown under it."""
    clean = redactor_for().redact_json
    for entry in entries:
        body = clean(entry.body)
        summary = shorten_line(json.dumps(body, ensure_ascii=False), _WIDTH)
        is_request = entry.kind == Move.REQUESTED
        mark = "" if is_request else "├ "
        yield (
            "head" if is_request else "user",
            f"{entry.at:%Y-%m-%d %H:%M:%S} {entry.n:>4} {mark}{entry.kind} {summary}",
        )
        event = decode_event(entry.kind, body) if "plan" in body else None
        if isinstance(event, Planned | Outgrew):
            plan = replace(event.plan, estimate=body.get("estimate", ""))
            yield from (("note", f"         │ {line}") for line in plan_text(plan).split("\n"))
    yield "head", f"{len(entries)} entries: {checked}"


def render_tree(lines: Iterable[Line], tally: Tally, load: Load) -> Iterator[tuple[str, str]]:
    """Yield (kind, text) for each line of the tree. A sub-agent's lines follow its start; the totals come last."""
    began = None
    for line in lines:
        began = began or line.at
        tally.seconds = (line.at - began).total_seconds()
        at = f"{line.at:%H:%M:%S}"
        match line.kind:
            case LineKind.OPENED:
                body = line.body
                heading = f"{body['agent_type']} on {body['model']}, {mode_text(body['mode'])}"
                yield "head", f"{at} session {body['session']}: {heading}"
            case LineKind.COMPACTED:
                sizes = f"{line.body['before']:,} tokens before, {line.body['after']:,} after"
                yield "note", f"{at} ├ compacted ({line.body['by']}): {sizes}"
            case LineKind.NOTE if line.body["note"] == "subagent":
                body = line.body
                yield "head", f"{at} ├ {body['agent']} ({body['type']}): {shorten_line(body['description'], _WIDTH)}"
                yield from _agent(body["session"], tally, load)
            case LineKind.NOTE if line.body["note"] == "asked":
                yield "note", f"{at} ├ an answer sends sub-agents; it is counted once they have reported"
            case LineKind.NOTE:
                tally.book(line.body)
                facts = {key: value for key, value in line.body.items() if key not in {"note", "message"}}
                yield (
                    "note",
                    f"{at} ├ {line.body['note']} {shorten_line(json.dumps(facts, ensure_ascii=False), _WIDTH)}",
                )
            case LineKind.MESSAGE:
                if line.body["message"]["role"] == "assistant":
                    yield "head", f"{at} ├ {_add_usage(line.body, tally)}"
                yield from _blocks(line.body["message"])
    yield "head", str(tally)


def _agent(session: str, tally: Tally, load: Load) -> Iterator[tuple[str, str]]:
    """Yield a sub-agent's own tree, indented; nothing if its transcript is missing."""
    lines = list(load(session))
    if not lines:
        return
    tally.agents.append(Tally())
    for kind, text in render_tree(lines, tally.agents[-1], load):
        yield kind, f"         ┊ {text}"


def _add_usage(body: Json, tally: Tally) -> str:
    """Add a response to the totals, and return a line about what it used."""
    price, used = body.get("cost_usd"), Usage(**body.get("usage", {}))
    tally.steps += 1
    tally.calls += len(tool_calls(body["message"]))
    tally.book(body)
    cost = "unknown cost" if price is None else f"${price:.4f}"
    return f"step {tally.steps}: {used.context:,} tokens, {cost}"


def _blocks(message: Json) -> Iterator[tuple[str, str]]:
    for block in spoken_blocks(message):
        match block.get("type"):
            case "text":
                yield message["role"], f"         │ {shorten_line(block['text'], _WIDTH)}"
            case "tool_use":
                arguments = shorten_line(json.dumps(block["input"], ensure_ascii=False), _WIDTH)
                yield "assistant", f"         │ → {block['name']} {arguments}"
            case "tool_result":
                failed = bool(block.get("is_error"))
                yield (
                    "error" if failed else "user",
                    f"         │ {'✗' if failed else '←'} {shorten_line(_text(block['content']), _WIDTH)}",
                )
            case other:
                yield "note", f"         │ ({other})"


def _clean(path: Path) -> Iterator[Line]:
    clean = redactor_for().redact_json
    return (Line(line.kind, line.at, clean(line.body)) for line in _lines(path))


def _beside(path: Path, session: str) -> Iterable[Line]:
    """Return the lines of a session's transcript in the folder of `path`; none if it is missing."""
    if Path(session).name != session:
        return ()
    file = path.with_name(session + path.suffix) if path.suffix == SUFFIX else path.with_name(session)
    return _clean(file) if file.is_file() and file != path else ()


def _lines(path: Path) -> Iterator[Line]:
    """Yield the lines of a transcript file, in plain text or encrypted as in the data directory."""
    try:
        with path.open("rb") as file:
            plain = file.read(1) in {b"", b"{"}
        if not plain:
            yield from transcript(path, settings())
            return
        with path.open(encoding="utf-8") as text:
            for number, line in enumerate(text, start=1):
                if line.strip():
                    yield decode(line, number)
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror if isinstance(error, OSError) else "") or "not text"
        fix = "name the file that a run prints at its end"
        raise Misconfigured(f"this transcript cannot be read: {why}", where=str(path), fix=fix) from error


def _text(content: object) -> str:
    if isinstance(content, list):
        return " ".join(str(block.get("text", f"({block.get('type')})")) for block in content)
    return str(content)


def _color(kind: str, text: str) -> str:
    return f"\x1b[{_TINTS.get(kind, '0')}m{text}\x1b[0m"


def _plain(_: str, text: str) -> str:
    return text
