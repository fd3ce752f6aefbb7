"""Shows a stored transcript as a tree with cost and time, from a file of JSON lines. SHELL.

Secrets are not shown (L9).

Transcripts are encrypted at rest; a spool file of this machine is opened with the key of its data directory.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

from bot.compose.local import transcript
from bot.config import redactor, settings
from bot.core.codepoints import shown as readable
from bot.core.errors import Misconfigured
from bot.core.transcript import Json, Line, LineKind, decode

_WIDTH = 110
_TINTS = {"user": "36", "assistant": "32", "error": "31", "note": "33", "head": "1"}


def show(path: Path, out: TextIO) -> int:
    """Print a transcript; raises Misconfigured or Refused when the file is none."""
    tint = _tinted if out.isatty() else _plain
    try:
        clean = redactor().deep
        tree = list(rendered(Line(line.kind, line.at, clean(line.body)) for line in _lines(path)))
    except (KeyError, TypeError, AttributeError) as error:
        raise Misconfigured("this is no transcript", where=str(path), mend=f"a part is missing: {error}") from error
    for kind, text in tree:
        print(tint(kind, readable(text)), file=out)
    return 0


def rendered(lines: Iterable[Line]) -> Iterator[tuple[str, str]]:
    """Yield (kind, text) for each line of the tree, ending with the sum."""
    step, cost, unpriced = 0, 0.0, 0
    for line in lines:
        at = f"{line.at:%H:%M:%S}"
        match line.kind:
            case LineKind.OPENED:
                body = line.body
                yield (
                    "head",
                    f"{at} session {body['session']}: {body['agent_type']} on {body['model']}, mode {body['mode']}",
                )
            case LineKind.COMPACTED:
                sizes = f"{line.body['before']:,} tokens before, {line.body['after']:,} after"
                yield "note", f"{at} ├ compacted ({line.body['by']}): {sizes}"
            case LineKind.NOTE:
                facts = {key: value for key, value in line.body.items() if key != "note"}
                yield "note", f"{at} ├ {line.body['note']} {json.dumps(facts, ensure_ascii=False)}"
            case LineKind.MESSAGE:
                message = line.body["message"]
                if message["role"] == "assistant":
                    step += 1
                    price = line.body.get("cost_usd")
                    unpriced += price is None
                    cost += price or 0.0
                    used = line.body.get("usage", {})
                    spent = "unknown cost" if price is None else f"${price:.4f}"
                    yield "head", f"{at} ├ step {step}: {sum(used.values()):,} tokens, {spent}"
                yield from _blocks(message)
    unknown = f", {unpriced} without a price" if unpriced else ""
    yield "head", f"{step} steps, ${cost:.4f}{unknown}"


def _blocks(message: Json) -> Iterator[tuple[str, str]]:
    """Yield one line for each block of a message."""
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    for block in blocks:
        match block.get("type"):
            case "text":
                yield message["role"], f"         │ {_short(block['text'])}"
            case "tool_use":
                yield (
                    "assistant",
                    f"         │ → {block['name']} {_short(json.dumps(block['input'], ensure_ascii=False))}",
                )
            case "tool_result":
                failed = bool(block.get("is_error"))
                yield (
                    "error" if failed else "user",
                    f"         │ {'✗' if failed else '←'} {_short(_text(block['content']))}",
                )
            case other:
                yield "note", f"         │ ({other})"


def _lines(path: Path) -> Iterator[Line]:
    """Read a file of transcript lines, plain or as it lies in the data directory."""
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
        raise Misconfigured("this transcript cannot be read", where=str(path), mend=str(error)) from error


def _text(content: object) -> str:
    if isinstance(content, list):
        return " ".join(str(block.get("text", f"({block.get('type')})")) for block in content)
    return str(content)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"


def _tinted(kind: str, text: str) -> str:
    return f"\x1b[{_TINTS.get(kind, '0')}m{text}\x1b[0m"


def _plain(_: str, text: str) -> str:
    return text
