"""Limits, budgets, and the monitor; light calls and what they cost (L5, S9, M11, M12)."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent import light_calls
from bot.agent.light_calls import MEANING_ROOM, TITLE_ROOM, LightCalls
from bot.agent.limits import Ledger, Limits, OverLimit, Resource, SharedBudget
from bot.agent.loop import UNPRICED
from bot.agent.model.request import parameters
from bot.agent.model.specs import resolve
from bot.agent.prompts import prompt_text
from bot.agent.session_events import End, Info, Recovery, RecoveryOutcome
from bot.agent.subagents.types import RESTRICTED, STANDARD, TYPES, configured_limits, limits_of
from bot.clock import SystemClock
from bot.core.configuration import AgentLimits, Agents, CodeLimits
from bot.core.names import AgentId, ToolUseId
from bot.core.question import permission
from bot.core.transcript import Json
from bot.ports import ModelRequest as Asked
from bot.ports import ToolOutput, Usage
from bot.testing.model.reply import Fault, Policy, Reply, Text, call, say, sequence, several, stop, think
from bot.testing.model.request_view import ModelRequest
from tests.agent.conftest import Open
from tests.agent.ground import Room, drive, ended, of, results, valid
from tests.agent.teams import children, script, task, team

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
async def test_a_limit_ends_a_session_that_can_be_resumed(
    room: Open, limits: Limits, requests: int, named: str
) -> None:
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
async def test_time_that_runs_out_ends_an_answer_under_way(room: Open) -> None:
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
async def test_no_request_goes_out_once_the_budget_is_spent(room: Open) -> None:
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
async def test_a_budget_for_a_model_without_prices_is_said_to_bound_nothing(room: Open, model: str, told: int) -> None:
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


@pytest.mark.req("L5", "S9")
async def test_no_call_of_a_message_goes_over_the_limit(room: Open) -> None:
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
def test_the_ledgers_sums_are_those_of_all_bookings(rows: list[tuple[str, str, Usage, float | None]]) -> None:
    ledger = Ledger()
    for agent, model, usage, cost in rows:
        ledger.add(AgentId(agent), model, usage, cost)
    assert ledger.usage == sum((usage for _, _, usage, _ in rows), Usage())
    assert ledger.cost_usd == pytest.approx(sum(cost or 0.0 for *_, cost in rows))
    assert sum(ledger.of(AgentId(agent)).requests for agent in "ab") == len(rows)
    assert ledger.usage.context == sum(usage.context for _, _, usage, _ in rows)


READ = {"file_path": "a.py"}
WRITE = {"file_path": "new.py", "content": "x"}
PRESETS = {"standard": STANDARD, "restricted": RESTRICTED}

TRIPPED: list[tuple[str, str, Json, int, str]] = [
    ("standard", "LS", {"path": "."}, 50, "50 tool calls"),
    ("standard", "Read", READ, 101, "100 file reads"),
    ("restricted", "LS", {"path": "."}, 40, "40 tool calls"),
    ("restricted", "Read", READ, 41, "40 file reads"),
    ("restricted", "Write", WRITE, 6, "5 file writes"),
]


@pytest.mark.req("S9", "L5")
@pytest.mark.parametrize(("name", "tool", "given", "times", "said"), TRIPPED)
async def test_calls_beyond_a_limit_do_not_run(
    room: Open, name: str, tool: str, given: Json, times: int, said: str
) -> None:
    r = room(lambda _: several(*(call(tool, **given) for _ in range(times))))
    limits = PRESETS[name]
    if "tool calls" not in said:
        limits = replace(limits, tool_calls=None)
    session = r.session(limits=limits)
    end = ended(await drive(session))
    assert (end.end, said in end.text) == (End.LIMIT, True)
    assert len(r.api.requests) == 1
    assert valid(session.history)
    refused = [block["content"] for block in results(session) if block.get("is_error")]
    assert len(r.host.calls) == times - len(refused)
    assert all(said in text for text in refused)
    assert session.monitor.utilization()[end.limit or Resource.STEPS] == 100


@pytest.mark.req("S9", "T3")
async def test_a_restricted_tool_ends_after_its_seconds(room: Open) -> None:
    r = room(lambda request: say("Ok.") if request.step else call("Read", **READ))
    r.host.hold = asyncio.Event()
    session = r.session(limits=replace(RESTRICTED, tool_seconds=0.05))
    assert ended(await drive(session)).end is End.ANSWERED
    assert "was ended" in results(session)[0]["content"]
    assert RESTRICTED.tool_seconds == 15


@pytest.mark.req("S9", "T2")
async def test_a_restricted_session_runs_three_tools_at_once(room: Open) -> None:
    r = room(lambda request: say("Ok.") if request.step else several(*(call("LS", path=str(n)) for n in range(10))))
    await drive(r.session(limits=RESTRICTED, world=replace(r.world, eager=False)))
    assert r.host.most == 3


@pytest.mark.req("S9")
async def test_a_file_that_is_too_large_is_not_written(room: Open) -> None:
    session = room(lambda _: say("Ok.")).session(limits=RESTRICTED)
    large = session.tools["Write"].input_model.model_validate({**WRITE, "content": "x" * ((1 << 20) + 1)})
    with pytest.raises(OverLimit, match=r"the limit of 1,048,576 file bytes was reached \(1,048,577 used\)"):
        session.monitor.admit("Write", large.arguments())
    session.monitor.check()


@pytest.mark.req("S9")
async def test_the_sixth_network_request_does_not_go_out(room: Open) -> None:
    session = room(lambda _: say("Ok.")).session(limits=RESTRICTED)
    for _ in range(5):
        session.monitor.admit("WebFetch", {"url": "https://a.example/"})
    with pytest.raises(OverLimit) as over:
        session.monitor.admit("WebFetch", {"url": "https://a.example/"})
    assert (over.value.resource, over.value.used, over.value.allowed) == (Resource.NETWORK, 5, 5)
    assert session.monitor.utilization()[Resource.NETWORK] == 100


@pytest.mark.req("S9", "M6")
@pytest.mark.parametrize("model", ("claude-sonnet-5-5", "claude-haiku-4-5"))
def test_restricted_requests_think_least(model: str) -> None:
    message = {"role": "user", "content": [{"type": "text", "text": "x"}]}
    sent = parameters(Asked(model, ({"type": "text", "text": "x"},), (), (message,), role="restricted"), resolve(model))
    assert sent["max_tokens"] == 4_096
    assert sent.get("output_config", {"effort": "low"}) == {"effort": "low"}
    assert sent["thinking"].get("budget_tokens", 1_024) == 1_024


@pytest.mark.req("S9")
async def test_an_untrusted_thread_restricts_those_that_look(room: Open) -> None:
    r = room(script(several(task("look"), task("write", "code")), lambda _: say("word " * 3_000)))
    t = team(r, untrusted=True)
    await drive(t.session)
    looked, written = results(t.session)
    assert "[cut: the limit of 2,048 tokens of report was reached]" in looked["content"]
    assert "[cut:" not in written["content"]
    assert {request.body["output_config"]["effort"] for request in children(r)} == {"low", "medium"}
    assert sorted(bounds.memory_mb or 0 for bounds in t.workspace.bounds) == [0, 256]


@pytest.mark.req("S9")
def test_configured_limits_only_lower_what_strangers_threads_get() -> None:
    high, low = replace(STANDARD, seconds=900, tool_calls=300, file_reads=300), replace(STANDARD, seconds=60)
    assert limits_of(high, {}, untrusted=False) == high
    assert limits_of(high, {}, untrusted=True) == limits_of(STANDARD, {}, untrusted=True) == RESTRICTED
    assert limits_of(low, {}, untrusted=True) == replace(RESTRICTED, seconds=60)
    assert limits_of(high, {"seconds": 7}, untrusted=True) == replace(RESTRICTED, seconds=7)
    assert limits_of(high, {"seconds": 9_999, "tool_calls": 9_999}, untrusted=True) == RESTRICTED
    assert (STANDARD.seconds, RESTRICTED.seconds) == (300, 180)
    assert STANDARD.context_tokens == RESTRICTED.context_tokens == 100_000


@pytest.mark.req("S9")
def test_a_key_changes_the_limit_of_its_own_type_alone() -> None:
    explore, plan, code = TYPES.values()
    assert [configured_limits(Agents(), kind) for kind in (explore, plan, code)] == [
        STANDARD,
        STANDARD,
        replace(STANDARD, seconds=900),
    ]
    agents = Agents(
        explore=AgentLimits(calls=80), plan=AgentLimits(minutes=1.5), code=CodeLimits(reads=7, tokens=9_000)
    )
    assert [configured_limits(agents, kind) for kind in (explore, plan, code)] == [
        replace(STANDARD, tool_calls=80),
        replace(STANDARD, seconds=90),
        replace(STANDARD, seconds=900, file_reads=7, context_tokens=9_000),
    ]


@pytest.mark.req("S9")
@pytest.mark.parametrize(
    ("type_", "said"), (("explore", "limit of 2 tool calls"), ("reviewer", "limit of 2 tool calls"), ("code", "LS"))
)
async def test_each_type_of_sub_agent_has_its_limits(room: Open, type_: str, said: str) -> None:
    def child(request: ModelRequest) -> Reply:
        if request.step == 0:
            return several(*(call("LS", path=".") for _ in range(3)))
        return say(request.all_results[2].text)

    types = {**TYPES, "reviewer": replace(TYPES["explore"], name="reviewer", system_prompt="Review.")}
    r = room(script(several(task("one", type_), task("two", type_)), child))
    t = team(r, types=types, agents=Agents(explore=AgentLimits(calls=2)))
    await drive(t.session)
    assert all(said in result["content"] for result in results(t.session))


@pytest.mark.req("S9")
@pytest.mark.parametrize(
    ("limits", "said"),
    (
        ({"seconds": 0.6}, "the limit of 1 seconds was reached (1 used)"),
        ({"idle_seconds": 0.6}, "the limit of 1 idle seconds was reached (1 used)"),
    ),
    ids=["time", "idle"],
)
async def test_a_tool_that_hangs_is_not_waited_for(room: Open, limits: dict[str, float], said: str) -> None:
    r = room(script(task("hang"), lambda _: call("Read", **READ)))
    t = team(r, types={"explore": replace(TYPES["explore"], limits=limits)})
    t.workspace.hold = asyncio.Event()
    events = await drive(t.session)
    assert ended(events).end is End.ANSWERED
    assert said in results(t.session)[0]["content"]
    assert all(host.running == 0 for host in t.workspace.hosts.values())


HAIKU = "claude-haiku-5-5"
REQUEST = permission(ToolUseId("t"), "Bash", "git push", "a rule asks")


@pytest.mark.req("M11")
async def test_a_title_is_one_small_request_without_the_conversation(room: Open) -> None:
    r = room(lambda _: several(think("Hm."), say("Ship orders of 50 free")))
    session = r.session()
    title = await light_calls.pull_request_title(LightCalls(session.log, HAIKU), "Shipping", "I did " + "all " * 5_000)
    assert title == "Ship orders of 50 free"
    (asked,) = r.api.requests
    assert (asked.body["system"], asked.tools, asked.stream) == (prompt_text("title"), (), False)
    assert asked.texts()[0].startswith("Asked for: Shipping\n\nDone: I did all all")
    assert len(asked.texts()[0]) < 4_100
    assert b"cache_control" not in asked.raw
    assert r.world.ledger.cost_usd == pytest.approx(r.api.usage.cost_usd)
    assert r.world.ledger.cost_usd > 0


@pytest.mark.req("M11")
async def test_a_call_is_explained_as_data(room: Open) -> None:
    r = room(lambda _: say("It sends your commits to the server."))
    told = await light_calls.explain_permission(LightCalls(r.session().log, HAIKU), REQUEST)
    assert told == "It sends your commits to the server."
    assert (r.api.requests[0].system, r.api.requests[0].texts()) == (prompt_text("permission"), ("Bash: git push",))


@pytest.mark.req("M11")
@pytest.mark.parametrize(
    "answer",
    (
        Fault.status(400),
        stop("refusal"),
        Reply((Text("Ship or"),), stop_reason="max_tokens"),
        say("Ship\norders"),
        say("x" * (MEANING_ROOM + 1)),
        call("Bash", command="ls"),
        Reply((Text(" "),)),
    ),
    ids=("an error", "a refusal", "cut", "two lines", "too long", "a call", "nothing"),
)
async def test_an_answer_that_is_no_line_is_no_answer(room: Open, answer: Reply | Fault) -> None:
    r = room(lambda _: answer)
    light = LightCalls(r.session().log, HAIKU)
    assert (
        await light_calls.pull_request_title(light, "a", "b"),
        await light_calls.explain_permission(light, REQUEST),
    ) == ("", "")
    assert len(r.api.requests) == 2


@pytest.mark.req("M11")
async def test_a_title_is_at_most_as_long_as_a_commits_first_line(room: Open) -> None:
    lines = ["x" * TITLE_ROOM, "x" * (TITLE_ROOM + 1)]
    r = room(lambda _: say(lines.pop(0)))
    light = LightCalls(r.session().log, HAIKU)
    assert [len(await light_calls.pull_request_title(light, "a", "b")) for _ in range(2)] == [TITLE_ROOM, 0]


@pytest.mark.req("M11")
async def test_a_light_call_that_is_off_or_slow_is_not_waited_for(room: Open) -> None:
    class Slow(LightCalls):
        async def ask(self, system: str, text: str, tools: Sequence[Json] = ()) -> list[Json] | None:  # noqa: ARG002
            raise TimeoutError

    r = room(lambda _: say("Ship"))
    assert await light_calls.pull_request_title(LightCalls(r.session().log, ""), "a", "b") == ""
    assert await light_calls.pull_request_title(Slow(r.session().log, HAIKU), "a", "b") == ""
    assert r.api.requests == ()
