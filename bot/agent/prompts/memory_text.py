"""Reads one file of project memory: what of it the model gets, and which files it imports (K10).

The conventions are those of Claude Code (https://code.claude.com/docs/en/memory): `@path` imports a file, relative to
the file that names it; code spans and code blocks are left alone; HTML comments are notes that the maintainers leave
each other, and the model does not get them.
"""

import posixpath
import re
from collections.abc import Iterator
from typing import Final

from bot.agent.history.escaping import escape_harness_markup
from bot.core.codepoints import without_invisible_runs
from bot.core.markdown.steps import TooComplex

_PART: Final = re.compile(
    r"(?P<code>(?<!`)(?P<ticks>`{1,5})(?!`)(?:(?!\n[ \t]*\n).)+?(?<!`)(?P=ticks)(?!`))"
    r"|(?P<comment><!--)"
    r"|(?<!\S)@(?P<path>[A-Za-z0-9._][^\s`<>]*)",
    re.DOTALL,
)
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")
_PUNCTUATION: Final = ".,;:!?)]}'\""
"""Punctuation that may follow a path in a sentence."""
MOST_IMPORTS: Final = 50
"""Most imports of one file that are followed."""


def visible_memory(text: str) -> tuple[str, tuple[str, ...]]:
    """Return what the model gets of a memory file, and the imports in it, as written.

    HTML comments and runs of invisible code points are removed, and text that imitates the harness is escaped:
    a person who reviews the file sees all that steers the model.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    imports: list[str] = []
    uncommented = "".join(piece if is_code else _without_comments(piece, imports) for piece, is_code in _pieces(text))
    visible, _ = without_invisible_runs(uncommented)
    return escape_harness_markup(visible).strip(), tuple(dict.fromkeys(imports))[:MOST_IMPORTS]


def import_candidates(reference: str, importer: str) -> tuple[str, ...]:
    """Return the paths in the repository that an import may mean, the likeliest first; none if it leads out of it.

    The second candidate is the path without the punctuation of the sentence around it.
    """
    name, folder = reference.partition("#")[0], posixpath.dirname(importer)
    paths = (
        posixpath.normpath(posixpath.join(folder, spelling))
        for spelling in (name, name.rstrip(_PUNCTUATION))
        if spelling
    )
    return tuple(dict.fromkeys(path for path in paths if path.partition("/")[0] not in {"", ".", ".."}))


def _without_comments(text: str, imports: list[str]) -> str:
    """Return a text that is no code block without its HTML comments, and add its imports to `imports`."""
    parts, at = list[str](), 0
    while part := _PART.search(text, at):
        parts.append(text[at : part.start()])
        at = part.end()
        if part["comment"] is None:
            parts.append(part[0])
            imports += [part["path"]] if part["path"] else []
        elif (end := text.find("-->", at)) >= 0:
            at = end + len("-->")
        elif text[text.rfind("\n", 0, part.start()) + 1 : part.start()].strip():
            parts.append(part[0])  # within a line, a comment that never ends is text
        else:
            at = len(text)
    return "".join([*parts, text[at:]])


def _pieces(text: str) -> Iterator[tuple[str, bool]]:
    """Split a Markdown text into code blocks and the rest; yield each piece, and whether it is code."""
    lines, at = _LINE.findall(text), 0
    for start, end in _code_blocks(text):
        yield "".join(lines[at:start]), False
        yield "".join(lines[start:end]), True
        at = end
    yield "".join(lines[at:]), False


def _code_blocks(text: str) -> list[tuple[int, int]]:
    """Return the line ranges of the code blocks; none for a text that is too complex to be parsed."""
    from bot.core.markdown.gfm import parse

    try:
        tokens = parse(text)
    except TooComplex:
        return []
    return sorted(
        (token.map[0], token.map[1]) for token in tokens if token.type in {"fence", "code_block"} and token.map
    )
