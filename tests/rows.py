"""Tables whose rows take less than a test does by itself: one test runs every row.

Collecting a test in each worker, its fixtures, and its reports take about 3 ms of CPU together.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import update_wrapper
from typing import Any, Final, TypeAlias

import pytest

Case: TypeAlias = Callable[..., Awaitable[None] | None]
LONGEST: Final = 500
"""Characters of a row that a failure shows."""


class Failures:
    """The rows of one table that failed."""

    def __init__(self) -> None:
        self._errors: list[BaseException] = []

    @contextmanager
    def note(self, row: dict[str, Any]) -> Iterator[None]:
        """Keep what one row raises, with the row."""
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - whatever fails one row is told with it
            error.add_note(f"row: {row!a}"[:LONGEST])
            self._errors.append(error)

    def tell(self) -> None:
        """Raise all that was kept, if anything was."""
        if self._errors:
            raise BaseExceptionGroup("rows that fail", self._errors)


def every_row(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Case], Case]:
    """Run a test on every row of a table, like `pytest.mark.parametrize` but as one test.

    It goes on after a row that fails, and reports every such row. All rows share the test's fixtures.
    """
    several = names if isinstance(names, tuple) else (names,)
    table = [dict(zip(several, row if isinstance(names, tuple) else (row,), strict=True)) for row in rows]
    assert table, "a table without rows holds nothing"

    def decorate(case: Case) -> Case:
        async def run_awaited(**others: Any) -> None:
            failures = Failures()
            for row in table:
                with failures.note(row):
                    waiting = case(**row, **others)
                    assert waiting is not None
                    await waiting
            failures.tell()

        def run(**others: Any) -> None:
            failures = Failures()
            for row in table:
                with failures.note(row):
                    case(**row, **others)
            failures.tell()

        made = update_wrapper(run_awaited if inspect.iscoroutinefunction(case) else run, case)
        del made.__wrapped__
        signature = inspect.signature(case)
        others = [parameter for name, parameter in signature.parameters.items() if name not in several]
        made.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return made

    return decorate
