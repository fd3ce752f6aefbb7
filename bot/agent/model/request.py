"""Builds a call from a ModelRequest and the project's choices: its parameters and its body (L4, M3, M4, M6, C2)."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import Any, Final

from bot.agent.history.cutting import summary_block, without_pictures, without_thinking
from bot.agent.model.specs import EFFORTS, ModelSpec
from bot.core.exchange import CLEAR_AT, MOST_TOKENS
from bot.core.transcript import Json, encode_json
from bot.ports import Abilities, Model, ModelEvent, ModelRequest, Replay

# --- Context fields of a request (C2, C3) -----------------------------------------------------------------------------
# Summaries and clearing are betas: a request names them only if it uses them, so that servers without them still work.
# https://platform.claude.com/docs/en/build-with-claude/compaction
# https://platform.claude.com/docs/en/build-with-claude/context-editing

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
    what a model cannot read, unless the request leaves all of it out. A note replaces a picture that was refused.
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


# --- Parameters and body of a request (L4, M3, M4, M6) ----------------------------------------------------------------
# Nothing that a model refuses is sent to it. Cache marks are set on an outgoing copy; stored messages never change.

MARK: Final[Json] = {"type": "ephemeral"}
TAIL_MARKS: Final = 2

_EFFORT: Final = {"main": "medium", "subagent": "medium", "restricted": "low", "light": "low"}
_CONFIGURABLE_ROLES: Final = frozenset({"main", "subagent"})
"""The roles whose effort a project may choose."""
_UNMARKABLE: Final = frozenset({"thinking", "redacted_thinking"})
_THINKING_BUDGET: Final = 8_000
INTERLEAVED: Final = "interleaved-thinking-2025-05-14"
BINDING: Final = "thinking-binding-controls-2026-08-01"
_LEAST_THINKING: Final = 1_024
"""The smallest budget that the API accepts."""


def parameters(
    request: ModelRequest, spec: ModelSpec, *, cap: int | None = None, extra: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the parameters of one Messages call; equal inputs give equal bytes.

    `cap` limits max_tokens (the operator's, or that of a non-streaming request); `extra` is added as extra_body.
    """
    if request.role == "light":
        return _light(request, spec, cap=cap, extra=extra)
    request = replace(request, messages=readable_messages(request, spec))
    most = 0 if request.only_caches else MOST_TOKENS[request.role]
    limit = min(most, spec.max_output, cap or most)
    fields: dict[str, Any] = {
        "model": spec.id,
        "max_tokens": limit,
        "system": with_last_mark(request.system),
        "tools": _tools(request.tools, spec),
        "messages": with_cache_marks(request.messages),
    }
    if (thinking := _thinking(spec, request, limit)) is not None:
        fields["thinking"] = thinking
    if spec.efforts:
        fields["output_config"] = {"effort": _effort(request, spec)}
    if request.schema is not None and spec.structured:
        form = {"format": {"type": "json_schema", "schema": request.schema}}
        fields["output_config"] = fields.get("output_config", {}) | form
    if request.user_id:
        fields["metadata"] = {"user_id": request.user_id}
    context, betas = context_fields(request, spec)
    if betas := (*betas, *_thinking_betas(spec, thinking)):
        fields["extra_headers"] = {"anthropic-beta": ",".join(betas)}
    if context or extra:
        fields["extra_body"] = {**context, **(extra or {})}
    return fields


def _light(request: ModelRequest, spec: ModelSpec, *, cap: int | None, extra: Mapping[str, Any] | None) -> Json:
    """Return a light call: plain text as system, no cache marks, no thinking if it may be switched off (M11)."""
    limit = min(MOST_TOKENS["light"], spec.max_output, cap or spec.max_output)
    fields: Json = {"model": spec.id, "max_tokens": limit, "messages": list(request.messages)}
    fields["system"] = "\n\n".join(block["text"] for block in request.system)
    if request.tools:
        fields["tools"] = list(request.tools)
    if spec.thinking == "adaptive":
        fields["thinking"] = {"type": "disabled" if spec.may_disable else "adaptive"}
    if spec.efforts:
        fields["output_config"] = {"effort": _effort(request, spec)}
    if request.user_id:
        fields["metadata"] = {"user_id": request.user_id}
    return {**fields, "extra_body": dict(extra)} if extra else fields


def _tools(tools: Sequence[Json], spec: ModelSpec) -> list[Json]:
    if spec.structured:
        return list(tools)
    return [{key: value for key, value in tool.items() if key != "strict"} for tool in tools]


def _effort(request: ModelRequest, spec: ModelSpec) -> str:
    """Return the effort that the project chose, else that of the role.

    If the model does not accept it, returns the next lower effort that it accepts, or its lowest.
    """
    effort = request.effort if request.effort and request.role in _CONFIGURABLE_ROLES else _EFFORT[request.role]
    accepted = [level for level in spec.efforts if EFFORTS.index(level) <= EFFORTS.index(effort)]
    return accepted[-1] if accepted else spec.efforts[0]


def with_cache_marks(messages: Sequence[Json]) -> list[Json]:
    """Return messages with cache marks on the environment block and on the last two user turns (M4).

    Each request can so read the tail of the previous one from the cache. With the mark at the end of `system`, these
    are the four breakpoints that the API allows.
    """
    turns = [index for index, message in enumerate(messages) if message["role"] == "user"]
    marked = list(messages)
    for index in turns[-TAIL_MARKS:]:
        marked[index] = _with_mark(marked[index], -1)
    if len(turns) > TAIL_MARKS or len(_blocks(messages[0])) > 1:
        marked[0] = _with_mark(marked[0], 0)
    return marked


def with_last_mark(blocks: Sequence[Json]) -> list[Json]:
    return [*blocks[:-1], {**blocks[-1], "cache_control": MARK}] if blocks else []


def _with_mark(message: Json, position: int) -> Json:
    """Return a copy of a message with a mark on one block; the message itself if that block cannot carry one."""
    blocks = list(_blocks(message))
    if not blocks or blocks[position].get("type") in _UNMARKABLE:
        return message
    blocks[position] = {**blocks[position], "cache_control": MARK}
    return {**message, "content": blocks}


def _blocks(message: Json) -> list[Json]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _thinking(spec: ModelSpec, request: ModelRequest, max_tokens: int) -> Json | None:
    """Return the `thinking` field, or None. Summaries are requested: text between tool calls now arrives as thinking.

    A model with a budget requires each turn that calls tools to begin with its thinking; if that is left out, thinking
    is off. https://platform.claude.com/docs/en/build-with-claude/extended-thinking
    """
    budget = _LEAST_THINKING if request.role == "restricted" else _THINKING_BUDGET
    match spec.thinking:
        case "adaptive" if spec.drops and request.view.thinking is Replay.MATCHING:
            binding = {"prefix_mismatch_behavior": "drop_block"}
            return {"type": "adaptive", "display": "summarized", "block_binding": binding}
        case "adaptive":
            return {"type": "adaptive", "display": "summarized"}
        case "budget" if max_tokens > budget and request.view.thinking is not Replay.NONE:
            return {"type": "enabled", "budget_tokens": budget}
        case _:
            return None


def _thinking_betas(spec: ModelSpec, thinking: Json | None) -> tuple[str, ...]:
    if thinking is None:
        return ()
    if thinking["type"] == "enabled" and spec.interleaves:
        return (INTERLEAVED,)
    return (BINDING,) if "block_binding" in thinking else ()


def body(fields: Mapping[str, Any], request: ModelRequest) -> bytes:
    """Return the JSON of a call's fields; a message that is sent as it was stored is not encoded again."""
    messages, texts = chain(request.messages, repeat(None)), chain(request.stored, repeat(b""))
    aligned = zip(fields["messages"], messages, texts, strict=False)
    parts = [text if text and message is stored else encode_json(message) for message, stored, text in aligned]
    other_fields = encode_json({name: value for name, value in fields.items() if name != "messages"})
    if not parts:
        return b'{"messages":[],' + other_fields[1:]
    parts[0] = b'{"messages":[' + parts[0]
    parts[-1] += b"]," + other_fields[1:]
    return b",".join(parts)  # the only copy of the whole body


@dataclass(frozen=True, slots=True)
class ConfiguredModel:
    """The Model port with one project's choices; the client behind it serves many projects."""

    client: Model
    fallback: str = ""
    effort: str = ""
    clear_at: int = CLEAR_AT

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        chosen = replace(request, fallback=self.fallback, effort=self.effort, clear_at=self.clear_at)
        return self.client.stream(chosen)

    def abilities(self, model: str) -> Abilities:
        return self.client.abilities(model)
