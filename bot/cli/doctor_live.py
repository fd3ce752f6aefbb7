"""Shows the experiments of `plangate doctor --live`: what will happen, each step, and the table at the end. SHELL."""

import asyncio
import select
import sys
from collections.abc import Collection, Iterator
from typing import Final, TextIO

from bot.compose.live.expectations import EXPECTATIONS
from bot.compose.live.experiments import ExperimentOutcome, run_live
from bot.compose.live.testbed import Console
from bot.config.environment import settings_of_person

DIFFERS: Final = 1
"""Exit code if GitHub does not do what the bot expects."""
_PLAN: Final = """\
{count} experiments in {name}. They commit workflows to its default branch, open an issue and pull requests, make a
ruleset, an environment with a worthless secret, and refs, start jobs, and remove all of it again. Waiting for a person
takes up to 10 minutes, and for a scheduled run up to 30; Enter skips the wait. Use a repository that nobody needs."""


def try_live(out: TextIO, name: str, *, skipped: Collection[int], confirmed: bool) -> int:
    """Run the experiments in the repository OWNER/REPO, and print the table. Return the exit code.

    Raises Misconfigured for a repository that is in use, and if nobody confirms the run.
    """

    def tell(line: str) -> None:
        print(line, file=out, flush=True)

    def confirms(full_name: str) -> bool:
        tell(_PLAN.format(count=len({row.experiment for row in EXPECTATIONS}), name=full_name))
        return confirmed or (sys.stdin.isatty() and input("Type its whole name to go on: ").strip() == full_name)

    console = Console(tell, confirms, _has_pressed_enter)
    outcomes = asyncio.run(run_live(settings_of_person(), name, console, skipped))
    for line in table(outcomes):
        tell(line)
    return DIFFERS if any(outcome.differs for outcome in outcomes) else 0


def table(outcomes: Collection[ExperimentOutcome]) -> Iterator[str]:
    """Yield the lines of the table: what was expected, what was seen, and what follows where they differ."""
    for outcome in outcomes:
        row = outcome.expectation
        sign = "✗" if outcome.differs else "✓" if outcome.seen else "·"
        yield f"{sign} {row.experiment}. {row.question}"
        yield f"    expected: {' or '.join(row.expected)}"
        yield f"    seen:     {outcome.seen or f'nothing: {outcome.reason}'}"
        if outcome.differs:
            yield f"    so:       {row.consequence}"
            yield f"    see:      {', '.join(row.sources)}"
    count, different = sum(bool(outcome.seen) for outcome in outcomes), sum(outcome.differs for outcome in outcomes)
    yield f"{count} of {len(outcomes)} rows seen, {different} of them different."


def _has_pressed_enter() -> bool:
    """Return whether the person at the terminal has pressed Enter, which is then taken."""
    if not sys.stdin.isatty():
        return False
    ready, _, _ = select.select([sys.stdin], [], [], 0)
    return bool(ready) and sys.stdin.readline() != ""
