"""What a run came to: as lines for people, as the object of ``--json``, and as an exit code. SHELL."""

from collections.abc import Iterator
from typing import Any, Final

from bot.compose.local import LocalRun
from bot.core.comment import outcome
from bot.core.gate import Move, Stage
from bot.core.transcript import Json

NOT_APPROVED: Final = 3
_EXITS: Final = {Stage.DONE: 0, Stage.ANSWERED: 0, Stage.LIMIT: 4, Stage.FAILED: 5}
_TOKENS: Final = ("input", "output", "cache_read", "cache_write")


def lines(made: LocalRun) -> Iterator[str]:
    """Say how a run ended: failing checks first, what was left alone, what it cost."""
    last, ledger = made.record, made.ledger
    for check in sorted(checks(made), key=lambda check: check["exit_code"] == 0):
        good = check["exit_code"] == 0
        yield f"✓ {check['command']}" if good else f"✗ FAILED {check['command']}\n{check['output']}"
    if made.uncommitted:
        yield f"Left alone: {made.uncommitted} uncommitted changes, which the work did not see."
    cost = f"${ledger.cost_usd:.4f}" if ledger.priced else "cost unknown: a model without prices was used"
    if last.stage is Stage.AWAITING_APPROVAL:
        yield outcome(last.stage)
    yield f"{made.story.steps} steps, {cost}. Transcript: plangate replay {made.transcript}"


def result(made: LocalRun, seconds: float) -> Json:
    """Give the object that ``plangate run --json`` prints (interfaces.md), with the checks and a failure's detail."""
    last, ledger = made.record, made.ledger
    plan = last.plan if last.has(Move.PLANNED) else None
    return {
        "stage": str(last.stage),
        "answer": last.fact("answer") or last.fact("summary") or None,
        "plan": plan.markdown if plan else None,
        "plan_digest": plan.digest if plan else None,
        "branch": last.fact("branch") or None,
        "commit": last.fact("commit") or None,
        "steps": made.story.steps,
        "subagents": _subagents(made),
        "usage": {name: getattr(ledger.usage, name) for name in _TOKENS},
        "cost_usd": round(ledger.cost_usd, 6) if ledger.priced else None,
        "seconds": round(seconds, 3),
        "checks": checks(made),
        "detail": last.fact("detail") or None,
    }


def exit_code(made: LocalRun, *, dry_run: bool) -> int:
    """Give the exit code of a run (interfaces.md): a plan is all that a dry run asks for."""
    if dry_run and made.record.stage is Stage.AWAITING_APPROVAL:
        return 0
    return _EXITS.get(made.record.stage, NOT_APPROVED)


def checks(made: LocalRun) -> list[dict[str, Any]]:
    """List the checks that were run after the work: command, exit_code, seconds, output."""
    return list(made.record.last(Move.EXECUTED).body["checks"]) if made.record.has(Move.EXECUTED) else []


def _subagents(made: LocalRun) -> list[Json]:
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
        for row in made.story.rows.values()
    ]
