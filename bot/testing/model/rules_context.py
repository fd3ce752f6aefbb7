"""The rules for a long context: a summary on request, and the clearing of old tool results.

https://platform.claude.com/docs/en/build-with-claude/compaction and .../context-editing
"""

from __future__ import annotations

from collections.abc import Iterator

from bot.testing.model.subject import Finding, Subject, extra_fields
from bot.testing.model.wire import Json, blocks, invalid

COMPACT_BETA = "compact-2026-09-04"
CLEARING_BETA = "context-management-2025-06-27"
CLEARING = "clear_tool_uses_20250919"
CLEARING_FIELDS = frozenset({"type", "trigger", "keep", "clear_at_least", "exclude_tools", "clear_tool_inputs"})
MEASURES = {
    "trigger": frozenset({"input_tokens", "tool_uses"}),
    "keep": frozenset({"tool_uses"}),
    "clear_at_least": frozenset({"input_tokens"}),
}
"""Measure of a clearing -> the units that it may count."""


def compaction(subject: Subject) -> Iterator[Finding]:
    """Check that a request for a summary has no pending call, format, or context edits."""
    config = subject.body.get("compaction")
    if config is None:
        return
    if not isinstance(config, dict) or config.get("type") != "summarize":
        yield "compaction.type: Input should be 'summarize'"
        return
    yield from extra_fields(config, frozenset({"type", "instructions"}), "compaction.")
    if subject.body.get("context_management") is not None:
        yield "compaction: cannot be combined with `context_management`"
    if (subject.body.get("output_config") or {}).get("format") is not None:
        yield "compaction: cannot be combined with `output_config.format`"
    if not subject.model.compacts:
        yield "compaction: not supported for this model"
    if any(block["type"] == "tool_use" for block in blocks(subject.messages[-1]["content"])):
        yield invalid("compaction: the last turn has calls without results", code="compaction_incomplete_turn")
    if all(block["type"] == "compaction" for m in subject.messages for block in blocks(m["content"])):
        yield invalid("compaction: there is nothing to summarize", code="compaction_nothing_to_summarize")


def context_edits(subject: Subject) -> Iterator[Finding]:
    """Check that each context edit clears tool results and is well formed."""
    config = subject.body.get("context_management")
    if config is None:
        return
    if not isinstance(config, dict) or not isinstance(config.get("edits"), list):
        yield "context_management.edits: Field required"
        return
    yield from extra_fields(config, frozenset({"edits"}), "context_management.")
    for index, edit in enumerate(blocks(config["edits"])):
        yield from _clearing(edit, f"context_management.edits.{index}")


def _clearing(edit: Json, place: str) -> Iterator[Finding]:
    if (kind := edit.get("type")) != CLEARING:
        yield f"{place}: Input tag '{kind}' found using 'type' does not match any of the expected tags: '{CLEARING}'"
    yield from extra_fields(edit, CLEARING_FIELDS, f"{place}.{CLEARING}.")
    for name, units in MEASURES.items():
        measure = edit.get(name)
        if measure is None:
            continue
        if not isinstance(measure, dict) or measure.get("type") not in units:
            yield f"{place}.{CLEARING}.{name}.type: Input should be one of {', '.join(sorted(units))}"
        elif not isinstance(measure.get("value"), int) or measure["value"] < 0:
            yield f"{place}.{CLEARING}.{name}.value: Input should be a valid integer"
