"""When a scheduled task is due: a 5-field cron expression in a time zone (MT1).

A local time that does not exist on the day that clocks go forward is due at the next instant that does, and one that
exists twice on the day that they go back is due once. A schedule whose hour is * follows elapsed time instead, and is
due in both hours. cronsim computes the times. Like Debian's cron, it follows elapsed time for each * in the minute or
the hour, also for */30 2 * * *, which would be due four times on one day and not at all on another. Where clocks move
by half an hour (Australia/Lord_Howe), it may leave out one time of an hourly schedule on that day.
https://github.com/cuu508/cronsim
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import dropwhile, islice, takewhile
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

NAMED: Final = {"daily": "0 0 * * *", "weekly": "0 0 * * 1", "monthly": "0 0 1 * *"}
"""Schedules that have a name: every midnight, that of Monday, that of the first day of the month."""
FIELDS: Final = 5
MOST_MISSED: Final = 100
"""Missed times are counted up to this number."""


@dataclass(frozen=True, slots=True)
class Due:
    """The newest time at which a task is due, and how many earlier ones were missed and collapse into it (MT1)."""

    at: datetime
    """In UTC."""
    missed: int = 0
    """At most MOST_MISSED."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The due times of a task. `parse` makes one from what people write."""

    expression: str
    """Five fields of cron."""
    zone: ZoneInfo

    @classmethod
    def of(cls, schedule: str, timezone: str) -> "Schedule":
        """Return the schedule of a valid expression or name, in a valid time zone."""
        return cls(NAMED.get(schedule, schedule), ZoneInfo(timezone))

    def times_after(self, moment: datetime) -> Iterator[datetime]:
        """Return the due times after a moment, in UTC, in order."""
        times = CronSim(self._local_expression, moment.astimezone(self.zone))
        later = dropwhile(lambda time: time <= moment, times)  # in an hour that exists twice, it begins with the first
        return (time.astimezone(UTC) for time in later)

    def is_finer_than_daily(self, now: datetime) -> bool:
        """Return whether a day on which the task is due has more than one due time. All such days have the same."""
        days = [time.astimezone(self.zone).date() for time in islice(self.times_after(now), 3)]
        return len(set(days)) < len(days)

    @property
    def _local_expression(self) -> str:
        """The expression, with each * of the time written out unless it follows elapsed time."""
        minute, hour, *date = self.expression.split()
        if hour == "*":
            return self.expression
        return " ".join([minute.replace("*", "0-59"), hour.replace("*", "0-23"), *date])

    def words(self) -> str:
        """Return the schedule in words, such as "at 05:00 on Monday"."""
        return _words(self.expression)

    def due(self, since: datetime, now: datetime) -> Due | None:
        """Return the newest due time after `since` and not after `now`, or None if there is none.

        A clock that was set back gives None until it has passed `since` again, so that no time is due twice.
        """
        missed = list(islice(takewhile(lambda time: time <= now, self.times_after(since)), MOST_MISSED + 1))
        if len(missed) <= MOST_MISSED:
            return Due(missed[-1], len(missed) - 1) if missed else None
        return Due(self._newest(now), MOST_MISSED)

    def _newest(self, now: datetime) -> datetime:
        """Return the newest due time that is not after `now`."""
        local = now.astimezone(self.zone)
        earlier = next(CronSim(self._local_expression, local, reverse=True)).astimezone(UTC)
        return max((earlier, *takewhile(lambda time: time <= now, self.times_after(earlier))))


@lru_cache(maxsize=128)
def _words(expression: str) -> str:
    """Return an expression in words. Each pass over a task asks for them, and parsing takes as long as the rest."""
    sentence = CronSim(expression, datetime(2000, 1, 1, tzinfo=UTC)).explain()
    return f"{sentence[:1].lower()}{sentence[1:]}"


def valid_schedule(text: str) -> str:
    """Return a schedule that has due times. Raises ValueError, with what to change."""
    names = ", ".join(NAMED)
    if text not in NAMED and len(text.split()) != FIELDS:
        raise ValueError(f"write five fields of cron, such as 0 6 * * 1, or {names}")
    try:
        CronSim(NAMED.get(text, text), datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        if _fits_another_month(text):
            problem = "none of its months has such a day, so the task would never run: change the day or the month"
            raise ValueError(problem) from error
        raise ValueError(f"{error}: write five fields of cron, such as 0 6 * * 1, or {names}") from error
    return text


def _fits_another_month(text: str) -> bool:
    """Return whether a schedule would be valid if it named no months."""
    fields = text.split()
    try:
        CronSim(" ".join([*fields[:3], "*", *fields[4:]]), datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError:
        return False
    return len(fields) == FIELDS and fields[3] != "*"


def valid_timezone(text: str) -> str:
    """Return the name of a time zone of the IANA database. Raises ValueError."""
    try:
        return ZoneInfo(text).key
    except (ValueError, OSError, LookupError) as error:
        raise ValueError(f"no time zone is named {text!r}: write one such as Europe/Berlin") from error
