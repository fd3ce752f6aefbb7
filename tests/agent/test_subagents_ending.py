"""Sub-agents that end, fail, recover, and report, alone or several on one task (S3-S8, S11-S14)."""

import asyncio
from dataclasses import replace
from itertools import product

import pytest

from bot.agent.limits import Ledger, Limits, Resource
from bot.agent.model.specs import SPECS
from bot.agent.permissions.plan_mode import EXIT_PLAN_MODE
from bot.agent.prompts import prompt_text
from bot.agent.resources import RequestPrefix
from bot.agent.session_events import (
    AgentChanged,
    AgentEvent,
    Compacted,
    End,
    Info,
    Lifecycle,
    Recovery,
    RecoveryOutcome,
    ToolStarted,
)
from bot.agent.subagents.assignment import in_flight, interrupted_notice, restore_rows
from bot.agent.subagents.run import SMALLER, TABLE, Remedy, Trouble, remedy
from bot.agent.subagents.types import STANDARD, TYPES, AgentType
from bot.agent.tools.session_tools import NO_MORE
from bot.core.names import AgentId, SessionId
from bot.core.transcript import messages
from bot.ports import ToolOutput
from bot.testing.model.reply import Fault, Reply, call, say, several, stop
from bot.testing.model.request_view import ModelRequest
from tests.agent.conftest import Open
from tests.agent.ground import DeskHost, assert_prefixes, drive, ended, of, results
from tests.agent.small import summarising
from tests.agent.teams import brief, children, final, script, task, team


@pytest.mark.req("S4", "S5")
@pytest.mark.parametrize("merged", ((1, 2, 3), (1, 3)), ids=["all", "the second cannot be forked"])
async def test_forks_are_merged_in_the_order_of_their_calls_whoever_ends_first(
    room: Open, merged: tuple[int, ...]
) -> None:
    gate = asyncio.Event()
    loop = asyncio.get_running_loop()

    def child(request: ModelRequest) -> Reply:
        if brief(request) == "part 0":
            asyncio.run_coroutine_threadsafe(gate.wait(), loop).result(20)
        if brief(request) == "part 2":
            loop.call_soon_threadsafe(gate.set)
        return say(f"Changed {brief(request)}.")

    r = room(script(several(*(task(f"part {n}", "code") for n in range(3))), child))
    t = team(r)
    t.workspace.broken = "" if 2 in merged else "fork code-2"
    async with t.pool._prefixes.share(RequestPrefix("code", "claude-sonnet-5-5", (), (), "subagent")) as began:
        began.set()
    events = await drive(t.session)
    log = t.workspace.log
    assert [line for line in log if line.startswith("merge")] == [f"merge code-{n} into main" for n in merged]
    assert sorted(line for line in log if line.startswith("open")) == [f"open code-{n} to write" for n in merged]
    assert [line for line in log if line.startswith("discard")] == [f"discard code-{n}" for n in merged]
    for n, result in enumerate(results(t.session), start=1):
        last_line = result["content"].splitlines()[-1]
        assert (last_line == f"Merged into your checkout: code-{n}.py.") is (n in merged)
        assert bool(result.get("is_error")) is (n not in merged)
    states = list(dict.fromkeys(row.state for row in of(events, AgentChanged) if row.agent == "code-3"))
    assert states[-2:] == [Lifecycle.WAITING, Lifecycle.COMPLETED]
    assert all(host.closed for host in t.workspace.hosts.values())


@pytest.mark.req("S3", "L6", "S5")
async def test_cancelling_the_parent_ends_its_children(room: Open) -> None:
    before = asyncio.all_tasks()
    r = room(script(several(task("one"), task("two")), lambda _: call("Read", file_path="a")))
    t = team(r)
    t.workspace.hold = asyncio.Event()
    task_ = asyncio.create_task(drive(t.session))
    for _ in range(2):
        host = await t.workspace.opened.get()
        await host.entered.wait()
    task_.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task_
    assert [row.state for row in t.pool.rows.values()] == [Lifecycle.ABORTED] * 2
    assert all(host.closed and not host.running for host in t.workspace.hosts.values())
    assert asyncio.all_tasks() == before
    assert len(t.session.history) == 1


@pytest.mark.req("S3", "L9")
async def test_each_sub_agent_has_a_transcript_of_its_own(room: Open) -> None:
    r = room(script(task("look"), lambda _: say("Seen.")))
    t = team(r)
    await drive(t.session)
    idents = [ident for ident in r.world.transcripts._lines if ident != t.session.id]  # type: ignore[attr-defined]
    (ident,) = idents
    assert ident.startswith("thread-1.explore-1-")
    lines = r.world.transcripts.load(SessionId(ident))
    assert (lines[0].body["agent_type"], lines[0].body["model"]) == ("explore", "claude-sonnet-5-5")
    assert [message["role"] for message in messages(lines)] == ["user", "assistant"]


@pytest.mark.req("S3", "T4")
async def test_stamps_are_seeded_and_not_shared(room: Open) -> None:
    def child(request: ModelRequest) -> Reply:
        edit = call("Edit", file_path="a.py", old_string="a", new_string="b")
        return several(call("Read", file_path="b.py"), edit) if not request.step else say("Ok.")

    r = room(script(task("edit", "code"), child))
    t = team(r)
    t.session.context.stamps["a.py"] = "s1"
    await drive(t.session)
    (host,) = t.workspace.hosts.values()
    assert host.calls[1][1]["stamp"] == "s1"
    assert t.session.context.stamps == {"a.py": "s1"}


@pytest.mark.req("S12", "M9")
async def test_retries_and_calls_of_a_sub_agent_are_told_under_its_name(room: Open) -> None:
    failed = iter([Fault.status(529)])

    def child(request: ModelRequest) -> Reply | Fault:
        return next(failed, None) or (call("LS", path=".") if not request.step else say("Ok."))

    r = room(script(task("look"), child))
    t = team(r)
    t.workspace.hosts["0 main"] = DeskHost(progress=("half",))
    events = await drive(t.session)
    assert [(event.agent, event.kind) for event in of(events, Info)] == [("explore-1", "retry")]
    assert [event.name for event in of(events, ToolStarted) if event.agent == "explore-1"] == ["LS"]


@pytest.mark.req("S12", "C1")
async def test_people_see_that_a_child_was_summarized(room: Open) -> None:
    def child(request: ModelRequest) -> Reply:
        looked = len(request.results) and "LS 5" in request.results[-1].text
        return say("Seen.") if looked else call("LS", path=str(request.step))

    r = room(script(task("look"), summarising(child)))
    r.model.specs["claude-sonnet-5-5"] = replace(SPECS["claude-sonnet-5-5"], window=16_000, summarizes=False)
    t = team(r)
    t.workspace.answer = lambda operation, given: ToolOutput(f"{operation} {given['path']} " + "x" * 7_000)
    events = await drive(t.session)
    assert {event.agent for event in of(events, Compacted)} == {"explore-1"}
    assert results(t.session)[0]["content"] == "Seen."


@pytest.mark.req("S8", "S14")
async def test_an_agent_without_a_report_says_so(room: Open) -> None:
    r = room(script(task("look"), lambda _: stop("end_turn")))
    t = team(r)
    await drive(t.session)
    (result,) = results(t.session)
    assert result["is_error"]
    assert "explore-1 did not finish" in result["content"]
    assert isinstance(ToolOutput(""), ToolOutput)


@pytest.mark.req("L9", "S6")
async def test_after_a_crash_sub_agents_still_count_and_cost(room: Open) -> None:
    def child(request: ModelRequest) -> Reply:
        return say("Fine.") if brief(request) == "fast" else call("Read", file_path="a")

    r = room(script(several(task("fast"), task("slow")), child))
    t = team(r)
    t.workspace.hold = asyncio.Event()
    running = asyncio.create_task(drive(t.session))
    await t.workspace.opened.get()
    host = await t.workspace.opened.get()
    await host.entered.wait()
    # What a process that is killed leaves, once the fast one has reported.
    while "explore-1" in (lost := in_flight(lines := r.world.transcripts.load(t.session.id))):
        await r.clock.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    later = replace(r.world, ledger=Ledger())
    rows = restore_rows(replace(t.session.log, resources=later), lines)
    assert sorted(rows) == ["explore-1", "explore-2"]
    assert "explore-2" in lost
    assert rows[AgentId("explore-2")].state is Lifecycle.FAILED
    assert later.ledger.of(AgentId("explore-2")).requests in {0, 1}  # its only one, if the answer was saved by then
    crew = team(r, in_all=2).pool
    crew.restore(lines)
    fast = t.pool.rows[AgentId("explore-1")]
    assert rows[fast.agent] == fast
    assert (crew.monitor.subagent_steps, fast.steps, fast.tokens > 0, (fast.cost_usd or 0) > 0) == (1, 1, True, True)
    assert "explore-2" in interrupted_notice(crew.log, lines)[0]
    assert interrupted_notice(crew.log, r.world.transcripts.load(t.session.id)) == []
    assert crew.refusal(TYPES["explore"]).startswith("All 2 sub-agents")
    assert later.ledger.of(AgentId("explore-1")).cost_usd == r.world.ledger.of(AgentId("explore-1")).cost_usd


@pytest.mark.req("P5")
async def test_a_plan_that_was_refused_is_not_handed_on(room: Open) -> None:
    def child(request: ModelRequest) -> Reply:
        return [call(EXIT_PLAN_MODE, plan="1. Go.", draft=True), say("Nothing to plan.")][request.step]

    r = room(script(task("plan it", "plan"), child))
    t = team(r)
    await drive(t.session)
    assert results(t.session)[0]["content"] == "Nothing to plan."


@pytest.mark.req("K12", "P3")
@pytest.mark.parametrize("kind", ("explore", "plan", "code"))
async def test_a_sub_agent_is_told_its_brief_its_place_and_its_mode(room: Open, kind: str) -> None:
    r = room(script(task("look around", kind), lambda _: say("Seen.")))
    t = team(r)
    await drive(t.session)
    (told,) = ["".join(request.texts()) for request in r.api.requests if "You are a sub-agent" in request.system]
    assert ("Working directory" in told, "#12" in told, "look around" in told) == (True, False, True)
    assert (prompt_text("plan_mode_subagent").strip() in told) == (kind != "code")
    assert "exit_plan_mode" not in told


def explorer(**limits: float) -> dict[str, AgentType]:
    """An explore type with limits of its own."""
    return {"explore": replace(TYPES["explore"], limits=limits)}


def looks(times: int) -> Reply:
    return several(*(call("LS", path=str(n)) for n in range(times)))


def outcomes(events: list[AgentEvent]) -> list[tuple[str, str]]:
    return [(event.trouble, event.outcome) for event in of(events, Recovery)]


@pytest.mark.req("S11")
def test_every_trouble_comes_to_an_end() -> None:
    for trouble, times in product(Trouble, range(6)):
        found = remedy(trouble, times)
        if trouble is Trouble.TOOL:
            assert found is Remedy.MODEL
        else:
            assert found is (TABLE[trouble][times] if times < len(TABLE[trouble]) else Remedy.PARENT)
    assert TABLE[Trouble.LIMIT] == (Remedy.RAISE, Remedy.RAISE, Remedy.SPLIT)


@pytest.mark.req("S11")
async def test_a_limit_is_raised_twice(room: Open) -> None:
    def child(request: ModelRequest) -> Reply:
        return looks(2) if request.step < 4 else say("Seen.")

    r = room(script(task("look"), child))
    t = team(r, types=explorer(tool_calls=4))
    events = await drive(t.session)
    assert results(t.session)[0]["content"] == "Seen."
    assert outcomes(events) == [("limit", RecoveryOutcome.RECOVERED)]
    told = [event.text for event in of(events, Info) if event.kind == "recovery"]
    assert [text.partition(" (")[0] for text in told] == [
        "the limit of 4 tool calls was reached",
        "the limit of 6 tool calls was reached",
    ]
    assert len(children(r)) == 5
    assert_prefixes(children(r))


@pytest.mark.req("S11")
async def test_a_task_whose_limit_was_raised_twice_is_split(room: Open) -> None:
    def child(request: ModelRequest) -> Reply:
        text = request.texts()[0]
        if "This is part 1 of 2" in text:
            return say("Half of it.")
        return say("All of it.") if "This is part 2 of 2" in text else looks(4)

    r = room(script(task("look"), child))
    t = team(r, types=explorer(tool_calls=4))
    events = await drive(t.session)
    assert results(t.session)[0]["content"] == "All of it."
    assert outcomes(events) == [("limit", RecoveryOutcome.RECOVERED)]
    last = children(r)[-1].texts()[0]
    assert "Report on part 1: Half of it." in last
    first = next(request.texts()[0] for request in children(r) if "This is part 1" in request.texts()[0])
    assert "- LS 3" in first
    assert list(t.pool.rows) == ["explore-1"]


@pytest.mark.req("S11")
async def test_what_cannot_be_recovered_comes_to_the_parent(room: Open) -> None:
    r = room(script(task("look"), lambda _: looks(4)))
    t = team(r, types=explorer(tool_calls=4))
    events = await drive(t.session)
    (result,) = results(t.session)
    assert result["is_error"]
    assert "What it did so far:" in result["content"]
    assert outcomes(events) == [("limit", RecoveryOutcome.UNRECOVERABLE)]
    assert final(events)["explore-1"].state is Lifecycle.FAILED
    assert ended(events).end is End.ANSWERED
    assert t.pool.metrics.recoveries == {("limit", "unrecoverable"): 1}


@pytest.mark.req("S11")
async def test_a_timeout_is_tried_once_more_with_less_to_do(room: Open) -> None:
    def child(request: ModelRequest) -> Reply:
        return say("The main thing.") if SMALLER in request.last_user_text else call("LS", path=".")

    r = room(script(several(task("look"), task("again")), child))
    t = team(r, types=explorer(seconds=50))

    def slow(*_: object) -> ToolOutput:
        r.clock.seconds += 60
        return ToolOutput("x")

    t.workspace.answer = slow
    events = await drive(t.session)
    assert [block["content"] for block in results(t.session)] == ["The main thing."] * 2
    assert set(outcomes(events)) == {("timeout", RecoveryOutcome.RECOVERED)}


DENIAL = "Denied: Bash(curl:*) must be asked for."


@pytest.mark.req("S11", "S11a", "T3", "P7", "M9")
@pytest.mark.parametrize(
    ("outcome", "shown", "recovery", "reported"),
    (
        (call("Bash", command="make"), "", ("permission denied", RecoveryOutcome.ESCALATED), "It was denied this"),
        (call("LS", path="."), "no such file", ("tool error", RecoveryOutcome.RECOVERED), ""),
        (call("LS", path="."), DENIAL, ("tool error", RecoveryOutcome.RECOVERED), ""),
        (Fault.status(400), "", ("model communication", RecoveryOutcome.UNRECOVERABLE), "did not finish"),
        (stop("refusal"), "", ("other", RecoveryOutcome.UNRECOVERABLE), "did not finish"),
    ),
    ids=["denied", "tool error", "tool error in the harness's words", "refused request", "refusal"],
)
async def test_only_what_the_sub_agent_cannot_settle_reaches_its_parent(
    room: Open, outcome: Reply | Fault, shown: str, recovery: tuple[str, str], reported: str
) -> None:
    r = room(script(task("look"), lambda request: say("I looked.") if request.step else outcome))
    t = team(r)
    t.workspace.answer = lambda *_: ToolOutput(shown, is_error=True)
    events = await drive(t.session)
    content = results(t.session)[0]["content"]
    assert outcomes(events) == [recovery]
    assert reported in content if reported else content == "I looked."


@pytest.mark.req("S11")
async def test_a_child_may_ask_for_more(room: Open) -> None:
    def child(request: ModelRequest) -> Reply:
        asking = call("resource_request", resource="tool_calls", reason="many files")
        return asking if request.step < 3 else say("Enough.")

    r = room(script(task("look"), child))
    t = team(r, types=explorer(tool_calls=10))
    await drive(t.session)
    answers = [request.results[-1].text for request in children(r)[1:]]
    assert answers == ["You have half as much again of tool calls."] * 2 + [NO_MORE]


@pytest.mark.req("S11")
def test_what_has_no_bound_is_not_raised() -> None:
    assert STANDARD.with_more(Resource.STEPS, 1.5) is STANDARD
    assert STANDARD.with_more(Resource.TOOL_CALLS, 1.5).tool_calls == 75
    assert Limits(tool_calls=1).with_more(Resource.TOOL_CALLS, 1.5).tool_calls == 2
