"""The context fields of a request: summaries on demand, clearing of old results, and old thinking (C2, C3).

Summaries and clearing are betas: a request names them only if it uses them, so that servers without them still work.
https://platform.claude.com/docs/en/build-with-claude/compaction and .../context-editing
"""

from collections.abc import Sequence
from typing import Any, Final

from bot.agent.history.cutting import summary_block, without_pictures, without_thinking
from bot.agent.model.specs import ModelSpec
from bot.core.transcript import Json
from bot.ports import ModelRequest, Replay

COMPACTION: Final = "compact-2026-09-04"
CLEARING: Final = "context-management-2025-06-27"

CLEARED_FROM: Final = 0.5
"""The share of the window above which old results are cleared at the latest."""
CLEARED_AT_LEAST: Final = 0.2
"""The share of a context that clearing must free, because everything after it is written to the cache again."""
KEPT_CALLS: Final = 10


def context_fields(request: ModelRequest, spec: ModelSpec) -> tuple[Json, tuple[str, ...]]:
    """Return the body's fields and the betas of a request that concern its context."""
    betas = [COMPACTION] if request.summarize or _signed_summary(request.messages) else []
    if request.summarize:
        return {"compaction": {"type": "summarize", "instructions": request.summarize}}, tuple(betas)
    trigger = int(min(request.clear_at, CLEARED_FROM * spec.window))
    if not spec.clears or request.peak < trigger:
        return {}, tuple(betas)
    return {"context_management": {"edits": [_clearing(trigger)]}}, (*betas, CLEARING)


def readable_messages(request: ModelRequest, spec: ModelSpec) -> Sequence[Json]:
    """Return a request's history as the model can read it; messages that need no change are the same objects.

    A model without signed summaries gets another model's summary as text. Thinking stays, since the service ignores
    what a model cannot read, unless the request leaves all of it out. A picture that the service refused is a note.
    """
    messages = request.messages
    if not spec.summarizes and (block := _signed_summary(messages)) is not None:
        messages = [{"role": "user", "content": [summary_block(str(block["content"]))]}, *messages[1:]]
    if request.view.left_out:
        messages = [without_pictures(message, request.view.left_out) for message in messages]
    if request.view.thinking is not Replay.NONE:
        return messages
    return [bare for message in messages if (bare := without_thinking(message))["content"]]


def _signed_summary(messages: Sequence[Json]) -> Json | None:
    """Return the signed summary at the start of a history, or None."""
    first = messages[0]["content"] if messages else []
    return first[0] if isinstance(first, list) and first and first[0].get("type") == "compaction" else None


def _clearing(trigger: int) -> dict[str, Any]:
    """Return the edit that clears the results of old calls from a size on, except the last ones and the todo list."""
    return {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "input_tokens", "value": trigger},
        "keep": {"type": "tool_uses", "value": KEPT_CALLS},
        "clear_at_least": {"type": "input_tokens", "value": int(CLEARED_AT_LEAST * trigger)},
        "exclude_tools": ["TodoWrite", "exit_plan_mode"],
    }
