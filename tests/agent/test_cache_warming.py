"""A prefix that sub-agents share is in the cache before the first of them starts (M4)."""

from dataclasses import replace

import pytest

from bot.agent.assembly import MAIN
from bot.agent.resources import RequestPrefix
from bot.agent.session_events import End
from bot.agent.subagents.siblings import CACHED_SECONDS, SharedPrefixes
from bot.agent.subagents.types import TYPES
from bot.core.transcript import LineKind
from bot.testing.model.reply import say, several
from bot.testing.model.request_view import ModelRequest
from tests.agent.conftest import Open
from tests.agent.ground import HandClock, Room, drive, ended
from tests.agent.teams import brief, children, script, task, team

TASKS = several(*(task(f"part {n}") for n in range(8)))
PREFIX = RequestPrefix("explore", "claude-sonnet-5-5", (), ())


def open_team(room: Open) -> Room:
    return room(script(TASKS, lambda request: say(f"Report on {brief(request)}.")), latency=0.02)


def warmings(r: Room) -> list[ModelRequest]:
    return [request for request in r.api.requests if not request.max_tokens]


@pytest.mark.req("M4", "L5")
async def test_where_many_may_work_at_once_none_of_them_writes_the_shared_prefix(room: Open) -> None:
    """One request without an answer writes it; each of eight agents reads it, and the cost is booked."""
    r = open_team(room)
    t = team(r, at_once=8)
    async with t.pool.warm_cache():
        assert ended(await drive(t.session)).end is End.ANSWERED
    (warming,) = warmings(r)
    assert len(children(r)) == 8
    written = r.world.ledger.rows[MAIN, "claude-sonnet-5-5"].usage.cache_write
    spent = [r.world.ledger.of(agent).usage for agent in t.pool.rows]
    assert [usage.cache_read for usage in spent] == [written] * 8
    assert (
        r.world.ledger.usage.cache_write < 2 * written + r.world.ledger.rows[MAIN, "claude-opus-5-5"].usage.cache_write
    )
    assert "stream" not in warming.body
    assert r.world.ledger.cost_usd == pytest.approx(r.api.usage.cost_usd)


@pytest.mark.req("M4")
async def test_with_the_default_number_the_first_sub_agent_writes_it(room: Open) -> None:
    """No request is made for sub-agents that may never start."""
    r = open_team(room)
    t = team(r)
    async with t.pool.warm_cache():
        await drive(t.session)
    assert warmings(r) == []


@pytest.mark.req("M4")
async def test_a_request_that_fails_is_noted_and_the_session_goes_on(room: Open) -> None:
    """A model that is not served: the session ends with its answer, and its transcript says why nothing was written."""
    r = room(lambda _: say("Done."))
    t = team(r, at_once=8, types={"explore": replace(TYPES["explore"], model="claude-unknown-1")})
    async with t.pool.warm_cache():
        assert ended(await drive(t.session)).end is End.ANSWERED
        while not (
            notes := [line.body for line in r.world.transcripts.load(t.session.id) if line.kind is LineKind.NOTE]
        ):
            await r.clock.sleep(0)
    assert [note["note"] for note in notes] == ["uncached"]


async def test_a_sibling_leads_where_the_cache_does_not_hold_the_prefix() -> None:
    """After a leader without a response, and five minutes after the last use, the next one writes the prefix."""
    clock = HandClock()
    prefixes = SharedPrefixes(clock)

    async def leads(*, answered: bool = True) -> bool:
        leads = not prefixes.is_begun(PREFIX)
        async with prefixes.share(PREFIX) as began:
            if answered:
                began.set()
        return leads

    assert [await leads(answered=False), await leads(), await leads()] == [True, True, False]
    clock.seconds += CACHED_SECONDS
    assert not await leads()
    clock.seconds += CACHED_SECONDS + 1
    assert [await leads(), await leads()] == [True, False]
