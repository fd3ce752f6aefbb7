"""Builds HTML safely. Everything that is not already HTML is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final, TypeAlias


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
    """Concatenate pieces, and escape those that are plain text."""
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
