"""The visible part of a Markdown text (X1), and the part of it that addresses the bot.

Rules
- The text is parsed as GitHub parses it. Nothing is searched for in the source.
- Every removed fragment, invisible to people, is returned along with the text.
- The part that addresses the bot is narrower than the visible part: no code, quotes, headings, links, or HTML.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from bot.core.codepoints import with_visible_codepoints, without_invisible_runs
from bot.core.markdown import gfm
from bot.core.markdown.elements import fenced_block
from bot.core.markdown.gfm import ADDRESS, Steps, TooComplex, references
from bot.core.markdown.markup import Hiding, Markup, diagram, formulas, in_sight, language_of
from bot.core.secrets.known import alphanumerics, lowercase_in_place
from bot.core.turn import mention_pattern, text_to_bot

if TYPE_CHECKING:
    from markdown_it.token import Token

LIMIT: Final = 65_536
"""Characters of a text that are read: GitHub's length limit of a comment."""


@dataclass(frozen=True, slots=True)
class Visible:
    """The visible text, and the fragments that were removed because nobody sees them."""

    text: str
    removed: tuple[str, ...] = ()


def visible_text(text: str) -> Visible:
    """Return a Markdown text as people see it, as plain Markdown without HTML.

    A single invisible code point is shown as ‹U+XXXX›; a run of them is removed. Both are reported in `removed`.
    """
    page = _read(text)
    shown, unseen = without_invisible_runs(page.text())
    return Visible(
        shown, (*(with_visible_codepoints(fragment) for fragment in page.removed if fragment.strip()), *unseen)
    )


def visible_title(text: str) -> Visible:
    """Return a title as people see it, on one line.

    A title is not Markdown, so only code points can be hidden in it.
    """
    shown, unseen = without_invisible_runs(text)
    return Visible(" ".join(shown.split()), unseen)


def mentions(text: str, mention: str) -> bool:
    """Return whether a Markdown text addresses `mention`, in visible prose or by a command line ``/name COMMAND``."""
    if not may_name(text, mention):
        return False
    speech = ADDRESS.sub("", "\n".join(_read(text).speech))
    return bool(mention_pattern(mention).search(speech)) or any(
        text_to_bot(line, mention) for line in command_lines(text)
    )


def may_name(text: str, mention: str) -> bool:
    """Return whether a text can address `mention`, judging by its letters alone.

    Parsing a stranger's text may take seconds.
    """
    return alphanumerics(lowercase_in_place(mention)) in alphanumerics(lowercase_in_place(text[:LIMIT]))


def command_lines(text: str) -> tuple[str, ...]:
    """Return the lines of a Markdown text that may be commands.

    Those of its top-level paragraphs, and the line that begins an item of a top-level list.
    """
    return tuple(
        line.strip()
        for part in _read(text).commands
        for line in with_visible_codepoints(part).splitlines()
        if line.strip()
    )


def without_mention(text: str, mention: str) -> str:
    """Return a visible text without mentions of the bot and the space around them."""
    name = mention_pattern(mention).pattern
    pattern = re.compile(rf"(?<![^\S\n])[^\S\n]*+(?<!`){name}[,:，：、]?[^\S\n]*", re.IGNORECASE)
    return re.sub(r"^[^\S\n]+", "", pattern.sub(" ", text), flags=re.MULTILINE).strip()


# --- reading ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def _read(text: str) -> "_Page":
    """Return a text as read. One that is too complex addresses nobody, and all of it is reported as hidden."""
    text = newlines(text)[:LIMIT]
    page = _Page(Steps(len(text)))
    try:
        page.read(text)
    except TooComplex:
        notice = f"({len(text):,} characters that are too complex to be read as Markdown)"
        return _Page(page.steps, lines=[notice], removed=[text])
    return page


def newlines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


@dataclass(eq=False, slots=True)
class _Page:
    """The state of reading a text, block by block."""

    steps: Steps
    lines: list[str] = field(default_factory=list)
    speech: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    containers: list[str] = field(default_factory=list)
    row: list[str] | None = None
    mark: str = ""
    heading: bool = False
    hiding: Hiding = Hiding()
    outer: list[Hiding] = field(default_factory=list)
    """What was open where each container began. Elements opened in a container end with it."""
    refers: set[str] = field(default_factory=set)
    notes: list[tuple[str, list[str]]] = field(default_factory=list)
    """Footnotes with their lines."""
    around: list[tuple[str, list[str]]] = field(default_factory=list)
    """The label of each footnote being read, and the lines of the text around it."""

    def text(self) -> str:
        return re.sub(r"\n{3,}", "\n\n", "\n".join(self.lines)).strip()

    def read(self, text: str) -> None:
        """Read a text block by block, then the footnotes that it refers to. Raises TooComplex."""
        from bot.core.markdown.gfm import parse

        env: dict[str, Any] = {}
        for token in parse(text, env, escapes="apart"):
            self._block(token)
        self._append_footnotes()
        self.removed += env.get("beyond", [])
        definitions: dict[str, dict[str, str]] = env.get("references", {})
        self.removed += [f"[{label}]: {to['href']} {to['title']}".rstrip() for label, to in definitions.items()]

    def _append_footnotes(self) -> None:
        """Append the footnotes that are referred to. The others are invisible, so they count as removed."""
        for label, lines in self.notes:
            text = f"[^{label}]: " + "\n".join(lines).strip()
            if label in self.refers:
                self.refers.remove(label)  # of two footnotes with one label, GitHub shows the first
                self.lines += [text, ""]
            else:
                self.removed.append(text)

    def _block(self, token: "Token") -> None:
        match token.type:
            case "inline":
                self._inline(token.children or [])
            case "fence" | "code_block":
                self._code(token)
            case "html_block":
                self._html(token.content)
            case "hr":
                self._emit("" if self.hiding else "---")
            case _:
                self._structure(token)

    def _html(self, source: str) -> None:
        html = Markup(self.hiding, self.steps)
        self.hiding = html.block(source)
        self.removed += html.removed
        self._emit(in_sight(html.shown).strip())

    def _structure(self, token: "Token") -> None:
        match token.type:
            case "blockquote_open":
                self.mark = self._first() + "> "
                self._enter("> ")
            case "list_item_open":
                mark = f"{token.info}{token.markup} " if token.info else "- "
                self.mark = self._first() + mark
                self._enter(" " * len(mark))
            case "blockquote_close" | "list_item_close":
                self._leave()
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
            case gfm.OPEN:
                self.around.append((token.info, self.lines))
                self.lines = []
            case gfm.CLOSE:
                label, around = self.around.pop()
                self.notes.append((label, self.lines))
                self.lines = around
            case _:
                pass

    def _enter(self, prefix: str) -> None:
        self.containers.append(prefix)
        self.outer.append(self.hiding)

    def _leave(self) -> None:
        self.containers.pop()
        self.mark = ""
        outer = self.outer.pop()
        elements, unspoken = self.hiding.elements[: len(outer.elements)], self.hiding.unspoken[: len(outer.unspoken)]
        self.hiding = replace(self.hiding, elements=elements, unspoken=unspoken)

    def _first(self) -> str:
        """Return the prefix of the first line of the next block."""
        return self.mark or "".join(self.containers)

    def _inline(self, children: Sequence["Token"]) -> None:
        """Add a line of text: to the row of a table, or else to the page and to what a person says on it."""
        html = Markup(self.hiding, self.steps)
        self.hiding = html.inline(children)
        drawn, undrawn = formulas(html.shown)
        self.removed += html.removed + undrawn
        self.refers |= references(children)
        if self.row is not None:
            self.row.append(drawn)
            return
        begins_item = bool(self.mark) and len(self.containers) == 1
        self._emit(drawn)
        if not (self.heading or self.around) and "> " not in self.containers:
            spoken, _ = formulas(html.spoken)
            self.speech.append(spoken)
            if not self.containers or begins_item:
                self.commands.append(spoken.partition("\n")[0] if begins_item else spoken)

    def _code(self, token: "Token") -> None:
        """Add a code block; a diagram as it is drawn."""
        language, rest = language_of(token.info)
        if rest:
            self.removed.append(rest)
        if self.hiding:
            self.removed.append(token.content)
            return
        drawn, undrawn = diagram(language, token.content)
        self.removed += undrawn
        self._emit(fenced_block(in_sight(drawn).rstrip("\n"), language))

    def _emit(self, text: str, *, blank: bool = True) -> None:
        """Add a block's lines with the prefixes of its containers."""
        if not text:
            return
        first, prefix, self.mark = self._first(), "".join(self.containers), ""
        head, *rest = text.split("\n")
        self.lines += [first + head, *(prefix + line for line in rest), *([""] if blank else [])]
