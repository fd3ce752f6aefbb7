"""Finds what the API would refuse in a request, with the API's own wording and place.

A rule is a generator of findings over a Subject. The first finding of the first rule that has one is the answer. The
order matters: each rule may rely on what earlier rules have checked. What the bot never sends is not simulated: a field
or type that only other clients use is refused as unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from bot.testing.model.models import MODELS, Model
from bot.testing.model.rules_blocks import message_shapes, text_blocks
from bot.testing.model.rules_cache import cache_markers
from bot.testing.model.rules_context import compaction, context_edits
from bot.testing.model.rules_messages import first_message, images, last_message, pairing
from bot.testing.model.rules_parameters import efforts, fields, max_tokens, output_format, prewarm, thinking
from bot.testing.model.rules_tools import strictness, tools
from bot.testing.model.subject import Rule, Subject
from bot.testing.model.wire import ApiError, Json, blocks, invalid

BEARER = "bearer"
"""The feature that a server lacks if it requires the key in the header x-api-key."""
RULES: tuple[Rule, ...] = (
    fields,
    message_shapes,
    max_tokens,
    thinking,
    efforts,
    tools,
    output_format,
    strictness,
    first_message,
    text_blocks,
    images,
    compaction,
    context_edits,
    pairing,
    last_message,
    cache_markers,
    prewarm,
)


def violations(
    body: Json,
    *,
    betas: frozenset[str] = frozenset(),
    models: Mapping[str, Model] = MODELS,
) -> ApiError | None:
    """Return the error that the API answers a request body with, or None if it accepts the request."""
    name = body.get("model")
    if not isinstance(name, str):
        return invalid("model: Field required")
    if name not in models:
        return ApiError(404, f"model: {name}")
    subject = Subject(body, models[name], betas)
    for rule in RULES:
        for finding in rule(subject):
            return finding if isinstance(finding, ApiError) else invalid(finding)
    return None


def unknown_part(headers: Mapping[str, str], body: Json, lacks: Collection[str]) -> ApiError | None:
    """Return the error for the first part of a request that a server with fewer features does not support, or None.

    Compatible servers and proxies are such. `lacks` names what is missing as requests do: a beta, a field
    (`output_config`, `output_config.effort`, `tools.strict`), or `bearer`.
    """
    if BEARER in lacks and not headers.get("x-api-key"):
        return ApiError(401, "x-api-key header is required")
    for beta in headers.get("anthropic-beta", "").split(","):
        if beta.strip() in lacks:
            # The service's wording; https://platform.claude.com/docs/en/api/beta-headers
            return invalid(f"Unexpected value(s) `{beta.strip()}` for the `anthropic-beta` header.")
    extra = next((place for name, place in _fields(body) if name in lacks), None)
    return invalid(f"{extra}: Extra inputs are not permitted") if extra else None


def _fields(body: Json) -> Iterator[tuple[str, str]]:
    """Yield each field of a body with its place as errors name it."""
    for name, value in body.items():
        yield name, name
        if isinstance(value, dict):
            tag = f".{value['type']}" if "type" in value else ""
            yield from ((f"{name}.{inner}", f"{name}{tag}.{inner}") for inner in value)
    for index, tool in enumerate(blocks(body.get("tools"))):
        yield from ((f"tools.{inner}", f"tools.{index}.custom.{inner}") for inner in tool)
