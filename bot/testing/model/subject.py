"""The subject of a rule: a parsed request with its model and the betas it opted into."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from bot.testing.model.models import Model
from bot.testing.model.wire import ApiError, Json


@dataclass(frozen=True, slots=True)
class Subject:
    """A request to check."""

    body: Json
    model: Model
    betas: frozenset[str] = frozenset()

    @property
    def thinking(self) -> str:
        """The effective form of thinking."""
        thinking = self.body.get("thinking")
        return str(thinking["type"]) if isinstance(thinking, dict) else self.model.default_thinking

    @property
    def effort(self) -> str:
        """The effective top-level effort."""
        return str((self.body.get("output_config") or {}).get("effort") or self.model.default_effort)

    @property
    def messages(self) -> list[Json]:
        """The messages, for rules that run after the format was checked."""
        messages: list[Json] = self.body["messages"]
        return messages


Finding: TypeAlias = str | ApiError
Rule: TypeAlias = Callable[[Subject], Iterator[Finding]]


def extra_fields(value: Json, allowed: frozenset[str], place: str) -> Iterator[str]:
    """Yield a finding for each field that the API does not know at this place."""
    for name in value:
        if name not in allowed:
            yield f"{place}{name}: Extra inputs are not permitted"


def missing_fields(value: Json, required: tuple[str, ...], place: str) -> Iterator[str]:
    """Yield a finding for each required field that is missing."""
    for name in required:
        if name not in value:
            yield f"{place}{name}: Field required"
