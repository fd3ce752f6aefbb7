"""Each rule on what comes with a beta's header: the good request passes, its bad twin gets the API's 400."""

from __future__ import annotations

from typing import Any

import pytest

from tests.testing.model.messages import IMAGE, assistant, body, system, text, user
from tests.testing.model.rules import Json, refused

CLEAR_AT = "mid-conversation-system-clear-at-2026-08-21"
EFFORT = "mid-conversation-output-config-2026-07-01"
COMPACT = "compact-2026-09-04"
EDITS = "context-management-2025-06-27"


def edited(*edits: Json) -> Json:
    return body(user("a"), context_management={"edits": list(edits)})


BETA_ROWS: dict[str, tuple[str, Json, Json, str]] = {
    "no marker on a reminder that clears": (
        CLEAR_AT,
        body(user("a"), system([text("s")], clear_at="next_user_message")),
        body(user("a"), system([text("s", cache_control={"type": "ephemeral"})], clear_at="next_user_message")),
        "messages.1.content.0.text.cache_control: cache_control cannot be set on a system message with `clear_at`",
    ),
    "effort alone may stand anywhere": (
        EFFORT,
        body(user("a"), assistant("b"), system([], output_config={"effort": "low"}), user("c")),
        body(user("a"), assistant("b"), system("s", output_config={"effort": "low"}), user("c")),
        'messages.2: a "system" message must follow a "user" message',
    ),
    "per-message effort is a known level": (
        EFFORT,
        body(user("a"), system([], output_config={"effort": "low"})),
        body(user("a"), system([], output_config={"effort": "huge"})),
        "messages.1.output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'",
    ),
    "a summary is asked for in the known way": (
        COMPACT,
        body(user("a"), compaction={"type": "summarize"}),
        body(user("a"), compaction={"type": "shorten"}),
        "compaction.type: Input should be 'summarize'",
    ),
    "a summary has no format": (
        COMPACT,
        body(user("a"), compaction={"type": "summarize"}),
        body(
            user("a"),
            compaction={"type": "summarize"},
            output_config={
                "format": {"type": "json_schema", "schema": {"type": "object", "additionalProperties": False}}
            },
        ),
        "compaction: cannot be combined with `output_config.format`",
    ),
    "no effort by message where thinking is between tools": (
        EFFORT,
        body(user("a"), system([], output_config={"effort": "low"}), model="claude-sonnet-5-5"),
        body(
            user("a"),
            system([], output_config={"effort": "low"}),
            model="claude-sonnet-5-5",
            thinking={"type": "between_tools"},
        ),
        'messages.1.output_config.effort: not supported with "thinking.type.between_tools"',
    ),
    "tool changes are a beta of their own": (
        "mid-conversation-tool-changes-2026-07-01",
        body(user("a"), system([{"type": "tool_removal", "tool": {"type": "tool_reference", "name": "Read"}}])),
        body(user("a"), system([IMAGE])),
        "messages.1.content.0: Input tag 'image' found",
    ),
    "edits are a list": (
        EDITS,
        edited({"type": "clear_tool_uses_20250919"}),
        body(user("a"), context_management={"edit": []}),
        "context_management.edits: Field required",
    ),
    "an edit is a known one": (
        EDITS,
        edited({"type": "clear_thinking_20251015", "keep": "all"}),
        edited({"type": "clear_everything"}),
        "context_management.edits.0: Input tag 'clear_everything' found",
    ),
    "an edit has known fields": (
        EDITS,
        edited({"type": "clear_tool_uses_20250919", "exclude_tools": ["TodoWrite"]}),
        edited({"type": "clear_tool_uses_20250919", "exclude": []}),
        "context_management.edits.0.clear_tool_uses_20250919.exclude: Extra inputs",
    ),
    "an edit measures what it can": (
        EDITS,
        edited({"type": "clear_tool_uses_20250919", "keep": {"type": "tool_uses", "value": 3}}),
        edited({"type": "clear_tool_uses_20250919", "keep": {"type": "input_tokens", "value": 3}}),
        "context_management.edits.0.clear_tool_uses_20250919.keep.type: Input should be one of",
    ),
    "an edit measures whole numbers": (
        EDITS,
        edited({"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 9}}),
        edited({"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 0.5}}),
        "context_management.edits.0.clear_tool_uses_20250919.trigger.value: Input should be a valid integer",
    ),
    "thinking is cleared first": (
        EDITS,
        edited({"type": "clear_thinking_20251015"}, {"type": "clear_tool_uses_20250919"}),
        edited({"type": "clear_tool_uses_20250919"}, {"type": "clear_thinking_20251015"}),
        "context_management.edits: `clear_thinking_20251015` must come first",
    ),
    "compaction at a threshold begins high": (
        "compact-2026-01-12",
        edited({"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 50_000}}),
        edited({"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 49_999}}),
        "context_management.edits.0.compact_20260112.trigger.value: Input should be greater",
    ),
    "a summary stands alone": (
        COMPACT,
        body(user("a"), compaction={"type": "summarize"}),
        body(user("a"), compaction={"type": "summarize"}, stop_sequences=["x"]),
        "compaction: cannot be combined with `stop_sequences`",
    ),
}


@pytest.mark.parametrize(("beta", "good", "bad", "message"), list(BETA_ROWS.values()), ids=list(BETA_ROWS))
def test_rule_of_a_beta(ok: Any, beta: str, good: Json, bad: Json, message: str) -> None:
    """With the beta's header the good request is answered and the bad one refused with this message."""
    assert refused(ok, good, bad, beta).startswith(message)
