"""Sub-agents that write, end, fail and are followed: forks, cancellation, transcripts (S3-S5, S12, S14)."""

import asyncio
from dataclasses import replace

import pytest

from bot.agent.limits import Ledger
from bot.agent.model.specs import SPECS
from bot.agent.permissions.plan_mode import EXIT_PLAN_MODE
from bot.agent.prompts import prompt_text
from bot.agent.resources import RequestPrefix
from bot.agent.session_events import (
    AgentChanged,
    Compacted,
    Info,
    Lifecycle,
    ToolStarted,
)
from bot.agent.subagents.assignment import in_flight, interrupted_notice, restore_rows
from bot.agent.subagents.types import TYPES
from bot.core.names import AgentId, SessionId
from bot.core.transcript import messages
from bot.ports import ToolOutput
from bot.testing.model.reply import Fault, Reply, call, say, several, stop
from bot.testing.model.request_view import ModelRequest
from tests.agent.conftest import Open
from tests.agent.ground import (
    DeskHost,
    drive,
    of,
    results,
)
from tests.agent.small import summarising
from tests.agent.teams import brief, script, task, team


@pytest.mark.req("S4", "S5")
async def test_writers_work_in_forks_that_are_merged_in_order(room: Open) -> None:
    """Each has a checkout of its own; however they finish, they are merged as they were asked for, and discarded."""
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
    async with t.pool._prefixes.share(RequestPrefix("code", "claude-sonnet-5-5", (), (), "subagent")) as began:
        began.set()
    events = await drive(t.session)
    log = t.workspace.log
    assert [line for line in log if line.startswith("merge")] == [f"merge code-{n} into main" for n in (1, 2, 3)]
    assert sorted(line for line in log if line.startswith("open")) == [f"open code-{n} to write" for n in (1, 2, 3)]
    assert [line for line in log if line.startswith("discard")] == [f"discard code-{n}" for n in (1, 2, 3)]
    assert [block["content"].splitlines()[-1] for block in results(t.session)] == [
        f"Merged into your checkout: code-{n}.py." for n in (1, 2, 3)
    ]
    states = list(dict.fromkeys(row.state for row in of(events, AgentChanged) if row.agent == "code-2"))
    assert states[-2:] == [Lifecycle.WAITING, Lifecycle.COMPLETED]
    assert all(host.closed for host in t.workspace.hosts.values())


@pytest.mark.req("S4")
async def test_one_that_fails_early_lets_nobody_pass_before_its_turn(room: Open) -> None:
    """The second cannot be forked; the third is merged after the first all the same."""
    gate = asyncio.Event()
    loop = asyncio.get_running_loop()

    def child(request: ModelRequest) -> Reply:
        if brief(request) == "part 0":
            asyncio.run_coroutine_threadsafe(gate.wait(), loop).result(20)
        else:
            loop.call_soon_threadsafe(gate.set)
        return say("Changed.")

    r = room(script(several(*(task(f"part {n}", "code") for n in range(3))), child))
    t = team(r)
    async with t.pool._prefixes.share(RequestPrefix("code", "claude-sonnet-5-5", (), (), "subagent")) as began:
        began.set()
    t.workspace.broken = "fork code-2"
    await drive(t.session)
    assert [line for line in t.workspace.log if line.startswith("merge")] == [
        "merge code-1 into main",
        "merge code-3 into main",
    ]
    assert results(t.session)[1]["is_error"]


@pytest.mark.req("S3", "L6", "S5")
async def test_cancelling_the_parent_ends_its_children(room: Open) -> None:
    """Their tools, hosts, connections and tasks are gone when the cancellation is through; their rows say aborted."""
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
async def test_each_has_a_transcript_of_its_own(room: Open) -> None:
    """It is kept under a name of its own, with the type and the model that it ran on, and is whole."""
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
    """A writer knows what its parent had read; what it reads itself stays its own."""

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
async def test_what_happens_to_a_child_is_told(room: Open) -> None:
    """Retries and tool calls of a sub-agent reach the parent's listeners under its name."""
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
    """Older history of a sub-agent gives way to a summary: that is told under its name."""

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
    """A stop in the middle is never taken for a report."""
    r = room(script(task("look"), lambda _: stop("end_turn")))
    t = team(r)
    await drive(t.session)
    (result,) = results(t.session)
    assert result["is_error"]
    assert "explore-1 did not finish" in result["content"]
    assert isinstance(ToolOutput(""), ToolOutput)


@pytest.mark.req("L9", "S6")
async def test_after_a_crash_they_still_count_and_cost(room: Open) -> None:
    """A later process finds how many worked and what each cost, also of one in flight, which it names once."""

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
    assert (crew.monitor.subagent_steps, fast.steps, fast.tokens > 0, (fast.cost_usd or 0) > 0) == (
        1,
        1,
        True,
        True,
    )
    assert "explore-2" in interrupted_notice(crew.log, lines)[0]
    assert interrupted_notice(crew.log, r.world.transcripts.load(t.session.id)) == []
    assert crew.refusal(TYPES["explore"]).startswith("All 2 sub-agents")
    assert later.ledger.of(AgentId("explore-1")).cost_usd == r.world.ledger.of(AgentId("explore-1")).cost_usd


@pytest.mark.req("P5")
async def test_a_plan_that_was_refused_is_not_handed_on(room: Open) -> None:
    """A call of exit_plan_mode that is refused hands in nothing, so the report shows no plan."""

    def child(request: ModelRequest) -> Reply:
        return [call(EXIT_PLAN_MODE, plan="1. Go.", draft=True), say("Nothing to plan.")][request.step]

    r = room(script(task("plan it", "plan"), child))
    t = team(r)
    await drive(t.session)
    assert results(t.session)[0]["content"] == "Nothing to plan."


@pytest.mark.req("K12", "P3")
@pytest.mark.parametrize("kind", ("explore", "plan", "code"))
async def test_what_a_sub_agent_is_told_first(room: Open, kind: str) -> None:
    """The place without the people, its brief, and, if it only looks, that nothing can be changed: by tools it has."""
    r = room(script(task("look around", kind), lambda _: say("Seen.")))
    t = team(r)
    await drive(t.session)
    (told,) = ["".join(request.texts()) for request in r.api.requests if "You are a sub-agent" in request.system]
    assert ("Working directory" in told, "#12" in told, "look around" in told) == (True, False, True)
    assert (prompt_text("plan_mode_subagent").strip() in told) == (kind != "code")
    assert "exit_plan_mode" not in told
