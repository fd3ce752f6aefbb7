"""Records sessions as spans, counters, and log lines: ids, names, and sizes, but none of their content (O1, O2, L7).

SHELL. If OTEL_EXPORTER_OTLP_ENDPOINT is set, spans go there every half minute and when a session rests, in a thread of
their own. Nothing here fails a session. Names follow the GenAI conventions.
https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-agent-spans/ and .../docs/specs/otlp/#otlphttp
"""

import logging
import secrets
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from bot.agent.session_events import (
    AgentChanged,
    AgentEvent,
    AnswerArrived,
    Billed,
    Compacted,
    End,
    Ended,
    Info,
    Lifecycle,
    Recovery,
    RequestStarted,
    SessionStarted,
    ToolFinished,
    ToolStarted,
)
from bot.core.names import AgentId
from bot.logs import say
from bot.ports import Clock, Usage

SECONDS: Final = 5.0
"""Timeout of a request to the collector, in seconds."""
PERIOD: Final = 30.0
"""Seconds between two sends of ended spans while the session goes on."""

_INTERNAL, _CLIENT = 1, 3
_UNANSWERED: Final = "unanswered"
"""Error type of an abandoned request: another one replaced it, or its agent ended."""
_TROUBLES: Final = frozenset({"retry", "fallback", "nudge", "pause", "silence"})
_OVER: Final = frozenset({Lifecycle.COMPLETED, Lifecycle.FAILED, Lifecycle.ABORTED})
Facts = Mapping[str, str | int | float | bool | None]


@dataclass(slots=True)
class Counters:
    """Counters of this process, by name and labels."""

    values: Counter[tuple[str, tuple[tuple[str, str], ...]]] = field(default_factory=Counter)

    def add(self, name: str, amount: float = 1, **labels: str) -> None:
        self.values[name, tuple(sorted(labels.items()))] += amount  # type: ignore[assignment]  # dollars are no integers

    def text(self) -> str:
        """Return all counters in the Prometheus text format.

        https://prometheus.io/docs/instrumenting/exposition_formats/
        """
        lines: list[str] = []
        for (name, labels), value in sorted(self.values.items()):
            if (kind := f"# TYPE plangate_{name} counter") not in lines:
                lines.append(kind)
            pairs = ",".join(f'{label}="{_quote(text)}"' for label, text in labels)
            lines.append(f"plangate_{name}{{{pairs}}} {value:g}")
        return "".join(f"{line}\n" for line in lines)


@dataclass(frozen=True, slots=True)
class Collector:
    """Receives spans. Without an endpoint they are discarded."""

    endpoint: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def send(self, spans: list[dict[str, Any]]) -> None:
        """Post spans from a separate thread. Errors are only logged."""
        if self.endpoint and spans:
            threading.Thread(target=self._post, args=(spans,), name="spans").start()

    def _post(self, spans: list[dict[str, Any]]) -> None:
        import httpx2

        resource = {"attributes": _attributes({"service.name": "plangate"})}
        body = {
            "resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "plangate"}, "spans": spans}]}]
        }
        where = f"{self.endpoint.rstrip('/')}/v1/traces"
        try:
            httpx2.post(where, json=body, headers=dict(self.headers), timeout=SECONDS).raise_for_status()
        except httpx2.HTTPError as error:
            say("spans", level=logging.WARNING, outcome="not taken", error=type(error).__name__)


@dataclass(slots=True)
class _Span:
    """A span that has begun and not ended."""

    name: str
    parent: str
    start: int
    facts: dict[str, str | int | float | bool | None]
    kind: int = _INTERNAL
    id: str = field(default_factory=lambda: secrets.token_hex(8))


@dataclass(slots=True)
class Telemetry:
    """Records the sessions of one thread."""

    thread: str
    clock: Clock
    counters: Counters
    collector: Collector = Collector()
    _trace: str = ""
    _session: str = ""
    _under: str = ""
    """Id of the session's span: the parent of spans without a parent of their own, even after the session's end."""
    _steps: dict[AgentId, int] = field(default_factory=dict)
    _open: dict[object, _Span] = field(default_factory=dict)
    _done: list[dict[str, Any]] = field(default_factory=list)
    _sent: float = field(init=False)

    def __post_init__(self) -> None:
        self._sent = self.clock.monotonic()

    def receive(self, event: AgentEvent) -> None:
        """Record one event. Never raises."""
        match event:
            case SessionStarted():
                self._start_session(event)
            case RequestStarted():
                self._steps[event.agent] = event.step
                self._start_request(("request", event.agent), event.agent, event.model, at=event.at)
            case AnswerArrived():
                self._end_request("step", ("request", event.agent), event, at=event.at)
            case Billed():
                self._count_bill(event)
            case ToolStarted():
                facts: Facts = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": event.name}
                facts = {**self._of(event.agent), **facts, "gen_ai.tool.call.id": event.call}
                name = f"execute_tool {event.name}"
                self._begin(("tool", event.call), name, facts, parent=event.agent).start = self._time(event.at)
            case ToolFinished():
                self.counters.add("tool_calls_total", tool=event.name, failed=str(event.is_error).lower())
                self._end(("tool", event.call), "tool_error" if event.is_error else "", at=event.at)
            case AgentChanged():
                self._update_agent(event)
            case Ended():
                self._end_session(event)
            case Info() | Compacted() | Recovery():
                self._count_info(event)
            case _:
                pass

    def _start_session(self, event: SessionStarted) -> None:
        self._session, self._trace, self._under = event.session, secrets.token_hex(16), ""
        self._begin("turn", "turn")
        facts: Facts = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": event.agent}
        self._begin("session", f"invoke_agent {event.agent}", facts, parent="turn")
        self._under = self._open["session"].id

    def _start_request(self, key: object, agent: AgentId, model: str, *, at: datetime | None = None) -> None:
        facts: Facts = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic"}
        facts = {**self._of(agent), **facts, "gen_ai.request.model": model or None}
        self._begin(key, f"chat {model}".strip(), facts, parent=agent, kind=_CLIENT).start = self._time(at)

    def _end_request(
        self, what: str, key: object, event: AnswerArrived | Billed, *, at: datetime | None = None
    ) -> None:
        """End the span of a request, and log it."""
        cached, used = event.usage.cache_read, _tokens(event.usage)
        facts: Facts = {"gen_ai.response.model": event.model, "plangate.cost_usd": event.cost_usd}
        counts: Facts = {f"gen_ai.usage.{kind}_tokens": count for kind, count in used.items()}
        self._end(key, facts={**facts, **counts, "gen_ai.usage.cache_read.input_tokens": cached}, at=at)
        fields = {name.rpartition(".")[2]: value for name, value in {**facts, **counts}.items()}
        self._log(what, event.agent, {**fields, "cached_tokens": cached})

    def _count_bill(self, event: Billed) -> None:
        """Count a paid request. One without a start event gets a span now, with the duration it took."""
        self.counters.add("model_requests_total", model=event.model)
        self.counters.add("cost_usd_total", event.cost_usd or 0.0)
        for kind, count in _tokens(event.usage).items():
            self.counters.add("tokens_total", count, kind=kind)
        if event.seconds is not None:
            self._start_request("aside", event.agent, event.model)
            self._open["aside"].start -= int(event.seconds * 1e9)
            self._end_request("aside", "aside", event)
        if "session" not in self._open:
            self._send()

    def _count_info(self, event: Info | Compacted | Recovery) -> None:
        """Count and log an event that the runtime itself caused."""
        match event:
            case Info():
                if event.kind in _TROUBLES:
                    self.counters.add("model_troubles_total", kind=event.kind)
                level = logging.WARNING if event.kind == "silence" else logging.INFO
                self._log(event.kind, event.agent, {"why": event.text}, level=level)
            case Compacted():
                self.counters.add("compactions_total")
                self._log("compacted", event.agent, {"before": event.before, "after": event.after})
            case Recovery():  # its text may quote the output of a call
                self._log("trouble", event.agent, {"trouble": event.trouble, "outcome": str(event.outcome)})

    def _update_agent(self, row: AgentChanged) -> None:
        if row.agent not in self._open and row.state not in _OVER:
            facts: Facts = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": row.agent}
            span = self._begin(row.agent, f"invoke_agent {row.type}", facts, parent=("tool", row.call))
            span.start = self._time(row.at)
        elif row.agent in self._open and row.state in _OVER:
            self._end(("request", row.agent), _UNANSWERED, at=row.at)
            facts = {"plangate.steps": row.steps, "plangate.cost_usd": row.cost_usd, "plangate.context": row.tokens}
            self._end(row.agent, "" if row.state is Lifecycle.COMPLETED else str(row.state), facts, at=row.at)
            self.counters.add("subagents_total", type=row.type, state=str(row.state))
            attributes: Facts = {
                "type": row.type,
                "state": str(row.state),
                "calls": row.tool_calls,
                "context": row.tokens,
            }
            self._log("sub-agent", row.agent, {**attributes, "seconds": row.seconds, "cost_usd": row.cost_usd})

    def _end_session(self, event: Ended) -> None:
        """End the open spans, innermost first, and send all spans."""
        failed = "" if event.end in {End.ANSWERED, End.SUSPENDED} else str(event.end)
        self.counters.add("sessions_total", end=str(event.end))
        why = {"why": event.text} if event.end in {End.LIMIT, End.FAILED} else {}  # any other text is the model's words
        self._log("session", event.agent, {"end": str(event.end), **why})
        for key in reversed(list(self._open)):
            self._end(key, failed)
        self._send()

    def _send(self) -> None:
        self.collector.send(self._done)
        self._done, self._sent = [], self.clock.monotonic()

    def _log(self, what: str, agent: AgentId, facts: Facts, *, level: int = logging.INFO) -> None:
        ids = {"thread": self.thread, "session": self._session, "agent": agent, "step": self._steps.get(agent, 0)}
        say(what, level=level, **ids, **facts)

    def _of(self, agent: AgentId) -> dict[str, str | int | float | bool | None]:
        return {"plangate.session": self._session, "plangate.agent": agent, "plangate.step": self._steps.get(agent, 0)}

    def _begin(
        self,
        key: object,
        name: str,
        facts: Facts | None = None,
        *,
        parent: object = "session",
        kind: int = _INTERNAL,
    ) -> _Span:
        self._end(key, _UNANSWERED)
        above = self._open[parent].id if parent in self._open else self._under
        attributes = {"gen_ai.conversation.id": self.thread, **(facts or {})}
        self._open[key] = _Span(name, above, self._time(), attributes, kind)
        return self._open[key]

    def _end(self, key: object, error: str = "", facts: Facts | None = None, at: datetime | None = None) -> None:
        """End the open span with that key, if there is one, and add facts to it."""
        span = self._open.pop(key, None)
        if span is None:
            return
        attributes = {**span.facts, **(facts or {}), **({"error.type": error} if error else {})}
        record = {"traceId": self._trace, "spanId": span.id, "name": span.name, "kind": span.kind}
        times = {"startTimeUnixNano": str(span.start), "endTimeUnixNano": str(self._time(at))}
        above = {"parentSpanId": span.parent} if span.parent else {}
        self._done.append(
            record | above | times | {"attributes": _attributes(attributes), "status": {"code": 2 if error else 0}}
        )
        if self.clock.monotonic() - self._sent >= PERIOD:
            self._send()

    def _time(self, at: datetime | None = None) -> int:
        return int((at or self.clock.now()).timestamp() * 1e9)


def _tokens(usage: Usage) -> dict[str, int]:
    return {"input": usage.input + usage.cache_read + usage.cache_write, "output": usage.output}


def _attributes(facts: Facts) -> list[dict[str, Any]]:
    return [{"key": name, "value": _value(value)} for name, value in facts.items() if value is not None]


def _value(value: str | float | bool) -> dict[str, Any]:  # noqa: FBT001 - any kind of value
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case _:
            return {"stringValue": value}


def _quote(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
