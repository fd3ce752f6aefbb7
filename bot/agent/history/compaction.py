"""Replaces older history by a summary when the context is nearly full (C1-C4)."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from bot.agent import dispatch
from bot.agent.history import cutting
from bot.agent.history.cutting import BYTES_PER_TOKEN
from bot.agent.light_calls import stream_and_book
from bot.agent.permissions.plan_mode import EXIT_PLAN_MODE
from bot.agent.permissions.tool_gate import Mode
from bot.agent.prompts import prompt_text, reminder_text
from bot.agent.session import Session
from bot.agent.session_events import Compacted, End, Ended, Info, Sink
from bot.agent.tools.session_tools import ASK_USER_QUESTION
from bot.agent.tools.tool import relative
from bot.core.brief import escape_harness_markup
from bot.core.checks import OUTPUTS
from bot.core.errors import PlangateError
from bot.core.markdown.elements import shorten_line
from bot.core.transcript import Json, all_messages, result_text, text_of, tool_calls
from bot.ports import Abilities, AnswerCompleted, Notice

# --- What follows a summary; a summary without a model (C1, C3) -------------------------------------------------------
# Both are made from the stored transcript, the tools' state, and the checkout, so that a resumed session gets the same
# text. Text from others is data and is escaped; what people said stays verbatim.

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


# --- Replaces older history by a summary (C1, C3, C4) -----------------------------------------------------------------
# Three back-ends can make the summary, tried in this order:
# 1. If the model supports it, the service makes a signed one, in a block that becomes the first of the new history.
# 2. A request on the same prefix asks the model for one. Its text begins a new history without old thinking.
# 3. Without a model, the summary is derived from the transcript (`digest`).
#
# Rules: compaction happens only between turns; the last turns stay as they are; the stored transcript keeps everything,
# and one line records what is sent from now on.

FUTILE: Final = 2
"""Consecutive compactions without effect after which the session ends."""
KEPT_SHARE: Final = 0.1
"""Share of the history that the kept turns may take. The last turn is kept in any case.

A share of the window would depend on the estimate of a token's size: if that is low, the kept turns would be most of
the history.
"""
RESULT_SHARE: Final = 0.2
"""Share of the window that the results of the last turn may take."""

STUCK: Final = f"the model's context window is full: {FUTILE} compactions did not make room"
TOO_LARGE: Final = "the model's context window is full: the request alone does not fit"


@dataclass(frozen=True, slots=True)
class HistoryPart:
    """A history in two parts: what is summarized, and the turns that stay."""

    head: Sequence[Json]
    kept: Sequence[Json]
    restored: Sequence[Json]
    """Blocks that are restored after the summary."""
    abilities: Abilities


def is_due(session: Session) -> bool:
    """Return whether the next request needs room first (C1), by the last usage and an estimate of later messages."""
    if session.is_full:
        return True
    window = session.resources.model.abilities(session.prefix.model).window
    grown = len(session.history) > session.compacted_length
    return grown and session.context_size >= session.resources.most_context(window)


async def compact(session: Session, emit: Sink) -> Ended | None:
    abilities = session.resources.model.abilities(session.prefix.model)
    start = cutting.cut_point(session.history, int(KEPT_SHARE * cutting.tokens(session.history)))
    if start is None:
        session.compacted_length = len(session.history)
        return Ended(session.agent, End.LIMIT, TOO_LARGE) if session.is_full else None
    if session.futile_compactions >= FUTILE:
        return Ended(session.agent, End.LIMIT, STUCK)
    before, head = session.context_size, session.history[:start]
    recent = cutting.cut_to_fit(session.history[start:], int(RESULT_SHARE * abilities.window))
    by, history = "cut", [*head, *recent]
    if len(head) > 1:
        everything = all_messages(await asyncio.to_thread(session.resources.transcripts.load, session.id))
        restored = await restored_context(session, everything, recent, abilities.window)
        part = HistoryPart(head, recent, restored, abilities)
        by, history = await _summarize(session, part, everything[: len(everything) - len(recent)], emit)
    after = cutting.tokens([*session.prefix.system, *session.prefix.tools, *history])
    session.shorten(history, by=by, before=before, after=after)
    await emit(Compacted(session.agent, before, after))
    return None


async def _summarize(session: Session, part: HistoryPart, older: Sequence[Json], emit: Sink) -> tuple[str, list[Json]]:
    """Return which back-end made the summary, and the messages that are sent from now on.

    `older` is the whole transcript before the kept turns.
    """
    if history := await _by_service(session, part, emit):
        return "service", history
    if history := await _by_model(session, part, emit):
        return "model", history
    return "digest", _new_history(part, digest(older))


async def _by_service(session: Session, part: HistoryPart, emit: Sink) -> list[Json] | None:
    """Return a history that begins with the service's signed summary, or None if the service makes none.

    The signed block replaces the head, and the kept turns keep their thinking. The service is asked only if the kept
    turns end with a user message, because the restored text follows them.
    """
    if not part.abilities.summarizes or part.kept[-1]["role"] != "user":
        return None
    answer = await _request_summary(session, part.head, emit, summarize=prompt_text("compact"))
    if answer is None or not _is_block(answer):
        return None
    return [answer.message, *part.kept, {"role": "user", "content": list(part.restored)}]


async def _by_model(session: Session, part: HistoryPart, emit: Sink) -> list[Json] | None:
    """Return a history that begins with the model's summary, or None. The request reads the last one's cache."""
    question = {"role": "user", "content": [{"type": "text", "text": prompt_text("compact").strip()}]}
    answer = await _request_summary(session, [*part.head, question], emit)
    if answer is None or tool_calls(answer.message):
        return None
    return _new_history(part, text) if (text := text_of(answer.message)) else None


def _is_block(completed: AnswerCompleted) -> bool:
    content = completed.message["content"]
    single = len(content) == 1 and content[0].get("type") == "compaction"
    return completed.stop_reason == "compaction" and single and bool(str(content[0].get("content") or "").strip())


def _new_history(part: HistoryPart, summary: str) -> list[Json]:
    first = {"role": "user", "content": [*part.restored, cutting.summary_block(summary)]}
    recent = cutting.turns_without_thinking(part.kept) if part.abilities.binds else part.kept
    return [first, *recent]


async def _request_summary(
    session: Session, messages: Sequence[Json], emit: Sink, *, summarize: str = ""
) -> AnswerCompleted | None:
    """Request a summary and book it. Returns None if the budget has no room or the call fails."""
    resources = session.resources
    draft = session.prefix.request(messages, resources.user_id)
    request = replace(draft, schema=None, peak=session.peak, summarize=summarize, view=session.view)
    async with resources.ledger.call(session.highest_cost, resources.shared_budget) as ticket:
        if ticket is None:
            return None
        stream = stream_and_book(session.log, request, ticket, size=session.context_size, aside=True)
        answer = None
        try:
            async with aclosing(stream) as events:
                async for event in events:
                    if isinstance(event, Notice):
                        session.book_notice(event)
                        await emit(Info(session.agent, event.kind, event.text))
                    answer = event if isinstance(event, AnswerCompleted) else answer
        except PlangateError as error:
            session.note("unsummarised", {"text": str(error)})
            await emit(Info(session.agent, "compaction", f"no summary: {error}"))
            return None
    return answer
