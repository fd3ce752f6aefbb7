"""Queries to the kernel that a process can block: they run in their own thread, with a time limit.

The kernel reads data in a process's memory (its environment, the share of each page) under that process's lock, which
the process holds while it forks or maps memory. A process that does nothing else blocks every reader forever.
"""

import threading
from collections.abc import Callable
from typing import TypeVar

Given = TypeVar("Given")


class TimedQueries:
    """Runs one query at a time; while one is blocked, further ones are not started."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._free = threading.Lock()

    def answer(self, question: Callable[[], Given]) -> Given | None:
        """Return the answer, or None if it did not arrive in time; the question itself raises nothing."""
        if not self._free.acquire(blocking=False):
            return None
        answers: list[Given] = []

        def work() -> None:
            try:
                answers.append(question())
            finally:
                self._free.release()

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(self._seconds)
        return answers[0] if answers else None
