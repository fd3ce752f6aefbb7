"""What no webhook told is found by reading what moved (W3)."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from bot.core.errors import Transient
from bot.service.reconcile import FIRST_SPAN
from bot.testing.github import credentials
from tests.action.jobs import MARKER
from tests.service.conftest import ASKS, LATER, Ground
from tests.stories.github.ground import HOME


def in_the_body(ground: Ground) -> str:
    ground.person("will").open_issue(HOME, "Title", ASKS)
    return "issue"


def in_a_comment(ground: Ground) -> str:
    ground.person("rita").open_issue(HOME, "Title")
    return f"comment-{ground.person('will').comment(HOME, 1, ASKS).id}"


def by_an_edit(ground: Ground) -> str:
    ground.person("rita").open_issue(HOME, "Title")
    made = ground.person("will").comment(HOME, 1, "Please.")
    ground.person("will").edit_comment(made.id, ASKS)
    return f"comment-{made.id}"


def with_the_bots_hidden_line(ground: Ground) -> str:
    """The conditions of the Action's workflow take this comment for the bot's own."""
    ground.person("rita").open_issue(HOME, "Title")
    return f"comment-{ground.person('will').comment(HOME, 1, f'{ASKS}{chr(10) * 2}{MARKER}').id}"


def by_label(ground: Ground) -> str:
    ground.person("rita").open_issue(HOME, "Title", "Orders of 50 should ship free.")
    ground.person("will").label(HOME, 1, "plangate")
    return "moved-"


def by_assignment(ground: Ground) -> str:
    ground.person("rita").open_issue(HOME, "Title", "Orders of 50 should ship free.")
    ground.person("will").assign(HOME, 1, "plangate[bot]")
    return "moved-"


def in_a_review(ground: Ground) -> str:
    ground.person("will").push(HOME, {"new.md": "New.\n"}, branch="topic")
    made = ground.person("will").open_pull(HOME, "Topic", head="topic")
    return f"review-{ground.person('maya').review(HOME, made.number, ASKS).id}"


def among_many(ground: Ground) -> str:
    ground.person("rita").open_issue(HOME, "Title")
    ground.person("will").comment(HOME, 1, ASKS)
    for number in range(25):
        ground.person("rita").comment(HOME, 1, f"Me too, {number}.")
    return "moved-"


SPOKEN = (
    in_the_body,
    in_a_comment,
    by_an_edit,
    with_the_bots_hidden_line,
    by_label,
    by_assignment,
    in_a_review,
    among_many,
)


@pytest.mark.req("W3")
@pytest.mark.parametrize("spoken", SPOKEN)
async def test_what_speaks_to_the_bot_is_found(ground: Ground, spoken: Callable[[Ground], str]) -> None:
    """Each way of speaking to it, told by no webhook; threads on which nobody does are not."""
    ground.person("rita").comment(HOME, ground.person("rita").open_issue(HOME, "Quiet").number, "Who does it?")
    ground.github.world.issues.clear()
    key = spoken(ground)
    ground.person("rita").open_issue(HOME, "Quiet", "Nobody is asked.")
    tally = await ground.read()
    ((number, keys),) = ground.taken
    assert (number, [each.startswith(key) for each in keys]) == (1, [True])
    assert (tally.repositories, tally.changed, tally.found, tally.unread) == (1, 1, 1, 0)


@pytest.mark.req("W3")
async def test_what_others_are_told_is_not_found(ground: Ground) -> None:
    """The bot's own words and another bot's wake nobody. Where the bot is only named, the check decides."""
    ground.person("plangate[bot]").open_issue(HOME, "Title", ASKS)
    ground.github.world.add_user("other[bot]", "Bot")
    ground.person("other[bot]").comment(HOME, 1, ASKS)
    tally = await ground.read()
    assert (tally.changed, ground.taken) == (1, [])
    ground.person("will").comment(HOME, 1, "<!-- @plangate hidden --> `@plangate` code")
    await ground.read()
    assert ground.numbers == [1]


@pytest.mark.req("W3")
async def test_the_mention_is_the_repositorys_own(ground: Ground) -> None:
    """A configured mention is heard, and the usual one is not."""
    ground.person("ada").push(HOME, {".github/plangate.yml": 'mention: "@shopbot"\n'})
    ground.person("will").open_issue(HOME, "Title", ASKS)
    ground.person("will").open_issue(HOME, "Title", "@shopbot go")
    await ground.read()
    assert ground.numbers == [2]


@pytest.mark.long
@pytest.mark.req("W3")
async def test_equal_seconds_are_read_twice_and_idle_costs_one_query(ground: Ground) -> None:
    """What comes in the very second of a reading is not lost; once nothing moves, one query asks for all."""
    ground.person("will").open_issue(HOME, "Title", ASKS)
    await ground.read()
    ground.github.world.person("will").open_issue(HOME, "The same second", ASKS)
    await ground.read()
    assert ground.numbers == [1, 2]
    ground.clock.advance(LATER)
    await ground.read()  # the cursor is behind the newest still
    before = len(ground.queries())
    tally = await ground.read()
    assert (tally.changed, ground.taken, len(ground.queries()) - before) == (0, [], 1)


@pytest.mark.long
@pytest.mark.req("W3", "E3")
async def test_what_was_not_kept_is_found_again(ground: Ground) -> None:
    """The cursor goes on only after what was found is on disk: a process that dies before finds it once more."""
    ground.person("will").open_issue(HOME, "Title", ASKS)
    ground.full = True
    with pytest.raises(Transient, match="disk"):
        await ground.read()
    ground.full = False
    ground.clock.advance(FIRST_SPAN.total_seconds() / 2)
    await ground.read()
    assert ground.numbers == [1]


@pytest.mark.long
@pytest.mark.req("W3")
@pytest.mark.parametrize(("hours", "found"), ((20, [1]), (30, [])))
async def test_the_first_reading_goes_back_a_day(ground: Ground, hours: int, found: list[int]) -> None:
    """Who asked while the service was set up is answered; what is older was given up."""
    ground.person("will").open_issue(HOME, "Title", ASKS)
    ground.clock.advance(hours * 3600)
    await ground.read()
    assert ground.numbers == found


@pytest.mark.req("W3")
@pytest.mark.long
async def test_a_long_time_down_is_read_whole(ground: Ground) -> None:
    """From the second reading on it is the cursor that counts, however long ago; every page is read."""
    ground.person("rita").open_issue(HOME, "Quiet", "Nobody is asked.")
    await ground.read()
    for number in range(45):
        ground.person("will").open_issue(HOME, f"Title {number}", ASKS)
    ground.clock.advance(30 * 24 * 3600)
    await ground.read()
    assert ground.numbers == list(range(2, 47))


@pytest.mark.long
@pytest.mark.req("W3")
@pytest.mark.parametrize("text", ("{", '{"1": "soon"}'))
async def test_a_torn_file_of_cursors(ground: Ground, text: str) -> None:
    """It counts as none: the last day is read again."""
    ground.person("will").open_issue(HOME, "Title", ASKS)
    await ground.read()
    (ground.host.settings.data_dir / "reconciled.json").write_text(text)
    ground.clock.advance(3600)
    await ground.read()
    assert ground.numbers == [1]


@pytest.mark.long
@pytest.mark.req("W3")
@pytest.mark.parametrize("moment", ("asking when it moved", "reading it", "reading its configuration"))
async def test_one_that_cannot_be_read_stops_no_other(ground: Ground, moment: str) -> None:
    """A repository that GitHub refuses is passed over, and found once it can be read again."""
    world = ground.github.world
    names = [HOME, ground.another("bad"), ground.another("last")]
    for name in names:
        ground.person("will").open_issue(name, "Title", ASKS)
    bad = world.repository(names[1])
    match moment:
        case "asking when it moved":
            ground.github.faults.fail("POST /graphql", 403, times=9, containing=bad.node_id)
        case "reading it":
            ground.github.faults.fail("POST /graphql", 403, times=9, containing=f'"id": "{bad.node_id}"')
        case _:
            ground.github.faults.fail(f"GET /repos/{bad.full_name}/contents/*", 451, times=9)
    tally = await ground.read()
    assert (len(ground.taken), tally.unread, tally.repositories) == (2, 1, 3)
    ground.github.faults.clear()
    ground.clock.advance(LATER)
    await ground.read()
    assert len(ground.taken) >= 1
    assert (await ground.read()).unread == 0


@pytest.mark.long
@pytest.mark.req("W3")
async def test_a_repository_that_is_gone_or_renamed_meanwhile(ground: Ground) -> None:
    """One that was deleted after it was listed is left out; one that was renamed is found under its new name."""
    names = [ground.another("gone"), ground.another("old")]
    for name in names:
        ground.person("will").open_issue(name, "Title", ASKS)
    world = ground.github.world
    gone, old = (world.repository(name) for name in names)
    listed = [each async for each in ground.host.connections.served_by(ground.installation.id)]
    assert {gone.id, old.id} < {each.id for each in listed}
    del world.repositories[gone.id]
    world.repositories[old.id] = replace(old, name="new")
    tally = await ground.read()  # `take` holds the name
    assert (tally.found, tally.unread) == (1, 0)


@pytest.mark.long
@pytest.mark.req("W3")
async def test_an_installation_that_is_suspended_meanwhile(ground: Ground) -> None:
    """Its neighbours are read; it is counted as unread."""
    world = ground.github.world
    world.add_user("other", "Organization")
    world.add_repository("other/place", {"README.md": "# Other\n"})
    other = credentials.install(world, ground.github.app, "other")
    ground.person("will").open_issue(HOME, "Title", ASKS)
    ground.github.faults.fail(f"POST /app/installations/{other.id}/access_tokens", 403, times=9)
    tally = await ground.read()
    assert (ground.numbers, tally.unread) == ([1], 1)
    assert [address.name for address in await ground.host.open_threads()] == []


@pytest.mark.long
@pytest.mark.req("E2", "W3")
async def test_the_last_points_are_the_works_own(ground: Ground) -> None:
    """Where little is left of the hour nothing is read, and in the next hour it is found."""
    ground.person("will").open_issue(HOME, "Title", ASKS)
    ground.github.limits.limits["installation"] = 10
    for _ in range(9):
        await ground.host.connections.poller(ground.installation.id).graphql("query { viewer { login } }", {})
    before = len(ground.queries())
    tally = await ground.read()
    assert (ground.taken, tally.unread, len(ground.queries()) - before) == ([], 1, 1)
    ground.clock.advance(3600)
    await ground.read()
    assert ground.numbers == [1]


@pytest.mark.long
@pytest.mark.req("W3")
async def test_a_hundred_repositories_cost_one_query(ground: Ground) -> None:
    """That nothing moved in 150 repositories takes two queries of two points, and no request for each."""
    for number in range(149):
        ground.another(f"place-{number}")
    before = len(ground.github.requests)
    tally = await ground.read()
    asked = ground.github.requests[before:]
    assert (tally.repositories, tally.changed) == (150, 0)
    assert [logged.cost for logged in asked if logged.path == "/graphql"] == [2, 1]
    assert len(asked) <= 2 + 2 + 2  # the installations, its token, its repositories on two pages, two queries
