"""What a person sees of a Markdown text (X1), and what of it speaks to the bot.

Rules
- The text is parsed as GitHub parses it; nothing is searched for in the source.
- What is removed is said: every fragment that a person would not see comes back beside the text.
- What speaks to the bot is narrower than what is seen: no code, quotes, headings, links or HTML (product.md, Turns).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Final

from bot.core.codepoints import shown

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

LIMIT: Final = 65_536
"""Characters of a text that are read; GitHub holds no longer comments."""

_HIDING: Final = frozenset("script style template title textarea iframe noembed noframes noscript xmp svg math".split())
_BREAKING: Final = frozenset("br p div li tr h1 h2 h3 h4 h5 h6 summary details blockquote pre hr".split())
_EMPTY: Final = frozenset("area base br col embed hr img input link meta source track wbr".split())
_UNCLOSED: Final = re.compile(r"<!--(?:(?!-->).)*\Z", re.DOTALL)
_UNSEEN_ATTRIBUTES: Final = ("alt", "title", "aria-label", "data-content")


@dataclass(frozen=True, slots=True)
class Visible:
    """What a person sees of a text, and the fragments that were removed because nobody sees them."""

    text: str
    removed: tuple[str, ...] = ()


def visible(text: str) -> Visible:
    """Give a Markdown text as people see it, as plain Markdown without HTML; invisible code points as ‹U+XXXX›."""
    page = _read(text)
    return Visible(shown(page.text()), tuple(shown(fragment) for fragment in page.removed if fragment.strip()))


def mentions(text: str, mention: str) -> bool:
    """Tell whether a Markdown text speaks to `mention`: in visible prose, or by a command line ``/name COMMAND``."""
    slash = re.compile(rf"\s*/{re.escape(mention.lstrip('@'))}\s+\S", re.IGNORECASE)
    return bool(_named(mention).search("\n".join(_read(text).speech))) or any(map(slash.match, command_lines(text)))


def command_lines(text: str) -> tuple[str, ...]:
    """List the lines of a Markdown text that may be commands: those of its top-level paragraphs."""
    return tuple(line.strip() for part in _read(text).commands for line in shown(part).splitlines() if line.strip())


def without_mention(text: str, mention: str) -> str:
    """Give a visible text without the mention of the bot and the space around it."""
    pattern = re.compile(rf"[^\S\n]*{_named(mention).pattern}[,:]?[^\S\n]*", re.IGNORECASE)
    return re.sub(r"^[^\S\n]+", "", pattern.sub(" ", text), flags=re.MULTILINE).strip()


def _named(mention: str) -> re.Pattern[str]:
    """Match a mention that stands by itself: no address, no team, no longer name."""
    return re.compile(rf"(?<![\w@/.`-]){re.escape(mention)}(?![\w/-])", re.IGNORECASE)


# --- reading -------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def parser() -> "MarkdownIt":
    """Give the parser: CommonMark with GitHub's tables and strikethrough (https://github.github.com/gfm/)."""
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": True, "maxNesting": 100}).enable(["table", "strikethrough"])


@lru_cache(maxsize=8)
def _read(text: str) -> "_Page":
    page, env = _Page(), dict[str, dict[str, dict[str, str]]]()
    page.take(parser().parse(newlines(text)[:LIMIT], env))
    page.removed += [
        f"[{label}]: {target['href']} {target['title']}".rstrip() for label, target in env.get("references", {}).items()
    ]
    return page


def newlines(text: str) -> str:
    """Give a text with LF newlines."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


@dataclass(eq=False, slots=True)
class _Page:
    """A text while it is read, block by block."""

    lines: list[str] = field(default_factory=list)
    speech: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    containers: list[str] = field(default_factory=list)
    row: list[str] | None = None
    mark: str = ""
    heading: bool = False

    def text(self) -> str:
        return re.sub(r"\n{3,}", "\n\n", "\n".join(self.lines)).strip()

    def take(self, tokens: Sequence["Token"]) -> None:
        for token in tokens:
            self._block(token)

    def _block(self, token: "Token") -> None:
        match token.type:
            case "inline":
                self._inline(token.children or [])
            case "fence" | "code_block":
                self._code(token)
            case "html_block":
                self._html(token.content)
            case "hr":
                self._emit("---")
            case _:
                self._structure(token)

    def _html(self, source: str) -> None:
        html, unclosed = _Html(), _UNCLOSED.search(source)
        html.feed(source[: unclosed.start()] if unclosed else source)
        html.close()
        self.removed += [*html.removed, *([unclosed.group()] if unclosed else [])]
        self._emit(html.shown.strip())

    def _structure(self, token: "Token") -> None:
        match token.type:
            case "blockquote_open":
                self.mark = self._first() + "> "
                self.containers.append("> ")
            case "list_item_open":
                mark = f"{token.info}{token.markup} " if token.info else "- "
                self.mark = self._first() + mark
                self.containers.append(" " * len(mark))
            case "blockquote_close" | "list_item_close":
                self.containers.pop()
                self.mark = ""
            case "heading_open":
                self.heading, self.mark = True, self._first() + "#" * int(token.tag[1]) + " "
            case "heading_close":
                self.heading = False
            case "tr_open":
                self.row = []
            case "tr_close":
                cells, self.row = self.row or [], None
                self._emit(" | ".join(cells), blank=False)
            case "table_close":
                self.lines.append("")
            case _:
                pass

    def _first(self) -> str:
        """Give what stands before the first line of the next block."""
        return self.mark or "".join(self.containers)

    def _inline(self, children: Sequence["Token"]) -> None:
        html = _Html()
        html.take(children)
        self.removed += html.removed
        if self.row is not None:
            self.row.append(html.shown)
            return
        self._emit(html.shown)
        if not self.heading and "> " not in self.containers:
            self.speech.append(html.spoken)
            if not self.containers:
                self.commands.append(html.spoken)

    def _code(self, token: "Token") -> None:
        language, _, rest = token.info.strip().partition(" ")
        if rest:
            self.removed.append(rest)
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", token.content)), default=0))
        self._emit(f"{fence}{language}\n{token.content.rstrip(chr(10))}\n{fence}")

    def _emit(self, text: str, *, blank: bool = True) -> None:
        """Add a block's lines behind the marks of what it stands in."""
        if not text:
            return
        first, prefix, self.mark = self._first(), "".join(self.containers), ""
        head, *rest = text.split("\n")
        self.lines += [first + head, *(prefix + line for line in rest), *([""] if blank else [])]


class _Html(HTMLParser):
    """Inline text and HTML as they are seen; comments, attributes and hidden elements are removed and kept aside."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.shown = self.spoken = ""
        self.removed: list[str] = []
        self.hiding: list[str] = []
        self.links: list[str] = []
        self.tags = 0
        self.cut = False

    def take(self, children: Sequence["Token"]) -> None:
        """Read the parts of one paragraph, heading or cell."""
        for child in children:
            self._part(child)
        self.close()

    def _part(self, child: "Token") -> None:
        match child.type:
            case "text" | "text_special":
                self._say(child.content)
            case "code_inline":
                self._say(f"`{child.content}`", _quoted(child.content))
            case "softbreak" | "hardbreak":
                self._say("\n")
            case "html_inline":
                self.feed(child.content)
            case "image":
                self.removed += [child.content, str(child.attrGet("title") or "")]
                self._say("(picture)", "")
            case "link_open":
                self.links.append(str(child.attrGet("href") or ""))
                self.removed.append(str(child.attrGet("title") or ""))
            case "link_close":
                target = self.links.pop()
                if target and not self.shown.endswith(target):
                    self._say(f" ({target})", "")
            case _:
                pass

    def _say(self, text: str, spoken: str | None = None) -> None:
        """Add text that is seen, unless an element hides it or an unclosed comment has begun."""
        head, comment, hidden = text.partition("<!--") if spoken is None else (text, "", "")
        if self.hiding or self.cut:
            self.removed.append(text)
            return
        self.shown += head
        self.spoken += "" if self.links else head if spoken is None else spoken
        if comment:
            self.cut = True
            self.removed.append(comment + hidden)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.removed += [value for name in _UNSEEN_ATTRIBUTES if (value := values.get(name))]
        if tag in _EMPTY:
            self._say({"br": "\n", "img": "(picture)"}.get(tag, ""), "\n" if tag == "br" else "")
        elif tag in _HIDING or "hidden" in values or self.hiding:
            self.hiding.append(tag)
        elif tag in _BREAKING:
            self._say("\n")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)  # GitHub reads `<b/>` as `<b>`, as HTML does

    def handle_endtag(self, tag: str) -> None:
        if tag in self.hiding:
            del self.hiding[len(self.hiding) - 1 - self.hiding[::-1].index(tag) :]
        elif tag in _BREAKING and not self.shown.endswith("\n"):
            self._say("\n")

    def handle_data(self, data: str) -> None:
        self._say(data)

    def handle_comment(self, data: str) -> None:
        self.removed.append(f"<!--{data}-->")

    def handle_decl(self, decl: str) -> None:
        self.removed.append(f"<!{decl}>")

    def unknown_decl(self, data: str) -> None:
        self.removed.append(f"<![{data}]>")

    def handle_pi(self, data: str) -> None:
        self.removed.append(f"<?{data}>")


def _quoted(code: str) -> str:
    """Give a code span as speech: a digest in it may be typed, a mention or command in it is none."""
    return f"`{code.replace('@', '＠')}`" if "@" in code or code.lstrip().startswith("/") else code
