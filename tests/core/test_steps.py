"""No text takes long to be read as Markdown: the work is counted, and what takes too much is not read at all."""

from itertools import permutations
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.markdown.gfm import Steps, TooComplex, parse
from bot.core.markdown.inert import inert_markdown
from bot.core.markdown.visible import LIMIT, command_lines, mentions, visible_text

pytestmark = pytest.mark.req("X1", "X4")

TOO_COMPLEX: Final = {
    "brackets": "[" * 65_000,
    "pictures": "![" * 32_000,
    "brackets that a terminal reads": "\x1b[" * 32_000,
    "pictures within each other": "![" * 1_000 + "a" + "](b)" * 1_000,
    "quotes within each other": ">" * 5_000 + "x",
    "lists within each other": "- " * 2_000 + "x",
    "a quote that goes on": ">" * 99 + "a\n" * 1_000,
    "comments that never end": "x" + "<!-- " * 4_000 + "--->",
    "processing instructions that never end": "x" + "<!a <?" * 4_000 + "?",
    "sections that never end": "<div>\n" + "<![CDATA[" * 4_000,
    "tags within what is hidden": "<div hidden>" + "<b>" * 8_000 + "</i>" * 8_000,
    "cells that are not written": "|a" * 100 + "\n" + "|-" * 100 + "\n" + "|\n" * 200,
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", TOO_COMPLEX)
def test_what_is_too_complex(name: str) -> None:
    """The model is told that there was something, the plan tells what, and nothing of it speaks to the bot."""
    text = f"{TOO_COMPLEX[name]}\n\n@plangate stop"
    visible = visible_text(text)
    assert visible.text == f"({len(text):,} characters that are too complex to be read as Markdown)"
    assert len(visible.removed) == 1
    assert not mentions(text, "@plangate")
    assert command_lines(text) == ()


@pytest.mark.req("X2")
@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", [name for name in TOO_COMPLEX if name[:4] not in {"sect", "tags", "comm", "proc"}])
def test_what_is_too_complex_is_posted_as_code(name: str) -> None:
    posted = inert_markdown(f"{TOO_COMPLEX[name][:10_000]}\n\n@octocat")
    assert [token.type for token in parse(posted)] == ["fence"]
    assert "@octocat" in posted


ORDINARY: Final = {
    "lines": "a\n",
    "emphasis": "*a* **b** _c_ ",
    "list": "- a\n",
    "list within lists": "- a\n  - b\n    - c\n      - d\n",
    "table": "|a|b|\n|-|-|\n|a|b|\n",
    "quote": "> > > a\n",
    "numbers": "[[1,2],[3,4]],\n",
    "links": "[a](b) ",
    "links that never end": "![](",
    "log": "[INFO] 12:00 [main] started\n",
    "code": "`a` ``b`` < c && d > e\n",
    "HTML": "<p align='center'><b>a</b><br></p>\n",
    "details": "<details><summary>a</summary>\n\nb\n\n</details>\n\n",
    "fence": "```\n[[[[[[[[[[[[[[[[[[\n```\n",
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ORDINARY)
def test_what_is_long(name: str) -> None:
    """The densest texts that people write take no more than two thirds of the steps."""
    text = (ORDINARY[name] * 4_000)[:4_000]
    env = dict[str, Steps]()
    parse(text, env)
    assert env["steps"].left > Steps(len(text)).left / 3
    assert "too complex" not in visible_text(text).text


SIGNS: Final = (
    *("[", "]", "![", "](", "(", ")", "*", "_", "a", " ", "`", "``", "<", "<a:", "<!--", "-->", "&", "&amp;", "\\"),
    *("\n", ">", "- ", "1. ", "|", "~", "[^a]:", "[a]:", "<b>", "</b>", "$", "@a", "\t", "#", "-", "\x1b[", "\x1b]"),
    *("<?", "<![CDATA[", "'", '"', "www.a", "<a href='", '<a b="', "{", "=", "\n\n", "closes ", "fix:", "#1", "&#"),
    *("<div>\n", "<div hidden>", "    ", "```\n", "~~~", "\u200b", "\U0001f3f4", "https://", "$$", "\\text{"),
)


def seconds(text: str) -> None:
    """Read a text in all ways; the time limit of the test is the assertion."""
    visible_text(text)
    inert_markdown(text[:40_000])


@pytest.mark.timeout(60)
@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.soak
def test_one_sign(sign: str) -> None:
    """A sign and nothing else."""
    seconds((sign * LIMIT)[:LIMIT])


@pytest.mark.soak
@pytest.mark.timeout(7_200)
def test_two_signs() -> None:
    """Each pair of signs, again and again."""
    for pair in permutations(SIGNS, 2):
        seconds(("".join(pair) * LIMIT)[:LIMIT])


@pytest.mark.soak
@pytest.mark.timeout(7_200)
@settings(max_examples=2_000, deadline=20_000)
@given(st.lists(st.tuples(st.lists(st.sampled_from(SIGNS), min_size=1, max_size=3), st.integers(1, LIMIT)), max_size=4))
def test_runs_of_signs(runs: list[tuple[list[str], int]]) -> None:
    """Up to four runs, each of up to three signs, one after the other: no example takes 20 seconds."""
    seconds("".join(("".join(signs) * count)[:LIMIT] for signs, count in runs)[:LIMIT])


def test_steps_are_counted() -> None:
    """A text of no length may take a few steps, and not one more."""
    steps = Steps(0)
    steps.spend(steps.left)
    with pytest.raises(TooComplex):
        steps.scan(100)
