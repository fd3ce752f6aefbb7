"""Reports the result of a run: as lines for people, as the object of ``--json``, and as an exit code. SHELL."""

from collections.abc import Iterator
from typing import Any, Final

from bot.compose.local import TerminalRun
from bot.core.checks import CheckState, state_of
from bot.core.comment import outcome, plan_text
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


def summary_lines(run: TerminalRun) -> Iterator[str]:
    """Yield the lines on how a run ended: failed checks first, then uncommitted changes, then the cost."""
    last = run.state
    for check in sorted(checks(run), key=lambda check: check["exit_code"] == 0):
        good = check["exit_code"] == 0
        yield f"✓ {check['command']}" if good else f"✗ {_SIGNS[state_of(check)]} {check['command']}\n{check['output']}"
    if run.uncommitted:
        yield f"Left alone: {run.uncommitted} uncommitted changes, which the work did not see."
    if last.stage is Stage.AWAITING_APPROVAL:
        yield outcome(last.stage)
    yield f"{cost(run)} Transcript: plangate replay {run.transcript}"


def cost(run: TerminalRun) -> str:
    ledger = run.ledger
    amount = f"${ledger.cost_usd:.4f}" if ledger.is_priced else "cost unknown: a model without prices was used"
    return f"{run.printer.steps} steps, {amount}."


def result(run: TerminalRun, seconds: float) -> Json:
    """Return the object that ``plangate run --json`` prints, with the checks and a failure's detail.

    Plan, answer, and work are those of the newest request. Steps, tokens, and seconds are those of this run; dollars
    are those of the thread.
    """
    last, ledger = run.state.request, run.ledger
    plan, summary = last.plan, last.work.summary if last.work else ""
    return {
        "stage": str(run.state.stage),
        "answer": last.answer or summary or None,
        "plan": plan_text(plan) if plan else None,
        "plan_digest": plan.digest if plan else None,
        "branch": last.branch or None,
        "commit": last.commit or None,
        "steps": run.printer.steps,
        "subagents": _subagents(run),
        "usage": {name: getattr(ledger.usage, name) for name in _TOKENS},
        "cost_usd": _cost(run),
        "seconds": round(seconds, 3),
        "checks": checks(run),
        "detail": last.detail or None,
    }


def exit_code(run: TerminalRun, *, dry_run: bool) -> int:
    """Return the exit code of a run. A dry run succeeds once it has a plan."""
    if dry_run and run.state.stage is Stage.AWAITING_APPROVAL:
        return 0
    return _EXITS.get(run.state.stage, NOT_APPROVED)


def checks(run: TerminalRun) -> list[dict[str, Any]]:
    """Return the checks that ran after the work: command, exit_code, seconds, output."""
    work = run.state.request.work
    return list(work.checks) if work else []


def _cost(run: TerminalRun) -> float | None:
    journaled = run.state.costs.total_usd
    if not run.ledger.is_priced or (journaled is None and not run.ledger.rows):
        return None
    return round(max(run.ledger.cost_usd, journaled or 0.0), 6)


def _subagents(run: TerminalRun) -> list[Json]:
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
        for row in run.printer.rows.values()
    ]
