"""Replaces older history by a summary when the context is nearly full (C1, C3, C4).

Three back-ends can make the summary, tried in this order:
1. If the model supports it, the service makes a signed one, in a block that becomes the first of the new history.
2. A request on the same prefix asks the model for one. Its text begins a new history without old thinking.
3. Without a model, the summary is derived from the transcript (`digest`).

Rules: compaction happens only between turns; the last turns stay as they are; the stored transcript keeps everything,
and one line records what is sent from now on.
"""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final

from bot.agent.booking import stream_and_book
from bot.agent.history import cutting
from bot.agent.history.restored_context import digest, restored_context
from bot.agent.prompts import prompt_text
from bot.agent.session import Session
from bot.agent.session_events import Compacted, End, Ended, Info, Sink
from bot.core.errors import PlangateError
from bot.core.transcript import Json, all_messages, text_of, tool_calls
from bot.ports import Abilities, AnswerCompleted, Notice

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
    """Return whether the next request needs room first (C1).

    The size is the last usage plus an estimate of what was appended since.
    """
    if session.is_full:
        return True
    window = session.resources.model.abilities(session.prefix.model).window
    grown = len(session.history) > session.compacted_length
    return grown and session.context_size >= session.resources.most_context(window)


async def compact(session: Session, emit: Sink) -> Ended | None:
    """Make room in a session's history and report it. Returns Ended if that does not help."""
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
    """Let the service summarize. Its signed block replaces the head, so that the kept turns may keep their thinking.

    It does so only after an answered turn, because text follows its block.
    """
    if not part.abilities.summarizes or part.kept[-1]["role"] != "user":
        return None
    answer = await _request_summary(session, part.head, emit, summarize=prompt_text("compact"))
    if answer is None or not _is_block(answer):
        return None
    return [answer.message, *part.kept, {"role": "user", "content": list(part.restored)}]


async def _by_model(session: Session, part: HistoryPart, emit: Sink) -> list[Json] | None:
    """Let the model summarize in a separate request, which reads the cache of the one before."""
    question = {"role": "user", "content": [{"type": "text", "text": prompt_text("compact").strip()}]}
    answer = await _request_summary(session, [*part.head, question], emit)
    if answer is None or tool_calls(answer.message):
        return None
    return _new_history(part, text) if (text := text_of(answer.message)) else None


def _is_block(completed: AnswerCompleted) -> bool:
    """Return whether an answer is exactly one summary block."""
    content = completed.message["content"]
    single = len(content) == 1 and content[0].get("type") == "compaction"
    return completed.stop_reason == "compaction" and single and bool(str(content[0].get("content") or "").strip())


def _new_history(part: HistoryPart, summary: str) -> list[Json]:
    """Return a new history: the restored blocks, the summary, and the kept turns."""
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
