"""The rules for top-level parameters: known fields, limits, thinking, effort, and formats.

https://platform.claude.com/docs/en/api/messages and the pages of each feature, named next to its rule.
"""

from __future__ import annotations

from collections.abc import Iterator

from bot.testing.model.models import ALL_EFFORTS, EFFORTS_WITHOUT_THINKING
from bot.testing.model.rules_context import CLEARING_BETA, COMPACT_BETA
from bot.testing.model.rules_schema import unsupported_keywords, well_formed
from bot.testing.model.subject import Finding, Subject, extra_fields, missing_fields

FIELDS = frozenset("max_tokens messages metadata model output_config stream system thinking tools".split())
BETA_FIELDS = {COMPACT_BETA: "compaction", CLEARING_BETA: "context_management"}
"""Beta -> the field that exists only for requests that name it."""
SAMPLING = ("temperature", "top_p", "top_k")
BINDING_BETA = "thinking-binding-controls-2026-08-01"
MIN_THINKING_BUDGET = 1024


def fields(subject: Subject) -> Iterator[Finding]:
    """Check that every field is known, that sampling parameters are absent, and that required fields are present."""
    for name in SAMPLING:
        if name in subject.body:
            # Refused "even at the default" since API version 2026-10-21.
            yield f"`{name}` is deprecated for this model."
    allowed = FIELDS | {name for beta, name in BETA_FIELDS.items() if beta in subject.betas}
    yield from extra_fields(subject.body, allowed, "")
    yield from missing_fields(subject.body, ("max_tokens", "messages"), "")
    if not isinstance(subject.body.get("stream", False), bool):
        yield "stream: Input should be a valid boolean"
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


def max_tokens(subject: Subject) -> Iterator[Finding]:
    """Check that the output cap is an integer within the model's maximum output."""
    value = subject.body["max_tokens"]
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
    if config.get("display") not in (None, "summarized", "omitted"):
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
    elif budget >= subject.body["max_tokens"]:
        yield "`max_tokens` must be greater than `thinking.budget_tokens`."


# https://platform.claude.com/docs/en/build-with-claude/effort
def efforts(subject: Subject) -> Iterator[Finding]:
    """Check that the model has the effort level, and allows it with thinking off if thinking is off."""
    config = subject.body.get("output_config")
    if config is not None and not isinstance(config, dict):
        yield "output_config: Input should be an object"
        return
    yield from extra_fields(config or {}, frozenset({"effort", "format"}), "output_config.")
    effort, place = (config or {}).get("effort"), "output_config.effort"
    if effort is not None and effort not in ALL_EFFORTS:
        yield f"{place}: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'"
    elif effort is not None and not subject.model.efforts:
        yield f"{place}: This model does not support the effort parameter."
    elif effort is not None and effort not in subject.model.efforts:
        levels = ", ".join(subject.model.efforts)
        yield f"{place}: This model does not support effort level '{effort}'. Supported levels: {levels}."
    is_disabled = "thinking" in subject.body and subject.thinking == "disabled"
    off = "adaptive" in subject.model.thinking and is_disabled
    if off and subject.effort not in EFFORTS_WITHOUT_THINKING:
        yield f'"thinking.type.disabled" is not supported with effort "{subject.effort}" for this model.'


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


# https://platform.claude.com/docs/en/build-with-claude/prompt-caching
def prewarm(subject: Subject) -> Iterator[Finding]:
    """Check that a request with max_tokens 0, which only fills the cache, has no stream, format, or budget."""
    body = subject.body
    if body["max_tokens"] != 0:
        return
    refused = {
        "stream": bool(body.get("stream")),
        "output_config.format": (body.get("output_config") or {}).get("format") is not None,
        "thinking.type.enabled": subject.thinking == "enabled",
    }
    for name, present in refused.items():
        if present:
            yield f"max_tokens: 0 is not supported with `{name}`"
