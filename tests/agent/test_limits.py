"""Limits end a session cleanly and say which one it was; a ledger keeps the books (L5)."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.limits import Ledger, Limits, SharedBudget
from bot.agent.loop import UNPRICED
from bot.agent.session_events import End, Info, Recovery, RecoveryOutcome
from bot.clock import SystemClock
from bot.core.names import AgentId
from bot.ports import ToolOutput, Usage
from bot.testing.model.reply import Fault, Policy, Reply, Text, call, say, sequence, several
from bot.testing.model.request_view import ModelRequest
from tests.agent.conftest import Open
from tests.agent.ground import Room, drive, ended, of, results, valid
from tests.agent.teams import script, task, team

A, B = AgentId("main"), AgentId("explore-1")


def busy(request: ModelRequest) -> Reply:
    """A model that never has enough, until it is told to stop."""
    return say("Done.") if "Stop." in request.last_user_text else call("LS", path=str(request.step))


async def again(r: Room) -> None:
    """The session goes on from its transcript, and the server takes its history."""
    later = r.resumed()
    later.add({"role": "user", "content": [{"type": "text", "text": "Stop."}]})
    assert ended(await drive(later)).end is End.ANSWERED
    assert r.api.refusals == ()


@pytest.mark.req("L5")
@pytest.mark.parametrize(
    ("limits", "requests", "named"),
    (
        (Limits(steps=3), 3, "3 steps"),
        (Limits(steps=None, tool_calls=2), 2, "2 tool calls"),
        (Limits(context_tokens=1000), 1, "1,000 tokens of context"),
        (Limits(seconds=30), 3, "30 seconds"),
        (Limits(steps=0), 0, "0 steps"),
    ),
    ids=["steps", "tool calls", "tokens", "seconds", "none at all"],
)
async def test_a_limit_ends_cleanly(room: Open, limits: Limits, requests: int, named: str) -> None:
    """The end names the limit, the history is valid, and a later session goes on from it."""
    r = room(busy)

    def slow(*_: object) -> ToolOutput:
        r.clock.seconds += 10
        return ToolOutput("x")

    r.host.answer = slow
    session = r.session(limits=limits)
    end = ended(await drive(session))
    assert end.end is End.LIMIT
    assert named in end.text
    assert len(r.api.requests) == requests
    assert valid(session.history)
    await again(r)


@pytest.mark.req("L5")
async def test_the_time_ends_an_answer_that_is_under_way(room: Open) -> None:
    """One that would trickle for minutes ends with the session's time; what came of it is booked."""
    trickle = Reply((Text("word " * 3000),), pace=0.05)
    r = room(lambda seen: say("Done.") if "Stop." in seen.last_user_text else trickle)
    r.model.warm()
    session = r.session(limits=Limits(seconds=2), world=replace(r.world, clock=SystemClock()))
    async with asyncio.timeout(10):
        end = ended(await drive(session))
    assert (end.end, end.text) == (End.LIMIT, "the limit of 2 seconds was reached (2 used)")
    assert len(r.api.requests) == 1
    assert r.resumed().resources.ledger.cost_usd == r.world.ledger.cost_usd > 0
    await again(r)


@pytest.mark.req("L5")
async def test_the_budget_ends_cleanly(room: Open) -> None:
    """No request goes out once the dollars are spent; the one that crosses the line is the last."""
    r = room(busy, budget_usd=0.02)
    session = r.session()
    end = ended(await drive(session))
    spent = r.world.ledger.cost_usd
    assert end.end is End.LIMIT
    assert "$0.02" in end.text
    assert spent >= 0.02
    assert spent == pytest.approx(r.api.usage.cost_usd)
    assert valid(session.history)
    later = r.resumed()
    assert ended(await drive(later)).end is End.LIMIT, "what was spent counts after a restart too"


@pytest.mark.req("L5", "M12")
@pytest.mark.parametrize(("model", "told"), (("claude-mythos-5-2", 1), ("claude-opus-5-5", 0)))
async def test_a_budget_that_bounds_nothing_is_said_at_the_start(room: Open, model: str, told: int) -> None:
    """What a model without prices spends is not known: whoever set dollars hears once that they do not hold it."""
    r = room(sequence(call("LS", path="."), say("Done.")), budget_usd=1.0)
    events = await drive(r.session(model=model))
    assert ended(events).text == "Done."
    assert [event.text for event in of(events, Info)] == [UNPRICED.format(model)] * told


@pytest.mark.req("L5", "M9")
async def test_no_answer_is_asked_for_again_beyond_the_budget(room: Open) -> None:
    """One that breaks off each time costs each time: the try that spends the budget is the last, and who resumes
    knows of it."""
    r = room(lambda _: Fault.truncate(reply=say("word " * 200)), budget_usd=0.01)
    end = ended(await drive(r.session()))
    assert (end.end, "the budget of $0.01" in end.text) == (End.LIMIT, True)
    assert ended(await drive(r.resumed())).end is End.LIMIT
    assert len(r.api.requests) == 1


@pytest.mark.req("L5")
async def test_many_calls_of_one_message_count_each(room: Open) -> None:
    """Three calls in one message are three tool calls."""
    three = several(*(call("LS", path=str(n)) for n in range(3)))
    r = room(lambda _: three)
    assert "3 tool calls" in ended(await drive(r.session(limits=Limits(tool_calls=3)))).text
    assert len(r.api.requests) == 1


@pytest.mark.req("L5", "S9")
async def test_no_call_of_a_message_goes_over_the_limit(room: Open) -> None:
    """Of twelve calls in one message the five that the limit has room for run; the others say why they did not."""
    r = room(lambda _: several(*(call("LS", path=str(n)) for n in range(12))))
    session = r.session(limits=Limits(tool_calls=5))
    assert "5 tool calls" in ended(await drive(session)).text
    assert [given["path"] for _, given in r.host.calls] == list("01234")
    refused = [block for block in results(session) if block.get("is_error")]
    assert len(refused) == 7
    assert all("the limit of 5 tool calls" in block["content"] for block in refused)
    assert valid(session.history)


@pytest.mark.req("L5")
async def test_calls_under_way_count_against_the_budget() -> None:
    """A second call waits where the open one may use up the rest; then it goes out, or there is nothing left for it."""
    for cost, may_follow in ((0.6, True), (1.1, False)):
        ledger = Ledger(budget_usd=1.0)
        order: list[object] = []

        async def second(ledger: Ledger = ledger, order: list[object] = order) -> None:
            async with ledger.call(0.1, SharedBudget()) as ticket:
                order.append(ticket is not None)

        async with asyncio.TaskGroup() as group, ledger.call(1.0, SharedBudget()) as ticket:
            assert ticket
            group.create_task(second())
            await asyncio.sleep(0.01)
            assert order == [], "it waits"
            ledger.add(A, "m", Usage(input=1), cost)
        assert order == [may_follow]


DEAR = Reply((Text("Found."),), usage={"output_tokens": 20_000}, pace=0.02)
"""Slow enough for two to be under way."""
BREAKS = Fault.truncate(reply=DEAR, after=99)
"""It ends once the service has told what it costs."""
CHILDREN: dict[str, Policy] = {
    "whole": lambda _: DEAR,
    "broken off": lambda seen: BREAKS if seen.stream else DEAR,
    "taken over": lambda seen: Fault.status(529) if seen.model == "claude-sonnet-5-5" else DEAR,
}


@pytest.mark.req("L5", "S9", "M9")
@pytest.mark.parametrize("child", CHILDREN.values(), ids=CHILDREN)
async def test_sub_agents_together_go_over_a_budget_by_one_call(room: Open, child: Policy) -> None:
    """Eight at once, each dearer than any call before: no more is spent than the budget and what one call costs, also
    where each answer breaks off and is asked for again, or comes of a dearer model."""
    tasks = several(*(task(f"part {number}") for number in range(8)))
    r = room(script(tasks, child), budget_usd=0.5, fallback="claude-fable-5-1")
    t = team(r, at_once=8)
    end = ended(await drive(t.session))
    assert end.end is End.LIMIT
    one = max(row.cost_usd / row.requests for row in r.world.ledger.rows.values())
    assert one > 0.2
    assert 0.5 <= r.world.ledger.cost_usd < 0.5 + one
    assert r.world.ledger.cost_usd == pytest.approx(r.api.usage.cost_usd)
    assert sum("the budget of $0.50 was reached" in str(block["content"]) for block in results(t.session)) >= 5


@pytest.mark.req("L5", "S9")
@pytest.mark.parametrize(
    ("limits", "said"),
    (
        (Limits(steps=7, seconds=None), "the limit of 7 steps was reached (7 used)"),
        (Limits(steps=None, seconds=180), "the limit of 180 seconds was reached"),
    ),
)
async def test_what_bounds_a_session_bounds_its_sub_agents(room: Open, limits: Limits, said: str) -> None:
    """Two that never have enough share the steps and the time of their parent: none asks once these are used up, no
    limit of theirs is raised for it, and all say which it was."""
    r = room(script(several(task("this"), task("that")), lambda _: call("LS", path=".")))
    t = team(r)
    t.session.monitor.limits = limits

    def slow(*_: object) -> ToolOutput:
        r.clock.seconds += 30
        return ToolOutput("x")

    t.workspace.answer = slow
    events = await drive(t.session)
    assert ended(events).end is End.LIMIT
    assert said in ended(events).text
    assert [said in block["content"] for block in results(t.session)] == [True, True]
    assert len(r.api.requests) in {7, 8, 9}
    assert {event.outcome for event in of(events, Recovery)} == {RecoveryOutcome.UNRECOVERABLE}


@pytest.mark.req("M12")
def test_an_unpriced_call_leaves_the_sum_unknown() -> None:
    """A model without prices costs an unknown amount: the sum is of what is known, and says that it is not all."""
    ledger = Ledger()
    ledger.add(A, "priced", Usage(output=10), 0.5)
    before = ledger.is_priced
    ledger.add(A, "unknown", Usage(output=5), None)
    assert (before, ledger.is_priced) == (True, False)
    assert ledger.cost_usd == 0.5
    assert ledger.of(A).unpriced == 1
    assert ledger.of(A).requests == 2
    assert ledger.of(B).requests == 0


_usages = st.builds(Usage, *(st.integers(0, 10**6) for _ in range(4)))
_rows = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("mn"), _usages, st.none() | st.floats(0, 9)))


@pytest.mark.req("M12")
@given(_rows)
def test_the_ledger_loses_nothing(rows: list[tuple[str, str, Usage, float | None]]) -> None:
    """Whatever is booked in whatever order, the sums over agents and models are the sum of all."""
    ledger = Ledger()
    for agent, model, usage, cost in rows:
        ledger.add(AgentId(agent), model, usage, cost)
    assert ledger.usage == sum((usage for _, _, usage, _ in rows), Usage())
    assert ledger.cost_usd == pytest.approx(sum(cost or 0.0 for *_, cost in rows))
    assert sum(ledger.of(AgentId(agent)).requests for agent in "ab") == len(rows)
    assert ledger.usage.context == sum(usage.context for _, _, usage, _ in rows)
