"""Notes for the executor: part of the document and its digest, shown folded, in force only as data (K2)."""

import json
from dataclasses import replace
from typing import Final

import pytest

from bot.core.approval import Verdict, VerdictOutcome
from bot.core.comment import changes, plan_text
from bot.core.errors import Refused
from bot.core.plan import NOTES_LIMIT, canonical_bytes, from_json, normalize_notes
from bot.core.pull_text import PullOrigin, pull_body
from bot.core.turn import Actor
from tests.core.test_plan import LITERAL, PLAN

NOTES: Final = "Root cause: `parcel/shipping.py:9`.\n\nRuled out: rounding."
NOTED: Final = replace(PLAN, notes=NOTES)


@pytest.mark.req("K2", "PR5")
def test_notes_are_part_of_the_digest() -> None:
    """They are a key of the canonical form where there are any; a document without them keeps its recorded digest."""
    assert json.loads(canonical_bytes(NOTED)) == json.loads(LITERAL) | {"notes": NOTES}
    assert NOTED.digest == "16d0e2082930342f5cff7bcbfbd9ae924317ab1abe87e81aa5175b6fbf789da2"
    assert PLAN.digest == "cc172c9844fcf758e6c5534b14f93dea4662d460866ebc00be7c13bd96e8f6b6"
    assert from_json(json.loads(canonical_bytes(NOTED))) == NOTED


@pytest.mark.req("K2", "PR5")
def test_notes_are_shown_folded() -> None:
    """Who decides finds them below the plan's text, before what it may do; without notes nothing is said of any."""
    folded = f"<details><summary>Notes for the session that carries it out</summary>\n\n{NOTES}\n\n</details>"
    assert f"- step\n\n{folded}\n\n### What it may do\n\n" in plan_text(NOTED, "HOW")
    assert "Notes" not in plan_text(PLAN, "HOW")


def test_notes_of_a_pull_request() -> None:
    """The folded plan of a pull request has them as well: they were approved."""
    origin = PullOrigin(("will",), Verdict(VerdictOutcome.APPROVED, (Actor(1, "maya"),)), PLAN.expires)
    body = pull_body(NOTED, origin, summary="Done.", checks=())
    assert plan_text(NOTED).rstrip() in body


@pytest.mark.req("PR5")
def test_changed_notes_are_a_change() -> None:
    """A version that changes nothing but its notes shows that to who read the version before."""
    added = "".join(f"+{line}\n" for line in NOTES.split("\n"))
    assert added in changes(PLAN, NOTED)


def test_long_notes() -> None:
    """They are normalized as the text is; too long, they go back with what to leave out."""
    assert normalize_notes("\r\n- [ ] a  \r\n") == "- ☐ a"
    assert normalize_notes(" \n") == ""
    with pytest.raises(Refused, match=r"the notes have 6,001 characters, the limit is 6,000: keep what"):
        normalize_notes("x" * (NOTES_LIMIT + 1))
