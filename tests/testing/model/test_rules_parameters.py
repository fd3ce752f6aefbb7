"""Each rule on parameters, tools and cache markers: the good request passes, its bad twin gets the API's 400."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic import NotFoundError

from tests.rows import every_row
from tests.testing.model.rules import CLOSED, HAIKU, HAIKU_4_5, OPUS, OPUS_4_5, OPUS_4_6, Json, body, refused


def prop(**schema: Any) -> Json:
    return {"properties": {"x": schema}, "required": ["x"]}


def shaped(schema: Json) -> Json:
    return {"format": {"type": "json_schema", "schema": schema}}


def thinking(form: str, **more: Any) -> Json:
    return {"type": form, **more}


def effort(level: str) -> Json:
    return {"effort": level}


NO_ENABLED = (
    '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and '
    '"output_config.effort" to control thinking behavior.'
)
PARAMETERS: dict[str, tuple[Json, Json, str]] = {
    "no temperature": (body(), body(temperature=1), "`temperature` is deprecated for this model."),
    "no top_p": (body(), body(top_p=0.9), "`top_p` is deprecated for this model."),
    "no top_k": (body(), body(top_k=5), "`top_k` is deprecated for this model."),
    "known fields": (body(metadata={"user_id": "u"}), body(colour="red"), "colour: Extra inputs are not permitted"),
    "no betas without their header": (
        body(),
        body(context_management={"edits": []}),
        "context_management: Extra inputs are not permitted",
    ),
    "max_tokens is there": (body(), {"model": OPUS, "messages": []}, "max_tokens: Field required"),
    "messages are there": (body(), {"model": OPUS, "max_tokens": 1}, "messages: Field required"),
    "model is there": (body(), {"max_tokens": 1}, "model: Field required"),
    "max_tokens is a number": (body(), body(max_tokens="many"), "max_tokens: Input should be a valid integer"),
    "max_tokens is not negative": (body(), body(max_tokens=-1), "max_tokens: Input should be greater than or equal"),
    "max_tokens of the model": (
        body(max_tokens=128_000),
        body(max_tokens=128_001),
        f"max_tokens: 128001 > 128000, which is the maximum allowed number of output tokens for {OPUS}",
    ),
    "max_tokens of an old model": (
        body(HAIKU_4_5, max_tokens=64_000),
        body(HAIKU_4_5, max_tokens=64_001),
        f"max_tokens: 64001 > 64000, which is the maximum allowed number of output tokens for {HAIKU_4_5}",
    ),
    "user ids are opaque": (
        body(metadata={"user_id": "8f2c"}),
        body(metadata={"user_id": "a@b.example"}),
        "metadata.user_id: user_id appears to contain an email address",
    ),
    "system is text or blocks": (body(system="s"), body(system=3), "system: Input should be a valid list"),
    "system blocks are text": (
        body(system=[{"type": "text", "text": "s"}]),
        body(system=[{"type": "image"}]),
        "system.0.type: Input should be 'text'",
    ),
    "known system fields": (
        body(system=[{"type": "text", "text": "s"}]),
        body(system=[{"type": "text", "text": "s", "name": "n"}]),
        "system.0.name: Extra inputs are not permitted",
    ),
    "known thinking": (
        body(thinking=thinking("adaptive", display="summarized")),
        body(thinking=thinking("deep")),
        "thinking: Input tag 'deep' found using 'type' does not match any of the expected tags",
    ),
    "opus 5.5 always thinks": (
        body(thinking=thinking("adaptive")),
        body(thinking=thinking("disabled")),
        '"thinking.type.disabled" is not supported for this model.',
    ),
    "no budget any more": (body(), body(thinking=thinking("enabled", budget_tokens=1024)), NO_ENABLED),
    "thinking off needs a modest effort": (
        body(HAIKU, thinking=thinking("disabled"), output_config=effort("high")),
        body(HAIKU, thinking=thinking("disabled"), output_config=effort("xhigh")),
        '"thinking.type.disabled" is not supported with effort "xhigh" for this model.',
    ),
    "known display": (
        body(thinking=thinking("adaptive", display="omitted")),
        body(thinking=thinking("adaptive", display="updates")),
        "thinking.adaptive.display: Input should be 'summarized' or 'omitted'",
    ),
    "block_binding is a beta": (
        body(thinking=thinking("adaptive")),
        body(thinking=thinking("adaptive", block_binding={})),
        "thinking.adaptive.block_binding: Extra inputs are not permitted",
    ),
    "old models have a budget": (
        body(HAIKU_4_5, thinking=thinking("enabled", budget_tokens=1024)),
        body(HAIKU_4_5, thinking=thinking("adaptive")),
        '"thinking.type.adaptive" is not supported for this model.',
    ),
    "a budget has a minimum": (
        body(HAIKU_4_5, thinking=thinking("enabled", budget_tokens=1024)),
        body(HAIKU_4_5, thinking=thinking("enabled", budget_tokens=1023)),
        "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
    ),
    "a budget is below max_tokens": (
        body(OPUS_4_6, thinking=thinking("enabled", budget_tokens=1999)),
        body(OPUS_4_6, thinking=thinking("enabled", budget_tokens=2000)),
        "`max_tokens` must be greater than `thinking.budget_tokens`.",
    ),
    "output_config is an object": (
        body(output_config={}),
        body(output_config="low"),
        "output_config: Input should be an object",
    ),
    "a budget is given": (
        body(OPUS_4_5, thinking=thinking("enabled", budget_tokens=1024)),
        body(OPUS_4_5, thinking=thinking("enabled")),
        "thinking.enabled.budget_tokens: Field required",
    ),
    "a format has a schema": (
        body(output_config=shaped(CLOSED)),
        body(output_config={"format": {"type": "json_schema"}}),
        "output_config.format.schema: Field required",
    ),
    "known effort": (
        body(output_config=effort("max")),
        body(output_config=effort("extreme")),
        "output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'",
    ),
    "known output_config": (
        body(output_config=effort("low")),
        body(output_config={"task_budget": {"type": "tokens", "total": 20_000}}),
        "output_config.task_budget: Extra inputs are not permitted",
    ),
    "old models have no effort": (
        body(OPUS_4_5, output_config=effort("high")),
        body(HAIKU_4_5, output_config=effort("high")),
        "output_config.effort: This model does not support the effort parameter.",
    ),
    "4.6 has no xhigh": (
        body(OPUS_4_6, output_config=effort("max")),
        body(OPUS_4_6, output_config=effort("xhigh")),
        "output_config.effort: This model does not support effort level 'xhigh'. Supported levels: low, medium, high",
    ),
    "a format is a schema": (
        body(output_config=shaped(CLOSED)),
        body(output_config={"format": {"type": "json"}}),
        "output_config.format.type: Input should be 'json_schema'",
    ),
    "a format's objects are closed": (
        body(output_config=shaped(CLOSED)),
        body(output_config=shaped({"type": "object"})),
        "output_config.format.schema: For 'object' type, 'additionalProperties' must be explicitly set to false",
    ),
    "a format has no bounds": (
        body(output_config=shaped({**CLOSED, **prop(type="integer")})),
        body(output_config=shaped({**CLOSED, **prop(type="integer", minimum=0, maximum=9)})),
        "output_config.format.schema: For 'integer' type, properties maximum, minimum are not supported",
    ),
    "pre-warming does not stream": (
        body(max_tokens=0),
        body(max_tokens=0, stream=True),
        "max_tokens: 0 is not supported with `stream`",
    ),
    "pre-warming has no format": (
        body(max_tokens=0),
        body(max_tokens=0, output_config=shaped(CLOSED)),
        "max_tokens: 0 is not supported with `output_config.format`",
    ),
}


@every_row(("good", "bad", "message"), list(PARAMETERS.values()))
@pytest.mark.req("M6")
def test_parameter(ok: Any, good: Json, bad: Json, message: str) -> None:
    assert refused(ok, good, bad).startswith(message)


def test_an_unknown_model_is_a_404_that_names_it(ok: Any) -> None:
    with pytest.raises(NotFoundError) as error:
        ok.send(body("claude-opus-9"))
    assert (error.value.type, error.value.api_message) == ("not_found_error", "model: claude-opus-9")


def test_the_field_of_a_beta_is_known_with_its_header(ok: Any) -> None:
    answer = ok.send(body(context_management={"edits": []}), "context-management-2025-06-27")
    assert answer["context_management"] == {"applied_edits": []}
