"""Text of strangers and of the model: it reaches nobody, closes nothing, hides nothing that stands after it."""

import pytest
from markdown_it import MarkdownIt

from bot.core.approval import Reason, Verdict, VerdictOutcome, VerdictReason
from bot.core.comment import reasons
from bot.core.markdown.inert import inert_line, inert_markdown, inert_message
from bot.core.pull_text import PullOrigin, pull_body
from bot.core.turn import Actor
from tests.core.test_comment import PLAN
from tests.rows import every_row


def shown(markdown: str) -> str:
    """Return the text that a page shows, all but its code."""
    words = [
        part.content if part.type == "text" else "\n" if part.type.endswith("break") else ""
        for token in MarkdownIt("commonmark", {"html": True}).parse(markdown)
        for part in token.children or []
    ]
    return "".join(words)


@pytest.mark.req("X2")
@every_row(
    "text",
    (
        "fixes #5",
        "Fixes:#5",
        r"fixes \#5",
        "fixes &#35;5",
        "fixes &num;5",
        "f&#105;xes #5",
        "fixes **#5**",
        "**fixes** #5",
        "fixes [#5](https://github.com/o/r/issues/5)",
        "> fixes\n> #5",
    ),
)
def test_nothing_is_closed(text: str) -> None:
    """However a closing keyword is spelled, no reference stands behind it on the page."""
    assert "#5" not in shown(inert_markdown(text))
    assert "#5" not in shown(inert_markdown(text, {"github.com"}))


@pytest.mark.req("X2")
@every_row("before", ("", ".", "-", "/", "_", "é", "日本", "@", "("))
def test_nobody_is_mentioned(before: str) -> None:
    """GitHub takes a name for a mention unless an ASCII letter or digit stands before the @."""
    assert "@octocat" not in shown(inert_markdown(f"Ask {before}@octocat"))


@pytest.mark.req("X2")
def test_addresses_stay() -> None:
    """An address is no mention."""
    assert inert_markdown("write to ada@example.org") == "write to ada@example.org"


@pytest.mark.req("PR5")
@pytest.mark.parametrize("fence", ("```", "~~~~", "```python"))
def test_an_open_fence_is_closed(fence: str) -> None:
    """A plan or a report that leaves a code block open does not swallow the contract or the evidence after it."""
    after = inert_markdown(f"Look:\n\n{fence}\nx = 1") + "\n\n### What it may do"
    assert [token.type for token in MarkdownIt().parse(after)][-3:] == ["heading_open", "inline", "heading_close"]


@pytest.mark.parametrize("text", ("```\nx\n```", "- a\n  ```\n  x\n", "~~~\n```\n~~~", "```\nx\n````"))
def test_what_is_closed_stays(text: str) -> None:
    """A block that is closed, or that ends with its list, is left as it is."""
    assert inert_markdown(text) == text


@pytest.mark.req("X2")
def test_a_failing_check_mentions_nobody() -> None:
    """The line of a check, which the model chose, stands in the pull request's body as code."""
    check = {"command": "pytest -k '@octocat fixes #3'", "exit_code": 1, "seconds": 1.0, "output": ""}
    origin = PullOrigin(("will",), Verdict(VerdictOutcome.APPROVED, (Actor(1, "maya"),)), PLAN.expires)
    body = pull_body(PLAN, origin, summary="Done.", checks=[check])
    assert "<summary><code>pytest -k '@octocat fixes #3'</code></summary>" in body


@pytest.mark.req("PR5")
def test_a_failing_check_shows_its_command_as_it_is() -> None:
    check = {"command": "echo '&#x202e;' \u200b", "exit_code": 1, "seconds": 1.0, "output": ""}
    origin = PullOrigin(("will",), Verdict(VerdictOutcome.APPROVED, (Actor(1, "maya"),)), PLAN.expires)
    body = pull_body(PLAN, origin, summary="Done.", checks=[check])
    assert "<code>echo '&amp;#x202e;' ‹U+200B›</code>" in body
    assert "`echo '&#x202e;' ‹U+200B›`" in body


@pytest.mark.req("X2")
def test_a_title_closes_and_skips_nothing() -> None:
    """A title becomes the first line of a squashed commit: what stands there acts when that is pushed."""
    assert inert_line("Fix it,\ncloses #9 [skip ci] \x1b[31m[ci skip]") == "Fix it, closes `#9` (skip ci) (ci skip)"
    assert len(inert_line("closes #9 " * 40)) <= 256


@pytest.mark.req("X2")
@pytest.mark.parametrize("trailer", ("Signed-off-by: A <a@b.c>", "co-authored-by: A <a@b.c>", "skip-checks: true"))
def test_a_report_forges_no_trailer(trailer: str) -> None:
    """A line of the model's report is no signature and no order to GitHub."""
    assert inert_message(f"Done, thanks @ada.\n\n{trailer}") == f"Done, thanks `@ada`.\n\n  {trailer}"


@pytest.mark.req("PR1")
def test_a_crowd_makes_no_endless_notice() -> None:
    """However many strangers react, the notice stays short enough for GitHub to take."""
    crowd = tuple(VerdictReason(Reason.ROLE_TOO_LOW, Actor(n, f"stranger-{n}")) for n in range(1, 2001))
    said = reasons(Verdict(VerdictOutcome.PENDING, (), crowd))
    assert len(said) < 5_000
    assert said.endswith("; and 1980 more")
