"""Questions that a process can hold up are waited for no longer than they are worth."""

import threading
import time

from bot.toolhost.processes import TimedQueries


def test_answers_in_time_are_given() -> None:
    queries = TimedQueries(5.0)
    assert [queries.answer(lambda n=n: n) for n in (1, 2)] == [1, 2]  # type: ignore[misc]


def test_a_question_that_is_held_up_is_given_up() -> None:
    held = threading.Event()
    queries = TimedQueries(0.1)
    began = time.monotonic()
    assert queries.answer(held.wait) is None
    asked: list[int] = []
    assert queries.answer(lambda: asked.append(1)) is None
    assert not asked
    assert time.monotonic() - began < 2
    held.set()
    while (answer := queries.answer(lambda: "free")) is None:
        time.sleep(0.01)
    assert answer == "free"
