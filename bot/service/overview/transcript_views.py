"""One session as people read it: its steps in order, each with what the model said, which tools it called, and what
came back."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class PartKind(StrEnum):
    """What one part of a step is."""

    BRIEF = "brief"
    """Text that the session was given."""
    TEXT = "text"
    """Markdown that the model wrote."""
    THINKING = "thinking"
    CALL = "call"
    AGENT = "agent"
    """A sub-agent began."""
    NOTE = "note"
    """Something that happened and was not sent to the model."""


@dataclass(frozen=True, slots=True)
class FileReplacement:
    """One replacement in a file. `old` is "" for a file that was written as a whole."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool, and its result."""

    tool: str
    subject: str
    """What the call is about: a path, a command, or a pattern; "" if none stands out."""
    arguments: str
    """The other arguments as JSON; "" for none."""
    replacements: tuple[FileReplacement, ...]
    """What the call changes in the file that `subject` names."""
    result: str
    failed: bool
    ended: bool
    """Whether the transcript has the result."""


@dataclass(frozen=True, slots=True)
class StepPart:
    """One part of a step."""

    kind: PartKind
    text: str = ""
    call: ToolCall | None = None
    session: str = ""
    """The session of the sub-agent that began."""


@dataclass(frozen=True, slots=True)
class TranscriptStep:
    """One answer of the model, with the results of its calls. Step 0 is what the session began with."""

    number: int
    at: datetime
    tokens: int
    """Tokens of the prompt and the answer."""
    cost_usd: float | None
    """None: the model has no known price, or the step has no answer."""
    parts: tuple[StepPart, ...]


@dataclass(frozen=True, slots=True)
class SubagentSession:
    """The session of a sub-agent."""

    session: str
    type: str
    description: str


@dataclass(frozen=True, slots=True)
class TranscriptPage:
    """One page of a session's transcript."""

    session: str
    sessions: tuple[str, ...]
    """All sessions of the thread whose transcripts are stored."""
    agent_type: str
    model: str
    mode: str
    began: datetime
    seconds: float
    """From the first line of the transcript to the last."""
    answers: int
    tokens: int
    cost_usd: float
    """What the answers with a known price cost, without those of sub-agents."""
    subagents: tuple[SubagentSession, ...]
    page: int
    """From 1."""
    pages: int
    steps: tuple[TranscriptStep, ...]
