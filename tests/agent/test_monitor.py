"""The monitor and the two presets: every limit is tripped, says which it is, and ends nothing but its agent (S9)."""

import asyncio
from dataclasses import replace

import pytest

from bot.agent.limits import OverLimit, Resource
from bot.agent.model.request import parameters
from bot.agent.model.specs import resolve
from bot.agent.session_events import AgentChanged, End, Lifecycle
from bot.agent.subagents.types import LIMITS, RESTRICTED, STANDARD, TYPES, limits_of
from bot.core.transcript import Json
from bot.ports import ModelRequest as Asked
from bot.ports import ToolOutput
from bot.testing.model.reply import Reply, call, say, several
from bot.testing.model.request_view import ModelRequest
from tests.agent.conftest import Open
from tests.agent.ground import drive, ended, of, results, valid
from tests.agent.teams import brief, children, final, script, task, team

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
    """So many calls in one message: those within run, the next is told why it did not, and the session ends validly."""
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


@pytest.mark.req("S9", "L5")
@pytest.mark.parametrize("name", PRESETS)
async def test_the_context_is_bounded(room: Open, name: str) -> None:
    """The four usage fields of the last response count: at 100,000 tokens the next request does not go out."""
    r = room(lambda _: several(*(call("LS", path=str(n)) for n in range(4))))
    r.host.answer = lambda *_: ToolOutput("word " * 20_000)
    session = r.session(limits=replace(PRESETS[name], tool_calls=None))
    end = ended(await drive(session))
    assert "100,000 tokens of context" in end.text
    assert session.monitor.context >= 100_000


@pytest.mark.req("S9", "L5")
@pytest.mark.parametrize(("name", "seconds"), (("standard", 300), ("restricted", 180)))
async def test_the_time_is_bounded(room: Open, name: str, seconds: int) -> None:
    """A session that took its time makes no further request, and says how long it may take."""
    r = room(lambda _: call("LS", path="."))

    def slow(*_: object) -> ToolOutput:
        r.clock.seconds += seconds / 2
        return ToolOutput("x")

    r.host.answer = slow
    end = ended(await drive(r.session(limits=PRESETS[name])))
    assert f"the limit of {seconds} seconds was reached ({seconds} used)" in end.text
    assert len(r.api.requests) == 2


@pytest.mark.req("S9", "T3")
async def test_a_restricted_tool_ends_after_its_seconds(room: Open) -> None:
    """The call fails and says so; the session goes on and answers."""
    r = room(lambda request: say("Ok.") if request.step else call("Read", **READ))
    r.host.hold = asyncio.Event()
    session = r.session(limits=replace(RESTRICTED, tool_seconds=0.05))
    assert ended(await drive(session)).end is End.ANSWERED
    assert "was ended" in results(session)[0]["content"]
    assert RESTRICTED.tool_seconds == 15


@pytest.mark.req("S9", "T2")
async def test_a_restricted_session_runs_three_tools_at_once(room: Open) -> None:
    """Of ten that could run side by side only three do."""
    r = room(lambda request: say("Ok.") if request.step else several(*(call("LS", path=str(n)) for n in range(10))))
    await drive(r.session(limits=RESTRICTED, world=replace(r.world, eager=False)))
    assert r.host.most == 3


@pytest.mark.req("S9")
async def test_a_file_that_is_too_large_is_not_written(room: Open) -> None:
    """That call alone is refused, with used and allowed; the session may go on."""
    session = room(lambda _: say("Ok.")).session(limits=RESTRICTED)
    large = session.tools["Write"].input_model.model_validate({**WRITE, "content": "x" * ((1 << 20) + 1)})
    with pytest.raises(OverLimit, match=r"the limit of 1,048,576 file bytes was reached \(1,048,577 used\)"):
        session.monitor.admit("Write", large.arguments())
    session.monitor.check()


@pytest.mark.req("S9")
async def test_network_requests_are_counted(room: Open) -> None:
    """The sixth does not go out."""
    session = room(lambda _: say("Ok.")).session(limits=RESTRICTED)
    for _ in range(5):
        session.monitor.admit("WebFetch", {"url": "https://a.example/"})
    with pytest.raises(OverLimit) as over:
        session.monitor.admit("WebFetch", {"url": "https://a.example/"})
    assert (over.value.resource, over.value.used, over.value.allowed) == (Resource.NETWORK, 5, 5)
    assert session.monitor.utilization()[Resource.NETWORK] == 100


@pytest.mark.req("S9", "M6")
@pytest.mark.parametrize("model", ("claude-sonnet-5-5", "claude-haiku-4-5"))
def test_restricted_thinks_least(model: str) -> None:
    """The lowest effort, or the smallest budget that the API takes, and short answers."""
    message = {"role": "user", "content": [{"type": "text", "text": "x"}]}
    sent = parameters(Asked(model, ({"type": "text", "text": "x"},), (), (message,), role="restricted"), resolve(model))
    assert sent["max_tokens"] == 4_096
    assert sent.get("output_config", {"effort": "low"}) == {"effort": "low"}
    assert sent["thinking"].get("budget_tokens", 1_024) == 1_024


@pytest.mark.req("S9")
async def test_an_untrusted_thread_restricts_those_that_look(room: Open) -> None:
    """They get the restricted preset, its sandbox and its effort; a report that is too long is cut, with a note."""
    r = room(script(several(task("look"), task("write", "code")), lambda _: say("word " * 3_000)))
    t = team(r, untrusted=True)
    await drive(t.session)
    looked, written = results(t.session)
    assert "[cut: the limit of 2,048 tokens of report was reached]" in looked["content"]
    assert "[cut:" not in written["content"]
    assert {request.body["output_config"]["effort"] for request in children(r)} == {"low", "medium"}
    assert sorted(bounds.memory_mb or 0 for bounds in t.workspace.bounds) == [0, 256]


@pytest.mark.req("S9")
def test_what_is_configured_holds() -> None:
    """It lowers what strangers' threads get, and raises nothing there; what a type sets itself opens nothing else."""
    high, low = replace(STANDARD, seconds=900, tool_calls=300, file_reads=300), replace(STANDARD, seconds=60)
    assert limits_of(high, {}, untrusted=False) == high
    assert limits_of(high, {}, untrusted=True) == limits_of(STANDARD, {}, untrusted=True) == RESTRICTED
    assert limits_of(low, {}, untrusted=True) == replace(RESTRICTED, seconds=60)
    assert limits_of(high, {"seconds": 7}, untrusted=True) == replace(RESTRICTED, seconds=7)
    assert limits_of(high, {"seconds": 9_999, "tool_calls": 9_999}, untrusted=True) == RESTRICTED
    assert (LIMITS["explore"].seconds, LIMITS["code"].seconds, RESTRICTED.seconds) == (300, 900, 180)


@pytest.mark.req("S9")
@pytest.mark.parametrize(
    ("type_", "said"), (("explore", "limit of 2 tool calls"), ("reviewer", "limit of 2 tool calls"), ("code", "LS"))
)
async def test_each_type_has_its_limits(room: Open, type_: str, said: str) -> None:
    """A project's own type that writes nothing has those of explore; side by side nothing is taken away."""

    def child(request: ModelRequest) -> Reply:
        if request.step == 0:
            return several(*(call("LS", path=".") for _ in range(3)))
        return say(request.all_results[2].text)

    types = {**TYPES, "reviewer": replace(TYPES["explore"], name="reviewer", system_prompt="Review.")}
    r = room(script(several(task("one", type_), task("two", type_)), child))
    t = team(r, types=types, limits={**LIMITS, "explore": replace(STANDARD, tool_calls=2)})
    await drive(t.session)
    assert all(said in result["content"] for result in results(t.session))


@pytest.mark.req("S9", "S6")
async def test_a_limit_ends_one_agent_and_not_the_parent(room: Open) -> None:
    """The parent is told which limit, with what was done so far; its sibling reports; the parent goes on."""

    def child(request: ModelRequest) -> Reply:
        return (
            several(*(call("Read", file_path=f"f{n}.py") for n in range(100)))
            if brief(request) == "greedy"
            else say("Ok.")
        )

    r = room(script(several(task("greedy"), task("calm")), child))
    t = team(r, untrusted=True)
    events = await drive(t.session)
    greedy, calm = results(t.session)
    assert ended(events).end is End.ANSWERED
    assert calm["content"] == "Ok."
    assert greedy["is_error"]
    assert "explore-1 did not finish: the limit of 40 tool calls was reached" in greedy["content"]
    assert "- Read f99.py" in greedy["content"]
    assert final(events)["explore-1"].state is Lifecycle.FAILED
    assert of(events, AgentChanged)


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
    """Time runs out in the middle of a call too: it is cancelled, and the agent is named to its parent."""
    r = room(script(task("hang"), lambda _: call("Read", **READ)))
    t = team(r, types={"explore": replace(TYPES["explore"], limits=limits)})
    t.workspace.hold = asyncio.Event()
    events = await drive(t.session)
    assert ended(events).end is End.ANSWERED
    assert said in results(t.session)[0]["content"]
    assert all(host.running == 0 for host in t.workspace.hosts.values())
