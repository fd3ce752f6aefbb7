"""The text that the model gets, as files. Each part is one small function of its inputs (M1, M2).

The system blocks are byte-identical for every job of one version and agent type, so that jobs share a cached prefix.
What varies is in the first user message: environment and project memory in its first block, the task in a later one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from bot.core.transcript import Json


@dataclass(frozen=True, slots=True)
class Environment:
    """What varies between jobs and is constant within a session."""

    folder: str
    platform: str
    date: str
    repository: str
    base: str = ""
    memory: str = ""
    memory_name: str = ""
    language: str = ""
    """Language of text for people, or "" for the language of the request."""


def system_blocks(agent_type: str, job: str = "") -> tuple[Json, ...]:
    """Return the system blocks of an agent type: its identity, its job, and the shared rules.

    The job is `job` if given, else the prompt file named after the agent type.
    """
    return (_text(prompt_text("identity")), _text((job or prompt_text(agent_type)) + "\n" + prompt_text("rules")))


def first_message(environment: Environment, task: str, reminders: Sequence[str] = ()) -> Json:
    """Return a session's first user message: environment and memory, then the task, then reminders (M2, P3)."""
    blocks = [
        _text(reminder_text(_environment(environment))),
        _text(task),
        *(_text(reminder_text(text)) for text in reminders),
    ]
    return {"role": "user", "content": blocks}


def reminder_text(text: str) -> str:
    """Wrap text as a reminder from the harness."""
    return f"<system-reminder>\n{text.strip()}\n</system-reminder>"


@cache
def prompt_text(name: str) -> str:
    """Read one prompt file of this folder."""
    return files(__package__).joinpath(f"{name}.md").read_text(encoding="utf-8")


def _environment(environment: Environment) -> str:
    lines = [
        f"Working directory: {environment.folder}",
        f"Repository: {environment.repository} at commit {environment.base}",
        f"Platform: {environment.platform}",
        f"Today's date: {environment.date}",
    ]
    if environment.language:
        lines.append(f"Language for all that people read: {environment.language}")
    if environment.memory:
        lines += ["", f"Project memory ({environment.memory_name}):", environment.memory.strip()]
    return "\n".join(lines)


def _text(text: str) -> Json:
    return {"type": "text", "text": text.strip()}
