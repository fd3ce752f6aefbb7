"""Scheduled tasks: strict keys, and due times that survive the change of clocks (MT1)."""

from datetime import UTC, datetime, timedelta
from itertools import product, takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.config.environment import configuration
from bot.core.errors import Misconfigured
from bot.core.schedule import MOST_MISSED, Due, Schedule
from tests.core.due_minutes import due_minutes
from tests.rows import every_row

TASK = "maintenance:\n  - name: deps\n    schedule: {schedule}\n    {more}\n"
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata")


def test_a_task_needs_a_name_a_schedule_and_what_to_do() -> None:
    (task,) = configuration(TASK.format(schedule="weekly", more="prompt: Update the pins.")).maintenance
    assert (task.timezone, task.approval, task.limit, task.cooldown_days) == ("UTC", "required", 1, 0)
    assert task.due_times().expression == "0 0 * * 1"


@every_row(("schedule", "words"), (("weekly", "at 00:00 on Monday"), ("30 6 * * *", "at 06:30 every day")))
def test_a_schedule_is_told_in_words(schedule: str, words: str) -> None:
    assert Schedule.of(schedule, "UTC").words() == words


@every_row(
    ("schedule", "finer"),
    (
        ("0 0 * * *", False),
        ("30 6 * * 1-5", False),
        ("0 0 29 2 *", False),
        ("0 2,22 * * 1", True),
        ("*/30 * * * *", True),
        ("59 23,0 * * *", True),
    ),
)
@every_row("month", (1, 3, 10))
def test_what_a_daily_run_is_too_seldom_for(schedule: str, finer: bool, month: int) -> None:
    for day in range(25, 32):
        now = datetime(2026, month, day, 1, 30, tzinfo=UTC)
        assert Schedule.of(schedule, "Europe/Berlin").is_finer_than_daily(now) == finer


@every_row(
    ("schedule", "more", "said"),
    (
        ("0 0 30 2 *", "prompt: x", "maintenance.0.schedule: none of its months has such a day, so the task would"),
        ("0 0 31 4,6 *", "prompt: x", "none of its months has such a day"),
        ("0 0 32 2 *", "prompt: x", "maintenance.0.schedule: Bad day-of-month: write five fields"),
        ("61 * * * *", "prompt: x", "maintenance.0.schedule: Bad minute"),
        ("hourly", "prompt: x", "write five fields of cron, such as 0 6 * * 1, or daily, weekly, monthly"),
        ("0 0 6 * * 1", "prompt: x", "write five fields of cron"),
        ("daily", "prompt: x\n    timezone: Mars/Base", "no time zone is named 'Mars/Base'"),
        ("daily", "prompt: x\n    timezone: ../../etc/passwd", "no time zone is named"),
        ("daily", "limit: 2", "needs either prompt or recipe, and not both"),
        ("daily", "prompt: x\n    recipe: deps", "needs either prompt or recipe, and not both"),
        ("daily", "prompt: x\n    with: {days: 3}", "has the key `with`, which only a recipe reads"),
        ("daily", "prompt: x\n    approval: standing", "needs paths, because approval: standing covers only these"),
        ("daily", "prompt: x\n    promt: y", "did you mean 'maintenance.0.prompt'?"),
        (
            "daily",
            "prompt: x\n  - name: deps\n    schedule: daily\n    prompt: y",
            "are named 'deps', in lines 2 and 5",
        ),
        ("daily", "prompt: x\n    limit: 0", "maintenance.0.limit"),
        ("daily", "prompt: ''", "maintenance.0.prompt: must not be empty"),
        ("daily", "prompt: x\n    check: ''", "maintenance.0.check: write one line of text, without blanks around it"),
        ("daily", "prompt: x\n    paths: ['!src']", "write a glob that does not begin with !, such as docs/**"),
        ("daily", "prompt: x\n  - {name: A b, schedule: daily}", "write lowercase letters, digits, and hyphens"),
    ),
)
def test_mistakes_are_named(schedule: str, more: str, said: str) -> None:
    """What is wrong, where, and how to fix it."""
    with pytest.raises(Misconfigured, match=r"\.github/plangate\.yml:\d+:\d+") as error:
        configuration(TASK.format(schedule=schedule, more=more))
    assert said in str(error.value)


def test_an_unknown_key_explains_a_missing_one() -> None:
    with pytest.raises(Misconfigured, match=r"unknown key 'maintenance\.0\.cron'"):
        configuration("maintenance:\n  - name: a\n    cron: daily\n    prompt: x")


EVEN = [f"{hour:02}:30+0200" for hour in range(4, 24, 2)]


def times(expression: str, zone: str, first: datetime, last: datetime) -> list[datetime]:
    return list(takewhile(lambda time: time <= last, Schedule.of(expression, zone).times_after(first)))


@pytest.mark.req("MT1")
@every_row(
    ("expression", "zone", "day", "local"),
    (
        ("30 2 * * *", "Europe/Berlin", (2026, 3, 29), ["03:00+0200"]),  # 02:30 does not exist
        ("30 2 * * *", "Europe/Berlin", (2026, 10, 25), ["02:30+0200"]),  # 02:30 exists twice
        ("15 2 * * *", "Australia/Lord_Howe", (2026, 10, 4), ["02:30+1100"]),  # clocks move by half an hour
        ("45 1 * * *", "Australia/Lord_Howe", (2026, 4, 5), ["01:45+1100"]),
        ("0 0 * * *", "America/Havana", (2026, 3, 8), ["01:00-0400"]),  # midnight does not exist
        ("0 2,3 * * *", "Europe/Berlin", (2026, 3, 29), ["03:00+0200"]),  # both fall on one instant
        ("*/30 2 * * *", "Europe/Berlin", (2026, 3, 29), ["03:00+0200"]),
        ("*/30 2 * * *", "Europe/Berlin", (2026, 10, 25), ["02:00+0200", "02:30+0200"]),
        ("30 */2 * * *", "Europe/Berlin", (2026, 3, 29), ["00:30+0100", "03:00+0200", *EVEN]),
    ),
)
def test_clocks_change(expression: str, zone: str, day: tuple[int, int, int], local: list[str]) -> None:
    """A local time that does not exist is due at the next instant; one that exists twice is due once."""
    schedule = Schedule.of(expression, zone)
    start = datetime(*day, tzinfo=schedule.zone)
    found = times(expression, zone, start - timedelta(minutes=1), start + timedelta(hours=23))
    assert [f"{time.astimezone(schedule.zone):%H:%M%z}" for time in found] == local


@pytest.mark.req("MT1")
@pytest.mark.parametrize(
    ("expression", "zone"),
    (
        *product(
            ("30 2 * * *", "15 1-3 * * 0", "*/30 2 * * *", "0 */2 * * *", "5 0 29-31 * 1"),
            (*ZONES, "America/Santiago", "Africa/Casablanca", "Antarctica/Troll"),
        ),
    ),
)
def test_a_year_minute_by_minute(expression: str, zone: str) -> None:
    first, last = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
    assert times(expression, zone, first - timedelta(seconds=1), last) == [*due_minutes(expression, zone, first, last)]


@pytest.mark.req("MT1")
@every_row("first", (datetime(2026, 4, 1, tzinfo=UTC), datetime(2026, 9, 30, tzinfo=UTC)))
def test_every_hour_where_clocks_move_by_half_of_one(first: datetime) -> None:
    """The same in the weeks in which the clocks of Lord Howe Island move: on other days each hour is like the next."""
    what, last = ("*/20 * * * *", "Australia/Lord_Howe"), first + timedelta(days=7)
    assert times(*what, first - timedelta(seconds=1), last) == [*due_minutes(*what, first, last)]


@pytest.mark.req("MT1")
def test_a_moment_in_an_hour_that_exists_twice() -> None:
    second = datetime(2026, 10, 25, 1, 10, tzinfo=UTC)  # 02:10 in Berlin, for the second time
    schedule = Schedule.of("30 2 * * *", "Europe/Berlin")
    assert schedule.due(second, second + timedelta(hours=23)) is None
    assert schedule.due(second - timedelta(hours=1), second) == Due(datetime(2026, 10, 25, 0, 30, tzinfo=UTC))


@pytest.mark.req("MT1")
@given(
    st.sampled_from(["30 2 * * *", "0 0 * * 1", "15 1-3 * * 6,0", "0 0 1 * *", "0 */12 * * *"]),
    st.sampled_from(ZONES),
    st.sampled_from([datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 9, 25, tzinfo=UTC)]),
    st.lists(st.integers(0, 45 * 24 * 60), min_size=1, max_size=12),
    st.integers(0, 3),
)
def test_irregular_looks(expression: str, zone: str, start: datetime, minutes: list[int], back: int) -> None:
    """Whenever somebody looks, also with a clock that is set back, each due time is found once or collapses."""
    looks = [start + timedelta(minutes=minute) for minute in minutes]
    looks = [*sorted(looks), *looks[:back]]  # the last ones are in the past again
    since, found = start, list[Due]()
    for now in looks:
        if (due := Schedule.of(expression, zone).due(since, now)) is not None:
            found.append(due)
            since = due.at
    expected = times(expression, zone, start, max(looks))
    assert [due.at for due in found] == sorted({due.at for due in found})
    assert sum(1 + due.missed for due in found) == len(expected)
    assert {due.at for due in found} <= set(expected)


@pytest.mark.req("MT1")
def test_a_task_that_was_off_for_years() -> None:
    due = Schedule.of("* * * * *", "UTC").due(datetime(2020, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 12, tzinfo=UTC))
    assert due == Due(datetime(2026, 1, 1, 12, tzinfo=UTC), MOST_MISSED)


@pytest.mark.req("MT1")
@every_row(("minutes", "missed"), ((MOST_MISSED, MOST_MISSED - 1), (MOST_MISSED + 1, MOST_MISSED)))
def test_missed_times_are_counted_up_to_a_number(minutes: int, missed: int) -> None:
    since = datetime(2026, 1, 1, tzinfo=UTC)
    now = since + timedelta(minutes=minutes)
    assert Schedule.of("* * * * *", "UTC").due(since, now) == Due(now, missed)
