"""Questions to the kernel that a process can hold up: asked beside, and waited for no longer than they are worth.

What lies in the memory of a process (its environment, the share of each page) is read under a lock of its own, which
it holds while it forks or maps; one that does nothing else, among thousands that do, keeps everybody waiting for ever.
"""

import threading
from collections.abc import Callable
from typing import TypeVar

Given = TypeVar("Given")


class Patience:
    """Asks one question at a time; while one is held up, further ones are not even asked."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._free = threading.Lock()

    def ask(self, question: Callable[[], Given]) -> Given | None:
        """Give the answer, or None where it did not come in time; the question itself raises nothing."""
        if not self._free.acquire(blocking=False):
            return None
        answers: list[Given] = []

        def work() -> None:
            try:
                answers.append(question())
            finally:
                self._free.release()

        asking = threading.Thread(target=work, daemon=True)
        asking.start()
        asking.join(self._seconds)
        return answers[0] if answers else None
