"""What passes between a session and a model: the request, and the events of its answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeAlias

from bot.core.transcript import Json

MOST_TOKENS: Final[Mapping[str, int]] = MappingProxyType(
    {"main": 64_000, "subagent": 32_000, "restricted": 4_096, "light": 4_096}
)
"""How many tokens an answer may have, by the role of who asks."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one response, or a sum of such (facts: Messages API, usage)."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    """The part of cache_write that was written for an hour."""
    searches: int = 0
    """Searches of the web by the service's own tool: each has a price beside its tokens."""

    @property
    def context(self) -> int:
        """The size of the context after this response, in tokens."""
        return self.input + self.output + self.cache_read + self.cache_write

    def __add__(self, other: "Usage") -> "Usage":
        """Sum two usages."""
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            self.cache_write_1h + other.cache_write_1h,
            self.searches + other.searches,
        )


class Replay(StrEnum):
    """How the thinking of a history is sent back.

    https://platform.claude.com/docs/en/build-with-claude/preserved-thinking
    """

    WHOLE = "whole"
    """As it was received; the service refuses a block whose prefix has changed."""
    MATCHING = "matching"
    """As it was received; the service drops the blocks whose prefix has changed."""
    NONE = "none"
    """Not at all."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What a session asks the model: frozen parts and history as stored; everything else follows from the model."""

    model: str
    system: tuple[Json, ...]
    tools: tuple[Json, ...]
    messages: Sequence[Json]
    role: str = "main"
    """main, subagent, restricted or light: decides effort, thinking and max_tokens (M6)."""
    user_id: str = ""
    peak: int = 0
    """The largest context that this history has had, in tokens: decides whether old results are cleared (C2)."""
    summarize: str = ""
    """Where given, the answer is the API's own summary of the messages, made after these instructions (C3)."""
    schema: Json | None = None
    """JSON schema that the answer's text is held to; None for plain text."""
    fallback: str = ""
    """The model that answers where this one does not; "" for none (L4)."""
    effort: str = ""
    """How hard an agent thinks where the model lets that be chosen; "" for what its role says (M6)."""
    stored: Sequence[bytes] = ()
    """The bytes of the messages, from the first on, as far as they are known: these are sent, nothing is rendered."""
    replay: Replay = Replay.WHOLE
    """How its thinking is sent; the stored history stays as it is."""
    heartbeat: Callable[[str], None] = lambda _: None
    """Hears that nothing has come for long, while the answer is still waited for (M7)."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """What the model that answers can hold, and how it takes a history that was shortened."""

    window: int
    """Tokens."""
    summarizes: bool
    """Whether it makes a signed summary on demand."""
    binds: bool
    """Whether its thinking is bound to all that came before it."""
    prompt_usd: float = 0.0
    """What a token of the prompt costs at most; 0 for a model without prices."""
    answer_usd: float = 0.0
    """What a token of the answer costs at most."""
    id: str = ""
    """By which the service knows it."""


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of the answer as it streams; `kind` is text or thinking."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class AnswerStarted:
    """The response has begun: a cache entry that it writes can be read from now on (M4)."""

    so_far: "Callable[[], AnswerCompleted | None] | None" = None
    """Gives what has come of the answer, for whoever stops to wait for it: nothing of it counts but what it cost."""


@dataclass(frozen=True, slots=True)
class AnswerCompleted:
    """A whole answer: message_stop was seen (M7). `message` is verbatim, `cost_usd` None for a model without prices."""

    message: Json
    stop_reason: str
    usage: Usage
    cost_usd: float | None
    model: str
    why: str = ""
    """What the service says of a refusal: its category, and an explanation where there is one."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the client did on its own: a retry, a stall, a fallback; what came of this answer so far is void."""

    kind: str
    text: str
    model: str = ""
    """The model that answers from now on, where that changes (L4)."""
    void: AnswerCompleted | None = None
    """What came of an answer that broke off: nothing of it counts but what it cost, as far as the service told."""
    replay: Replay | None = None
    """How the history's thinking is sent from now on, where that changes: it holds for the rest of the session."""


ModelEvent: TypeAlias = AnswerStarted | Delta | Notice | AnswerCompleted
