"""How fast writes go: a few at once, then one a second, and never more than GitHub allows."""

import asyncio
from itertools import pairwise

import pytest

from bot.github.pace import BURST, WritePace
from bot.github.responses import RateLimited
from bot.testing.github.world import TurnedClock


async def write(pace: WritePace, at: list[float], *, reaction: bool = False) -> None:
    async with pace.write(reaction=reaction):
        at.append(pace.clock.monotonic())


@pytest.mark.req("E2")
async def test_twenty_four_reactions_go_at_once_and_then_one_a_second() -> None:
    pace, at = WritePace(TurnedClock()), list[float]()
    for _ in range(BURST + 3):
        await write(pace, at, reaction=True)
    assert at == [0.0] * BURST + [1.0, 2.0, 3.0]
    await pace.clock.sleep(BURST)
    for _ in range(BURST + 1):
        await write(pace, at, reaction=True)
    assert at[-BURST - 1 :] == [3.0 + BURST] * BURST + [4.0 + BURST]


@pytest.mark.req("E2")
async def test_twenty_people_see_at_once_that_they_were_heard() -> None:
    """Whatever else is written for each of them, before or after: four comments go, then one a second."""
    pace, reactions, comments = WritePace(TurnedClock()), list[float](), list[float]()
    for _ in range(5):
        await write(pace, comments)
    assert comments == [0.0, 0.0, 0.0, 0.0, 1.0]
    for _ in range(20):
        await write(pace, reactions, reaction=True)
    assert reactions == [1.0] * 20
    for _ in range(20):
        await write(pace, comments)
    assert {later - sooner for sooner, later in pairwise(comments[4:])} == {1.0}


@pytest.mark.req("E2")
async def test_half_of_an_hour_is_kept_for_those_who_may_ask() -> None:
    """What nobody needs, such as signs for strangers, goes while less than that was written."""
    pace, at = WritePace(TurnedClock(), an_hour=6), list[float]()
    for _ in range(3):
        assert pace.has_spare
        await write(pace, at, reaction=True)
    assert not pace.has_spare
    await pace.clock.sleep(3600.0)
    assert pace.has_spare


@pytest.mark.req("E2")
async def test_a_reaction_waits_for_one_other_write_at_most() -> None:
    """Of ten comments that wait, one stands in line with the reactions; and no two writes are under way at once."""
    pace, done = WritePace(TurnedClock(), between=0.0), list[str]()

    async def slow(name: str) -> None:
        async with pace.write(reaction=name == "reaction"):
            done.append(f"{name} goes")
            await asyncio.sleep(0)
            done.append(f"{name} went")

    comments = [asyncio.create_task(slow("comment")) for _ in range(10)]
    await asyncio.sleep(0)
    await asyncio.gather(slow("reaction"), slow("reaction"), *comments)
    names = [each.split()[0] for each in done[::2]]
    assert done == [f"{name} {what}" for name in names for what in ("goes", "went")]
    assert names.index("reaction") <= 2
    assert names.count("comment") == 10


@pytest.mark.req("E2")
@pytest.mark.parametrize("reaction", (True, False), ids=("reactions", "other writes"))
async def test_no_minute_has_more_than_eighty_writes(*, reaction: bool) -> None:
    pace, at = WritePace(TurnedClock()), list[float]()
    for pause in [0.0] * 90 + [30.0] + [0.0] * 90 + [0.4] * 60:
        await pace.clock.sleep(pause)
        await write(pace, at, reaction=reaction)
    assert all(later - sooner >= 60.0 for sooner, later in zip(at, at[80:], strict=False))


@pytest.mark.req("E2")
async def test_no_hour_has_more_than_five_hundred_writes() -> None:
    """What would wait longer than two minutes is an error that says how long, and progress is told to wait."""
    pace, at = WritePace(TurnedClock(), between=0.0), list[float]()
    for _ in range(500):
        await write(pace, at)
    with pytest.raises(RateLimited) as caught:
        await write(pace, at)
    assert pace.busy
    assert pace.clock.monotonic() + caught.value.seconds == 3600.0


async def test_progress_waits_while_comments_wait() -> None:
    """After four writes in a second there is no room for what can wait; reactions take none of it."""
    pace, at = WritePace(TurnedClock()), list[float]()
    busy = list[bool]()
    for reactions, others, pause in ((20, 0, 0.0), (0, 4, 0.0), (0, 0, 2.0)):
        for n in range(reactions + others):
            await write(pace, at, reaction=n < reactions)
        await pace.clock.sleep(pause)
        busy.append(pace.busy)
    assert busy == [False, True, False]


def test_newest_limit_of_each_resource_is_kept() -> None:
    pace = WritePace(TurnedClock())
    given = {"x-ratelimit-limit": "5000", "x-ratelimit-remaining": "4999", "x-ratelimit-reset": "1795000000"}
    pace.record(given)
    pace.record(given | {"x-ratelimit-remaining": "4998"})
    pace.record(given | {"x-ratelimit-resource": "graphql", "x-ratelimit-remaining": "7"})
    pace.record(given | {"x-ratelimit-remaining": "many"})
    pace.record({})
    assert {name: each.remaining for name, each in pace.limits.items()} == {"core": 4998, "graphql": 7}
    assert pace.limits["core"].reset.year == 2026
