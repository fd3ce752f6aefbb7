"""Parses Markdown as GitHub does, in bounded time (https://github.github.com/gfm/)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.common.utils import unescapeAll
from markdown_it.helpers import parseLinkDestination, parseLinkLabel, parseLinkTitle
from markdown_it.parser_inline import ParserInline
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock, lheading, paragraph, reference, table
from markdown_it.rules_block.table import escapedSplit
from markdown_it.rules_inline import StateInline, html_inline
from markdown_it.token import Token
from markdown_it.utils import EnvType

# --- Limit the steps that a parse may take ---------------------------------------------------------------------------
# Steps are counted, not timed, so that every machine takes the same steps for the same text.

_STEPS_OF_A_CHARACTER: Final = 4
_STEPS_OF_A_TEXT: Final = 4_000
_CHARACTERS_OF_A_STEP: Final = 100
"""Characters that a pattern scans in the time of one step."""


class TooComplex(Exception):
    """A text takes more steps to read than its length justifies. The functions of this package handle it."""


class Steps:
    """The steps that the parse of a text may still take."""

    def __init__(self, characters: int) -> None:
        self.left = _STEPS_OF_A_TEXT + _STEPS_OF_A_CHARACTER * characters

    def spend(self, steps: int = 1) -> None:
        """Count steps. Raises TooComplex if there are too many."""
        self.left -= steps
        if self.left < 0:
            raise TooComplex

    def scan(self, characters: int) -> None:
        """Count the characters that a pattern scanned without a match."""
        self.spend(characters // _CHARACTERS_OF_A_STEP)


# --- Footnotes as GitHub reads them ----------------------------------------------------------------------------------
# A footnote is a block in the text that is shown, if at all, at the end. A definition that nothing refers to is not
# shown, so it can hide text (X1).
#
# https://docs.github.com/en/get-started/writing-on-github/getting-started-with-writing-and-formatting-on-github/basic-writing-and-formatting-syntax#footnotes

OPEN: Final = "footnote_open"
CLOSE: Final = "footnote_close"

_DEFINITION: Final = re.compile(r"\[\^([^\s\[\]]{1,200})\]:[ \t]*")
_REFERENCE: Final = re.compile(r"\[\^([^\s\[\]]{1,200})\]")
ADDRESS: Final = re.compile(r"(?:https?://|ftp://|www\.)\S+", re.IGNORECASE)
"""A bare address, which GitHub makes a link."""
_INDENT: Final = 4
"""Columns by which the further blocks of a footnote are indented."""


def with_footnotes(parser: "MarkdownIt") -> "MarkdownIt":
    """Return the parser, set up to read footnote definitions as blocks. The opening token's info is the label."""
    parser.block.ruler.before(
        "reference", "footnote", _definition, {"alt": ["paragraph", "reference", "blockquote", "list"]}
    )
    return parser


def references(children: "Sequence[Token]") -> set[str]:
    """Return the labels of the footnotes that a paragraph refers to. Addresses contain no references."""
    text, in_address = "", False
    for child in children:
        if child.type == "link_open":
            in_address = child.info == "auto"
        elif child.type == "link_close":
            in_address = False
        text += child.content if child.type == "text" and not in_address else " "
    return {label.casefold() for label in _REFERENCE.findall(ADDRESS.sub(" ", text))}


def _definition(state: "StateBlock", start: int, end: int, silent: bool) -> bool:
    """Read one definition and the blocks in it, following the parser's rule protocol."""
    if state.is_code_block(start):
        return False
    begin = state.bMarks[start] + state.tShift[start]
    match = _DEFINITION.match(state.src, begin, state.eMarks[start])
    if match is None or silent:
        return match is not None
    opened = state.push(OPEN, "", 1)
    opened.info = match.group(1).casefold()
    _content(state, start, end, at=match.end())
    state.push(CLOSE, "", -1)
    return True


def _content(state: "StateBlock", start: int, end: int, *, at: int) -> None:
    """Read the blocks of a footnote. The first one begins after its label."""
    saved = state.bMarks[start], state.tShift[start], state.sCount[start], state.parentType
    state.blkIndent += _INDENT
    state.bMarks[start], state.tShift[start], state.sCount[start] = at, 0, state.blkIndent
    state.parentType = "footnote"
    state.md.block.tokenize(state, start, end)
    state.bMarks[start], state.tShift[start], state.sCount[start], state.parentType = saved
    state.blkIndent -= _INDENT


# --- The parser ------------------------------------------------------------------------------------------------------
# https://github.github.com/gfm/
# On some hostile texts, markdown-it-py takes time quadratic in their length, unlike GitHub's own parser. Every step of
# a parse is counted, and a text that needs more steps than a multiple of its length is not read at all.

_STEPS_OF_A_PARAGRAPH: Final = 4
"""Steps that one paragraph, heading, or table cell costs."""
_DEPTH: Final = 100
"""The nesting limit of containers and of brackets."""
_ENDING: Final = re.compile(r"\\[!-/:-@\[-`{-~]|[()\x00-\x20\x7f]")
_ONE_COLUMN: Final = re.compile(r"(?=.*[|:])\|?\s*:?-+:?\s*\|?")
_DASHES: Final = re.compile("-+")
_PARENTHESES: Final = 32
_ANY_BLOCK: Final[RuleOptionsType] = {"alt": ["paragraph", "reference", "blockquote", "list"]}


def parse(text: str, env: dict[str, Any] | None = None, *, escapes: str = "joined") -> list[Token]:
    """Return the tokens of a text. Raises TooComplex if reading it would take too long.

    With `escapes="apart"`, an escape or entity stays a separate token of type `text_special`.
    """
    environment = {} if env is None else env
    environment["steps"] = Steps(len(text))
    return _parser(escapes).parse(text, environment)


@lru_cache(maxsize=2)
def _parser(escapes: str) -> "_MarkdownParser":
    parser = _MarkdownParser()
    if escapes == "apart":
        parser.disable("text_join")
    return parser


class _MarkdownParser(MarkdownIt):
    """CommonMark with GitHub's tables, strikethrough, and footnotes. As on GitHub, any link destination is accepted."""

    def __init__(self) -> None:
        super().__init__("commonmark", {"html": True, "maxNesting": 1_000_000})
        self.inline = _Inline()
        self.helpers = _HELPERS  # type: ignore[assignment]  # stands in for a module of functions
        self.configure("commonmark", options_update=self.options)
        self.enable("strikethrough")
        with_footnotes(self)
        self.block.ruler.before("lheading", "gfm_table", _table, {"alt": ["paragraph", "reference"]})
        self.block.ruler.at("reference", _references)
        self.block.ruler.before("table", "steps", _count, _ANY_BLOCK)
        self.inline.ruler.before("text", "steps", _count)
        self.inline.ruler.at("html_inline", _html_inline)

    def validateLink(self, url: str) -> bool:  # noqa: ARG002, N802 - markdown-it's name
        """Return True: GitHub shows a link's words even if it refuses the destination."""
        return True

    def normalizeLink(self, url: str) -> str:  # noqa: N802 - markdown-it's name
        return url

    def normalizeLinkText(self, link: str) -> str:  # noqa: N802 - markdown-it's name
        return link


@dataclass(slots=True)
class _Destination:
    """A link destination and its end position in the text. `ok` is false if there is none."""

    ok: bool = False
    pos: int = 0
    str: str = ""


def _destination(text: str, start: int, end: int) -> _Destination:
    """Return the destination of a link as GitHub reads it, even with more opening than closing parentheses."""
    if text.startswith("<", start):
        destination = parseLinkDestination(text, start, end)
        return _Destination(destination.ok, destination.pos, destination.str)
    depth = 0
    for match in _ENDING.finditer(text, start, end):
        sign = match.group()
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if depth > _PARENTHESES:
            return _Destination()
        if depth < 0 or sign.isspace() or not sign.isprintable():
            end = match.start()
            break
    return _Destination(ok=end > start, pos=end, str=unescapeAll(text[start:end]))


_HELPERS: Final = SimpleNamespace(
    parseLinkLabel=parseLinkLabel, parseLinkTitle=parseLinkTitle, parseLinkDestination=_destination
)
"""Functions that read the parts of a link."""


class _Inline(ParserInline):
    """Counts the look-ahead for the end of a link's words, and each paragraph."""

    def skipToken(self, state: StateInline) -> None:  # noqa: N802 - markdown-it's name
        state.env["steps"].spend()
        super().skipToken(state)

    def parse(self, src: str, md: MarkdownIt, env: EnvType, tokens: list[Token]) -> list[Token]:
        env["steps"].spend(_STEPS_OF_A_PARAGRAPH)
        return super().parse(src, md, env, tokens)


def _table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read a table. Cells beyond its head are invisible, so they go into the environment as `beyond`.

    To cmark-gfm, a table's head is the last line of a paragraph, and a line of dashes makes that paragraph a heading.
    """
    if start + 1 < end and _DASHES.fullmatch(_line(state, start + 1)):
        return False
    is_table = table(state, start, end, silent) or _narrow_table(state, start, end, silent)
    if is_table and not silent:
        width = len(_cells(state, start + 1))
        rows = (_cells(state, line) for line in range(start + 2, state.line))
        state.env.setdefault("beyond", []).extend(" | ".join(row[width:]) for row in rows if len(row) > width)
    return is_table


def _narrow_table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read a table with one column. cmark-gfm does not require a bar in its head."""
    head = _line(state, start)
    if start + 1 >= end or not head or "|" in head or not _ONE_COLUMN.fullmatch(_line(state, start + 1)):
        return False
    source, at = state.src, state.eMarks[start]
    state.src, state.eMarks[start] = f"{source[:at]}|{source[at + 1 :]}", at + 1  # a bar replaces the line's end
    is_table = table(state, start, end, silent)
    state.src, state.eMarks[start] = source, at
    return is_table


def _line(state: StateBlock, line: int) -> str:
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]].strip()


def _cells(state: StateBlock, line: int) -> list[str]:
    """Return the cells of a row. Bars at its ends separate nothing."""
    cells = escapedSplit(_line(state, line))
    return cells[not cells[0] : len(cells) - (not cells[-1])]


def _references(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read link reference definitions, and the rest of the paragraph that they begin.

    To cmark-gfm, definitions are the beginning of a paragraph until it ends. So a line that would continue a paragraph
    continues this one, whatever its indentation, even if it lacks the mark of the quote or list item around it.
    https://spec.commonmark.org/0.30/#lazy-continuation-line
    """
    if silent or _table(state, start, end, True) or not reference(state, start, end, silent):
        return False
    while _goes_on(state, state.line, end):
        _count(state)
        state.sCount[state.line] = state.blkIndent
        if not reference(state, state.line, end, False):
            return lheading(state, state.line, end, False) or paragraph(state, state.line, end, False)
    return True


def _goes_on(state: StateBlock, line: int, end: int) -> bool:
    """Return whether a line continues the paragraph before it."""
    if line >= state.lineMax or state.isEmpty(line):
        return False
    if state.sCount[line] < 0 or state.is_code_block(line):
        return True
    parent_type, state.parentType = state.parentType, "paragraph"
    ends = any(rule(state, line, end, True) for rule in state.md.block.ruler.getRules("paragraph"))
    state.parentType = parent_type
    return not ends


def _count(state: StateBlock | StateInline, *_: object) -> bool:
    """Count one step and return False, so that the other rules apply."""
    if state.level > _DEPTH:
        raise TooComplex
    state.env["steps"].spend()
    return False


def _html_inline(state: StateInline, silent: bool) -> bool:
    """Read a tag or comment. Counts what was scanned for one without an end."""
    start = state.pos
    is_html = html_inline(state, silent)
    if not is_html and state.src[start] == "<" and _goes_far(state.src, start):
        state.env["steps"].scan(state.posMax - start)
    return is_html


def _goes_far(text: str, start: int) -> bool:
    """Return whether the search for the end of a tag may go beyond the next tag."""
    if text[start + 1 : start + 2] in {"!", "?"}:
        return True
    ends = [at for sign in "<>" if (at := text.find(sign, start + 1)) >= 0]
    inner = text[start : min(ends, default=len(text))]
    return '"' in inner or "'" in inner
