"""Builds HTML safely, and renders Markdown as GitHub does."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from typing import Any, Final, TypeAlias

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

from bot.core.turn import mention_pattern


class Html(str):
    """Text that is already HTML. Only `element`, `join`, and the Markdown renderer create it."""

    __slots__ = ()


Child: TypeAlias = "str | Html | int | Iterable[Child] | None"
Attribute: TypeAlias = "str | int | bool | None"

VOID: Final = frozenset({"br", "input", "link", "meta"})
DOCTYPE: Final = Html("<!doctype html>\n")


def element(tag: str, *children: Child, **attributes: Attribute) -> Html:
    """Return an element.

    `class_` becomes class and `aria_label` becomes aria-label. True writes a bare attribute; None and False write none.
    """
    opened = f"<{tag}{''.join(_attribute(name, value) for name, value in attributes.items())}>"
    return Html(opened if tag in VOID else f"{opened}{join(children)}</{tag}>")


def join(children: Child) -> Html:
    match children:
        case None:
            return Html("")
        case Html():
            return children
        case str() | int():
            return Html(escape(str(children)))
        case _:
            return Html("".join(map(join, children)))


def _attribute(name: str, value: Attribute) -> str:
    written = name.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    return f" {written}" if value is True else f' {written}="{escape(str(value))}"'


# The only HTML that passes is `<details>`, `<summary>`, and `<br>` without attributes, and only where it cannot close
# the surrounding elements. Comments are hidden. All other HTML is shown as text. No image is fetched.

BOX: Final = re.compile(r"\[([ xX])\][ \t]+")
REL: Final = "nofollow noopener noreferrer"
HTML_COMMENT: Final = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
FOLDING: Final = re.compile(r"(</?(?:details|summary)>|<details open>)", re.IGNORECASE)
# https://docs.github.com/en/get-started/writing-on-github/working-with-advanced-formatting/autolinked-references-and-urls
REFERENCE: Final = re.compile(
    rf"(?P<url>https?://[^\s<>\"'`]*[^\s<>\"'`.,:;!?)\]])|(?P<login>{mention_pattern().pattern})"
    r"|(?<![\w/&])#(?P<number>\d{1,9})\b"
)


@dataclass(frozen=True, slots=True)
class Boxes:
    """The id of the form that a text's checkboxes submit, or None if this person may not tick them.

    A checkbox sends its line number, which `toggle_box` takes.
    """

    form: str | None


def render_markdown(text: str, repository: str, boxes: Boxes) -> Html:
    """Return a body as HTML. `repository` is "owner/name", used for references such as #12."""
    opened: list[str] = []
    html = _markdown().render(text, {"repository": repository, "boxes": boxes, "open": opened})
    return Html(html + "".join(f"</{tag}>" for tag in reversed(opened)))


def toggle_box(text: str, line: int) -> str:
    """Return the text with the checkbox in that line (from 0) toggled. Raises LookupError if the line has none."""
    lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", text)
    match = BOX.search(lines[line]) if 0 <= line < len(lines) else None
    if not match:
        raise LookupError(f"there is no box in line {line}")
    sign = "x" if match[1] == " " else " "
    lines[line] = lines[line][: match.start(1)] + sign + lines[line][match.end(1) :]
    return "".join(lines)


def shown_title(text: str) -> Html:
    parts = re.split(r"`([^`]+)`", text)
    return join([element("code", part) if at % 2 else part for at, part in enumerate(parts)])


@cache
def _markdown() -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"html": True, "breaks": True}).enable(["table", "strikethrough"])
    markdown.core.ruler.push("task_list", _task_list)
    markdown.core.ruler.push("references", _references)
    markdown.core.ruler.push("alignment", _alignment)
    for name, rule in (("html_block", _html_block), ("html_inline", _html_inline), ("image", _image), ("box", _box)):
        markdown.add_render_rule(name, rule)
    return markdown


def _task_list(state: StateCore) -> None:
    for item, paragraph, inline in zip(state.tokens, state.tokens[1:], state.tokens[2:], strict=False):
        match = BOX.match(inline.content)
        if (item.type, paragraph.type) != ("list_item_open", "paragraph_open") or not match:
            continue
        children = inline.children or []
        if not children or children[0].type != "text" or not children[0].content.startswith(match[0].rstrip()):
            continue
        item.attrJoin("class", "task")
        children[0].content = children[0].content[3:].lstrip()
        inline.children = [_box_token(match, inline), *children]


def _box_token(match: re.Match[str], inline: Token) -> Token:
    label = "".join(inline.content[match.end() :].splitlines()[:1])
    line = inline.map[0] if inline.map else 0
    return Token("box", "", 0, meta={"ticked": match[1] != " ", "label": label, "line": line})


def _references(state: StateCore) -> None:
    for inline in state.tokens:
        if inline.type == "inline" and inline.children:
            inline.children = list(_link_references(inline.children, state.env["repository"]))


def _link_references(tokens: Sequence[Token], repository: str) -> Iterator[Token]:
    depth = 0
    for token in tokens:
        depth += {"link_open": 1, "link_close": -1}.get(token.type, 0)
        if token.type == "link_open":
            token.attrSet("rel", REL)
        if token.type != "text" or depth:
            yield token
        else:
            yield from _split_blocks(token.content, repository)


def _split_blocks(text: str, repository: str) -> Iterator[Token]:
    end = 0
    for match in REFERENCE.finditer(text):
        yield Token("text", "", 0, content=text[end : match.start()])
        if match["login"]:
            yield Token("strong_open", "strong", 1, attrs={"class": "mention"})
            yield Token("text", "", 0, content=match[0])
            yield Token("strong_close", "strong", -1)
        else:
            address = match["url"] or f"/{repository}/issues/{match['number']}"
            yield Token("link_open", "a", 1, attrs={"href": address, "rel": REL})
            yield Token("text", "", 0, content=match[0])
            yield Token("link_close", "a", -1)
        end = match.end()
    yield Token("text", "", 0, content=text[end:])


def _alignment(state: StateCore) -> None:
    """Align columns by class, because the page's content security policy forbids inline styles."""
    for token in state.tokens:
        style = token.attrs.pop("style", None)
        if isinstance(style, str):
            token.attrSet("class", style.replace("text-align:", "align-"))


def _html_block(_: Any, tokens: Sequence[Token], index: int, __: Any, env: dict[str, Any]) -> str:
    text = HTML_COMMENT.sub("", tokens[index].content)
    if tokens[index].level:
        return join(text)
    pieces = [_fold(piece, env["open"]) for piece in FOLDING.split(text)]
    if "summary" in env["open"]:
        env["open"].remove("summary")
        pieces.append("</summary>")
    return "".join(pieces)


def _fold(piece: str, opened: list[str]) -> str:
    """Return one piece of a block as HTML: a tag if it keeps the text balanced, otherwise escaped text or nothing."""
    tag = piece.strip("</>").removesuffix(" open").lower()
    if not FOLDING.fullmatch(piece):
        return join(piece)
    if not piece.startswith("</"):
        opened.append(tag)
        return piece
    if opened and opened[-1] == tag:
        opened.pop()
        return piece
    return ""


def _html_inline(_: Any, tokens: Sequence[Token], index: int, __: Any, ___: Any) -> str:
    text = tokens[index].content
    if text.startswith("<!--"):
        return ""
    return "<br>" if re.fullmatch(r"<br ?/?>", text, re.IGNORECASE) else join(text)


def _image(_: Any, tokens: Sequence[Token], index: int, __: Any, ___: Any) -> str:
    token = tokens[index]
    return element("a", f"🖼 {token.content or 'picture'}", href=str(token.attrs["src"]), rel=REL)


def _box(_: Any, tokens: Sequence[Token], index: int, __: Any, env: dict[str, Any]) -> str:
    meta, boxes = tokens[index].meta, env["boxes"]
    return element(
        "button", "✓" if meta["ticked"] else "", type="submit", class_="box", role="checkbox",
        aria_checked="true" if meta["ticked"] else "false", aria_label=meta["label"], name="box", value=meta["line"],
        form=boxes.form, disabled=boxes.form is None,
    )  # fmt: skip
