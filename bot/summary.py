"""Reports the result of a run: as lines for people, as the object of ``--json``, and as an exit code. SHELL."""

from collections.abc import Iterator
from typing import Any, Final

from bot.compose.terminal_run import TerminalRun
from bot.core.checks import CheckState, state_of
from bot.core.comment import outcome
from bot.core.gate import Stage
from bot.core.transcript import Json

NOT_APPROVED: Final = 3
_EXITS: Final = {
    Stage.LISTENING: 0,
    Stage.DONE: 0,
    Stage.ANSWERED: 0,
    Stage.IN_REVIEW: 0,
    Stage.LIMIT: 4,
    Stage.FAILED: 5,
}
_SIGNS: Final = {
    CheckState.FAILED: "FAILED",
    CheckState.FAILED_BEFORE: "FAILED, as before the work,",
    CheckState.CANNOT_RUN: "COULD NOT RUN",
}
_TOKENS: Final = ("input", "output", "cache_read", "cache_write")


def lines(made: TerminalRun) -> Iterator[str]:
    """Yield the lines on how a run ended: failed checks first, then uncommitted changes, then the cost."""
    last = made.state
    for check in sorted(checks(made), key=lambda check: check["exit_code"] == 0):
        good = check["exit_code"] == 0
        yield f"✓ {check['command']}" if good else f"✗ {_SIGNS[state_of(check)]} {check['command']}\n{check['output']}"
    if made.uncommitted:
        yield f"Left alone: {made.uncommitted} uncommitted changes, which the work did not see."
    if last.stage is Stage.AWAITING_APPROVAL:
        yield outcome(last.stage)
    yield f"{cost(made)} Transcript: plangate replay {made.transcript}"


def cost(made: TerminalRun) -> str:
    """Return a sentence with the steps and the cost of a run."""
    ledger = made.ledger
    spent = f"${ledger.cost_usd:.4f}" if ledger.is_priced else "cost unknown: a model without prices was used"
    return f"{made.printer.steps} steps, {spent}."


def result(made: TerminalRun, seconds: float) -> Json:
    """Return the object that ``plangate run --json`` prints (interfaces.md), with the checks and a failure's detail.

    Plan, answer, and work are those of the newest request. Steps, tokens, and seconds are those of this run; dollars
    are those of the thread.
    """
    last, ledger = made.state.result, made.ledger
    plan, summary = last.plan, last.work.summary if last.work else ""
    return {
        "stage": str(made.state.stage),
        "answer": last.answer or summary or None,
        "plan": plan.markdown if plan else None,
        "plan_digest": plan.digest if plan else None,
        "branch": last.branch or None,
        "commit": last.commit or None,
        "steps": made.printer.steps,
        "subagents": _subagents(made),
        "usage": {name: getattr(ledger.usage, name) for name in _TOKENS},
        "cost_usd": _cost(made),
        "seconds": round(seconds, 3),
        "checks": checks(made),
        "detail": last.detail or None,
    }


def exit_code(made: TerminalRun, *, dry_run: bool) -> int:
    """Return the exit code of a run (interfaces.md). A dry run succeeds once it has a plan."""
    if dry_run and made.state.stage is Stage.AWAITING_APPROVAL:
        return 0
    return _EXITS.get(made.state.stage, NOT_APPROVED)


def checks(made: TerminalRun) -> list[dict[str, Any]]:
    """Return the checks that ran after the work: command, exit_code, seconds, output."""
    work = made.state.result.work
    return list(work.checks) if work else []


def _cost(made: TerminalRun) -> float | None:
    """Return the thread's cost in dollars, or None if a model without prices was used or the cost is unknown."""
    journaled = made.state.cost_usd
    if not made.ledger.is_priced or (journaled is None and not made.ledger.rows):
        return None
    return round(max(made.ledger.cost_usd, journaled or 0.0), 6)


def _subagents(made: TerminalRun) -> list[Json]:
    return [
        {
            "id": row.agent,
            "type": row.type,
            "description": row.description,
            "state": str(row.state),
            "steps": row.steps,
            "tokens": row.tokens,
            "cost_usd": row.cost_usd,
            "seconds": row.seconds,
        }
        for row in made.printer.rows.values()
    ]
