"""The text that the model gets, as files. Each part is one small function of its inputs (M1, M2).

The system blocks are byte-identical for every job of one version and agent type, so that jobs share a cached prefix.
What varies is in the first user message: environment and project memory in its first block, the task in a later one.
"""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from bot.agent.prompts.environment_text import Environment, environment_text
from bot.core.transcript import Json

__all__ = ["Environment", "first_message", "prompt_text", "reminder_text", "system_blocks"]

_WRITERS = frozenset({"main", "code"})
"""Built-in types of agents that change files."""


def system_blocks(agent_type: str, job: str = "", *, writes: bool = False) -> tuple[Json, ...]:
    """Return the system blocks of an agent type: its identity, its job, how it writes code, and the shared rules.

    The job is `job` if given, else the prompt file named after the agent type. An agent that writes nothing is not told
    how to write code; `writes` is for types that a project defines.
    """
    parts = [job or prompt_text(agent_type), *(["coding"] if writes or agent_type in _WRITERS else []), "rules"]
    return (_text(prompt_text("identity")), _text("\n".join([parts[0], *map(prompt_text, parts[1:])])))


def first_message(
    environment: Environment, task: str, reminders: Sequence[str] = (), pictures: Sequence[Json] = ()
) -> Json:
    """Return a session's first user message: environment and memory, the task with pictures, reminders (M2, P3)."""
    blocks = [
        _text(reminder_text(environment_text(environment))),
        _text(task),
        *pictures,
        *(_text(reminder_text(text)) for text in reminders),
    ]
    return {"role": "user", "content": blocks}


def reminder_text(text: str) -> str:
    return f"<system-reminder>\n{text.strip()}\n</system-reminder>"


@cache
def prompt_text(name: str) -> str:
    return files(__package__).joinpath(f"{name}.md").read_text(encoding="utf-8")


def _text(text: str) -> Json:
    return {"type": "text", "text": text.strip()}
