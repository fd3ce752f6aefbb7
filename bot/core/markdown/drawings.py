"""Diagrams, maps, and formulas that GitHub draws instead of showing their text; code that reaches out of sight.

An allow-list decides what is drawn: a formula or diagram stays as it is if all of it is known to be visible. Anything
that style, size, color, or position could hide is not drawn. The caller withholds it from the model or shows it as
code.

https://docs.github.com/en/get-started/writing-on-github/working-with-advanced-formatting/creating-diagrams
https://docs.github.com/en/get-started/writing-on-github/working-with-advanced-formatting/writing-mathematical-expressions
"""

import re
from collections.abc import Callable
from typing import Final

_LANGUAGE: Final = re.compile(r"(?:[A-Za-z][A-Za-z0-9+#.]{0,19}(?:-[A-Za-z0-9]{1,9})?)?")
"""A language: one word, or two as in `objective-c`."""
_PICTURED: Final = frozenset(("geojson", "topojson", "stl"))
_INVISIBLE_PARTS: Final = re.compile(
    r"\A\s*---\n(?s:.*?)\n---$|%%.*$|^[^\S\n]*(?:click|href|link|acc(?:Descr|Title))\b(?:\s*\{[^}]*\}?|.*$)",
    re.MULTILINE,
)
"""Invisible parts of a diagram: settings at its head, comments, click targets, and text for screen readers."""
_DRAWN: Final = re.compile(r"\s*(?:graph|flowchart|sequenceDiagram|classDiagram|stateDiagram|erDiagram|pie)\b")
"""Diagrams that show everything written in them."""
_STYLED: Final = re.compile(
    r"%%|@\{|(?:^|;)[^\S\n]*(?:style|classDef|linkStyle|cssClass|callback|links|properties|details|rect|box|Update\w+)\b",
    re.MULTILINE | re.IGNORECASE,
)
_HTML: Final = re.compile(r"<(?!br\s*/?>)[A-Za-z/!?]|[&#]\w+;", re.IGNORECASE)
_NODE: Final = re.compile(r"\b(\w+)(?:@?[\[({]+|>)([^\])}\n|]*)")
_NODES: Final = 100
"""A diagram with more nodes is drawn too small to read."""

_FORMULA: Final = re.compile(
    r"\$\$.+?\$\$|\$`[^`]+`\$|(?P<code>(?<!`)(?P<mark>`+)(?!`).+?(?<!`)(?P=mark)(?!`))"
    r"|(?<![\w$\\])\$(?![\s$])[^$\n]*(?:\n[^$\n]+)*(?<![\s\\])\$(?![\w$])",
    re.DOTALL,
)
"""A formula, or a code span, which contains none."""
_COMMAND: Final = re.compile(r"\\([A-Za-z]+|.|\Z)", re.DOTALL)
_KNOWN: Final = frozenset(
    # letters
    "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi pi varpi rho varrho "
    "sigma varsigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega "
    "ell hbar imath jmath Re Im aleph nabla partial infty emptyset varnothing forall exists nexists top bot "
    # operators and relations
    "pm mp times div cdot ast star circ bullet oplus ominus otimes oslash odot cap cup uplus sqcap sqcup vee wedge "
    "lor land neg lnot setminus le leq ge geq ne neq equiv sim simeq approx cong propto ll gg prec succ preceq succeq "
    "subset supset subseteq supseteq subsetneq supsetneq in ni notin mid nmid parallel perp vdash models to gets "
    "mapsto rightarrow leftarrow leftrightarrow Rightarrow Leftarrow Leftrightarrow longrightarrow longleftarrow "
    "longmapsto uparrow downarrow implies impliedby iff therefore because colon dots ldots cdots vdots ddots "
    "prime angle triangle "
    # large operators and functions
    "sum prod coprod int iint iiint oint bigcup bigcap bigvee bigwedge bigoplus bigotimes lim limsup liminf sup inf "
    "max min arg deg det dim exp gcd hom ker lg ln log Pr sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh "
    "bmod pmod mod operatorname limits nolimits "
    # structures and styles
    "frac dfrac tfrac binom sqrt overline underline overbrace underbrace overset underset stackrel hat widehat bar vec "
    "dot ddot tilde widetilde not left right middle big Big bigg Bigg bigl bigr Bigl Bigr langle rangle lfloor rfloor "
    "lceil rceil lvert rvert lVert rVert vert Vert lbrace rbrace begin end text textbf textit textrm texttt mathrm "
    "mathbf mathit mathsf mathtt mathbb mathcal mathfrak mathscr boldsymbol quad qquad displaystyle tag "
    # escaped signs and spaces
    ", : ; { } $ % # & _ | \\".split()
) | {" ", "\n"}
_SPACES: Final = re.compile(r"~|\\(?:[,:; \n]|qquad|quad)")
_ROW_END: Final = r"\\"
_ROW_SPACES: Final = 8
_ROW_CHARACTERS: Final = 200
_ROWS: Final = 20
_PLACED: Final = re.compile(r"(?<!\\)(?:\\\\)*%|\\\\\s*\*?\s*\[|\\\\(?:\s*\\\\){2}")
"""A comment, a row that is moved, or empty rows."""
_ENVIRONMENT: Final = re.compile(
    r"\\(?:begin|end)\s*(?:\{((?:[pbBvV]?(?:small)?matrix|d?cases|aligned|gathered|split)\*?)\})?"
)

_CODE_COLUMNS: Final = 160
_CODE_BLANKS: Final = 20
_CODE_INDENT: Final = 40
_TAB_COLUMNS: Final = 4
_GOES_ON: Final = "‹the line goes on› "
_BLANKS: Final = re.compile(r"(?<![^\S\n])[^\S\n]{3,}+(?=\S)")


def language_of(info: str) -> tuple[str, str]:
    """Return the language of a code block in lower case, and the invisible rest of its info string."""
    language, _, rest = info.strip().partition(" ")
    return (language.lower(), rest) if _LANGUAGE.fullmatch(language) else ("", info.strip())


def diagram(language: str, content: str) -> tuple[str, list[str]]:
    """Return a code block without the parts that GitHub does not draw, and those parts."""
    match language:
        case "math":
            return (content, []) if _all_drawn(content) else ("(formula)", [content])
        case "mermaid":
            plain = _INVISIBLE_PARTS.sub("", content)
            if not _all_shown(plain):
                return "(picture)", [content]
            return plain, [match.group() for match in _INVISIBLE_PARTS.finditer(content)]
        case _:
            return ("(picture)", [content]) if language in _PICTURED else (content, [])


def formulas(text: str, instead: Callable[[str], str] = lambda _: "(formula)") -> tuple[str, list[str]]:
    """Return a text with a replacement for each formula that may hide something, and those formulas."""
    aside: list[str] = []

    def draw(match: re.Match[str]) -> str:
        if match["code"] or _all_drawn(match.group().strip("$").strip("`")):
            return match.group()
        aside.append(match.group())
        return instead(match.group())

    return (_FORMULA.sub(draw, text) if "$" in text else text), aside


def in_sight(code: str) -> str:
    """Return code with nothing far to the right: long runs of blanks are marked and long lines are broken.

    A broken line continues after its own indentation. Applying this again changes nothing.
    """
    return "\n".join(part for line in code.split("\n") for part in _lines_in_sight(line))


def _lines_in_sight(line: str) -> list[str]:
    visible = _BLANKS.sub(_marked_blanks, line)
    start = visible[: len(visible) - len(visible.lstrip(" \t>"))][:_CODE_INDENT] + _GOES_ON
    offsets = range(_CODE_COLUMNS, len(visible.rstrip()), _CODE_COLUMNS - len(start))
    return [
        visible[:_CODE_COLUMNS] if offsets else visible,
        *(start + visible[at : at + offsets.step] for at in offsets),
    ]


def _marked_blanks(match: re.Match[str]) -> str:
    """Return as many blanks as people look past, and the number of the others."""
    blanks, room, width = match.group(), _CODE_BLANKS if match.start() else _CODE_INDENT, 0
    for at, sign in enumerate(blanks):
        width += _TAB_COLUMNS if sign == "\t" else 1
        if width > room:
            return f"{blanks[:at]}‹{len(blanks) - at} more blanks›"
    return blanks


def _all_drawn(formula: str) -> bool:
    """Return whether all of a formula is visible: only known commands, nothing far away."""
    rows = formula.split(_ROW_END)
    return (
        not _PLACED.search(formula)
        and all(match[1] in _KNOWN for match in _COMMAND.finditer(formula))
        and all(match[1] for match in _ENVIRONMENT.finditer(formula))
        and len(rows) <= _ROWS
        and all(len(row) <= _ROW_CHARACTERS and len(_SPACES.findall(row)) <= _ROW_SPACES for row in rows)
        and _is_balanced(formula)
    )


def _is_balanced(formula: str) -> bool:
    """Return whether the braces of a formula match. If they do not, GitHub draws an error instead of the formula."""
    depth = 0
    for match in re.finditer(r"\\.|[{}]", formula, re.DOTALL):
        depth += {"{": 1, "}": -1}.get(match.group(), 0)
        if depth < 0:
            return False
    return depth == 0


def _all_shown(plain: str) -> bool:
    """Return whether all of a diagram is visible: a known kind, no style or HTML, no label that is overwritten."""
    labels: dict[str, str] = {}
    nodes = _NODE.findall(plain) if re.match(r"\s*(?:graph|flowchart)\b", plain) else []
    return (
        bool(_DRAWN.match(plain))
        and not _STYLED.search(plain)
        and not _HTML.search(plain)
        and in_sight(plain) == plain
        and len(nodes) <= _NODES
        and all(labels.setdefault(name, label) == label for name, label in nodes)
    )
