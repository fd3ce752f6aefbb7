"""Markdown as the pages of the simulated GitHub show it."""

from __future__ import annotations

import pytest

from bot.testing.github.page.markdown import Boxes, element, render_markdown, toggle_box
from tests.testing.github.page_ground import HOME


def test_text_cannot_leave_its_fold() -> None:
    boxes = Boxes(None)
    assert "</details>" not in render_markdown("</details>\n</summary>", HOME, boxes)
    assert render_markdown("<details>\n<summary>a", HOME, boxes).count("</") == 2
    crossed = render_markdown("<details>\n<summary>a</details>\n\nb", HOME, boxes)
    assert crossed.replace("\n", "") == "<details><summary>a</summary><p>b</p></details>"
    within = render_markdown("- <details>\n\n</details>\n", HOME, boxes)
    assert "&lt;details&gt;" in within
    assert "<details" not in within


def test_folding_by_the_bot_is_shown() -> None:
    shown = render_markdown("<details>\n<summary>The plan</summary>\n\n**x**\n\n</details>\n", HOME, Boxes(None))
    assert shown.replace("\n", "") == "<details><summary>The plan</summary><p><strong>x</strong></p></details>"


def test_references_are_linked_outside_of_code() -> None:
    shown = render_markdown("see #12, 请@ada修复, https://a.b/c. `#13` [#14](https://x.y)", HOME, Boxes(None))
    assert '<a href="/acme/parcel/issues/12"' in shown
    assert '<strong class="mention">@ada</strong>' in shown
    assert '<a href="https://a.b/c"' in shown
    assert "issues/13" not in shown
    assert "issues/14" not in shown


@pytest.mark.parametrize("newline", ("\n", "\r\n", "\r"))
def test_toggling_keeps_all_else(newline: str) -> None:
    text = newline.join(["a", "* [ ] one", "1. [x] two", ""])
    assert toggle_box(text, 1) == text.replace("[ ]", "[x]")
    assert toggle_box(text, 2) == text.replace("[x]", "[ ]")
    for nowhere in (-1, 0, 3, 99):
        with pytest.raises(LookupError):
            toggle_box(text, nowhere)


def test_attributes_and_text_are_escaped() -> None:
    assert element("a", "<b>", href='"><b>') == '<a href="&quot;&gt;&lt;b&gt;">&lt;b&gt;</a>'
