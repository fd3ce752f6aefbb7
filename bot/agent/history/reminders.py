"""Reminders that depend on the tools' state: appended after results, where they stay (T7).

Rules: reminders are computed from the history and the disk, so that a resumed session gives the same ones; no state is
reported twice.
"""

from collections.abc import Sequence
from typing import Final

from bot.agent.limits import WARN_AT
from bot.agent.permissions.tool_gate import CallKind, Mode
from bot.agent.prompts import reminder_text
from bot.agent.session import Session
from bot.agent.tools.tool import ToolInput, relative
from bot.core.errors import PlangateError
from bot.core.transcript import Json, tool_calls

QUIET: Final = 10
"""Number of answers without a use of the todo list after which the model is reminded of it."""
SHOWN: Final = 10

EMPTY: Final = reminder_text("The todo list is empty. If the work has several steps, write them down with TodoWrite.")
OLD: Final = reminder_text(
    "The todo list has not changed for a while. Tick what is done, and correct what is not so any more."
)
NEARLY_USED_UP: Final = (
    "{:.0%} of the budget of ${:.2f} is used. Bring the most important part of the work to an end now: once the budget "
    "is used up, the session ends where it is."
)
_CHANGES: Final = frozenset({CallKind.COMMAND, CallKind.BACKGROUND, CallKind.DELEGATE})


async def due_reminders(session: Session, kinds: Sequence[CallKind]) -> list[str]:
    """Return the reminders that belong after the results of calls of these kinds."""
    reminders = [] if CallKind.LIST in kinds else _about_todos(session)
    if session.context.stamps and _CHANGES & set(kinds):
        reminders += await _about_files(session)
    return reminders


async def due_memory(session: Session, calls: Sequence[ToolInput]) -> list[str]:
    """Return the project memory of the folders whose files these calls read or edited (K10).

    Memory that the history has is left out. So a resumed session gets it once, and a compacted one again.
    """
    context = session.context
    if context.memory is None:
        return []
    paths = (relative(path, context.folder) for call in calls if (path := _edited_path(call)))
    read_paths = [path for path in paths if path in context.stamps]
    text = await context.memory.below(read_paths, _reminders(session.history)) if read_paths else ""
    return [reminder_text(text)] if text else []


def due_budget(session: Session) -> list[str]:
    """Return the reminder that most of the budget is used, once for each budget. Sub-agents get none."""
    ledger = session.resources.ledger
    if session.monitor.parent is not None or ledger.budget_usd is None or not ledger.is_nearly_used_up:
        return []
    text = reminder_text(NEARLY_USED_UP.format(WARN_AT, ledger.budget_usd))
    return [] if text in _reminders(session.history) else [text]


def _edited_path(call: ToolInput) -> str:
    return str(getattr(call, "file_path", "") or getattr(call, "notebook_path", ""))


def _reminders(history: Sequence[Json]) -> list[str]:
    contents = (message["content"] for message in history if message["role"] == "user")
    blocks = (block for content in contents if isinstance(content, list) for block in content)
    texts = (block["text"] for block in blocks if block.get("type") == "text")
    return [text for text in texts if text.startswith("<system-reminder>")]


def _about_todos(session: Session) -> list[str]:
    """Return a reminder of an empty or old todo list. In plan mode there is none, since there is no work to list."""
    if "TodoWrite" not in session.tools or session.context.mode is Mode.PLAN:
        return []
    text = OLD if session.context.todos else EMPTY
    unfinished = not session.context.todos or any(status != "completed" for _, status in session.context.todos)
    return [text] if unfinished and _has_old_list(session.history) else []


def _has_old_list(history: Sequence[Json]) -> bool:
    """Return whether the last QUIET answers did not write the list, and no reminder of it came between them."""
    answers = 0
    for message in reversed(history):
        if message["role"] == "assistant":
            answers += 1
            if any(call["name"] == "TodoWrite" for call in tool_calls(message)):
                return False
        elif any(isinstance(block, dict) and block.get("text") in {EMPTY, OLD} for block in message["content"]):
            return False
        if answers >= QUIET:
            return True
    return False


async def _about_files(session: Session) -> list[str]:
    """Return a reminder that names the files changed on disk since they were read."""
    context = session.context
    try:
        output = await context.host.call("Changed", {"stamps": dict(context.stamps)})
    except PlangateError:
        return []
    changed = output.details.get("changed")
    stamps = changed if isinstance(changed, dict) else {}
    new = {path: str(stamp) for path, stamp in stamps.items() if context.reported_stamps.get(path) != stamp}
    context.reported_stamps.update(new)
    if not new:
        return []
    more = f" and {len(new) - SHOWN} more" if len(new) > SHOWN else ""
    names = ", ".join(sorted(new)[:SHOWN]) + more
    return [reminder_text(f"Changed on disk since you read them: {names}. Read a file again before you edit it.")]
