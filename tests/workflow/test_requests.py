"""A request that repeats another asks for all of it, and begins anew."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from bot.core.moves import JournaledTurn, Noted, Requested
from bot.core.names import CommitId
from bot.core.thread.state import ThreadState, apply
from bot.core.turn import Actor, Turn
from bot.workflow.intake import renewed_request

NOW = datetime(2026, 11, 20, 8, 30, tzinfo=UTC)
TURN = Turn("t1", Actor(7, "ada"), "Fix it.", NOW)
RETRY = Turn("t3", Actor(9, "cem"), "@plangate retry", NOW + timedelta(hours=1))


def after(first: Turn, *more: Turn) -> ThreadState:
    """Return the state after a request and what was added to it."""
    request = Requested(said=JournaledTurn.of(first), base=CommitId("a" * 40))
    state = apply(ThreadState(), request, NOW)
    for turn in more:
        state = apply(state, Noted(said=JournaledTurn.of(turn), kept=False), NOW)
    return state


@pytest.mark.req("X1", "S9")
def test_a_request_that_is_renewed_asks_for_all_of_it() -> None:
    """It has the words of everybody, who asked first, and all marks of the words; the turn and its time are new."""
    marks = {"foreign": True, "strangers": True, "editors": (3,)}
    more = Turn("t2", Actor(8, "ben"), "Note it.", NOW, hidden=("<!-- b -->",), **marks)  # type: ignore[arg-type]
    again = renewed_request(after(replace(TURN, hidden=("<!-- a -->",)), more), RETRY)
    assert (again.key, again.at, again.actor) == (RETRY.key, RETRY.at, Actor(7, "ada"))
    assert again.text == "Fix it.\n\n@ben adds: Note it."
    assert (again.foreign, again.strangers, again.editors, again.hidden.count) == (True, True, (), 2)
    plain = renewed_request(after(TURN), RETRY)
    assert plain == replace(JournaledTurn.of(TURN), key=RETRY.key, at=RETRY.at)
