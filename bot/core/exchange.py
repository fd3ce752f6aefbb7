"""The request from a session to a model, and the events of the answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeAlias

from bot.core.transcript import Json

MOST_TOKENS: Final[Mapping[str, int]] = MappingProxyType(
    {"main": 64_000, "subagent": 32_000, "restricted": 4_096, "light": 4_096}
)
"""The maximum tokens in an answer, by the role of the caller."""

CLEAR_AT: Final = 120_000
"""Tokens of context from which old results are cleared, unless a project chooses another size (C2)."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one response, or a sum of several (facts: Messages API, usage)."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    """The part of cache_write that was written for an hour."""
    searches: int = 0
    """Web searches by the service's own tool. Each has a price in addition to its tokens."""

    @property
    def prompt(self) -> int:
        """The tokens of the prompt, cached ones included."""
        return self.input + self.cache_read + self.cache_write

    @property
    def context(self) -> int:
        """The size of the context after this response, in tokens."""
        return self.input + self.output + self.cache_read + self.cache_write

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            self.cache_write_1h + other.cache_write_1h,
            self.searches + other.searches,
        )


class Replay(StrEnum):
    """How the thinking blocks of a history are sent back.

    https://platform.claude.com/docs/en/build-with-claude/preserved-thinking
    """

    WHOLE = "whole"
    """As received. The service refuses a block whose prefix has changed."""
    MATCHING = "matching"
    """As received. The service drops blocks whose prefix has changed."""
    NONE = "none"


@dataclass(frozen=True, slots=True)
class HistoryView:
    """How a history is sent, once the service has refused a block of it. The stored history does not change (M3).

    A session keeps its view until its end, so that later requests begin with the same bytes.
    """

    thinking: Replay = Replay.WHOLE
    left_out: frozenset[str] = frozenset()
    """Digests of the pictures that are sent as a note."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A session's request to the model: frozen parts and history as stored. Everything else follows from the model."""

    model: str
    system: tuple[Json, ...]
    tools: tuple[Json, ...]
    messages: Sequence[Json]
    role: str = "main"
    """main, subagent, restricted, or light. Decides effort, thinking, and max_tokens (M6)."""
    only_caches: bool = False
    """Whether no answer is wanted: the prompt is written to the cache, and the answer is empty (M4)."""
    user_id: str = ""
    peak: int = 0
    """The largest context that this history has had, in tokens. Decides whether old results are cleared (C2)."""
    clear_at: int = CLEAR_AT
    """Tokens of context from which the service clears old results; in a small window earlier (C2)."""
    summarize: str = ""
    """Instructions for a summary. If set, the answer is the API's own summary of the messages (C3)."""
    schema: Json | None = None
    """JSON schema that the answer's text must follow; None for plain text."""
    fallback: str = ""
    """The model that answers when this one does not; "" for none (L4)."""
    effort: str = ""
    """The reasoning effort, where the model supports a choice; "" for the role's default (M6)."""
    stored: Sequence[bytes] = ()
    """The bytes of the messages, from the first on, as far as known. They are sent instead of encoding again."""
    view: HistoryView = HistoryView()
    heartbeat: Callable[[str], None] = lambda _: None
    """Called when nothing has arrived for a long time and the answer is still pending (M7)."""

    @property
    def streams(self) -> bool:
        return self.role != "light" and not self.only_caches


@dataclass(frozen=True, slots=True)
class Abilities:
    """The capacity of the model that answers, and how it treats a shortened history."""

    window: int
    """The context window, in tokens."""
    summarizes: bool
    """Whether the model makes a signed summary on demand."""
    binds: bool
    """Whether its thinking blocks are bound to everything before them."""
    prompt_usd: float = 0.0
    """The highest price of one prompt token, in dollars; 0 for a model without prices."""
    answer_usd: float = 0.0
    """The highest price of one answer token, in dollars."""
    reads_images: bool = False
    id: str = ""
    """The id by which the service knows the model."""


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of the answer as it streams; `kind` is text or thinking."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class AnswerStarted:
    """The response has begun. A cache entry that it writes can be read from now on (M4)."""

    so_far: "Callable[[], AnswerCompleted | None] | None" = None
    """Returns the partial answer when the caller stops waiting. Only its cost counts."""


@dataclass(frozen=True, slots=True)
class CallReceived:
    """A tool call of the answer is complete while the rest still streams. It counts only if the answer completes."""

    call: Json


@dataclass(frozen=True, slots=True)
class AnswerCompleted:
    """A complete answer: message_stop was seen (M7).

    `message` is verbatim. `cost_usd` is None for a model without prices.
    """

    message: Json
    stop_reason: str
    usage: Usage
    cost_usd: float | None
    model: str
    why: str = ""
    """The service's explanation of a refusal: its category, and details if there are any."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the client did on its own: a retry, a stall, a fallback. The answer so far is void."""

    kind: str
    text: str
    model: str = ""
    """The model that answers from now on, if it changes (L4)."""
    void: AnswerCompleted | None = None
    """The partial answer that broke off. Only its cost counts, as far as the service reported it."""
    view: HistoryView | None = None
    """How the history is sent for the rest of the session, if that changes."""


ModelEvent: TypeAlias = AnswerStarted | Delta | CallReceived | Notice | AnswerCompleted
