"""What a compacted session gets back after its summary, and a summary that needs no model (C1, C3).

Both follow from the stored transcript, the tools' state, and the checkout, so that a resumed session gets the same.
Text from others is data and is escaped; what people said stays verbatim.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from bot.agent import dispatch
from bot.agent.history.cutting import BYTES_PER_TOKEN
from bot.agent.history.escaping import escape_harness_markup
from bot.agent.permissions.modes import Mode
from bot.agent.permissions.plan_mode import EXIT_PLAN_MODE
from bot.agent.prompts import reminder_text
from bot.agent.session import Session
from bot.agent.tools.ask_user import ASK_USER_QUESTION
from bot.agent.tools.tool import relative
from bot.core.checks import OUTPUTS
from bot.core.errors import PlangateError
from bot.core.lines import shorten_line
from bot.core.transcript import Json, result_text, text_of, tool_calls

FILES: Final = 5
FILE_SHARE: Final = 0.01
"""Share of the window that one file may take."""
FILE_LINES: Final = 400
SHORT: Final = 300
"""Longest answer or error in a summary without a model, in characters."""
LISTED: Final = 40
WORDS: Final = 40_000
"""Most characters of what people added. The newest texts are kept."""

_CHANGING: Final = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"})
AnsweredCall = tuple[Json, str, bool]
"""A call, the text of its result, and whether the result is an error."""


async def restored_context(session: Session, messages: Sequence[Json], kept: Sequence[Json], window: int) -> list[Json]:
    """Return the blocks that follow a summary: opening, people's words, plan and answer, todos, mode, files.

    `messages` is every message ever exchanged, and `kept` the messages that stay in the history unchanged.
    """
    blocks = _opening(messages[0])
    blocks += [_text(words) for words in _words(messages[1:], kept)]
    lines = [
        *_plan(list(answered_calls(messages))),
        *_todos(session),
        f"The permission mode is {session.context.mode} now.",
    ]
    if session.context.mode is Mode.PLAN:
        lines.append("Plan mode is still on: nothing may be changed before a person has approved a plan.")
    blocks += [_text(reminder_text(text)) for text in lines]
    return [*blocks, *[block async for block in _files(session, messages, kept, window)]]


def digest(messages: Sequence[Json]) -> str:
    """Return a summary made without a model: files changed and read, commands run, failures, and the last answers."""
    calls = list(answered_calls(messages))
    files_changed = _paths(call for call, _, failed in calls if call["name"] in _CHANGING and not failed)
    files_read = _paths(call for call, _, failed in calls if call["name"] == "Read" and not failed)
    commands = [_escaped_line(call["input"].get("command", "")) for call, _, _ in calls if call["name"] == "Bash"]
    errors = [f"{call['name']}: {_escaped_line(text)}" for call, text, failed in calls if failed]
    answers = [
        _escaped_line(text) for message in messages if message["role"] == "assistant" and (text := text_of(message))
    ]
    parts = {
        "Files that were changed": files_changed,
        "Files that were read": files_read,
        "Commands that ran": commands,
        "Calls that failed": errors,
        "What you said last": answers[-10:],
    }
    lists = {name: "\n".join(f"- {item}" for item in entries[-LISTED:]) for name, entries in parts.items() if entries}
    return "\n\n".join(f"{name}:\n{lines}" for name, lines in lists.items()) or "Nothing was done yet."


def answered_calls(messages: Sequence[Json]) -> Iterator[AnsweredCall]:
    """Yield each call that has a result, in order."""
    for message, following in pairwise(messages):
        blocks = following["content"] if isinstance(following["content"], list) else []
        results = {block["tool_use_id"]: block for block in blocks if block.get("type") == "tool_result"}
        for call in tool_calls(message):
            if result := results.get(call["id"]):
                yield call, result_text(result), bool(result.get("is_error"))


def _opening(first: Json) -> list[Json]:
    content = first["content"]
    return [_text(content)] if isinstance(content, str) else list(content)


def _words(messages: Sequence[Json], kept: Sequence[Json]) -> list[str]:
    """Return what people added during the session, verbatim, unless it stays in the history anyway."""
    kept_texts = {text for message in kept for text in _texts(message)}
    texts = [text for message in messages for text in _texts(message) if text not in kept_texts and _is_said(text)]
    room, newest = WORDS, []
    for text in reversed(list(dict.fromkeys(texts))):
        room -= len(text)
        if room < 0:
            break
        newest.append(text)
    return newest[::-1]


def _texts(message: Json) -> list[str]:
    """Return the texts of a user message, without its tool results."""
    if message["role"] != "user" or isinstance(message["content"], str):
        return []
    return [block["text"] for block in message["content"] if block.get("type") == "text"]


def _is_said(text: str) -> bool:
    """Return whether a text is people's own words, not a reminder or a request to continue."""
    return not text.startswith(("<system-reminder>", "Your last answer was", "Your answer was", OUTPUTS))


def _plan(calls: Sequence[AnsweredCall]) -> Iterator[str]:
    """Yield the last plan with the answer to it, and people's answers to questions."""
    handed = [(call, text) for call, text, _ in calls if call["name"] == EXIT_PLAN_MODE]
    for call, text in handed[-1:]:
        plan = escape_harness_markup(str(call["input"].get("plan", "")))
        yield f"The plan that you handed in last:\n{plan}\n\nThe answer: {text}"
    for call, text, failed in calls:
        if call["name"] == ASK_USER_QUESTION and not failed:
            yield f"People answered a question of yours: {text}"


def _todos(session: Session) -> Iterator[str]:
    if session.context.todos:
        rows = "\n".join(f"- [{status}] {escape_harness_markup(content)}" for content, status in session.context.todos)
        yield f"Your todo list now:\n{rows}"


async def _files(session: Session, messages: Sequence[Json], kept: Sequence[Json], window: int) -> AsyncIterator[Json]:
    """Yield the current content of the files that were read last. Files that cannot be read are skipped."""
    folder, room = session.context.folder, int(window * FILE_SHARE) * BYTES_PER_TOKEN
    kept_paths = {relative(path, folder) for path in _paths(call for call, *_ in answered_calls(kept))}
    calls = [
        call for call, _, failed in answered_calls(messages) if call["name"] in {"Read", *_CHANGING} and not failed
    ]
    recent = dict.fromkeys(relative(path, folder) for path in _paths(reversed(calls)))
    for path in [path for path in recent if path not in kept_paths][:FILES]:
        arguments = {"file_path": path, "limit": FILE_LINES}
        ruled = dispatch.prepare(session, {"id": "again", "name": "Read", "input": arguments})
        if not isinstance(ruled, dispatch.ReadyCall):
            continue
        try:
            output = await session.context.host.call("Read", arguments)
            session.resources.alarm.check_text(output.text)
        except PlangateError:
            continue
        if output.is_error or output.blocks:
            continue
        session.context.stamps.update({relative(name, folder): stamp for name, stamp in output.stamps.items()})
        cut = "\n[cut; read it again where you need more]" if len(output.text) > room else ""
        yield _text(
            f"The file {escape_harness_markup(path)}, as it is now:\n{escape_harness_markup(output.text[:room])}{cut}"
        )


def _paths(calls: Iterable[Json]) -> list[str]:
    return list(dict.fromkeys(str(call["input"]["file_path"]) for call in calls if "file_path" in call["input"]))


def _escaped_line(text: str) -> str:
    return escape_harness_markup(shorten_line(str(text), SHORT))


def _text(text: str) -> Json:
    return {"type": "text", "text": text}
