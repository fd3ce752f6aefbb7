"""Footnotes as GitHub reads them: blocks in the text that are shown, if at all, at its end.

A definition that nothing refers to is not shown, so it can hide text (X1).

https://docs.github.com/en/get-started/writing-on-github/getting-started-with-writing-and-formatting-on-github/basic-writing-and-formatting-syntax#footnotes
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.token import Token

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
