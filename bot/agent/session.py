"""One session: its frozen parts, its append-only history, and how both are saved and restored (L8, L9).

Rules: appended messages never change; an assistant message and the results of its calls are saved together, unless a
call suspends the session; resuming replays the saved objects and never renders them again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bot.agent.history import cutting
from bot.agent.limits import Monitor, most_expensive_answer
from bot.agent.permissions.tool_gate import Mode
from bot.agent.resources import ASIDE, RequestPrefix, SessionLog, SessionResources, answer_facts
from bot.agent.session_events import AgentChanged, ModeChanged
from bot.agent.tools.tool import Tool, ToolContext
from bot.core.errors import Refused
from bot.core.exchange import HistoryView
from bot.core.names import AgentId, SessionId
from bot.core.transcript import (
    Json,
    Line,
    LineKind,
    all_messages,
    is_unresolved,
    messages,
    pending_calls,
    sendable,
    todos_of,
    tool_calls,
    well_formed,
    without_empty_text,
)
from bot.ports import AnswerCompleted, Notice, Replay, Usage

ASKED = "asked"
"""Kind of the note that saves an answer whose calls are running."""
DROPPED = "dropped"
"""Kind of the note that records a complete answer that was not kept."""
UNTRUSTED = "untrusted"
"""Kind of the note that records that the session read words of people who may not ask."""
_ENDS = frozenset({"end_turn", "stop_sequence"})
"""Stop reasons of an answer that the model does not intend to continue."""
NOT_RUN = "Not run: the session stopped at another call of the same message. Call it again if it is still needed."


@dataclass(slots=True)
class Session:
    """A conversation with the model that can be saved, suspended, and resumed."""

    log: SessionLog
    prefix: RequestPrefix
    tools: Mapping[str, Tool]
    context: ToolContext
    monitor: Monitor
    subagents: Mapping[AgentId, AgentChanged] = field(default_factory=dict)
    """Current rows of its sub-agents, active or finished."""
    history: list[Json] = field(default_factory=list)
    encoded: list[bytes] = field(default_factory=list)
    """Bytes of each message of the history, made when it arrived. What was sent is never rendered again (M3)."""
    queued: list[str] = field(default_factory=list)
    """Text that people added while the session ran (L4a)."""
    is_finishing: bool = False
    """Whether people asked it to finish early, with the work done so far."""
    peak: int = 0
    """Largest context since the last compaction, in tokens."""
    is_full: bool = False
    """Whether the service reported that the history does not fit."""
    futile_compactions: int = 0
    """Number of consecutive compactions that made no room."""
    compacted_length: int = 0
    """Number of messages that the last compaction left."""
    call_ids: set[str] = field(default_factory=set)
    """Ids of all calls that its answers ever made."""
    unfinished_answer: AnswerCompleted | None = None
    """Answer whose calls have no results yet, and can be made again after a crash."""
    view: HistoryView = HistoryView()
    last_stop_reason: str = ""
    """Stop reason of the last answer in the history."""
    _noted: dict[str, str] = field(default_factory=dict)
    """File stamps that the transcript already contains."""
    _noted_untrusted: bool = False
    """Whether its transcript records that strangers' words were read. A later process has no other record."""

    @property
    def id(self) -> SessionId:
        return self.log.id

    @property
    def agent(self) -> AgentId:
        return self.log.agent

    @property
    def resources(self) -> SessionResources:
        return self.log.resources

    def begin(self, first: Json) -> None:
        opened = {
            "session": self.id,
            "agent": self.agent,
            "agent_type": self.prefix.agent_type,
            "model": self.prefix.model,
            "mode": str(self.context.mode),
            "system": list(self.prefix.system),
            "tools": list(self.prefix.tools),
        }
        first, text = sendable(first)
        self._save(self.log.line(LineKind.OPENED, opened), self._message(first))
        self._append(first, text)

    def commit(self, completed: AnswerCompleted, results: Json | None = None) -> None:
        """Append an assistant message and, if it made calls, the user message with the results of all of them."""
        message, text = sendable(without_empty_text(completed.message))
        lines = [self._message(message, answer_facts(completed))]
        self._append(message, text)
        self.last_stop_reason = completed.stop_reason
        self.call_ids.update(call["id"] for call in tool_calls(message))
        if results is not None:
            results, text = sendable(results)
            lines.append(self._results(results))
            self._append(results, text)
        self._save(*lines)

    def drop(self, completed: AnswerCompleted) -> None:
        """Record an answer that is not part of the conversation. It still counts as a step and costs money."""
        self.note(DROPPED, answer_facts(completed))

    def save_unfinished_answer(self, completed: AnswerCompleted) -> None:
        """Save an answer before its calls run, so that a crash loses neither it nor the progress of its calls."""
        if self.unfinished_answer is None:
            self.note(ASKED, {**answer_facts(completed), "message": completed.message})
            self.unfinished_answer = completed

    def add(self, message: Json) -> None:
        message, text = sendable(message)
        self._save(self._message(message))
        self._append(message, text)

    def answer(self, call: str, text: str, *, is_error: bool = False, reminders: Sequence[str] = ()) -> None:
        """Add the result of a suspended session's pending call. The other pending calls are marked as not run.

        Raises Refused if no such call is pending.
        """
        if call not in {block["id"] for block in pending_calls(self.history)}:
            raise Refused("the session waits for no such call", where=f"session {self.id}", fix="start it again")
        blocks = self._pending_results(result_block(call, text, is_error=is_error))
        blocks += [{"type": "text", "text": reminder} for reminder in reminders]
        self.add({"role": "user", "content": blocks})

    def settle(self, result: Json) -> None:
        """Save the result of the pending call that was run. The other pending calls are marked as not run."""
        message, text = sendable({"role": "user", "content": self._pending_results(result)})
        self._save(self._results(message))
        self._append(message, text)

    def set_mode(self, mode: Mode, by: str) -> ModeChanged:
        """Change the permission mode and record who caused it (P8)."""
        self.context.mode = mode
        self.note("mode", {"mode": str(mode), "by": by})
        return ModeChanged(self.agent, mode, by)

    def shorten(self, history: Sequence[Json], *, by: str, before: int, after: int) -> None:
        """Send `history` from now on in place of the full one, which stays stored (C4). Sizes are in tokens."""
        history = [well_formed(message) for message in history]
        facts = {"by": by, "before": before, "after": after, "history": list(history)}
        if self.context.stamps:
            facts["seen"] = dict(self.context.stamps)
        self._save(self.log.line(LineKind.COMPACTED, facts))
        self._replace(history)
        self.compacted_length = len(history)
        self.futile_compactions += 1
        self._restart_context(after)

    @property
    def is_finished(self) -> bool:
        """Whether the model's answer ends the conversation, so that there is nothing left to ask it."""
        if not self.history or self.history[-1]["role"] != "assistant" or self.last_stop_reason not in _ENDS:
            return False
        return not (pending_calls(self.history) or is_unresolved(self.history))

    @property
    def context_size(self) -> int:
        """Tokens of the next request: those of the last usage, plus an estimate of what was appended since."""
        return self.monitor.context + cutting.tokens(cutting.messages_since_answer(self.history))

    @property
    def highest_cost(self) -> float:
        """The most that the next request can cost, in US dollars."""
        prefix = self.prefix
        return most_expensive_answer(self.resources.model.abilities(prefix.model), prefix.role, self.context_size)

    def measure(self, usage: Usage, window: int) -> None:
        """Record how large the context is now, and whether the last compaction made room."""
        self.monitor.context = usage.context
        self.peak = max(self.peak, usage.context)
        if usage.context < self.resources.most_context(window):
            self.futile_compactions = 0

    def book_notice(self, notice: Notice) -> None:
        """Record what the client did by itself. If it switched models, the new model answers from now on (L4)."""
        facts: Json = {"text": notice.text}
        if notice.view is not None:
            self.view = notice.view
            facts |= {"replay": str(self.view.thinking), "left_out": sorted(self.view.left_out)}
        self.note(notice.kind, facts)
        if notice.model:
            self.prefix = replace(self.prefix, model=notice.model)

    @property
    def is_untrusted(self) -> bool:
        """Whether words of people who may not ask were read, by the session or one of its sub-agents."""
        return self.context.reads is not None and self.context.reads.used.strangers

    def mark_untrusted(self) -> None:
        """Record that words of people who may not ask were read, which restricts sub-agents from now on (S9)."""
        reads = self.context.reads
        if reads is not None and not self._noted_untrusted:
            reads.used.strangers = self._noted_untrusted = True
            self.note(UNTRUSTED, {})

    def note(self, name: str, facts: Json) -> None:
        self.log.note(name, facts)

    def restore(self, lines: Sequence[Line]) -> None:
        """Restore a saved transcript: history, file stamps, todos, mode, steps, calls, and spend."""
        self._replace(messages(lines))
        for line in lines:
            self._recall(line)
        if self.context.scope is not None:
            self.context.scope.recall(lines)
        spoken = all_messages(lines)
        for call in (call for answer in spoken[:-1] for call in tool_calls(answer)):
            self.monitor.count_call(call["name"])
        self.call_ids = {call["id"] for answer in spoken for call in tool_calls(answer)}
        if (reads := self.context.reads) is not None:
            reads.used.recount(spoken)
            self._noted_untrusted = any(line.body.get("note") == UNTRUSTED for line in lines)
            reads.used.strangers |= self._noted_untrusted
        self.context.todos[:] = todos_of(spoken)
        if self.unfinished_answer is not None:
            self._count_answer(answer_facts(self.unfinished_answer))

    def _recall(self, line: Line) -> None:
        body = line.body
        match line.kind:
            case LineKind.OPENED:
                self.context.mode = Mode(body["mode"])
            case LineKind.MESSAGE if body["message"]["role"] == "assistant":
                self.unfinished_answer = None
                self.last_stop_reason = body.get("stop_reason", "")
                self._count_answer(body)
            case LineKind.MESSAGE:
                self.unfinished_answer = None
                self._restore_stamps(body)
            case LineKind.NOTE if body.get("note") == ASKED:
                usage = Usage(**body["usage"])
                self.unfinished_answer = AnswerCompleted(
                    body["message"], body["stop_reason"], usage, body["cost_usd"], body["model"]
                )
            case LineKind.NOTE if body.get("note") == "canary":
                self.unfinished_answer = None
            case LineKind.COMPACTED:
                self._restore_stamps(body)
                self.compacted_length = len(body["history"])
                self._restart_context(body["after"])
            case LineKind.NOTE if "replay" in body:
                self.view = HistoryView(Replay(body["replay"]), frozenset(body.get("left_out", ())))
            case LineKind.NOTE if body.get("note") == "mode":
                self.context.mode = Mode(body["mode"])
            case LineKind.NOTE if (note := body.get("note")) in {ASIDE, DROPPED}:
                self.monitor.steps += note == DROPPED
                self.resources.ledger.add(self.agent, body["model"], Usage(**body["usage"]), body["cost_usd"])
            case _:
                pass

    def _restore_stamps(self, body: Json) -> None:
        stamps = body.get("seen") or {}
        self.context.stamps.update(stamps)
        self._noted.update(stamps)

    def _count_answer(self, body: Json) -> None:
        self.monitor.steps += 1
        usage = Usage(**(body.get("usage") or {}))
        self.monitor.context = usage.context
        self.peak = max(self.peak, usage.context)
        self.resources.ledger.add(self.agent, body.get("model", self.prefix.model), usage, body.get("cost_usd"))

    def _pending_results(self, result: Json) -> list[Json]:
        """Return a result for every pending call: `result` for its own call, and NOT_RUN for the others."""
        calls = [call["id"] for call in pending_calls(self.history)]
        own = result["tool_use_id"]
        return [result if call == own else result_block(call, NOT_RUN, is_error=True) for call in calls]

    def _append(self, message: Json, text: bytes) -> None:
        self.history.append(message)
        self.encoded.append(text)

    def _replace(self, history: Sequence[Json]) -> None:
        self.history.clear()
        self.encoded.clear()
        for message in history:
            self._append(*sendable(message))

    def _restart_context(self, context: int) -> None:
        self.monitor.context = self.peak = context
        self.is_full = False

    def _message(self, message: Json, facts: Json | None = None) -> Line:
        return self.log.line(LineKind.MESSAGE, {**(facts or {}), "message": message})

    def _results(self, message: Json) -> Line:
        """Return the line of a message with tool results, including the stamps that no earlier line has."""
        stamps = self.context.stamps
        fresh = {path: stamp for path, stamp in stamps.items() if self._noted.get(path) != stamp}
        self._noted.update(fresh)
        return self._message(message, well_formed({"seen": fresh}) if fresh else None)

    def _save(self, *lines: Line) -> None:
        if any(line.kind is LineKind.MESSAGE for line in lines):
            self.unfinished_answer = None
        self.log.append(lines)


def result_block(call: str, text: str, *, is_error: bool = False, blocks: Sequence[Json] = ()) -> Json:
    """Return a tool_result block. An error always carries text, as the API requires."""
    content: Any = text or ("failed without a message" if is_error else "(no output)")
    if blocks:
        content = [{"type": "text", "text": content}, *blocks]
    result: Json = {"type": "tool_result", "tool_use_id": call, "content": content}
    return {**result, "is_error": True} if is_error else result
