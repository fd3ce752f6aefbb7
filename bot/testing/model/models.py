"""The table of models that the simulated API serves: limits, prices, and accepted parameters.

This is the vendor's side of the table, kept separate from the bot's own so that tests can compare the two. Sources:
https://platform.claude.com/docs/en/about-claude/models/overview and .../pricing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

Thinking = Literal["adaptive", "disabled", "enabled"]

SEARCH = 10_000  # millionths of a dollar for one web search
ALL_EFFORTS = ("low", "medium", "high", "xhigh", "max")
NO_XHIGH = ("low", "medium", "high", "max")
EFFORTS_WITHOUT_THINKING = frozenset({"low", "medium", "high"})


@dataclass(frozen=True, slots=True)
class Prices:
    input: float
    output: float
    write_5m: float
    write_1h: float
    read: float


@dataclass(frozen=True, slots=True)
class Model:
    """The properties of one model and what it accepts. Window, output, and cache sizes are in tokens."""

    id: str
    prices: Prices
    thinking: frozenset[Thinking]
    efforts: tuple[str, ...] = ALL_EFFORTS
    default_effort: str = "high"
    default_thinking: Thinking = "adaptive"
    window: int = 1_000_000
    max_output: int = 128_000
    min_cache: int = 512
    preserved_thinking: bool = False
    compacts: bool = True
    shows_thinking: bool = False
    long_prompt: tuple[int, Prices] | None = None

    @property
    def line(self) -> str:
        return self.id.split("-")[1]

    def prices_for(self, prompt_tokens: int) -> Prices:
        if self.long_prompt is not None and prompt_tokens > self.long_prompt[0]:
            return self.long_prompt[1]
        return self.prices


ADAPTIVE: frozenset[Thinking] = frozenset({"adaptive"})
OPTIONAL: frozenset[Thinking] = frozenset({"adaptive", "disabled"})
OLDER: frozenset[Thinking] = frozenset({"adaptive", "enabled", "disabled"})
BUDGETED: frozenset[Thinking] = frozenset({"enabled", "disabled"})

OPUS_5_5 = Model(
    "claude-opus-5-5", Prices(4, 20, 5, 8, 0.20), ADAPTIVE, default_effort="medium", preserved_thinking=True
)
SONNET_5_5 = Model("claude-sonnet-5-5", Prices(2, 10, 2.50, 4, 0.10), ADAPTIVE, preserved_thinking=True)
HAIKU_5_5 = Model(
    "claude-haiku-5-5", Prices(0.10, 0.50, 0.125, 0.20, 0.01), OPTIONAL, default_effort="medium",
    preserved_thinking=True, long_prompt=(100_000, Prices(0.50, 2.50, 0.625, 1, 0.05)),
)  # fmt: skip
FABLE_5_1 = Model("claude-fable-5-1", Prices(10, 50, 12.50, 20, 0.25), ADAPTIVE, preserved_thinking=True)
FABLE_5_2 = replace(FABLE_5_1, id="claude-fable-5-2", prices=Prices(8, 40, 10, 16, 0.20))
FABLE_5 = replace(FABLE_5_1, id="claude-fable-5", prices=Prices(10, 50, 12.50, 20, 1), preserved_thinking=False)
OPUS_5 = Model("claude-opus-5", Prices(5, 25, 6.25, 10, 0.50), OPTIONAL)
SONNET_5 = Model("claude-sonnet-5", Prices(2, 10, 2.50, 4, 0.20), OPTIONAL, min_cache=1024)
OPUS_4_8 = replace(OPUS_5, id="claude-opus-4-8", default_thinking="disabled", min_cache=1024)
OPUS_4_7 = replace(OPUS_4_8, id="claude-opus-4-7", min_cache=2048)
OPUS_4_6 = replace(
    OPUS_4_7, id="claude-opus-4-6", thinking=OLDER, efforts=NO_XHIGH, min_cache=4096, shows_thinking=True
)
SONNET_4_6 = replace(OPUS_4_6, id="claude-sonnet-4-6", prices=Prices(3, 15, 3.75, 6, 0.30), min_cache=1024)
HAIKU_4_5 = Model(
    "claude-haiku-4-5", Prices(1, 5, 1.25, 2, 0.10), BUDGETED, efforts=(), default_thinking="disabled",
    window=200_000, max_output=64_000, min_cache=4096, shows_thinking=True, compacts=False,
)  # fmt: skip
SONNET_4_5 = replace(HAIKU_4_5, id="claude-sonnet-4-5", prices=Prices(3, 15, 3.75, 6, 0.30), min_cache=1024)
OPUS_4_5 = replace(
    HAIKU_4_5, id="claude-opus-4-5", prices=Prices(5, 25, 6.25, 10, 0.50), efforts=("low", "medium", "high")
)

_LISTED = (
    FABLE_5_2, replace(FABLE_5_2, id="claude-mythos-5-2"), HAIKU_5_5, SONNET_5_5, FABLE_5_1, OPUS_5_5,
    replace(FABLE_5_1, id="claude-mythos-5-1"), FABLE_5, replace(FABLE_5, id="claude-mythos-5"), SONNET_5, OPUS_5,
    OPUS_4_8, OPUS_4_7, OPUS_4_6, SONNET_4_6, HAIKU_4_5, replace(HAIKU_4_5, id="claude-haiku-4-5-20251001"), OPUS_4_5,
    replace(OPUS_4_5, id="claude-opus-4-5-20251101"), SONNET_4_5,
    replace(SONNET_4_5, id="claude-sonnet-4-5-20250929"),
)  # fmt: skip
MODELS: Mapping[str, Model] = {model.id: model for model in _LISTED}


def cost_usd(model: str, usage: Mapping[str, Any], *, models: Mapping[str, Model] = MODELS) -> float:
    fresh, output = int(usage["input_tokens"]), int(usage["output_tokens"])
    read = int(usage.get("cache_read_input_tokens") or 0)
    written = int(usage.get("cache_creation_input_tokens") or 0)
    hour = int((usage.get("cache_creation") or {}).get("ephemeral_1h_input_tokens") or 0)
    prices = models[model].prices_for(fresh + read + written)
    millionths = fresh * prices.input + output * prices.output + read * prices.read
    millionths += hour * prices.write_1h + (written - hour) * prices.write_5m
    searches = int((usage.get("server_tool_use") or {}).get("web_search_requests") or 0)
    return (millionths + searches * SEARCH) / 1_000_000
