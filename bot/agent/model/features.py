"""Features that a request can do without: what a compatible server or a proxy refuses is not sent again (M6, M12).

Rules: a 400 or 422 removes a feature if it names a beta or `context_management`, or reports an unknown field that the
feature uses. Each feature is removed once per endpoint, so a request is repeated only a few times. A refusal that says
the model lacks an ability removes it for that model. What the operator adds to each request (PLANGATE_EXTRA_BODY) is
never removed.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from bot.agent.model.context_fields import CLEARING, COMPACTION
from bot.agent.model.failures import CallFailure
from bot.agent.model.request import BINDING, INTERLEAVED
from bot.agent.model.specs import ModelSpec

_UNKNOWN: Final = re.compile(
    r"extra inputs|extra_forbidden|additional propert"
    r"|\b(unknown|unrecognized|unexpected|unsupported|invalid)\b.{0,20}\b(field|key|keyword|name|argument|parameter|property)",
    re.IGNORECASE | re.DOTALL,
)
"""How servers report an unknown field: pydantic, and the JSON decoders of Go, Rust and Google."""
_SOME_BETA: Final = re.compile(r"anthropic-beta|\bbeta (flag|header|feature)", re.IGNORECASE)
"""How a server refuses a beta without its name: Bedrock says "invalid beta flag"."""
_UNSUPPORTED: Final = re.compile(r"\bnot (?:\w+ )?(?:support|available)|\bunsupported\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Feature:
    """Something that a request can do without; `terms` are the names of its fields and betas in errors."""

    name: str
    terms: tuple[str, ...]
    without: Mapping[str, Any]
    """The fields of a ModelSpec that keep it out of requests."""
    beta: str = ""


def _feature(name: str, *terms: str, beta: str = "", **without: Any) -> Feature:
    return Feature(name, terms, MappingProxyType(without), beta)


FEATURES: Final = (
    _feature("clearing of old tool results", "context_management", beta=CLEARING, clears=False),
    _feature("summaries by the service", "compaction", beta=COMPACTION, summarizes=False),
    _feature("thinking between tool calls", beta=INTERLEAVED, interleaves=False),
    _feature("control of thinking blocks", "block_binding", beta=BINDING, drops=False),
    _feature("effort", "output_config.effort", efforts=()),
    _feature("structured output", "output_config.format", "strict", structured=False),
    _feature("output_config", "output_config", efforts=(), structured=False),
    _feature("thinking", "thinking", thinking="none"),
)
"""In the order in which they are searched: a field before the object that contains it."""


def refused_features(failure: CallFailure, fields: Mapping[str, Any], betas: Collection[str]) -> tuple[Feature, ...]:
    """Return the features of a request that its refusal is about; none if it is about something else."""
    if not failure.is_lasting or failure.place:
        return ()
    refused = tuple(feature for feature in FEATURES if feature.beta in betas and feature.beta in failure.text)
    if refused:
        return refused
    used = set(_used_terms(fields))
    for feature in FEATURES:
        says_unknown = "context_management" in feature.terms or _UNKNOWN.search(failure.text)
        if says_unknown and any(term in used and _names(failure.text, term) for term in feature.terms):
            return (feature,)
    if _SOME_BETA.search(failure.text):
        return tuple(feature for feature in FEATURES if feature.beta in betas)
    return ()


def unsupported_abilities(failure: CallFailure, fields: Mapping[str, Any]) -> tuple[Feature, ...]:
    """Return the narrowest ability, and of several the first, that a refusal says the model lacks; none if the request
    does not use it.
    """
    if not failure.is_lasting or failure.place or not _UNSUPPORTED.search(failure.text):
        return ()
    used, text = set(_used_terms(fields)), failure.text.lower()
    named = [feature for feature in FEATURES if feature.name in text and not used.isdisjoint(feature.terms)]
    return tuple(sorted(named, key=lambda feature: (len(feature.without), text.index(feature.name)))[:1])


def without_features(spec: ModelSpec, missing: Sequence[Feature]) -> ModelSpec:
    """Return a spec whose requests use none of these features."""
    for feature in missing:
        spec = replace(spec, **feature.without)
    return spec


def _used_terms(fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names that errors may use for a request's fields."""
    yield from fields
    yield from (f"output_config.{name}" for name in fields.get("output_config", ()))
    yield from fields.get("thinking", ())
    if any(tool.get("strict") for tool in fields.get("tools", ())):
        yield "strict"


def _names(text: str, term: str) -> bool:
    """Return whether an error names a field of the body, of a tool, or of `thinking`, but not of a message."""
    prefix = r"(?<![\w.])(?:body\.)?(?:tools\.\d+\.(?:\w+\.)?|thinking\.(?:\w+\.)?)?"
    return re.search(rf"{prefix}{re.escape(term)}(?!\w)", text) is not None
