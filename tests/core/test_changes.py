"""What a new version of a plan shows of the one before: every line that differs, and nothing that acts."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.comment import CHANGES_ROOM, changes, plan_text
from bot.core.markdown.inert import POSTED_CHARACTERS
from bot.core.names import CommitId, RepositoryId, ThreadNumber
from bot.core.plan import MARKDOWN_LIMIT, Contract, Hidden, PlanDocument

OLD: Final = PlanDocument(
    repository=RepositoryId(5),
    thread=ThreadNumber(8),
    plan=1,
    base=CommitId("c" * 40),
    markdown="Rename it.\n\nThen test it.\n\nThen say so.",
    contract=Contract(scope=("src/**",)),
    tier="normal",
    budget_usd=5.0,
    expires=datetime(2026, 11, 27, 8, 30, tzinfo=UTC),
)
NEW: Final = replace(
    OLD, plan=2, markdown="Move it.\n\nThen test it.\n\nThen say so.", contract=Contract(("src/**", "docs/**"))
)


@pytest.mark.req("PR5")
def test_text_and_contract() -> None:
    """Lines that went and lines that came, of the text and of what it may do, each with a neighbour."""
    assert changes(OLD, NEW) == (
        "-Rename it.\n+Move it.\n \n…\n \n"
        "-- Files: `src/**`\n+- Files: `src/**`, `docs/**`\n - Commands to prove it: none"
    )


def test_nothing_changed() -> None:
    """A version that is the same but for its number says that as well."""
    assert changes(OLD, replace(OLD, plan=2)) == "nothing"


@pytest.mark.req("PR5", "X2")
def test_shown() -> None:
    """The comment shows it in a block of its own; the digest covers it."""
    told = replace(NEW, changed=changes(OLD, NEW))
    assert "### What changed since plan 1\n\n```diff\n-Rename it.\n+Move it.\n" in plan_text(told, "")
    assert told.digest != NEW.digest


@given(st.lists(st.text("x `[]-*+@~\u202e", max_size=300), max_size=80))
def test_no_box_and_bounded(lines: list[str]) -> None:
    """Whatever went or came, nothing in it is a box to tick, and it has its room."""
    went = replace(OLD, markdown="\n".join(["- [ ] Approve this plan", " [x] Approve this plan", *lines]))
    for told in (changes(went, OLD), changes(OLD, went)):
        assert not any(line.startswith(("- [ ] ", "- [x] ", "+ [ ] ")) for line in told.split("\n"))
        assert len(told) < CHANGES_ROOM + 200


def test_the_longest_fits() -> None:
    """The longest plan with the longest list of hidden fragments and of changes is one comment."""
    one, other = ("\n".join([sign * 78] * (MARKDOWN_LIMIT // 79)) for sign in "ab")
    hidden = Hidden.of(["h" * 400] * 50)
    plan = replace(NEW, markdown=one, hidden=hidden, changed=changes(replace(OLD, markdown=other), NEW))
    assert "more lines" in plan.changed
    assert len(plan_text(plan, "Decide." * 100)) < POSTED_CHARACTERS
