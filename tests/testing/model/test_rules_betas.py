"""Each rule on what comes with a beta's header: the good request passes, its bad twin gets the API's 400."""

from __future__ import annotations

from typing import Any

import pytest

from tests.testing.model.messages import body, user
from tests.testing.model.rules import Json, refused

COMPACT = "compact-2026-09-04"
EDITS = "context-management-2025-06-27"


def edited(*edits: Json) -> Json:
    return body(user("a"), context_management={"edits": list(edits)})


BETA_ROWS: dict[str, tuple[str, Json, Json, str]] = {
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
    "edits are a list": (
        EDITS,
        edited({"type": "clear_tool_uses_20250919"}),
        body(user("a"), context_management={"edit": []}),
        "context_management.edits: Field required",
    ),
    "an edit is a known one": (
        EDITS,
        edited({"type": "clear_tool_uses_20250919"}),
        edited({"type": "clear_everything"}),
        "context_management.edits.0.type: Input should be 'clear_tool_uses_20250919'",
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
        "context_management.edits.0.clear_tool_uses_20250919.keep.type: Input should be 'tool_uses'",
    ),
    "an edit measures whole numbers": (
        EDITS,
        edited({"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 9}}),
        edited({"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 0.5}}),
        "context_management.edits.0.clear_tool_uses_20250919.trigger.input_tokens.value: Input should be",
    ),
}


@pytest.mark.parametrize(("beta", "good", "bad", "message"), list(BETA_ROWS.values()), ids=list(BETA_ROWS))
def test_rule_of_a_beta(ok: Any, beta: str, good: Json, bad: Json, message: str) -> None:
    assert refused(ok, good, bad, beta).startswith(message)
