"""Turns views into HTML. Every text is escaped, and what a reader could not see in it is shown as ‹U+XXXX› (X1).

Model's and people's Markdown is rendered without HTML and without images; links lead to http and https only.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import SequenceMatcher
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from bot.core.codepoints import with_visible_codepoints
from bot.core.gate import Stage
from bot.core.names import SHORT_DIGEST
from bot.service.overview.views import WaitsFor

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

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
"""The words for each stage, and the color that GitHub gives to what it means."""
AGENT_LOOKS: Final = {
    "completed": "open",
    "running": "active",
    "waiting": "attention",
    "failed": "closed",
    "limit": "closed",
}
"""The color of each state of an agent. Others are gray."""
WAITING: Final[dict[WaitsFor, str]] = {
    WaitsFor.NOBODY: "nobody",
    WaitsFor.PLANGATE: "Plangate",
    WaitsFor.SLOT: "a free session",
    WaitsFor.APPROVER: "an approver",
    WaitsFor.ANSWER: "an answer",
    WaitsFor.REVIEWER: "a reviewer",
    WaitsFor.REQUESTER: "whoever asked",
}
LARGEST_COMPARISON: Final = 1_000_000
"""Lines of one text times lines of the other."""
_TABLE: Final = '<div class="scroll" tabindex="0" role="group" aria-label="Table"><table>'
_UNITS: Final = ((86_400 * 365, "year"), (86_400 * 30, "month"), (86_400, "day"), (3_600, "hour"), (60, "minute"))


@dataclass(frozen=True, slots=True)
class DiffRow:
    """One row of two texts side by side: the numbers and texts of both lines, and what happened to them."""

    kind: str
    """``same``, ``changed``, ``added``, or ``removed``."""
    old_number: int | None
    old: str
    new_number: int | None
    new: str


def side_by_side(old: str, new: str) -> list[DiffRow]:
    """Return the lines of two texts, aligned."""
    a, b = old.splitlines(), new.splitlines()
    return [row for op in _differences(a, b) for row in _rows(a, b, op)]


def line_by_line(old: str, new: str) -> list[tuple[str, str]]:
    """Return the lines of two texts one below the other, as (sign, line): ``-`` removed, ``+`` added, " " kept."""
    a, b = old.splitlines(), new.splitlines()
    rows: list[tuple[str, str]] = []
    for kind, a1, a2, b1, b2 in _differences(a, b):
        if kind == "equal":
            rows += [(" ", line) for line in a[a1:a2]]
        else:
            rows += [("-", line) for line in a[a1:a2]] + [("+", line) for line in b[b1:b2]]
    return rows


def _differences(a: list[str], b: list[str]) -> list[tuple[str, int, int, int, int]]:
    """Return how two lists of lines differ, as difflib's opcodes. Very long ones differ as a whole: comparing them
    takes time that grows with their product."""
    if len(a) * len(b) > LARGEST_COMPARISON:
        return [("replace", 0, len(a), 0, len(b))]
    return SequenceMatcher(a=a, b=b, autojunk=False).get_opcodes()  # type: ignore[return-value]  # a literal for str


def _rows(a: list[str], b: list[str], op: tuple[str, int, int, int, int]) -> Iterator[DiffRow]:
    """Yield the rows of one difference between two texts."""
    kind, a1, a2, b1, b2 = op
    for step in range(max(a2 - a1, b2 - b1)):
        left, right = a1 + step, b1 + step
        has_left, has_right = left < a2, right < b2
        word = (
            "same" if kind == "equal" else "changed" if has_left and has_right else "added" if has_right else "removed"
        )
        yield DiffRow(
            word,
            left + 1 if has_left else None,
            a[left] if has_left else "",
            right + 1 if has_right else None,
            b[right] if has_right else "",
        )


def pill(stage: Stage) -> Markup:
    """Return the stage of a thread as GitHub shows a state."""
    words, look = STAGES[stage]
    return Markup('<span class="pill {}">{}</span>').format(look, words)


def dollars(amount: float | None) -> str:
    """Return an amount in dollars, with tenths of a cent below ten cents; an em dash if it is not known."""
    if amount is None:
        return "—"
    if 0 < amount < 0.0005:
        return "<$0.001"
    return f"${amount:,.2f}" if amount >= 0.1 or amount == 0 else f"${amount:.3f}"


def count(number: int | None) -> str:
    """Return a number in the short form that GitHub uses: 12.3k."""
    if number is None:
        return "—"
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number / size:.1f}{letter}"
    return str(number)


def duration(seconds: float | None) -> str:
    """Return a duration: 45s, 3m 20s, 1h 5m."""
    if seconds is None:
        return "—"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    return f"{whole // 60}m {whole % 60}s" if whole < 3_600 else f"{whole // 3_600}h {whole % 3_600 // 60}m"


def ago(when: datetime, now: datetime) -> Markup:
    """Return a time relative to now, with the exact one on hover."""
    seconds = (now - when).total_seconds()
    size, unit = next(((size, unit) for size, unit in _UNITS if abs(seconds) >= size), (1, ""))
    number = int(abs(seconds) // size)
    words = "now" if not unit else f"{number} {unit}{'s' * (number != 1)}"
    said = words if not unit else f"{words} ago" if seconds > 0 else f"in {words}"
    exact = when.astimezone(UTC)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        exact.isoformat(timespec="seconds"), f"{exact:%Y-%m-%d %H:%M:%S} UTC", said
    )


def after(when: datetime, began: datetime) -> Markup:
    """Return a time as what had passed since a beginning, with the exact one on hover."""
    exact = when.astimezone(UTC)
    return Markup('<time datetime="{}" title="{}">+{}</time>').format(
        exact.isoformat(timespec="seconds"), f"{exact:%Y-%m-%d %H:%M:%S} UTC", duration((when - began).total_seconds())
    )


def short(digest: str | None) -> str:
    """Return the short form of a digest."""
    return (digest or "")[:SHORT_DIGEST]


def markdown(text: str) -> Markup:
    """Return Markdown as HTML that can neither run, nor load, nor hide anything."""
    return Markup(_markdown().render(with_visible_codepoints(text)))  # noqa: S704  # the renderer escapes all HTML


@cache
def _markdown() -> "MarkdownIt":
    """Return the renderer of Markdown: no HTML, no pictures, links to the web alone."""
    from markdown_it import MarkdownIt

    made = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable(["image"])
    made.add_render_rule("heading_open", _lower_heading)
    made.add_render_rule("heading_close", _lower_heading)
    made.add_render_rule("link_open", _outward_link)
    for name in ("th_open", "td_open"):
        made.add_render_rule(name, _cell)
    made.add_render_rule("table_open", lambda *_: _TABLE)
    made.add_render_rule("table_close", lambda *_: "</table></div>")
    return made


def _lower_heading(*arguments: Any) -> str:
    """Put the headings of a text below those of the page that shows it."""
    _, tokens, at, *_ = arguments
    token = tokens[at]
    tag = f"h{min(6, int(token.tag[1]) + 2)}"
    return f"<{tag}>" if token.nesting == 1 else f"</{tag}>"


def _cell(*arguments: Any) -> str:
    """Open a cell without the style attribute of its alignment, which the content security policy forbids."""
    _, tokens, at, *_ = arguments
    return f"<{tokens[at].tag}>"


def _outward_link(*arguments: Any) -> str:
    renderer, tokens, at, options, env = arguments
    token = tokens[at]
    url = str(token.attrGet("href") or "")
    if not url.startswith(("https://", "http://")):
        token.attrSet("href", "#")
    token.attrSet("rel", "noopener noreferrer nofollow")
    return str(renderer.renderToken(tokens, at, options, env))


def finalize(value: object) -> object:
    """Return a value of a template with all its code points visible. Jinja escapes it afterward."""
    return with_visible_codepoints(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def templates() -> Environment:
    """Return the templates."""
    made = Environment(
        loader=PackageLoader("webhooks.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (pill, dollars, count, duration, ago, after, short, markdown, side_by_side, line_by_line)
    made.filters |= {function.__name__: function for function in filters}
    made.globals |= {"STAGES": STAGES, "WAITING": WAITING, "AGENT_LOOKS": AGENT_LOOKS}
    return made
