"""Parse Markdown as GitHub does, in bounded time (https://github.github.com/gfm/).

markdown-it-py takes time that grows with the square of some hostile texts, where GitHub's own parser does not. So each
step of a parse is counted: a text that takes more steps than a multiple of its length is not read at all.
"""

from functools import lru_cache
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.parser_inline import ParserInline
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline, html_inline
from markdown_it.token import Token
from markdown_it.utils import EnvType

from bot.core.markdown.footnotes import with_footnotes
from bot.core.markdown.steps import Steps, TooComplex

_STEPS_OF_A_PARAGRAPH: Final = 4
"""Of a heading or a table's cell as well."""
_DEPTH: Final = 100
"""Containers, and brackets, within each other."""
_ANY_BLOCK: Final[RuleOptionsType] = {"alt": ["paragraph", "reference", "blockquote", "list"]}


def parse(text: str, env: dict[str, Any] | None = None, *, escapes: str = "joined") -> list[Token]:
    """Return the tokens of a text; raise TooComplex where reading it would take too long.

    With `escapes="apart"`, what is written as an escape or an entity stays a token of type `text_special`.
    """
    known = {} if env is None else env
    known["steps"] = Steps(len(text))
    return _parser(escapes).parse(text, known)


@lru_cache(maxsize=2)
def _parser(escapes: str) -> "_Parser":
    made = _Parser()
    if escapes == "apart":
        made.disable("text_join")
    return made


class _Parser(MarkdownIt):
    """CommonMark with GitHub's tables, strikethrough and footnotes; every destination of a link is one, as there."""

    def __init__(self) -> None:
        super().__init__("commonmark", {"html": True, "maxNesting": 1_000_000})
        self.inline = _Inline()
        self.configure("commonmark", options_update=self.options)
        self.enable(["table", "strikethrough"])
        with_footnotes(self)
        self.block.ruler.before("table", "steps", _count_block, _ANY_BLOCK)
        self.inline.ruler.before("text", "steps", _count_inline)
        self.inline.ruler.at("html_inline", _html_inline)

    def validateLink(self, url: str) -> bool:  # noqa: ARG002, N802 - markdown-it's name
        """Take every destination: GitHub shows a link's words whatever it refuses to lead to."""
        return True

    def normalizeLink(self, url: str) -> str:  # noqa: N802 - markdown-it's name
        """Leave a destination as it is written."""
        return url

    def normalizeLinkText(self, link: str) -> str:  # noqa: N802 - markdown-it's name
        """Leave an address as it is written."""
        return link


class _Inline(ParserInline):
    """Counts what looks ahead for the end of a link's words, and each paragraph."""

    def skipToken(self, state: StateInline) -> None:  # noqa: N802 - markdown-it's name
        state.env["steps"].take()
        super().skipToken(state)

    def parse(self, src: str, md: MarkdownIt, env: EnvType, tokens: list[Token]) -> list[Token]:
        env["steps"].take(_STEPS_OF_A_PARAGRAPH)
        return super().parse(src, md, env, tokens)


def _count_block(state: StateBlock, _start: int, _end: int, _silent: bool) -> bool:
    return _count(state)


def _count_inline(state: StateInline, _silent: bool) -> bool:
    return _count(state)


def _count(state: StateBlock | StateInline) -> bool:
    """Count one step; the other rules go on."""
    if state.level > _DEPTH:
        raise TooComplex
    state.env["steps"].take()
    return False


def _html_inline(state: StateInline, silent: bool) -> bool:
    """Read a tag or comment; count what was looked at for one that has no end."""
    start = state.pos
    found = html_inline(state, silent)
    if not found and state.src[start] == "<" and _goes_far(state.src, start):
        state.env["steps"].scan(state.posMax - start)
    return found


def _goes_far(text: str, start: int) -> bool:
    """Return whether a tag that begins there may be looked for beyond the next one."""
    if text[start + 1 : start + 2] in {"!", "?"}:
        return True
    ends = [at for sign in "<>" if (at := text.find(sign, start + 1)) >= 0]
    inner = text[start : min(ends, default=len(text))]
    return '"' in inner or "'" in inner
