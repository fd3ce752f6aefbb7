"""Make the model's Markdown inert where it is posted (X2), then check the result.

The source changes as little as possible. The result is parsed as GitHub parses it, and shown as code if anything active
is left.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from html import unescape
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from bot.core.codepoints import with_invisible_entities_decoded, with_visible_codepoints
from bot.core.markdown.elements import fenced_block
from bot.core.markdown.gfm import TooComplex
from bot.core.markdown.markup import diagram, formulas, in_sight, language_of
from bot.core.markdown.visible import newlines
from bot.core.plan import disarm_text
from bot.core.turn import mention_pattern

if TYPE_CHECKING:
    from markdown_it.token import Token

POSTED_CHARACTERS: Final = 58_000
POSTED_BYTES: Final = 232_000
TITLE_CHARACTERS: Final = 256
"""GitHub's length limit of a title, in characters."""

_CUT: Final = "\n\n(The rest was cut: the text is too long for one comment.)\n"
_ANSI: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_BACKTICKS: Final = re.compile("`+")
_LINK: Final = re.compile(
    r"!?\[([^\[\]\n]{0,300})\]\(\s{0,9}(?:<([^<>\n]{1,2000})>|((?:[^\s()<>]|\([^\s()<>]{0,200}\)){1,2000}))"
    r"(?:\s{1,9}(?:[^()\s][^()\n]{0,300})?)?\)"
)
_DEFINITION: Final = re.compile(r"^ {0,3}\[([^\]\n]{1,300})\]:[^\n]*$", re.MULTILINE)
_URL: Final = re.compile(r"<?\b(?:(?:https?|ftp)://|www\.)[^\s<>`)\]]+>?", re.IGNORECASE)
# https://docs.github.com/en/get-started/writing-on-github/working-with-advanced-formatting/using-keywords-in-issues-and-pull-requests
_CLOSING: Final = re.compile(
    r"\b((?:close[sd]?|fix(?:e[sd])?|resolve[sd]?)[*_~]{0,9}(?::[*_~]{0,9}\s*|\s+)[*_~\[]{0,9})"
    r"((?:[\w.-]+/[\w.-]+)?(?:\\?#|&#0*35;|&num;)\d+|GH-\d+|https?://\S{1,300}/(?:issues|pull)/\d+)",
    re.IGNORECASE,
)
_PERSON: Final = mention_pattern()
# https://docs.github.com/en/actions/how-tos/manage-workflow-runs/skip-workflow-runs
_SKIPPING: Final = re.compile(r"\[\s*(skip ci|ci skip|no ci|skip actions|actions skip)\s*\]", re.IGNORECASE)
# git-interpret-trailers(1): signatures and similar lines that a line of a message can be mistaken for.
_TRAILER: Final = re.compile(r"^(?=(?:[A-Za-z-]+-by|skip-checks|plangate-plan)\s*:)", re.IGNORECASE | re.MULTILINE)
_FENCE: Final = re.compile("```|~~~")
_INDENTED: Final = re.compile(" {4}|\t")
_WORD: Final = re.compile(r"[^\W_]+")
_TAG: Final = re.compile(r"<(?=[A-Za-z/!?])")
# https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
_COMMAND: Final = re.compile(r"^([^\S\n]*)(?=::|##\[)", re.MULTILINE)
_ESCAPED: Final = r"\1\\"


def inert_markdown(text: str, allowed_hosts: Collection[str] = ()) -> str:
    """Return a text that is inert where it is posted. A text that is already inert stays as it is.

    The result has no mention, no closing keyword, no link or picture from a host that is not allowed, no HTML, and
    nothing that a terminal or a workflow's log obeys. Boxes become ☐. It has at most 58,000 characters and 232,000
    bytes. A text that stays active, or is too complex to parse as Markdown, becomes a code block.
    """
    plain = with_visible_codepoints(_ANSI.sub("", disarm_text(_ANSI.sub("", newlines(text)))))
    calm = _Neutralizer(frozenset(host.lower() for host in allowed_hosts))
    try:
        inert = _close_code_block(_cap_length(calm.text(plain)))
        if calm.holds(inert):
            return inert
    except TooComplex:
        pass
    return _cap_length(_as_code(plain))


def cut(text: str, characters: int) -> str:
    """Return as much of an inert text as fits, with a note that the rest was cut. The result is inert as well.

    A cut may separate a code span or block from its end and activate its content, so the rest is made inert again.
    """
    if len(text) <= characters:
        return text
    room = max(0, characters - len(_CUT))
    beginning = _at_line(text[:room])
    while len(inert := inert_markdown(beginning)) > room:
        beginning = _at_line(beginning[: len(beginning) - (len(inert) - room)])
    return inert + _CUT


def _at_line(text: str) -> str:
    """Return a text up to the end of its last whole line; a single line as it is."""
    return text.rpartition("\n")[0] or text


def inert_line(text: str) -> str:
    """Return a text as an inert title: one line without active closing keywords or marks that skip checks."""
    return _without_keywords(" ".join(with_visible_codepoints(_ANSI.sub("", text)).split()))[:TITLE_CHARACTERS]


def inert_message(text: str) -> str:
    """Return a text as an inert commit message: like `inert_line`, and without mentions or trailers."""
    calm = _outside_spans(
        _without_keywords(with_visible_codepoints(_ANSI.sub("", newlines(text)))),
        lambda part: _PERSON.sub(_code_span, part),
    )
    return _TRAILER.sub("  ", calm)


def _without_keywords(text: str) -> str:
    """Return plain text without active closing keywords or marks that skip checks."""
    calm = _outside_spans(text, lambda part: _CLOSING.sub(lambda match: match[1] + _code(match[2]), part))
    return _SKIPPING.sub(r"(\1)", calm)


@dataclass(frozen=True, slots=True)
class _Neutralizer:
    """Makes prose inert, and checks that it is."""

    hosts: frozenset[str]

    def text(self, text: str) -> str:
        """Return a text without active parts: mentions, commands, pictures from elsewhere. Code stays as it is."""
        return _COMMAND.sub(_ESCAPED, _outside_code(text, self._prose))

    def holds(self, text: str) -> bool:
        """Return whether the text, as GitHub reads it, has nothing active and no invisible word (PR5)."""
        tokens = _parse(text)
        parts = [part for token in tokens for part in (token, *(token.children or []))]
        return all(map(self._harmless, parts)) and not _words(unescape(text)) - _words(" ".join(map(_shows, parts)))

    def _harmless(self, token: "Token") -> bool:
        match token.type:
            case "html_block" | "html_inline":
                return False
            case "link_open" | "image":
                target = str(token.attrGet("href") or token.attrGet("src") or "")
                return self._is_allowed_link(target) and _is_in_sight(str(token.attrGet("title") or ""))
            case "text":
                return _PERSON.search(token.content) is None and _is_in_sight(token.content)
            case "inline":
                return _CLOSING.search(_shown_text(token)) is None
            case _:
                return True

    def _prose(self, text: str) -> str:
        text = _DEFINITION.sub(lambda match: _code(match.group().strip()), text)
        text, _ = formulas(text, _code)
        return _outside_spans(text, self._words)

    def _words(self, text: str) -> str:
        text = with_visible_codepoints(with_invisible_entities_decoded(text))
        text = _LINK.sub(self._link, text)
        text = _outside_spans(text, lambda part: _CLOSING.sub(lambda match: match[1] + _code(match[2]), part))
        text = _outside_spans(text, lambda part: _URL.sub(self._address, part))
        text = _outside_spans(text, lambda part: _PERSON.sub(_code_span, part))
        return _outside_spans(text, lambda part: _TAG.sub("&lt;", part))

    def _link(self, match: re.Match[str]) -> str:
        words, target = match.group(1) or "picture", match.group(2) or match.group(3)
        return match.group() if self._is_allowed_link(target) else f"{words} ({_code(target)})"

    def _address(self, match: re.Match[str]) -> str:
        address = match.group().strip("<>")
        return address if self._is_allowed_link(address) else _code(address)

    def _is_allowed_link(self, target: str) -> bool:
        """Return whether a link may stay: within the page, or http(s) to an allowed host."""
        try:
            parts = urlsplit(target)
            return target.startswith("#") or (parts.scheme in {"http", "https"} and parts.netloc.lower() in self.hosts)
        except ValueError:
            return False


def _is_in_sight(text: str) -> bool:
    """Return whether a text, with its entities decoded, has no invisible code points."""
    return with_visible_codepoints(text) == text


def _parse(text: str) -> list["Token"]:
    from bot.core.markdown.gfm import parse

    return parse(text)


def may_have_code_block(text: str) -> bool:
    """Return whether a text has to be parsed for code blocks: it has a fence, or as much blank as indents one.

    https://spec.commonmark.org/0.31.2/#indented-code-blocks
    """
    return _FENCE.search(text) is not None or _INDENTED.search(text) is not None


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    """Apply `change` to a text outside its code blocks."""
    if not may_have_code_block(text):
        return change(text)
    lines, parts, at = text.split("\n"), list[str](), 0
    for token in _parse(text):
        if token.type in {"fence", "code_block"} and token.map:
            start, end = token.map
            parts += [*([change("\n".join(lines[at:start]))] if start > at else []), *_block(token, lines[start:end])]
            at = end
    return "\n".join([*parts, *([change("\n".join(lines[at:]))] if at < len(lines) else [])])


def _block(token: "Token", lines: list[str]) -> list[str]:
    """Return a code block's lines all in sight: nothing after its language, no drawing that may hide text."""
    if token.type == "code_block":
        return in_sight("\n".join(lines)).split("\n")
    language, rest = language_of(token.info)
    _, undrawn = diagram(language, token.content)
    mark = lines[0].index(token.markup) + len(token.markup)
    head = lines[0][:mark] + ("text" if undrawn else language) if rest or undrawn else lines[0]
    return [head, *in_sight("\n".join(lines[1:])).split("\n")]


def _words(text: str) -> Counter[str]:
    return Counter(_WORD.findall(text.casefold()))


def _shows(part: "Token") -> str:
    """Return what people see of a part of a text, and where it links to."""
    match part.type:
        case "inline" | "image":
            return ""
        case "link_open":
            return str(part.attrGet("href") or "")
        case _:
            return f"{part.info} {part.content}"


def _outside_spans(text: str, change: Callable[[str], str]) -> str:
    """Apply `change` to a text outside its code spans."""
    parts, at = list[str](), 0
    for start, end in _spans(text):
        parts += (change(text[at:start]), text[start:end])
        at = end
    return "".join((*parts, change(text[at:])))


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the code spans of a text, each from a run of backticks to the next one of equal length."""
    runs = [match.span() for match in _BACKTICKS.finditer(text)]
    closers, later = dict[int, int](), dict[int, int]()
    for start, end in reversed(runs):
        closers[start] = later.get(end - start, 0)
        later[end - start] = end
    at = 0
    for start, _ in runs:
        if start >= at and closers[start]:
            at = closers[start]
            yield start, at


def _code(text: str) -> str:
    return f"`{text.replace('`', chr(0x27))}`"


def _code_span(match: re.Match[str]) -> str:
    return _code(match.group())


def _shown_text(token: "Token") -> str:
    shows = {"code_inline": "`", "softbreak": "\n", "hardbreak": "\n"}
    return "".join(shows.get(part.type, part.content) for part in token.children or [])


def _as_code(text: str) -> str:
    """Return a text as a code block that nothing in it can close."""
    return fenced_block(in_sight(_COMMAND.sub(_ESCAPED, text[: POSTED_CHARACTERS - 500])), "text") + "\n"


def _cap_length(text: str) -> str:
    """Cut a text that is too long to post at the end of a line, closing an open code block."""
    if len(text) <= POSTED_CHARACTERS and len(text.encode()) <= POSTED_BYTES:
        return text
    room = POSTED_CHARACTERS - len(_CUT) - 100
    cut = text[:room].encode()[: POSTED_BYTES - 400].decode(errors="ignore").rpartition("\n")[0] or text[:room]
    return _close_code_block(cut) + _CUT


def _close_code_block(text: str) -> str:
    """Close a code block that is still open at the end of a text, so that it does not swallow what follows."""
    if _FENCE.search(text) is None:
        return text
    last = next((token for token in reversed(_parse(text)) if token.level == 0), None)
    if last is None or last.type != "fence" or last.map is None:
        return text
    start, end = last.map
    closing = text.split("\n")[end - 1].strip()
    is_closed = end - start > 1 and set(closing) == {last.markup[0]} and len(closing) >= len(last.markup)
    return text if is_closed else f"{text}\n{last.markup}"
