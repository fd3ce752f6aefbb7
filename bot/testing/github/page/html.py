"""One job: build HTML that nothing in it can leave: whatever is not HTML already is escaped on its way in."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final, TypeAlias


class Html(str):
    """Text that is HTML already; only `element`, `join` and the Markdown renderer make it."""

    __slots__ = ()


Child: TypeAlias = "str | Html | int | Iterable[Child] | None"
Attribute: TypeAlias = "str | int | bool | None"

VOID: Final = frozenset({"br", "input", "link", "meta"})
DOCTYPE: Final = Html("<!doctype html>\n")


def element(tag: str, *children: Child, **attributes: Attribute) -> Html:
    """Give an element; `class_` is class, `aria_label` is aria-label, True a bare attribute, None and False none."""
    opened = f"<{tag}{''.join(_attribute(name, value) for name, value in attributes.items())}>"
    return Html(opened if tag in VOID else f"{opened}{join(children)}</{tag}>")


def join(children: Child) -> Html:
    """Put pieces after one another, escaping those that are plain text."""
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
