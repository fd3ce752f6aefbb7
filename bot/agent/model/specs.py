"""The ModelSpec table: the identity, price and abilities of each model (M12).

Source: the models and pricing pages of the Messages API documentation, as of 2026-11; prices in US dollars per million
tokens. An id that is not in the table is sent unchanged, with the plainest request and no price. Retired models
(claude-mythos-preview, on 2026-06-30) are not in the table.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from bot.ports import Usage

WINDOW: Final = 1_000_000
OUTPUT: Final = 128_000
UNKNOWN_WINDOW: Final = 128_000
"""The window of a model that neither the table nor its server describes.

Most models on other servers of the API have at least this much. Too small a guess shortens a history early; too large a
guess shortens it only after a refusal.
"""
SEARCH_USD: Final = 0.01
"""The service's price of one web search, whatever the model."""
EFFORTS: Final = ("low", "medium", "high", "xhigh", "max")
"""From the lowest to the highest."""


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars per million tokens; `above` applies to prompts longer than `threshold` tokens."""

    input: float
    output: float
    write: float
    write_1h: float
    read: float
    threshold: int = 0
    above: "Prices | None" = None


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One model: limits in tokens, prices, and the request forms that it accepts."""

    id: str
    window: int = WINDOW
    max_output: int = OUTPUT
    prices: Prices | None = None
    thinking: str = "adaptive"
    """The form that a session requests: adaptive, budget (a number of tokens), or none."""
    may_disable: bool = False
    """Whether thinking may be switched off (light calls do)."""
    efforts: tuple[str, ...] = EFFORTS
    summarizes: bool = True
    """Whether it makes a signed summary of a conversation on demand (C3)."""
    clears: bool = True
    """Whether the service can clear old tool results (C2)."""
    structured: bool = True
    """Whether it accepts strict tools and a schema for its answer (M5)."""
    interleaves: bool = False
    """Whether it needs a beta to think between tool calls; with adaptive thinking it always does so."""
    reads_images: bool = True
    drops: bool = False
    """Whether the service can drop thinking whose prefix has changed, instead of refusing the request."""


_HAIKU_LONG = Prices(0.50, 2.50, 0.625, 1.00, 0.05)
_FABLE_5 = Prices(10, 50, 12.50, 20, 1)
_FABLE_5_1 = Prices(10, 50, 12.50, 20, 0.25)
_FABLE_5_2 = Prices(8, 40, 10, 16, 0.20)
_OPUS = Prices(5, 25, 6.25, 10, 0.50)
_SONNET = Prices(3, 15, 3.75, 6, 0.30)
_NO_XHIGH = ("low", "medium", "high", "max")
_BUDGET = {
    "window": 200_000,
    "max_output": 64_000,
    "thinking": "budget",
    "may_disable": True,
    "efforts": (),
    "summarizes": False,
    "interleaves": True,
}

_SPECS = (
    ModelSpec("claude-opus-5-5", prices=Prices(4, 20, 5, 8, 0.20), drops=True),
    ModelSpec("claude-sonnet-5-5", prices=Prices(2, 10, 2.50, 4, 0.10), drops=True),
    ModelSpec(
        "claude-haiku-5-5",
        prices=Prices(0.10, 0.50, 0.125, 0.20, 0.01, threshold=100_000, above=_HAIKU_LONG),
        may_disable=True,
        drops=True,
    ),
    ModelSpec("claude-fable-5-2", prices=_FABLE_5_2, drops=True),
    ModelSpec("claude-fable-5-1", prices=_FABLE_5_1, drops=True),
    ModelSpec("claude-fable-5", prices=_FABLE_5),
    # Mythos 5.2 is sold by invitation, and its prices are not published.
    ModelSpec("claude-mythos-5-2", drops=True),
    ModelSpec("claude-mythos-5-1", prices=_FABLE_5_1, drops=True),
    ModelSpec("claude-mythos-5", prices=_FABLE_5),
    ModelSpec("claude-opus-5", prices=_OPUS, may_disable=True),
    ModelSpec("claude-sonnet-5", prices=Prices(2, 10, 2.50, 4, 0.20), may_disable=True),
    ModelSpec("claude-opus-4-8", prices=_OPUS, may_disable=True),
    ModelSpec("claude-opus-4-7", prices=_OPUS, may_disable=True),
    ModelSpec("claude-opus-4-6", prices=_OPUS, may_disable=True, efforts=_NO_XHIGH),
    ModelSpec("claude-sonnet-4-6", prices=_SONNET, may_disable=True, efforts=_NO_XHIGH),
    ModelSpec("claude-haiku-4-5", prices=Prices(1, 5, 1.25, 2, 0.10), **_BUDGET),  # type: ignore[arg-type]
    ModelSpec("claude-sonnet-4-5", prices=_SONNET, **_BUDGET),  # type: ignore[arg-type]
    ModelSpec("claude-opus-4-5", prices=_OPUS, **{**_BUDGET, "efforts": EFFORTS[:3]}),  # type: ignore[arg-type]
)

_DATE: Final = re.compile(r"-20\d{6}$")
SPECS: Final[Mapping[str, ModelSpec]] = MappingProxyType({spec.id: spec for spec in _SPECS})
ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {"opus": "claude-opus-5-5", "sonnet": "claude-sonnet-5-5", "haiku": "claude-haiku-5-5", "fable": "claude-fable-5-1"}
)


def resolve(name: str) -> ModelSpec:
    """Return the spec of an alias or an id; an unknown id gets the plainest spec, without prices.

    An id that ends with a date has the spec of the same model without the date.
    """
    model = ALIASES.get(name, name)
    if spec := SPECS.get(_DATE.sub("", model)):
        return replace(spec, id=model)
    return ModelSpec(
        model,
        window=UNKNOWN_WINDOW,
        max_output=32_000,
        thinking="none",
        efforts=(),
        clears=False,
        structured=False,
        summarizes=False,
        reads_images=False,
    )


def merge_listing(spec: ModelSpec, listing: Mapping[str, Any]) -> ModelSpec:
    """Return a spec updated from the models endpoint; omitted values, and all prices, stay unchanged (M12).

    https://platform.claude.com/docs/en/api/models-list
    """

    def size(name: str, otherwise: int) -> int:
        value = listing.get(name)
        return value if isinstance(value, int) and value > 0 else otherwise

    def supports(*path: str, otherwise: bool) -> bool:
        value = _capability(listing, *path)
        return otherwise if value is None else value

    modes = {"adaptive": "adaptive", "budget": "enabled"}
    forms = {form: _capability(listing, "thinking", "types", mode) for form, mode in modes.items()}
    efforts = tuple(level for level in EFFORTS if _capability(listing, "effort", level))
    thinking = next((form for form, accepted in forms.items() if accepted), spec.thinking)
    if forms.get(thinking) is False:
        thinking = "none"
    return replace(
        spec,
        window=size("max_input_tokens", spec.window),
        max_output=size("max_tokens", spec.max_output),
        thinking=thinking,
        interleaves=spec.interleaves or thinking == "budget",
        may_disable=supports("thinking", "types", "disabled", otherwise=spec.may_disable),
        efforts=spec.efforts if _capability(listing, "effort") is None else efforts,
        summarizes=supports("compaction", "summarize", otherwise=spec.summarizes),
        clears=supports("context_management", "clear_tool_uses_20250919", otherwise=spec.clears),
        structured=supports("structured_outputs", otherwise=spec.structured),
        reads_images=supports("image_input", otherwise=spec.reads_images),
    )


def _capability(listing: Mapping[str, Any], *path: str) -> bool | None:
    value: Any = listing.get("capabilities")
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return bool(value.get("supported")) if isinstance(value, Mapping) else None


def cost_usd(spec: ModelSpec, usage: Usage) -> float | None:
    """Return the price of one response in US dollars; None for a model without prices, never a guess (M12)."""
    prices = spec.prices
    if prices is None:
        return None
    if prices.above is not None and usage.input + usage.cache_read + usage.cache_write > prices.threshold:
        prices = prices.above
    parts = (
        (usage.input, prices.input),
        (usage.output, prices.output),
        (usage.cache_read, prices.read),
        (usage.cache_write - usage.cache_write_1h, prices.write),
        (usage.cache_write_1h, prices.write_1h),
    )
    return sum(tokens * price for tokens, price in parts) / 1_000_000 + usage.searches * SEARCH_USD
