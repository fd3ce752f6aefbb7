"""Light calls that ask for one line: a title, and what a call would do; whoever asks has another line to take (M11)."""

from collections.abc import Sequence

import pytest

from bot.agent import light_calls
from bot.agent.light_calls import MEANING_ROOM, TITLE_ROOM, LightCalls
from bot.agent.prompts import prompt_text
from bot.core.names import ToolUseId
from bot.core.question import permission
from bot.core.transcript import Json
from bot.testing.model.reply import Fault, Reply, Text, call, say, several, stop, think
from tests.agent.conftest import Open

HAIKU = "claude-haiku-5-5"
REQUEST = permission(ToolUseId("t"), "Bash", "git push", "a rule asks")


@pytest.mark.req("M11")
async def test_a_title_is_one_small_request(room: Open) -> None:
    """It holds what was asked and done, and nothing of the conversation; it is booked with the session."""
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
async def test_what_a_call_would_do(room: Open) -> None:
    """The call itself is told, as data."""
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
async def test_no_line(room: Open, answer: Reply | Fault) -> None:
    """Whatever else comes is no answer; nothing is raised."""
    r = room(lambda _: answer)
    light = LightCalls(r.session().log, HAIKU)
    assert (
        await light_calls.pull_request_title(light, "a", "b"),
        await light_calls.explain_permission(light, REQUEST),
    ) == ("", "")
    assert len(r.api.requests) == 2


@pytest.mark.req("M11")
async def test_a_line_fits(room: Open) -> None:
    """The longest title that is taken is as long as a commit's first line."""
    lines = ["x" * TITLE_ROOM, "x" * (TITLE_ROOM + 1)]
    r = room(lambda _: say(lines.pop(0)))
    light = LightCalls(r.session().log, HAIKU)
    assert [len(await light_calls.pull_request_title(light, "a", "b")) for _ in range(2)] == [TITLE_ROOM, 0]


@pytest.mark.req("M11")
async def test_switched_off_or_slow(room: Open) -> None:
    """Without a light model nothing is asked; an answer that takes too long is not waited for."""

    class Slow(LightCalls):
        async def ask(self, system: str, text: str, tools: Sequence[Json] = ()) -> list[Json] | None:  # noqa: ARG002
            raise TimeoutError

    r = room(lambda _: say("Ship"))
    assert await light_calls.pull_request_title(LightCalls(r.session().log, ""), "a", "b") == ""
    assert await light_calls.pull_request_title(Slow(r.session().log, HAIKU), "a", "b") == ""
    assert r.api.requests == ()
