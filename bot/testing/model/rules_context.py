"""The rules for context management: known edits, their order, and their format.

https://platform.claude.com/docs/en/build-with-claude/context-editing
"""

from __future__ import annotations

from collections.abc import Iterator

from bot.testing.model.subject import Finding, Subject, extra_fields
from bot.testing.model.wire import Json, blocks

CLEAR_TOOLS = "clear_tool_uses_20250919"
CLEAR_THINKING = "clear_thinking_20251015"
COMPACT = "compact_20260112"
COMPACT_FROM = 50_000
FIELDS = {
    CLEAR_TOOLS: frozenset({"type", "trigger", "keep", "clear_at_least", "exclude_tools", "clear_tool_inputs"}),
    CLEAR_THINKING: frozenset({"type", "keep"}),
    COMPACT: frozenset({"type", "trigger", "pause_after_compaction", "instructions"}),
}
BETAS = {
    CLEAR_TOOLS: "context-management-2025-06-27",
    CLEAR_THINKING: "context-management-2025-06-27",
    COMPACT: "compact-2026-01-12",
}
# The units that each measure of an edit may count.
MEASURES = {
    "trigger": frozenset({"input_tokens", "tool_uses"}),
    "keep": frozenset({"tool_uses", "thinking_turns"}),
    "clear_at_least": frozenset({"input_tokens"}),
}


def context_edits(subject: Subject) -> Iterator[Finding]:
    """Check that each edit exists and is well formed, and that thinking is cleared before tool uses."""
    config = subject.body.get("context_management")
    if config is None:
        return
    if not isinstance(config, dict) or not isinstance(config.get("edits"), list):
        yield "context_management.edits: Field required"
        return
    yield from extra_fields(config, frozenset({"edits"}), "context_management.")
    edits = blocks(config["edits"])
    for index, edit in enumerate(edits):
        yield from _edit(subject, edit, f"context_management.edits.{index}")
    kinds = [edit.get("type") for edit in edits]
    if CLEAR_THINKING in kinds[1:]:
        yield f"context_management.edits: `{CLEAR_THINKING}` must come first"


def _edit(subject: Subject, edit: Json, place: str) -> Iterator[Finding]:
    kind = str(edit.get("type"))
    if kind not in FIELDS:
        tags = ", ".join(f"'{name}'" for name in FIELDS)
        yield f"{place}: Input tag '{kind}' found using 'type' does not match any of the expected tags: {tags}"
        return
    if BETAS[kind] not in subject.betas:
        yield f"{place}.{kind}: requires the `{BETAS[kind]}` value in the `anthropic-beta` header"
    yield from extra_fields(edit, FIELDS[kind], f"{place}.{kind}.")
    for name, counts in MEASURES.items():
        measure = edit.get(name)
        if measure is None or measure == "all":
            continue
        if not isinstance(measure, dict) or measure.get("type") not in counts:
            yield f"{place}.{kind}.{name}.type: Input should be one of {', '.join(sorted(counts))}"
        elif not isinstance(measure.get("value"), int) or measure["value"] < 0:
            yield f"{place}.{kind}.{name}.value: Input should be a valid integer"
    trigger = edit.get("trigger") or {}
    if kind == COMPACT and trigger.get("value", COMPACT_FROM) < COMPACT_FROM:
        yield f"{place}.{kind}.trigger.value: Input should be greater than or equal to {COMPACT_FROM}"
