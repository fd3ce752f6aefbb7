"""The templates of the dashboard and their filters. Every text is escaped, and code points that a reader could not see
are shown as ‹U+XXXX› (X1).

Markdown by the model and by people is rendered without HTML and images, and with links to http and https only. Nothing
is left out: text that Markdown would not show appears as it is written (A8).
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from bot.core.codepoints import with_visible_codepoints
from bot.core.comment import mode_text
from bot.core.gate import Stage
from bot.core.markdown.elements import line_matcher
from bot.core.names import SHORT_DIGEST
from bot.service.overview.views import WaitsFor

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token

STAGES: Final[dict[Stage, tuple[str, str]]] = {
    Stage.LISTENING: ("Listening", "quiet"),
    Stage.PLANNING: ("Planning", "active"),
    Stage.PROPOSING: ("Posting the plan", "active"),
    Stage.AWAITING_APPROVAL: ("Awaiting approval", "attention"),
    Stage.ASKED: ("Question open", "attention"),
    Stage.EXECUTING: ("In progress", "active"),
    Stage.PUBLISHING: ("Publishing", "active"),
    Stage.IN_REVIEW: ("In review", "open"),
    Stage.ANSWERED: ("Answered", "done"),
    Stage.DONE: ("Done", "done"),
    Stage.REJECTED: ("Rejected", "closed"),
    Stage.STALE: ("Stale", "quiet"),
    Stage.EXPIRED: ("Expired", "quiet"),
    Stage.STOPPED: ("Cancelled", "quiet"),
    Stage.FAILED: ("Failed", "closed"),
    Stage.LIMIT: ("Limit reached", "closed"),
}
"""The label of each stage, and its color: a class of style.css."""
AGENT_COLORS: Final = {
    "completed": "open",
    "running": "active",
    "waiting": "attention",
    "failed": "closed",
    "limit": "closed",
}
"""The color of each state of an agent. Others are gray."""
WAITING_LABELS: Final[dict[WaitsFor, str]] = {
    WaitsFor.NOBODY: "nobody",
    WaitsFor.PLANGATE: "Plangate",
    WaitsFor.SLOT: "a free session",
    WaitsFor.APPROVER: "an approver",
    WaitsFor.ANSWER: "an answer",
    WaitsFor.REVIEWER: "a reviewer",
    WaitsFor.REQUESTER: "the requester",
}
_FOLD: Final = re.compile("<details><summary>(.*?)</summary>|</details>")
_TABLE: Final = '<div class="scroll" tabindex="0" role="group" aria-label="Table"><table>'
_UNITS: Final = ((86_400 * 365, "year"), (86_400 * 30, "month"), (86_400, "day"), (3_600, "hour"), (60, "minute"))


@dataclass(frozen=True, slots=True)
class DiffRow:
    """One row of two texts side by side: the line of each text, with its number."""

    kind: str
    """``same``, ``changed``, ``added``, or ``removed``."""
    old_number: int | None
    old: str
    new_number: int | None
    new: str


def side_by_side(old: str, new: str) -> list[DiffRow]:
    """Return the lines of two texts, aligned."""
    a, b = _lines(old), _lines(new)
    return [row for difference in line_matcher(a, b).get_opcodes() for row in _diff_rows(a, b, difference)]


def line_by_line(old: str, new: str) -> list[tuple[str, str]]:
    """Return the lines of two texts one below the other, as (sign, line): ``-`` removed, ``+`` added, " " kept."""
    a, b = _lines(old), _lines(new)
    rows: list[tuple[str, str]] = []
    for kind, a1, a2, b1, b2 in line_matcher(a, b).get_opcodes():
        if kind == "equal":
            rows += [(" ", line) for line in a[a1:a2]]
        else:
            rows += [("-", line) for line in a[a1:a2]] + [("+", line) for line in b[b1:b2]]
    return rows


def _lines(text: str) -> list[str]:
    """Return the lines of a text as git counts them. Other separators of lines stay, and are shown as ‹U+XXXX›."""
    return text.removesuffix("\n").split("\n")


def _diff_rows(a: list[str], b: list[str], difference: tuple[str, int, int, int, int]) -> Iterator[DiffRow]:
    """Yield the rows of one difference between two texts."""
    opcode, a1, a2, b1, b2 = difference
    numbered = zip_longest(enumerate(a[a1:a2], a1 + 1), enumerate(b[b1:b2], b1 + 1), fillvalue=(None, ""))
    for (old_number, old), (new_number, new) in numbered:
        kind = "same" if opcode == "equal" else "changed"
        if old_number is None or new_number is None:
            kind = "added" if old_number is None else "removed"
        yield DiffRow(kind, old_number, old, new_number, new)


def stage_pill(stage: Stage) -> Markup:
    """Return the stage of a thread as a colored label."""
    label, color = STAGES[stage]
    return Markup('<span class="pill {}">{}</span>').format(color, label)


def dollars(amount: float | None) -> str:
    """Return an amount in dollars, to a tenth of a cent if it is below ten cents; an em dash if it is unknown."""
    if amount is None:
        return "—"
    if 0 < amount < 0.0005:
        return "<$0.001"
    return f"${amount:,.2f}" if amount >= 0.1 or amount == 0 else f"${amount:.3f}"


def compact_number(number: int | None) -> str:
    """Return a number as GitHub shortens it, such as 12.3k; an em dash if it is unknown."""
    if number is None:
        return "—"
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number / size:.1f}{letter}"
    return str(number)


def duration(seconds: float | None) -> str:
    """Return a duration, such as 45s, 3m 20s, or 1h 5m; an em dash if it is unknown."""
    if seconds is None:
        return "—"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    return f"{whole // 60}m {whole % 60}s" if whole < 3_600 else f"{whole // 3_600}h {whole % 3_600 // 60}m"


def relative_time(when: datetime, now: datetime) -> Markup:
    """Return a time relative to now, such as ``3 hours ago``, with the exact one on hover."""
    seconds = (now - when).total_seconds()
    size, unit = next(((size, unit) for size, unit in _UNITS if abs(seconds) >= size), (1, ""))
    number = int(abs(seconds) // size)
    if not unit:
        return _time_element(when, "now")
    distance = f"{number} {unit}{'s' * (number != 1)}"
    return _time_element(when, f"{distance} ago" if seconds > 0 else f"in {distance}")


def elapsed_time(when: datetime, began: datetime) -> Markup:
    """Return the time that had passed since a beginning, such as ``+3m 20s``, with the exact time on hover."""
    return _time_element(when, f"+{duration((when - began).total_seconds())}")


def _time_element(when: datetime, text: str) -> Markup:
    exact = when.astimezone(UTC)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        exact.isoformat(timespec="seconds"), f"{exact:%Y-%m-%d %H:%M:%S} UTC", text
    )


def short_digest(digest: str | None) -> str:
    """Return the first characters of a digest, as people see and type it; "" for None."""
    return (digest or "")[:SHORT_DIGEST]


def markdown(text: str) -> Markup:
    """Return Markdown as HTML that cannot run scripts, load anything, or hide text.

    If the parser left out anything, such as what is nested too deep, the source is shown instead.
    """
    parser = _markdown()
    tokens = parser.parse(text)
    if _signs(text) - _signs("".join(_parsed_sources(tokens))):
        return Markup("<pre><code>{}</code></pre>").format(with_visible_codepoints(text))
    html = with_visible_codepoints(parser.renderer.render(tokens, parser.options, {}))  # entities are decoded here
    return Markup(html)  # noqa: S704  # the renderer escapes all HTML


def _signs(text: str) -> Counter[str]:
    return Counter(filter(str.isalnum, text))


def _parsed_sources(tokens: Sequence["Token"]) -> Iterator[str]:
    """Yield the parts of the source that tokens hold, each once and as it is written.

    So no part can hide that the parser left out another one. The rules for inline text leave out nothing.
    """
    for token in tokens:
        if token.type in {"fence", "list_item_open"}:
            yield token.info
        yield token.content


@cache
def _markdown() -> "MarkdownIt":
    """Return the Markdown renderer. It passes no HTML on, and shows no images and no definitions of links."""
    from markdown_it import MarkdownIt

    renderer = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    renderer.disable(["image", "reference"])
    renderer.core.ruler.push("folds", _unfold)
    rules = {"fence": _fence_tag, "list_item_open": _item_tag, "link_open": _link_tag}
    rules |= dict.fromkeys(("heading_open", "heading_close"), _heading_tag)
    for name, rule in (rules | dict.fromkeys(("th_open", "td_open"), _cell_tag)).items():
        renderer.add_render_rule(name, rule)
    renderer.add_render_rule("table_open", lambda *_: _TABLE)
    renderer.add_render_rule("table_close", lambda *_: "</table></div>")
    return renderer


def _unfold(state: "StateCore") -> None:
    """Show the title of each text that a plan folds (`core.markdown.elements.details`), and a sign where it ends."""
    from markdown_it.token import Token

    for token in state.tokens:
        if token.type == "inline" and (found := _FOLD.fullmatch(token.content)):
            title = Token("text", "", 0, content=found[1] or "∎")
            token.children = [Token("strong_open", "strong", 1), title, Token("strong_close", "strong", -1)]


def _fence_tag(*arguments: Any) -> str:
    """Return a code block, below what stands behind its fence, such as a language."""
    _, tokens, at, *_ = arguments
    label = Markup('<p class="note">{}</p>\n').format(tokens[at].info) if tokens[at].info.strip() else Markup()
    return Markup("{}<pre><code>{}</code></pre>\n").format(label, tokens[at].content)


def _item_tag(*arguments: Any) -> str:
    """Return the tag of a list's item, with its number as it is written."""
    _, tokens, at, *_ = arguments
    return Markup('<li value="{}">').format(tokens[at].info) if tokens[at].info else "<li>"


def _heading_tag(*arguments: Any) -> str:
    """Return the tag of a heading, one level down: the title of the page is above those of a text."""
    _, tokens, at, *_ = arguments
    token = tokens[at]
    tag = f"h{min(6, int(token.tag[1]) + 1)}"
    return f"<{tag}>" if token.nesting == 1 else f"</{tag}>"


def _cell_tag(*arguments: Any) -> str:
    """Return the tag of a cell without its alignment, a style attribute that the content security policy forbids."""
    _, tokens, at, *_ = arguments
    return f"<{tokens[at].tag}>"


def _link_tag(*arguments: Any) -> str:
    """Return the tag of a link, with its address as title. It leads nowhere unless it leads to http or https."""
    renderer, tokens, at, options, env = arguments
    token = tokens[at]
    url = str(token.attrGet("href") or "")
    if not url.startswith(("https://", "http://")):
        token.attrSet("href", "#")
    token.attrSet("title", f"{url} {token.attrGet('title') or ''}".strip())
    token.attrSet("rel", "noopener noreferrer nofollow")
    return str(renderer.renderToken(tokens, at, options, env))


def finalize(value: object) -> object:
    """Return what a template inserts, with all code points visible. Jinja escapes it afterward."""
    return with_visible_codepoints(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def templates() -> Environment:
    """Return the environment that loads the templates and holds their filters."""
    environment = Environment(
        loader=PackageLoader("webhooks.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    numbers, times = (dollars, compact_number, duration), (relative_time, elapsed_time)
    filters = (mode_text, stage_pill, short_digest, markdown, side_by_side, line_by_line, *numbers, *times)
    environment.filters |= {function.__name__: function for function in filters}
    environment.globals |= {"STAGES": STAGES, "WAITING_LABELS": WAITING_LABELS, "AGENT_COLORS": AGENT_COLORS}
    return environment
