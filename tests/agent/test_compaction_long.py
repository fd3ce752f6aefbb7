"""Any session, however long, cut short or resumed, keeps a history that the service takes (C1-C4, L8, L9)."""

import itertools
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.agent.limits import Limits
from bot.agent.permissions.plan_mode import EXIT_PLAN_MODE, approval_result
from bot.agent.permissions.tool_gate import Mode
from bot.agent.session_events import Compacted, End
from bot.agent.tools.registry import ALL, LOOKING
from bot.core.transcript import pending_calls
from bot.ports import ToolOutput
from bot.testing.model.reply import Fault, Reply, call, say, several, stop, think, verbatim
from bot.testing.model.request_view import ModelRequest
from tests.agent.conftest import Open
from tests.agent.ground import drive, ended, of, plan_input, results, valid
from tests.agent.small import SUMMARY, breaks, small, steps, summarising

MOVES = st.lists(
    st.tuples(
        st.sampled_from(("read", "two", "plan", "long", "full", "cut", "blank", "served", "pause", "empty", "torn")),
        st.integers(200, 9_000),
        st.booleans(),
    ),
    min_size=4,
    max_size=14,
)


SESSIONS = 6 if settings.default is None else max(6, settings.default.max_examples // 50)
"""Whole sessions that are played: a sample every day, 200 with `make soak`."""
SEARCH = verbatim({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}, "odd": None})
FOUND = verbatim({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [], "encrypted": "x"})


def scripted(kind: str, size: int, *, thinks: bool) -> Reply | Fault:
    """The answer of one move."""
    if kind == "torn":
        return Fault.truncate(reply=call("LS", path="."), after=size % 9)
    moves: dict[str, list[Reply]] = {
        "two": [call("Read", file_path="a.py"), call("Grep", pattern="x")],
        "plan": [say("A plan."), call(EXIT_PLAN_MODE, **plan_input())],
        "long": [say("word " * (size // 5)), call("LS", path=".")],
        "full": [say("half"), stop("model_context_window_exceeded")],
        "cut": [stop("max_tokens"), say("cut")],
        "blank": [say(""), call("LS", path="."), say(" \n")],
        "served": [SEARCH, FOUND, call("LS", path=".")],
        "pause": [SEARCH, stop("pause_turn")],
        "empty": [stop("end_turn")],
        "read": [call("Read", file_path=f"{size}.py")],
    }
    return several(*([think(f"About {size}.")] if thinks else []), *moves[kind])


@pytest.mark.req("C1", "C3", "C4", "L4a", "L8", "L9", "M3")
@settings(max_examples=SESSIONS, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(moves=MOVES, signed=st.booleans(), every=st.integers(1, 4))
async def test_any_session_is_taken(room: Open, moves: list[tuple[str, int, bool]], signed: bool, every: int) -> None:
    """Whatever the model says and people add, and wherever it is suspended or dies and is resumed days later: nothing
    is refused, and bytes change at compactions alone."""
    rest = iter(moves)
    sizes = itertools.cycle([size for _, size, _ in moves])

    def policy(request: ModelRequest) -> Reply | Fault:
        move = next(rest, None)
        return say("Done.") if move is None else scripted(move[0], move[1], thinks=move[2])

    r = small(room, summarising(policy), signed=signed)
    r.host.answer = lambda *_: ToolOutput("x" * next(sizes))
    session, compactions = r.session(mode=Mode.PLAN, tools=ALL, limits=Limits(steps=every, seconds=None)), 0
    for _ in range(60):
        events = await drive(session)
        compactions += len(of(events, Compacted))
        if ended(events).end not in {End.LIMIT, End.SUSPENDED} or "room" in ended(events).text:
            break
        live = json.dumps(session.history)
        session = r.resumed(tools=ALL)
        assert json.dumps(session.history) == live
        r.clock.seconds += 3 * 24 * 3600
        session.queued.append("Mind the changelog.")
        session.monitor.limits = Limits(steps=session.monitor.steps + every, seconds=None)
        if pending := pending_calls(session.history):
            session.answer(pending[0]["id"], approval_result())
    assert r.api.refusals == ()
    assert breaks(r.api.requests) <= compactions
    assert valid(session.history)


@pytest.mark.long
@pytest.mark.req("C1", "C3", "C4")
@pytest.mark.parametrize("signed", (True, False), ids=["service", "model"])
async def test_three_hundred_steps_in_a_small_window(room: Open, signed: bool) -> None:
    """The request stays small however long the session is, and every request is taken."""
    r = small(room, summarising(steps(300)), signed=signed)
    session = r.session(tools=LOOKING, limits=Limits(steps=None))
    events = await drive(session)
    assert ended(events).text == "Done."
    assert r.api.refusals == ()
    assert breaks(r.api.requests) == len(of(events, Compacted)) > 20
    assert max(len(request.raw) for request in r.api.requests) < 100_000
    assert SUMMARY.splitlines()[0] in json.dumps(session.history)
    assert len(results(session)) < 20
