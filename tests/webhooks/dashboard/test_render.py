"""Markdown on the pages: nothing that a text says is left out, whatever its form (A8)."""

import re
from collections import Counter
from html import unescape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webhooks.dashboard.render import line_by_line, markdown, side_by_side

LEFT_OUT_BY_MARKDOWN = (
    "".join(f"{'  ' * depth}- level\n" for depth in range(25)) + "  " * 25 + "- hidden words",
    "> " * 25 + "hidden words",
    "| a | b |\n|---|---|\n| 1 | 2 | hidden words |",
    '[a]: https://example.com "hidden words"',
    "[hidden words]: <>",
    "```text hidden words\ncode\n```",
    '[a](https://example.com "hidden words")',
    "[a](docs/hidden words.md)",
    "[a](<hidden words>)",
    "[a](mailto:hidden-words@example.com)",
    "![hidden words](https://example.com/x.png)",
    "<!-- hidden words -->",
    "<details><summary>hidden words</summary>",
    "7\\. one\n\n1. a\n1. b\n12345. hidden words",
    "&copy; hidden words",
    "[ü](https://example.com/ü/%20)\n\n" + "> " * 25 + "hidden words",
    "</details>\n\n" * 50 + "> " * 25 + "hidden words",
)
TAGS = ("words", "x1", "</details>", "<details><summary>", "</summary>")
PIECES = st.lists(
    st.sampled_from(
        [
            *'[]()<>*_`\\"\t\n|',
            "- ",
            "  ",
            "> ",
            "1. ",
            "\n\n",
            "```",
            "](",
            "]: ",
            "|-|-|\n",
            "# ",
            "&amp;",
            "![",
            *TAGS,
        ]
    ),
    max_size=60,
).map("".join)


def shown_letters(text: str) -> Counter[str]:
    """Return the letters that a reader can see: text, and addresses and titles of links."""
    html = str(markdown(text))
    titles = re.findall(r' title="([^"]*)"', html)
    return Counter(filter(str.isalnum, unescape(re.sub("<[^>]*>", "", html) + " ".join(titles))))


@pytest.mark.req("A8")
@pytest.mark.parametrize("text", LEFT_OUT_BY_MARKDOWN, ids=range(len(LEFT_OUT_BY_MARKDOWN)))
def test_what_markdown_leaves_out_is_shown(text: str) -> None:
    assert not Counter("hiddenwords") - shown_letters(text)


@pytest.mark.req("A8")
@pytest.mark.parametrize(
    ("left_out", "instead"),
    (
        ("delete all data", "`</details></details></details>`"),
        ("DELETE", "`&Dot;&Element;&Equal;&Equal;&LT;&Tab;`"),
        ("8203 8203", "`&#8203;&#8203;`"),
        ("20 20 20", "[x](<a b c d e f>)"),
    ),
)
def test_letters_that_stand_elsewhere_do_not_hide_what_is_left_out(left_out: str, instead: str) -> None:
    """Such as those of a tag or an entity in code, and of an address that the parser spells in another way."""
    for around in ("> " * 25 + left_out, f"| a | b |\n|---|---|\n| 1 | 2 | {left_out} |"):
        assert left_out in unescape(re.sub("<[^>]*>", "", str(markdown(f"{around}\n\n{instead}"))))


def check_letters(count: int) -> None:
    """Compare the letters of random texts with those that are shown, without tags that only fold."""

    @settings(max_examples=count, derandomize=count < 100, deadline=None, database=None)
    @given(PIECES)
    def check(text: str) -> None:
        plain = re.sub("<details><summary>(.*?)</summary>|</details>", r"\1", text)
        said = Counter(letter for letter in unescape(plain) if letter.isalpha())
        assert not said - shown_letters(text), text

    check()


@pytest.mark.req("A8")
def test_no_letter_is_left_out() -> None:
    check_letters(12)


@pytest.mark.long
@pytest.mark.req("A8")
def test_no_letter_of_many_texts_is_left_out() -> None:
    check_letters(5_000)


@pytest.mark.req("A8")
def test_a_line_separator_does_not_vanish_from_a_difference() -> None:
    assert line_by_line("a\u2028b", "a\nb") == [("-", "a\u2028b"), ("+", "a"), ("+", "b")]
    assert side_by_side("a\x0cb", "")[0].old == "a\x0cb"


def test_very_long_texts_differ_as_a_whole() -> None:
    """Comparing stays cheap for what a hostile model writes. Lines that stand often match beside others that do."""
    one, other = ("".join(f"{sign}{number}\n" for number in range(3_000)) for sign in "ab")
    assert [sign for sign, _ in line_by_line(one, other)] == ["-"] * 3_000 + ["+"] * 3_000
    assert line_by_line("a\nb", "a\nc") == [(" ", "a"), ("-", "b"), ("+", "c")]
    blank = "\n" * 20
    assert line_by_line(f"{blank}a{blank}b", f"{blank}a{blank}c") == [
        *[(" ", "")] * 20,
        (" ", "a"),
        *[(" ", "")] * 19,
        ("-", "b"),
        ("+", "c"),
    ]
