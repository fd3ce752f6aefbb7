"""Finds what the API would refuse in a request, with the API's own wording and place.

A rule is a generator of findings over a Subject. The first finding of the first rule that has one is the answer. The
order matters: each rule may rely on what earlier rules have checked. What the bot never sends is not simulated: a field
or type that only other clients use is refused as unknown.
"""

from __future__ import annotations

from collections.abc import Mapping

from bot.testing.model.models import MODELS, Model
from bot.testing.model.rules_blocks import message_shapes, text_blocks
from bot.testing.model.rules_cache import cache_markers
from bot.testing.model.rules_context import compaction, context_edits
from bot.testing.model.rules_messages import first_message, images, last_message, pairing
from bot.testing.model.rules_parameters import efforts, fields, max_tokens, output_format, prewarm, thinking
from bot.testing.model.rules_tools import strictness, tools
from bot.testing.model.subject import Rule, Subject
from bot.testing.model.wire import ApiError, Json, invalid

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
