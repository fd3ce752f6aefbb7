"""What the pages draw: Markdown, of which nothing is left out (A8), differences, agents as blocks, and amounts."""

import re
import threading
from collections import Counter
from dataclasses import dataclass, field
from html import unescape
from itertools import pairwise
from pathlib import Path

import pytest
import requests
from fastapi import APIRouter, FastAPI, Request
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.clock import SystemClock
from bot.config.settings import GitHubSettings, Secret, Settings
from bot.service.overview.views import AgentNode
from bot.service.viewers import SignIn
from bot.testing.host import host_application
from tests.webhooks.dashboard.ground import THREAD, Site
from tests.webhooks.dashboard.samples import SampleReading, agents
from webhooks.dashboard.pages import Answer, Attempts, Page, Pages, Sessions, Visit
from webhooks.dashboard.render import dollars, line_by_line, markdown, side_by_side
from webhooks.dashboard.thread_pages import GAP, Block, agent_blocks

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


def node(name: str, cost: float | None, *children: AgentNode) -> AgentNode:
    return AgentNode(name, "plan", "completed", "", 1, cost, 1.0, 1, children)


def ends(block: Block) -> float:
    return block.x + block.width


def test_blocks_are_as_wide_as_they_cost_and_lie_below_their_session() -> None:
    plan, find, test, work, fix, note = agent_blocks(agents())
    assert [each.row for each in (plan, find, test, work, fix, note)] == [0, 1, 1, 0, 1, 1]
    assert (plan.width + GAP) / (work.width + GAP) == pytest.approx(0.18 / 0.13, rel=1e-3)
    assert (fix.width + GAP) / (note.width + GAP) == pytest.approx(0.066 / 0.052, rel=1e-3)
    assert (plan.x, find.x, fix.x) == (0, 0, work.x)
    assert work.x == pytest.approx(100 * 0.18 / 0.31, abs=0.01)
    assert ends(test) < ends(plan)
    assert ends(note) < ends(work) < 100
    assert (plan.amount, find.color, fix.color) == ("$0.18", "quiet", "open")


def test_one_agent_or_agents_that_cost_nothing_are_not_drawn() -> None:
    assert agent_blocks(()) == agent_blocks((node("a", 1.0),)) == agent_blocks((node("a", None), node("b", 0.0))) == []


def test_blocks_never_overlap_even_if_sub_agents_cost_more_than_their_session() -> None:
    found = agent_blocks(
        (node("a", 0.1, node("b", 0.3), node("c", None)), node("d", 1.0, node("e", 2.0), node("f", 2.0)))
    )
    for row in (0, 1):
        blocks = sorted((each for each in found if each.row == row), key=lambda each: each.x)
        assert all(left.x + left.width <= right.x + 0.2 for left, right in pairwise(blocks))
        assert all(ends(each) <= 100.2 for each in blocks)


def test_the_page_draws_a_block_with_a_name_for_each_agent(site: Site) -> None:
    page = site.get(THREAD)
    (tree,) = [each for each in page.tags("svg") if each.get("class") == "tree"]
    assert (tree["role"], tree["height"]) == ("img", "68")
    assert "Find the shipping rule · $0.041" in page.html


def test_amounts_show_tenths_of_a_cent_where_they_matter() -> None:
    amounts = (None, 0.0, 0.0000184, 0.0032, 0.0951, 0.1, 12.345, 1234.5)
    assert [dollars(each) for each in amounts] == [
        *("—", "$0.00", "<$0.001", "$0.003", "$0.095", "$0.10", "$12.35", "$1,234.50")
    ]


def test_equal_lines_stand_beside_each_other() -> None:
    rows = side_by_side("a\nb\nc", "a\nx\ny\nc")
    assert [(row.kind, row.old_number, row.new_number) for row in rows] == [
        ("same", 1, 1),
        ("changed", 2, 2),
        ("added", None, 3),
        ("same", 3, 4),
    ]


SECONDS = 10


@dataclass
class WaitingText:
    """A text that is not rendered before somebody else was answered."""

    began: threading.Event = field(default_factory=threading.Event)
    other: threading.Event = field(default_factory=threading.Event)
    came: bool = False

    def __html__(self) -> str:
        self.began.set()
        self.came = self.other.wait(SECONDS)
        return "text"


@pytest.mark.req("W1a")
def test_a_page_that_takes_long_holds_up_nobody_else(tmp_path: Path) -> None:
    sign_in = SignIn(Settings(data_dir=tmp_path, github=GitHubSettings(token=Secret("t" * 40))), SystemClock())
    sessions, attempts, app = Sessions(sign_in.clock), Attempts(sign_in.clock), FastAPI()
    pages, text = Pages(SampleReading({}).overview(), sign_in, sessions, attempts, APIRouter()), WaitingText()

    async def slow(_visit: Visit, _request: Request) -> Answer:
        return Page("message.html", "Slow", {"text": text})

    async def quick(_visit: Visit, _request: Request) -> Answer:
        text.other.set()
        return Page("message.html", "Quick", {"text": "text"})

    pages.show("/slow", slow)
    pages.show("/quick", quick)
    app.include_router(pages.router)
    with host_application(app) as base:
        asking = threading.Thread(target=requests.get, args=[f"{base}/slow"], kwargs={"timeout": 2 * SECONDS})
        asking.start()
        assert text.began.wait(SECONDS)
        requests.get(f"{base}/quick", timeout=2 * SECONDS)
        asking.join()
    assert text.came
