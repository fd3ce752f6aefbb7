"""What the pages draw: agents as blocks, differences side by side, and bars."""

from itertools import pairwise

import pytest

from bot.service.overview.views import AgentNode
from tests.webhooks.dashboard.ground import THREAD, Site
from tests.webhooks.dashboard.samples import agents
from webhooks.dashboard.render import dollars, side_by_side
from webhooks.dashboard.thread_pages import GAP, Block, agent_blocks


def node(name: str, cost: float | None, *children: AgentNode) -> AgentNode:
    return AgentNode(name, "plan", "completed", "", 1, cost, 1.0, 1, children)


def ends(block: Block) -> float:
    return block.x + block.width


def test_blocks_are_as_wide_as_they_cost() -> None:
    """Sessions share the whole width by cost, and each sub-agent lies below the session that started it."""
    plan, find, test, work, fix, note = agent_blocks(agents())
    assert [each.row for each in (plan, find, test, work, fix, note)] == [0, 1, 1, 0, 1, 1]
    assert (plan.width + GAP) / (work.width + GAP) == pytest.approx(0.18 / 0.13, rel=1e-3)
    assert (fix.width + GAP) / (note.width + GAP) == pytest.approx(0.066 / 0.052, rel=1e-3)
    assert (plan.x, find.x, fix.x) == (0, 0, work.x)
    assert work.x == pytest.approx(100 * 0.18 / 0.31, abs=0.01)
    assert ends(test) < ends(plan)
    assert ends(note) < ends(work) < 100
    assert (plan.amount, find.color, fix.color) == ("$0.18", "quiet", "open")


def test_nothing_to_draw() -> None:
    """No picture of one agent, of agents that cost nothing, or of none."""
    assert agent_blocks(()) == agent_blocks((node("a", 1.0),)) == agent_blocks((node("a", None), node("b", 0.0))) == []


def test_blocks_never_overlap() -> None:
    """Also where sub-agents seem to cost more than their session, and where one costs nothing."""
    found = agent_blocks(
        (node("a", 0.1, node("b", 0.3), node("c", None)), node("d", 1.0, node("e", 2.0), node("f", 2.0)))
    )
    for row in (0, 1):
        blocks = sorted((each for each in found if each.row == row), key=lambda each: each.x)
        assert all(left.x + left.width <= right.x + 0.2 for left, right in pairwise(blocks))
        assert all(ends(each) <= 100.2 for each in blocks)


def test_the_page_draws_the_agents(site: Site) -> None:
    """One block for each agent, with a name for people who do not see it."""
    page = site.get(THREAD)
    (tree,) = [each for each in page.tags("svg") if each.get("class") == "tree"]
    assert (tree["role"], tree["height"]) == ("img", "68")
    assert "Find the shipping rule · $0.041" in page.html


def test_amounts() -> None:
    """Cents, and tenths of a cent where they matter; what costs something is never shown as nothing."""
    amounts = (None, 0.0, 0.0000184, 0.0032, 0.0951, 0.1, 12.345, 1234.5)
    assert [dollars(each) for each in amounts] == [
        *("—", "$0.00", "<$0.001", "$0.003", "$0.095", "$0.10", "$12.35", "$1,234.50")
    ]


def test_lines_side_by_side() -> None:
    """Equal lines stand beside each other, whatever was added or removed between them."""
    rows = side_by_side("a\nb\nc", "a\nx\ny\nc")
    assert [(row.kind, row.old_number, row.new_number) for row in rows] == [
        ("same", 1, 1),
        ("changed", 2, 2),
        ("added", None, 3),
        ("same", 3, 4),
    ]
