"""What people answered to planners: kept for the work that it was asked for, and no longer (K1)."""

from dataclasses import replace
from typing import Final

import pytest

from bot.core.moves import Asked, Closed, Published, Replied
from bot.core.names import ToolUseId
from bot.core.question import Asking, AskKind, Grant, Option, Question
from bot.core.thread.question import PlannerAnswer
from tests.core.test_thread_facts import APPROVED, EXECUTED, MADE, PLANNED, PROPOSED, REQUESTED, after

ASKED: Final = Asked(
    asking=Asking(
        AskKind.QUESTION, ToolUseId("q1"), (Question("Where\nto?", (Option("Here"),)), Question("When?", ()))
    ),
    session="plan-1",
)
REPLIED: Final = Replied(call="q1", session="plan-1", by=("will",), login="will", reply="Here.", edited=True)
PUBLISHED: Final = Published(
    branch="plangate/1-x", commit=MADE, pull_request="https://x", pull_number=2, digest=PLANNED.digest
)


@pytest.mark.req("K1")
def test_answers_to_a_planner() -> None:
    """An answer is kept with its questions, in one line, and with the request that was planned."""
    kept = PlannerAnswer("t1", "Where to? When?", "will", "Here.", edited=True)
    assert after(REQUESTED, ASKED, REPLIED).question.planner_answers == (kept,)
    assert after(REQUESTED, ASKED, REPLIED, PLANNED, PROPOSED, APPROVED).question.planner_answers == (kept,)


@pytest.mark.req("S9")
def test_an_answer_that_may_be_another_persons_makes_the_thread_untrusted() -> None:
    assert after(REQUESTED, ASKED, REPLIED).request.untrusted
    assert not after(REQUESTED, ASKED, replace(REPLIED, edited=False)).request.untrusted


@pytest.mark.req("K1")
def test_what_is_no_answer() -> None:
    """Nobody's answer and permissions are none; once the work is published, none of its answers is left."""
    nobody = Replied(call="q1", session="plan-1", reply="Nobody is at hand.", is_error=True)
    granted = Replied(call="q1", session="plan-1", by=("will",), login="will", grant=Grant.ONCE)
    assert after(REQUESTED, ASKED, nobody).question.planner_answers == ()
    assert after(REQUESTED, ASKED, granted).question.planner_answers == ()
    done = (REQUESTED, ASKED, REPLIED, PLANNED, PROPOSED, APPROVED, EXECUTED, PUBLISHED)
    assert after(*done).question.planner_answers == ()
    assert after(REQUESTED, ASKED, REPLIED, PLANNED, PROPOSED, Closed()).question.planner_answers == ()
