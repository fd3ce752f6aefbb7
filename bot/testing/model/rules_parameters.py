"""The rules for top-level parameters: known fields, limits, thinking, effort, formats, and pre-warming.

https://platform.claude.com/docs/en/api/messages and the pages of each feature, named next to its rule.
"""

from __future__ import annotations

from collections.abc import Iterator

from bot.testing.model.models import ALL_EFFORTS, EFFORTS_WITHOUT_THINKING
from bot.testing.model.rules_schema import unsupported_keywords, well_formed
from bot.testing.model.subject import Finding, Subject, extra_fields, missing_fields
from bot.testing.model.wire import Json, blocks, invalid

FIELDS = frozenset(
    "cache_control container diagnostics inference_geo max_tokens messages metadata model output_config service_tier "
    "speed stop_sequences stream system thinking tool_choice tools user_profile_id workspace_id".split()
)
COUNTING = frozenset(
    "cache_control context_management messages model output_config speed system thinking tool_choice tools".split()
)
# Fields that exist only for requests that name one of these betas. Other beta fields are not simulated.
BETA_FIELDS = {
    "compaction": frozenset({"compact-2026-09-04"}),
    "context_management": frozenset({"context-management-2025-06-27", "compact-2026-01-12"}),
    "fallbacks": frozenset({"server-side-fallback-2026-07-01"}),
}
SAMPLING = ("temperature", "top_p", "top_k")
BINDING_BETA = "thinking-binding-controls-2026-08-01"
UPDATES_BETA = "thinking-display-updates-2026-08-18"
BUDGET_BETA = "task-budgets-2026-03-13"
MIN_THINKING_BUDGET = 1024
MIN_TASK_BUDGET = 20_000


def fields(subject: Subject) -> Iterator[Finding]:
    """Check that every field is known, that sampling parameters are absent, and that required fields are present."""
    for name in SAMPLING:
        if name in subject.body:
            # Refused "even at the default" since API version 2026-10-21.
            yield f"`{name}` is deprecated for this model."
    allowed = set(COUNTING if subject.counting else FIELDS)
    allowed.update(name for name, betas in BETA_FIELDS.items() if betas & subject.betas)
    yield from extra_fields(subject.body, frozenset(allowed), "")
    yield from missing_fields(subject.body, ("messages",) if subject.counting else ("max_tokens", "messages"), "")
    yield from _system(subject.body.get("system"))
    yield from _metadata(subject.body.get("metadata"))


def _system(system: object) -> Iterator[Finding]:
    if system is not None and not isinstance(system, str | list):
        yield "system: Input should be a valid list"
    for index, block in enumerate(system if isinstance(system, list) else []):
        if not isinstance(block, dict) or block.get("type") != "text":
            yield f"system.{index}.type: Input should be 'text'"
        else:
            yield from extra_fields(block, frozenset({"type", "text", "cache_control"}), f"system.{index}.")
            yield from missing_fields(block, ("text",), f"system.{index}.")


def _metadata(metadata: object) -> Iterator[Finding]:
    if isinstance(metadata, dict):
        yield from extra_fields(metadata, frozenset({"user_id"}), "metadata.")
        if "@" in str(metadata.get("user_id")):
            yield "metadata.user_id: user_id appears to contain an email address"


FAST_BETA = "fast-mode-2026-02-01"
FAST_MODELS = frozenset({"claude-opus-5-5", "claude-opus-5", "claude-opus-4-8"})


# https://platform.claude.com/docs/en/build-with-claude/fast-mode
def speed(subject: Subject) -> Iterator[Finding]:
    """Check that `stream` is a boolean, that stop sequences are strings, and that the model supports fast mode."""
    if not isinstance(subject.body.get("stream", False), bool):
        yield "stream: Input should be a valid boolean"
    sequences = subject.body.get("stop_sequences")
    if sequences is not None and not (isinstance(sequences, list) and all(isinstance(one, str) for one in sequences)):
        yield "stop_sequences: Input should be a valid list of strings"
    value = subject.body.get("speed")
    if value not in {None, "standard", "fast"}:
        yield "speed: Input should be 'standard' or 'fast'"
    elif value == "fast" and subject.model.id not in FAST_MODELS:
        yield "speed: fast mode is not supported for this model"
    elif value == "fast" and FAST_BETA not in subject.betas:
        yield f"speed: fast mode requires the `{FAST_BETA}` value in the `anthropic-beta` header"


def max_tokens(subject: Subject) -> Iterator[Finding]:
    """Check that the output cap is an integer within the model's maximum output."""
    value = subject.body.get("max_tokens", 0)
    if not isinstance(value, int) or isinstance(value, bool):
        yield "max_tokens: Input should be a valid integer"
    elif value < 0:
        yield "max_tokens: Input should be greater than or equal to 0"
    elif value > subject.model.max_output:
        yield (
            f"max_tokens: {value} > {subject.model.max_output}, which is the maximum allowed number of output tokens "
            f"for {subject.model.id}"
        )


# https://platform.claude.com/docs/en/build-with-claude/adaptive-thinking
THINKING_FIELDS = {
    "adaptive": frozenset({"type", "display"}),
    "between_tools": frozenset({"type"}),
    "disabled": frozenset({"type"}),
    "enabled": frozenset({"type", "budget_tokens", "display"}),
}


def thinking(subject: Subject) -> Iterator[Finding]:
    """Check that the form of thinking is well formed and that the model supports it."""
    config = subject.body.get("thinking")
    if config is None:
        return
    form = config.get("type") if isinstance(config, dict) else None
    if not isinstance(form, str) or form not in THINKING_FIELDS:
        tags = ", ".join(f"'{name}'" for name in THINKING_FIELDS)
        yield f"thinking: Input tag '{form}' found using 'type' does not match any of the expected tags: {tags}"
        return
    if form not in subject.model.thinking:
        yield _refused_form(form)
    bound = form == "adaptive" and BINDING_BETA in subject.betas
    yield from extra_fields(
        config, THINKING_FIELDS[form] | ({"block_binding"} if bound else set()), f"thinking.{form}."
    )
    displays = [None, "summarized", "omitted", *(["updates"] if UPDATES_BETA in subject.betas else [])]
    if config.get("display") not in displays:
        yield f"thinking.{form}.display: Input should be 'summarized' or 'omitted'"
    if form == "enabled":
        yield from _budget(subject, config.get("budget_tokens"))


def _refused_form(form: str) -> str:
    if form == "enabled":
        return (
            '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and '
            '"output_config.effort" to control thinking behavior.'
        )
    return f'"thinking.type.{form}" is not supported for this model.'


def _budget(subject: Subject, budget: object) -> Iterator[Finding]:
    if not isinstance(budget, int):
        yield "thinking.enabled.budget_tokens: Field required"
    elif budget < MIN_THINKING_BUDGET:
        yield f"thinking.enabled.budget_tokens: Input should be greater than or equal to {MIN_THINKING_BUDGET}"
    elif not subject.counting and budget >= subject.body.get("max_tokens", 0):
        yield "`max_tokens` must be greater than `thinking.budget_tokens`."


# https://platform.claude.com/docs/en/build-with-claude/effort
def efforts(subject: Subject) -> Iterator[Finding]:
    """Check that the model has the effort level, and allows it with thinking off if thinking is off."""
    config = subject.body.get("output_config")
    if config is not None and not isinstance(config, dict):
        yield "output_config: Input should be an object"
        return
    budgeted = BUDGET_BETA in subject.betas
    allowed = frozenset({"effort", "format"} | ({"task_budget"} if budgeted else set()))
    yield from extra_fields(config or {}, allowed, "output_config.")
    yield from _effort(subject, (config or {}).get("effort"), "output_config.effort")
    budget = (config or {}).get("task_budget")
    if budget is not None and subject.model.id == "claude-sonnet-5":
        yield "output_config.task_budget: not supported for this model"
    if budget is not None and budget.get("total", 0) < MIN_TASK_BUDGET:
        yield f"output_config.task_budget.total: Input should be greater than or equal to {MIN_TASK_BUDGET}"
    off = subject.thinking in {"disabled", "between_tools"} and "adaptive" in subject.model.thinking
    if off and "thinking" in subject.body and subject.effort not in EFFORTS_WITHOUT_THINKING:
        yield f'"thinking.type.{subject.thinking}" is not supported with effort "{subject.effort}" for this model.'
    for index, message in enumerate(blocks(subject.body.get("messages"))):
        yield from _effort(subject, _message_effort(message), f"messages.{index}.output_config.effort")
        if _message_effort(message) is not None and subject.thinking == "between_tools":
            yield f'messages.{index}.output_config.effort: not supported with "thinking.type.between_tools"'


def _message_effort(message: Json) -> object:
    config = message.get("output_config")
    return config.get("effort") if isinstance(config, dict) else None


def _effort(subject: Subject, effort: object, place: str) -> Iterator[Finding]:
    if effort is None:
        return
    if effort not in ALL_EFFORTS:
        yield f"{place}: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'"
    elif not subject.model.efforts:
        yield f"{place}: This model does not support the effort parameter."
    elif effort not in subject.model.efforts:
        levels = ", ".join(subject.model.efforts)
        yield f"{place}: This model does not support effort level '{effort}'. Supported levels: {levels}."


# https://platform.claude.com/docs/en/build-with-claude/structured-outputs
def output_format(subject: Subject) -> Iterator[Finding]:
    """Check that a structured output names a JSON schema that the API can compile."""
    form = (subject.body.get("output_config") or {}).get("format")
    if form is None:
        return
    if not isinstance(form, dict) or form.get("type") != "json_schema":
        yield "output_config.format.type: Input should be 'json_schema'"
    elif not isinstance(form.get("schema"), dict):
        yield "output_config.format.schema: Field required"
    else:
        yield from extra_fields(form, frozenset({"type", "schema"}), "output_config.format.")
        yield from well_formed(form["schema"], "output_config.format.schema")
        yield from unsupported_keywords(form["schema"], "output_config.format.schema")


# https://platform.claude.com/docs/en/build-with-claude/compaction
def compaction(subject: Subject) -> Iterator[Finding]:
    """Check that a request for a summary has no pending call, format, stop sequences, or context edits."""
    config = subject.body.get("compaction")
    if config is None:
        return
    if not isinstance(config, dict) or config.get("type") != "summarize":
        yield "compaction.type: Input should be 'summarize'"
        return
    yield from extra_fields(config, frozenset({"type", "instructions"}), "compaction.")
    for name in ("context_management", "stop_sequences"):
        if subject.body.get(name) is not None:
            yield f"compaction: cannot be combined with `{name}`"
    if (subject.body.get("output_config") or {}).get("format") is not None:
        yield "compaction: cannot be combined with `output_config.format`"
    if (subject.body.get("tool_choice") or {}).get("type") in {"any", "tool"}:
        yield "compaction: cannot be combined with a `tool_choice` that forces tool use"
    if not subject.model.compacts:
        yield "compaction: not supported for this model"
    if any(block["type"] == "tool_use" for block in blocks(subject.messages[-1]["content"])):
        yield invalid("compaction: the last turn has calls without results", code="compaction_incomplete_turn")
    if all(block["type"] == "compaction" for m in subject.messages for block in blocks(m["content"])):
        yield invalid("compaction: there is nothing to summarize", code="compaction_nothing_to_summarize")


# https://platform.claude.com/docs/en/build-with-claude/prompt-caching
def prewarm(subject: Subject) -> Iterator[Finding]:
    """Check that a request with max_tokens 0, which only fills the cache, has no stream, format, or forced call."""
    body = subject.body
    if subject.counting or body["max_tokens"] != 0:
        return
    forced = (body.get("tool_choice") or {}).get("type") in {"any", "tool"}
    refused = {
        "stream": bool(body.get("stream")),
        "output_config.format": (body.get("output_config") or {}).get("format") is not None,
        "thinking.type.enabled": subject.thinking == "enabled",
        "tool_choice": forced,
    }
    for name, present in refused.items():
        if present:
            yield f"max_tokens: 0 is not supported with `{name}`"
