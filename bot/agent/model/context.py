"""What of a request is about its context: summaries on demand, and clearing of old results (C2, C3).

Both are betas: a request names them only where it uses them, so that servers which do not know them are not asked.
https://platform.claude.com/docs/en/build-with-claude/compaction and .../context-editing
"""

from collections.abc import Sequence
from typing import Any, Final

from bot.agent.model.specs import ModelSpec
from bot.agent.turns import summed_up
from bot.core.transcript import Json
from bot.ports import ModelRequest

COMPACTION: Final = "compact-2026-09-04"
CLEARING: Final = "context-management-2025-06-27"

CLEARED_FROM: Final = 0.5
"""The share of the window above which old results are cleared."""
CLEARED_AT_LEAST: Final = 0.1
"""The share of the window that clearing must free: what follows it is written to the cache anew."""
KEPT_CALLS: Final = 10


def context_fields(request: ModelRequest, spec: ModelSpec) -> tuple[Json, tuple[str, ...]]:
    """Give the body's fields and the betas of a request that concern its context."""
    betas = [COMPACTION] if request.summarize or _signed(request.messages) else []
    if request.summarize:
        return {"compaction": {"type": "summarize", "instructions": request.summarize}}, tuple(betas)
    if not spec.clears or request.peak < CLEARED_FROM * spec.window:
        return {}, tuple(betas)
    return {"context_management": {"edits": [_clearing(spec.window)]}}, (*betas, CLEARING)


def readable(messages: Sequence[Json], spec: ModelSpec) -> Sequence[Json]:
    """Give a history as a model can read it: one that makes no signed summaries is told in words what another's says.

    What was thought behind it is not taken out: the service passes over what a model cannot read (facts: thinking).
    """
    if spec.summarizes or (block := _signed(messages)) is None:
        return messages
    return [{"role": "user", "content": [summed_up(str(block["content"]))]}, *messages[1:]]


def _signed(messages: Sequence[Json]) -> Json | None:
    """Give the signed summary that a history begins with, where it does."""
    first = messages[0]["content"] if messages else []
    return first[0] if isinstance(first, list) and first and first[0].get("type") == "compaction" else None


def _clearing(window: int) -> dict[str, Any]:
    """Clear the results of old calls, but for the last ones and the todo list."""
    return {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "input_tokens", "value": int(CLEARED_FROM * window)},
        "keep": {"type": "tool_uses", "value": KEPT_CALLS},
        "clear_at_least": {"type": "input_tokens", "value": int(CLEARED_AT_LEAST * window)},
        "exclude_tools": ["TodoWrite", "exit_plan_mode"],
    }
