"""What people see of HTML, diagrams, and formulas in Markdown."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from itertools import groupby
from typing import TYPE_CHECKING, Final

from bot.core.codepoints import is_blank
from bot.core.markdown.gfm import Steps

if TYPE_CHECKING:
    from markdown_it.token import Token

# --- Diagrams, formulas, and code that reaches out of sight ----------------------------------------------------------
# GitHub draws diagrams, maps, and formulas instead of showing their text. An allow-list decides what is drawn: a
# formula or diagram stays as it is if all of it is known to be visible. Anything that style, size, color, or position
# could hide is not drawn. The caller withholds it from the model or shows it as code.
#
# https://docs.github.com/en/get-started/writing-on-github/working-with-advanced-formatting/creating-diagrams
# https://docs.github.com/en/get-started/writing-on-github/working-with-advanced-formatting/writing-mathematical-expressions

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
"""Matches a formula, or a code span, which contains no formula."""
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


# --- HTML in Markdown as a person sees it ----------------------------------------------------------------------------
# One `Markup` reads one paragraph, cell, or block of HTML. Whatever it leaves open (a hiding element, a comment or
# attribute that never ends) also hides what follows; `Hiding` carries that on.

_HIDING: Final = frozenset(
    "script style template title textarea iframe noembed noframes noscript xmp svg math rp video bdo".split()
)
_BREAKING: Final = frozenset("br p div li tr h1 h2 h3 h4 h5 h6 summary details blockquote pre hr".split())
_SMALLER: Final = frozenset(("sub", "sup", "small"))
_SMALLEST: Final = 4
"""This many nested elements make text too small to read."""
_EMPTY: Final = frozenset("area base br col embed hr img input link meta source track wbr".split())
_INLINE_ELEMENTS: Final = frozenset(
    "span q cite dfn kbd mark abbr sub sup samp var ins del time label bdo bdi data".split()
)
"""Elements that end with their paragraph."""
_STRUCK: Final = frozenset(("del", "s", "strike"))
_UNSPOKEN: Final = _STRUCK | frozenset("blockquote q code kbd samp tt pre table h1 h2 h3 h4 h5 h6".split())
"""Elements whose words nobody says to the bot: quotes, code, tables, headings, and what was struck out."""
_GAP: Final = "…"
"""Stands in speech for words that address nobody, so that the words around them do not join to another sentence."""
_TEXTLESS_ATTRIBUTES: Final = frozenset(
    "align valign width height border colspan rowspan open start reversed type checked disabled hidden dir lang".split()
)
"""Attributes that carry no text."""
_UNSEEN: Final = re.compile(
    r"(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|opacity\s*:\s*0*\.?0*(?![\d.])"
    r"|(?:font-size|(?:max-)?(?:width|height))\s*:\s*[01]?(?:px|pt|em|rem|%)?\s*(?:;|$|!)"
    r"|color\s*:\s*(?:white|transparent|#fff)|(?:text-indent|left|top)\s*:\s*-|clip|scale)",
    re.IGNORECASE,
)
_KEPT_LINK: Final = re.compile(r"(?:https?|mailto):|[^:]*\Z|[/?#.]", re.IGNORECASE)
"""Links that GitHub keeps. For other links it shows only the words."""
_COMMENT_END: Final = "-->"
_MARKS: Final = frozenset("<!-")
"""The signs that form a comment, unless one of them is written as an escape or entity."""


@dataclass(frozen=True, slots=True)
class Hiding:
    """What hides the following text: the open elements, and the sign that must come first ("" for none)."""

    elements: tuple[str, ...] = ()
    until: str = ""
    unspoken: tuple[str, ...] = ()
    """The open elements whose words are visible, but address nobody."""

    def __bool__(self) -> bool:
        return bool(self.elements or self.until)


class Markup(HTMLParser):
    """Inline text and HTML as people see them. Removes and collects comments, attributes, and hidden elements."""

    def __init__(self, hiding: Hiding, steps: Steps) -> None:
        super().__init__(convert_charrefs=True)
        self._steps = steps
        steps.scan(len(hiding.elements))
        self.shown = self.spoken = ""
        self.removed: list[str] = []
        self.cut = False
        self._comments_end = True
        self._hiding = list(hiding.elements)
        self._until = hiding.until
        self._unspoken, self._outer = list(hiding.unspoken), len(hiding.unspoken)
        self._links: list[tuple[str, int]] = []
        self._small = 0

    def block(self, source: str) -> Hiding:
        """Read a block of HTML and return what it hides of the following text."""
        source = self._resume(source)
        whole = _end_of_closed(source)
        self.feed(source[:whole])
        if whole < len(source):
            self.removed.append(source[whole:])
            self._until = _COMMENT_END
        elif quote := _open_quote(self.rawdata):
            self.removed.append(self.rawdata)
            self._until = quote
        else:
            self.close()
        self._end_links()
        return Hiding(tuple(self._hiding), self._until, tuple(self._unspoken))

    def inline(self, children: Sequence["Token"]) -> Hiding:
        """Read the parts of one paragraph, heading, or cell, and return what it hides of the following text."""
        self._comments_end = _COMMENT_END in "".join(child.content for child in children)
        for kind, run in groupby(children, _kind):
            if kind == "text":
                self._add_text("".join(child.content for child in run))
            else:
                for child in run:
                    self._part(child)
        self.close()
        self._end_links()
        opened = [tag for tag in self._unspoken[self._outer :] if tag not in _INLINE_ELEMENTS]
        hiding = tuple(tag for tag in self._hiding if tag not in _INLINE_ELEMENTS)
        return Hiding(hiding, self._until, (*self._unspoken[: self._outer], *opened))

    def _resume(self, source: str) -> str:
        """Return what follows the awaited sign; "" if it does not come."""
        if not self._until:
            return source
        hidden, sign, tail = source.partition(self._until)
        self.removed.append(hidden)
        if not sign:
            return ""
        tail = tail if self._until == _COMMENT_END else tail.partition(">")[2]
        self._until = ""
        return tail

    def _part(self, child: "Token") -> None:
        """Take in one part of the text: words, or a tag."""
        match child.type:
            case "text_special":
                self._add_text(child.content, child.content)
            case "code_inline":
                self._add_text(f"`{child.content}`", _speech_of_code_span(child.content))
            case "softbreak" | "hardbreak":
                self._add_text("\n")
            case "html_inline":
                self.spoken += _GAP if self.spoken.endswith("@") else ""  # GitHub sees no mention across tags
                self.feed(self._resume(child.content))
            case "s_open":
                self._open_unspoken("s")
            case "s_close":
                self._close_unspoken("s")
            case "image":
                self._picture(child)
            case "link_open":
                self._links.append((str(child.attrGet("href") or ""), len(self.shown)))
                self.removed.append(str(child.attrGet("title") or ""))
            case "link_close":
                self._end_link()
            case _:
                pass

    def _picture(self, child: "Token") -> None:
        """Show that there is a picture. Its words and source are not visible."""
        source, title = str(child.attrGet("src") or ""), str(child.attrGet("title") or "")
        self.removed.append(f"![{child.content}]({' '.join(filter(None, (source, title)))})")
        self._add_text("(picture)", _GAP)

    def _end_link(self) -> None:
        """Show where a link leads, unless the link itself is invisible or GitHub lets it lead nowhere."""
        target, since = self._links.pop()
        words = self.shown[since:]
        if not target or words.endswith(target):
            return
        if is_blank(words) or not _KEPT_LINK.match(target):
            self.removed.append(target)
        else:
            self._add_text(f" ({target})", "")

    def _end_links(self) -> None:
        while self._links:
            self._end_link()

    def _add_text(self, text: str, spoken: str | None = None) -> None:
        """Add visible text, unless an element or an unparsed comment hides it."""
        if self._hiding or self._until:
            self.removed.append(text)
        elif spoken is None:
            self._add_uncommented(text)
        elif self.cut:
            self.removed.append(text)
        else:
            self._say(text, spoken)

    def _say(self, shown: str, spoken: str) -> None:
        """Add a visible text, and what of it is said to the bot: nothing of a link, quote, or code."""
        if "blockquote" in self._unspoken:
            begins_line = shown.strip() and self.shown.rstrip(" \t")[-1:] in {"", "\n"}
            shown = ("> " if begins_line else "") + re.sub(r"\n(?=.)", "\n> ", shown)
        self.shown += shown
        if not (self._links or self._unspoken):
            self.spoken += spoken
        elif spoken.strip() and not self.spoken.endswith(_GAP):
            self.spoken += _GAP

    def _open_unspoken(self, tag: str) -> None:
        """Begin an element whose words address nobody. What is struck out is shown between tildes."""
        if tag in _STRUCK:
            self._add_text("~~", "")
        self._unspoken.append(tag)

    def _close_unspoken(self, tag: str) -> None:
        """End the innermost element of that name whose words address nobody."""
        if tag in self._unspoken:
            del self._unspoken[len(self._unspoken) - 1 - self._unspoken[::-1].index(tag) :]
            if tag in _STRUCK:
                self._add_text("~~", "")

    def _add_uncommented(self, text: str) -> None:
        """Add the parts of a text that are outside comments. A comment without an end is text, as in CommonMark.

        CommonMark's versions differ in which comments with an end are text, so all of those count as hidden.
        https://spec.commonmark.org/0.30/#html-comment
        """
        while text:
            sign = _COMMENT_END if self.cut else "<!--"
            head, delimiter, text = text.partition(sign) if self._comments_end else (text, "", "")
            if self.cut:
                self.removed.append(head + delimiter)
            else:
                self._say(head, head)
            self.cut = self.cut != bool(delimiter)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Handle the start of an element: what it hides, what it shows, and what its attributes hold."""
        values = {name: value or "" for name, value in attrs}
        if set(values) - _TEXTLESS_ATTRIBUTES - ({"href"} if tag == "a" else set()):
            self.removed.append(self.get_starttag_text() or "")
        if tag in _EMPTY:
            self._add_text(*{"br": ("\n", "\n"), "img": ("(picture)", _GAP)}.get(tag, ("", "")))
        elif tag in _HIDING or "hidden" in values or _UNSEEN.search(values.get("style", "")) or self._hiding:
            self._hiding.append(tag)
        elif tag in _SMALLER:
            self._small += 1
            self._hiding += [tag] if self._small >= _SMALLEST else []
        elif tag == "a":
            self._links.append((values.get("href", ""), len(self.shown)))
        elif tag in _BREAKING:
            self._add_text("\n")
        if tag in _UNSPOKEN and not self._hiding:
            self._open_unspoken(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Handle an element that closes itself. GitHub reads `<b/>` as `<b>`, as HTML does."""
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        self._steps.scan(len(self._hiding) + len(self._unspoken))
        self._close_unspoken(tag)
        if tag in self._hiding:
            del self._hiding[len(self._hiding) - 1 - self._hiding[::-1].index(tag) :]
            self._small -= tag in _SMALLER and not self._hiding
        elif tag == "a" and self._links:
            self._end_link()
        elif tag in _SMALLER:
            self._small = max(0, self._small - 1)
        elif tag in _BREAKING and not self.shown.endswith("\n"):
            self._add_text("\n")

    def set_cdata_mode(self, elem: str, **_: object) -> None:
        """Do nothing, so that parsing goes on as usual. The content of a style or script is hidden with its element."""

    def parse_starttag(self, i: int) -> int:
        """Read the start of an element.

        If it has no end, the scanned characters count as steps, as in the next three methods.
        """
        return self._count_steps(i, super().parse_starttag(i))

    def parse_endtag(self, i: int) -> int:
        return self._count_steps(i, super().parse_endtag(i))

    def parse_html_declaration(self, i: int) -> int:
        """Read a declaration or comment. Browsers treat a section as a comment that ends with the first ``>``."""
        is_section = self.rawdata.startswith("<![", i)
        return self._count_steps(i, self.parse_bogus_comment(i) if is_section else super().parse_html_declaration(i))

    def parse_pi(self, i: int) -> int:
        return self._count_steps(i, super().parse_pi(i))

    def _count_steps(self, start: int, end: int) -> int:
        if end < 0:
            self._steps.scan(len(self.rawdata) - start)
        return end

    def handle_data(self, data: str) -> None:
        """Handle text. Comment signs in it are written as entities, so they are visible."""
        self._add_text(data, data)

    def handle_comment(self, data: str) -> None:
        self.removed.append(f"<!--{data}-->")

    def handle_decl(self, decl: str) -> None:
        self.removed.append(f"<!{decl}>")

    def handle_pi(self, data: str) -> None:
        self.removed.append(f"<?{data}>")


def _kind(child: "Token") -> str:
    """Return the type of a part. An escape or entity that cannot form a comment is ordinary text."""
    return "text" if child.type == "text_special" and child.content not in _MARKS else child.type


def _end_of_closed(source: str) -> int:
    """Return where the first unclosed comment begins; the length of the text if every comment ends."""
    last_end = source.rfind(_COMMENT_END)
    start = source.find("<!--", max(0, last_end - len(_COMMENT_END)))
    return start if start >= 0 else len(source)


def _open_quote(rest: str) -> str:
    """Return the quote that an attribute at the end of an HTML block still waits for; "" for none."""
    if not re.match(r"</?[A-Za-z]", rest):
        return ""
    quote = ""
    for sign in rest:
        if sign == quote:
            quote = ""
        elif not quote and sign in "\"'":
            quote = sign
    return quote


def _speech_of_code_span(code: str) -> str:
    """Return a code span as speech. A digest in it counts; a mention or command in it does not."""
    return f"`{code.replace('@', '＠')}`" if "@" in code or code.lstrip().startswith("/") else code
