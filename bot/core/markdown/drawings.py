"""What GitHub draws instead of showing its text: diagrams, maps, formulas; what is not drawn of them is kept aside.

https://docs.github.com/en/get-started/writing-on-github/working-with-advanced-formatting/creating-diagrams
https://docs.github.com/en/get-started/writing-on-github/working-with-advanced-formatting/writing-mathematical-expressions
"""

import re
from collections.abc import Callable
from typing import Final

_PICTURED: Final = frozenset(("geojson", "topojson", "stl"))
_ASIDE: Final = re.compile(
    r"\A\s*---\n(?s:.*?)\n---$|%%.*$|^[^\S\n]*(?:click|href|link|acc(?:Descr|Title))\b(?:\s*\{[^}]*\}?|.*$)",
    re.MULTILINE,
)
"""Of a diagram: settings at its head, comments, what a click leads to, what is read aloud alone."""
_UNSEEN: Final = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|opacity\s*:\s*0*\.?0*(?![\d.])|font-size\s*:\s*[01](?:px|pt|em|rem|%)?\b"
    r"|color\s*:\s*(?:white|transparent|#fff)",
    re.IGNORECASE,
)
_FORMULA: Final = re.compile(
    r"\$\$.+?\$\$|\$`[^`]+`\$|(?P<code>(?<!`)(?P<mark>`+)(?!`).+?(?<!`)(?P=mark)(?!`))"
    r"|(?<![\w$\\])\$(?![\s$])[^$\n]*(?:\n[^$\n]+)*(?<![\s\\])\$(?![\w$])",
    re.DOTALL,
)
"""A formula, or a code span, in which there is none."""
_UNDRAWN: Final = re.compile(
    r"(?<!\\)%|\\(?:[hv]?phantom|label|href|class|cssId|style|bbox|(?:re)?newcommand|[gx]?def|let|require|unicode"
    r"|mathchoice|Tiny|tiny|scriptscriptstyle|smash|(?:math)?[rlc]lap|m?kern|mskip|hskip|hspace|raise|lower|move\w+)"
    r"(?![A-Za-z])|\\(?:text|f?box)?color(?:box)?\s*\{?\s*(?:white|transparent|#f{3})",
    re.IGNORECASE,
)


def diagram(language: str, content: str) -> tuple[str, list[str]]:
    """Give a block of code without what is not drawn where GitHub draws it, and what that is."""
    if language in _PICTURED or (language == "mermaid" and _UNSEEN.search(content)):
        return "(picture)", [content]
    if language == "math":
        return ("(formula)", [content]) if _UNDRAWN.search(content) else (content, [])
    if language != "mermaid":
        return content, []
    return _ASIDE.sub("", content), [found.group() for found in _ASIDE.finditer(content)]


def formulas(text: str, instead: Callable[[str], str] = lambda _: "(formula)") -> tuple[str, list[str]]:
    """Give a text with something instead of each formula that holds what is not drawn, and these."""
    aside: list[str] = []

    def drawn(found: re.Match[str]) -> str:
        if found["code"] or not _UNDRAWN.search(found.group()):
            return found.group()
        aside.append(found.group())
        return instead(found.group())

    return (_FORMULA.sub(drawn, text) if "$" in text else text), aside
