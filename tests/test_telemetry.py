"""Sessions as spans, counters and log lines: the tree with ids and sizes, and no word of what was said (O1, O2, L7)."""

import json
import logging
import signal
import threading
from collections import Counter
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bot.agent.light_calls import LightCalls, pull_request_title
from bot.agent.limits import Limits
from bot.agent.loop import run
from bot.agent.model.anthropic_model import RetryPolicy
from bot.agent.session import Session
from bot.agent.session_events import (
    AgentChanged,
    AnswerArrived,
    End,
    Ended,
    Lifecycle,
    RequestStarted,
    SessionStarted,
    ToolFinished,
    ToolStarted,
)
from bot.agent.tools.registry import LOOKING
from bot.core.names import AgentId, SessionId, ToolUseId
from bot.ports import AnswerStarted, Usage
from bot.telemetry import PERIOD, Collector, Counters, Telemetry
from bot.testing.host import serve_routes
from bot.testing.model.reply import Fault, call, say, sequence, several
from bot.testing.model.server import ScriptedModel
from tests.agent.conftest import Open, room  # noqa: F401 - a fixture
from tests.agent.ground import HandClock, Room
from tests.agent.small import small, steps, summarising
from tests.agent.teams import script, task, team
from tests.stories.ground import Held, person
from tests.stories.test_interrupted import crew

SECRET = "the-words-of-a-session"
MODEL = "claude-opus-5-5"


class Collected:
    """A collector that keeps what comes."""

    def __init__(self) -> None:
        self.headers: list[dict[str, str]] = []
        self.spans: list[dict[str, Any]] = []

    async def take(self, request: Request) -> Response:
        self.headers.append(dict(request.headers))
        for resource in (await request.json())["resourceSpans"]:
            self.spans += [span for scope in resource["scopeSpans"] for span in scope["spans"]]
        return Response()

    def routes(self) -> list[Route]:
        return [Route("/v1/traces", self.take, methods=["POST"])]

    def named(self, name: str) -> list[dict[str, Any]]:
        return [span for span in self.spans if span["name"] == name]

    def chats(self) -> list[dict[str, Any]]:
        return [span for span in self.spans if facts(span).get("gen_ai.operation.name") == "chat"]


def facts(span: dict[str, Any]) -> dict[str, Any]:
    return {each["key"]: next(iter(each["value"].values())) for each in span["attributes"]}


async def heard(r: Room, counters: Counters, collector: Collector) -> None:
    """A session with a tool that fails, a retry and two sub-agents, told to telemetry."""
    telemetry = Telemetry("7#12", HandClock(), counters, collector)
    t = team(replace(r, world=replace(r.world, emit=telemetry.receive)))
    await followed(telemetry, t.session)


async def followed(telemetry: Telemetry, session: Session) -> None:
    """Run a session, and tell what it tells as it comes."""
    telemetry.receive(SessionStarted(session.agent, session.id))
    async with aclosing(run(session)) as events:
        async for event in events:
            if not isinstance(event, AnswerStarted):
                telemetry.receive(event)
    posted()


def posted() -> None:
    """Wait until what was sent is there."""
    for thread in [each for each in threading.enumerate() if each.name == "spans"]:
        thread.join(10)


def told(room: Open) -> Room:  # noqa: F811 - the fixture
    first = several(say(SECRET), call("Read", file_path=SECRET), call("Nothing", of=SECRET), task("a"), task("b"))
    return room(script(first, lambda _: say(SECRET), after=say(SECRET)))


@pytest.mark.req("O1", "L7", "S13")
async def test_a_session_is_a_tree_of_spans(room: Open) -> None:  # noqa: F811 - the fixture
    kept = Collected()
    with serve_routes(kept.routes()) as address:
        await heard(told(room), Counters(), Collector(address, {"x-key": "k"}))
    assert {headers["x-key"] for headers in kept.headers} == {"k"}
    by_id = {span["spanId"]: span for span in kept.spans}
    (turn,), (session,) = kept.named("turn"), kept.named("invoke_agent main")
    assert len(by_id) == len(kept.spans)
    assert {span["traceId"] for span in kept.spans} == {turn["traceId"]}
    assert "parentSpanId" not in turn
    assert session["parentSpanId"] == turn["spanId"]
    chats = kept.chats()
    assert all(span["name"] == f"chat {facts(span)['gen_ai.request.model']}" for span in chats)
    requests = [span for span in chats if span["parentSpanId"] == session["spanId"]]
    assert [facts(span)["plangate.step"] for span in requests] == ["1", "2"]
    assert {facts(span)["plangate.session"] for span in requests} == {"thread-1"}
    assert {facts(span)["gen_ai.conversation.id"] for span in kept.spans} == {"7#12"}
    assert all(int(facts(span)["gen_ai.usage.input_tokens"]) > 0 for span in requests)
    assert {facts(span)["gen_ai.response.model"] for span in requests} == {"claude-opus-5-5"}
    assert facts(kept.named("execute_tool Nothing")[0])["error.type"] == "tool_error"
    assert kept.named("execute_tool Nothing")[0]["status"] == {"code": 2}
    agents = kept.named("invoke_agent explore")
    assert [facts(span)["gen_ai.agent.name"] for span in agents] == ["explore-1", "explore-2"]
    assert {span["parentSpanId"] for span in agents} == {span["spanId"] for span in kept.named("execute_tool Task")}
    asked = [span for span in chats if span not in requests]
    assert [span["parentSpanId"] for span in asked] == [span["spanId"] for span in agents]
    assert {facts(span)["gen_ai.response.model"] for span in asked} == {"claude-sonnet-5-5"}
    assert all(int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"]) for span in kept.spans)


@pytest.mark.req("O1")
def test_the_span_of_a_call_told_late_is_as_long_as_the_call() -> None:
    kept, clock, agent = Collected(), HandClock(), AgentId("main")
    with serve_routes(kept.routes()) as address:
        telemetry = Telemetry("7#12", clock, Counters(), Collector(address))
        telemetry.receive(SessionStarted(agent, SessionId("s")))
        began, ended = clock.now(), clock.now() + timedelta(seconds=3)
        clock.seconds += 10
        telemetry.receive(ToolStarted(agent, ToolUseId("a"), "Read", {}, began))
        telemetry.receive(ToolFinished(agent, ToolUseId("a"), "Read", "", is_error=False, at=ended))
        telemetry.receive(Ended(agent, End.ANSWERED, ""))
        posted()
    (span,) = kept.named("execute_tool Read")
    assert int(span["startTimeUnixNano"]) == int(began.timestamp() * 1e9)
    assert int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"]) == 3_000_000_000


@pytest.mark.req("O1")
def test_the_spans_of_a_sub_agent_told_late_cover_its_work() -> None:
    kept, clock, agent, main = Collected(), HandClock(), AgentId("explore-1"), AgentId("main")

    def times(name: str) -> tuple[int, int]:
        (span,) = kept.named(name)
        return tuple(int(span[f"{end}TimeUnixNano"]) // 10**9 for end in ("start", "end"))  # type: ignore[return-value]

    def at(seconds: int) -> datetime:
        return began + timedelta(seconds=seconds)

    with serve_routes(kept.routes()) as address:
        telemetry = Telemetry("7#12", clock, Counters(), Collector(address))
        telemetry.receive(SessionStarted(main, SessionId("s")))
        began = clock.now()
        clock.seconds += 10
        row = AgentChanged(agent, main, "explore", "a", Lifecycle.INITIALIZING, at=began)
        telemetry.receive(row)
        telemetry.receive(RequestStarted(agent, 1, "m", at(1)))
        telemetry.receive(AnswerArrived(agent, 1, {}, Usage(), 0.0, "m", at(4)))
        telemetry.receive(replace(row, state=Lifecycle.COMPLETED, at=at(5)))
        telemetry.receive(Ended(main, End.ANSWERED, ""))
        posted()
    start = int(began.timestamp())
    assert times("invoke_agent explore") == (start, start + 5)
    assert times("chat m") == (start + 1, start + 4)


@pytest.mark.req("O1", "O2", "L7")
async def test_counters_and_lines_name_agents_and_no_word_of_a_session(
    room: Open,  # noqa: F811 - the fixture
    caplog: pytest.LogCaptureFixture,
) -> None:
    kept, counters = Collected(), Counters()
    with caplog.at_level(logging.INFO, "plangate"), serve_routes(kept.routes()) as address:
        await heard(told(room), counters, Collector(address))
    text = counters.text()
    assert 'plangate_sessions_total{end="answered"} 1\n' in text
    assert 'plangate_tool_calls_total{failed="true",tool="Nothing"} 1\n' in text
    assert 'plangate_subagents_total{state="completed",type="explore"} 2\n' in text
    assert 'plangate_model_requests_total{model="claude-opus-5-5"} 2\n' in text
    assert 'plangate_model_requests_total{model="claude-sonnet-5-5"} 2\n' in text
    assert text.count("# TYPE plangate_tokens_total counter") == 1
    steps = [record.__dict__["fields"] for record in caplog.records if record.message == "step"]
    for count in ("input_tokens", "output_tokens"):
        spent = [facts(span)[f"gen_ai.usage.{count}"] for span in kept.chats()]
        assert [str(each[count]) for each in steps] == spent
    assert {each["thread"] for each in steps} == {"7#12"}
    assert Counter((each["session"], each["agent"], each["step"]) for each in steps) == Counter(
        ("thread-1", agent, step) for agent, step in (("main", 1), ("explore-1", 1), ("explore-2", 1), ("main", 2))
    )
    everything = json.dumps([kept.spans, text, [record.__dict__.get("fields") for record in caplog.records]])
    assert SECRET not in everything


@pytest.mark.req("O1")
async def test_retries_limits_and_a_collector_that_fails(room: Open, caplog: pytest.LogCaptureFixture) -> None:  # noqa: F811
    """A collector that is not there costs one line."""
    r = room(sequence(Fault.status(500), call("LS", path=".")))
    session, kept, counters = r.session(limits=Limits(steps=1)), Collected(), Counters()
    with caplog.at_level(logging.INFO, "plangate"), serve_routes(kept.routes()) as address:
        for endpoint in (address, "http://127.0.0.1:9", f"{address}/nowhere"):
            telemetry = Telemetry("7#12", r.clock, counters, Collector(endpoint))
            await followed(telemetry, session)
            assert telemetry._open == {}
    assert facts(kept.named("invoke_agent main")[0])["error.type"] == "limit"
    assert 'plangate_model_troubles_total{kind="retry"} 1\n' in counters.text()
    lines = [{"what": record.message, **record.__dict__["fields"]} for record in caplog.records]
    assert [line["error"] for line in lines if line["what"] == "spans"] == ["ConnectError", "HTTPStatusError"]
    ids = {"thread": "7#12", "session": "thread-1", "agent": "main", "step": 1}
    retry, step, limit, *_ = lines
    assert (retry["what"], step["what"]) == ("retry", "step")
    assert {**retry, **ids} == retry
    assert "HTTP 500" in retry["why"]
    why = "the limit of 1 steps was reached (1 used)"
    assert limit == {"what": "session", **ids, "end": "limit", "why": why}


@pytest.mark.req("M7", "L7")
async def test_a_silence_is_logged_with_its_ids(room: Open, caplog: pytest.LogCaptureFixture) -> None:  # noqa: F811
    r = room(lambda _: Fault.stall(0.3, reply=say("Late.")), patience=RetryPolicy(report_silence_after=0.1))
    await heard(r, Counters(), Collector())
    line, *later = [record for record in caplog.records if record.message == "silence"]  # a slow machine is silent too
    told = {"thread": "7#12", "session": "thread-1", "agent": "main", "step": 1}
    assert line.__dict__["fields"] == {**told, "why": "the model has sent nothing for 0 s; still waiting"}
    assert line.levelno == logging.WARNING
    notes = [each.body.get("note") for each in r.world.transcripts.load(SessionId("thread-1"))]
    assert notes.count("silence") == 1 + len(later)


@pytest.mark.req("O1")
def test_spans_go_out_while_a_session_goes_on() -> None:
    """Every half minute; a request that another one replaces ends with it, as an error."""
    main, kept, clock = AgentId("main"), Collected(), HandClock()
    with serve_routes(kept.routes()) as address:
        telemetry = Telemetry("7#12", clock, Counters(), Collector(address))
        telemetry.receive(SessionStarted(main, SessionId("thread-1")))
        telemetry.receive(RequestStarted(main, 1, "opus"))
        telemetry.receive(RequestStarted(main, 2, "haiku"))
        posted()
        assert kept.spans == []
        clock.seconds += PERIOD
        telemetry.receive(AnswerArrived(main, 2, {}, Usage(), 0.0))
        posted()
        assert [facts(span).get("error.type") for span in kept.chats()] == ["unanswered", None]
        telemetry.receive(Ended(main, End.ANSWERED, ""))
        posted()
    assert Counter(span["name"] for span in kept.spans) == {
        "chat opus": 1,
        "chat haiku": 1,
        "invoke_agent main": 1,
        "turn": 1,
    }
    assert len({span["traceId"] for span in kept.spans}) == 1
    with serve_routes(kept.routes()) as address:
        telemetry.collector = Collector(address)
        telemetry.receive(SessionStarted(main, SessionId("thread-2")))
        telemetry.receive(Ended(main, End.CANCELLED, ""))
        posted()
    assert len({span["traceId"] for span in kept.spans}) == 2
    assert {facts(span).get("error.type") for span in kept.spans[-2:]} == {"cancelled"}


@pytest.mark.req("L7", "M11")
async def test_small_questions_tell_of_their_troubles(room: Open, caplog: pytest.LogCaptureFixture) -> None:  # noqa: F811
    r, counters = room(sequence(Fault.status(500), Fault.status(400))), Counters()
    telemetry = Telemetry("7#12", r.clock, counters)
    session = r.session(world=replace(r.world, emit=telemetry.receive))
    with caplog.at_level(logging.INFO, "plangate"):
        assert await pull_request_title(LightCalls(session.log, "haiku"), "a", "b") == ""
    assert [record.message for record in caplog.records] == ["retry", "light"]
    assert {record.__dict__["fields"]["agent"] for record in caplog.records} == {"main"}
    assert 'plangate_model_troubles_total{kind="retry"} 1\n' in counters.text()


@pytest.mark.req("O1", "L5")
async def test_counters_agree_with_the_ledger(room: Open, caplog: pytest.LogCaptureFixture) -> None:  # noqa: F811
    """Summaries, small questions and tries that broke off cost too."""
    answers, broken = summarising(steps(12)), [Fault.truncate()]
    r = small(room, lambda request: broken.pop() if broken else answers(request), signed=False)
    kept, counters = Collected(), Counters()
    with caplog.at_level(logging.INFO, "plangate"), serve_routes(kept.routes()) as address:
        telemetry = Telemetry("7#12", r.clock, counters, Collector(address))
        session = r.session(tools=LOOKING, world=replace(r.world, emit=telemetry.receive))
        await followed(telemetry, session)
        assert await pull_request_title(LightCalls(session.log, "haiku"), "a", "b")
        posted()
    rows = r.world.ledger.rows.values()
    counted = {name: value for (name, labels), value in counters.values.items() if not labels}
    assert counted["cost_usd_total"] == pytest.approx(r.world.ledger.cost_usd)
    asked = sum(row.requests for row in rows)
    assert asked == len(r.api.requests)
    assert sum(value for (name, _), value in counters.values.items() if name == "model_requests_total") == asked
    chats = kept.chats()
    assert len(chats) == asked == len({span["spanId"] for span in chats})
    assert sum(facts(span)["plangate.cost_usd"] for span in chats) == pytest.approx(r.world.ledger.cost_usd)
    assert {span["parentSpanId"] for span in chats} == {kept.named("invoke_agent main")[0]["spanId"]}
    asides = [record for record in caplog.records if record.message == "aside"]
    assert len(asides) == asked - session.monitor.steps > 1
    assert chats[-1]["name"] == "chat claude-haiku-5-5"


@pytest.mark.long
@pytest.mark.req("O1")
def test_a_run_sends_its_spans_where_the_operator_names_a_collector(tmp_path: Path) -> None:
    kept = Collected()
    with ScriptedModel(crew) as model, serve_routes(kept.routes()) as address:
        somebody = person(tmp_path / "home", model.base_url)
        quiet = somebody.run("--dry-run", "--json")
        assert (quiet.code, kept.spans) == (0, [])
        assert "info" not in quiet.err
        logged = {"PLANGATE_LOG_LEVEL": "info", "PLANGATE_LOG": "json"}
        traced = replace(somebody, variables={"OTEL_EXPORTER_OTLP_ENDPOINT": address, **logged})
        done = traced.run("--yes", "--json")
        assert (done.code, len(done.out.splitlines())) == (0, 1), done.err
    lines = [json.loads(line) for line in done.err.splitlines() if line.startswith("{")]
    assert Counter(line["what"] for line in lines) >= Counter({"step": 5, "aside": 1, "sub-agent": 1, "session": 1})
    (metrics,) = [line for line in lines if line["what"] == "sub-agents"]
    assert (metrics["started"], metrics["thread"], metrics["session"]) == (1, lines[0]["thread"], lines[0]["session"])
    names = Counter(span["name"] for span in kept.spans)
    assert names >= Counter({"turn": 1, "invoke_agent main": 1, f"chat {MODEL}": 2, "chat claude-haiku-5-5": 1})


@pytest.mark.long
@pytest.mark.req("O1", "L6")
def test_a_run_that_is_stopped_sends_open_spans_as_cancelled(tmp_path: Path) -> None:
    kept = Collected()
    with serve_routes(kept.routes()) as address:
        held = Held(lambda _, request: bool(request.tools), lambda _: say("Above 50."))
        with ScriptedModel(held) as model:
            somebody = person(tmp_path / "home", model.base_url, OTEL_EXPORTER_OTLP_ENDPOINT=address)
            somebody.die(held.arrived.is_set, signal.SIGINT)
            held.released.set()
    ends = {span["name"]: facts(span).get("error.type") for span in kept.spans}
    assert ends == dict.fromkeys(("turn", "invoke_agent main", f"chat {MODEL}"), "cancelled")
