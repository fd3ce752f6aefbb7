"""When a cron schedule is due, by trying each minute of a calendar. Shares nothing with bot/core/schedule.py.

Rules (MT1)
- A local time that does not exist is due at the next minute that does; one that exists twice is due at the first.
- If the hour is *, each minute of real time that matches is due.
- Day of month and day of week must both match if either begins with *, otherwise one of them.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)


@cache
def due_minutes(expression: str, zone: str, first: datetime, last: datetime) -> tuple[datetime, ...]:
    """Return all due times from `first` to `last`, in order. Both are in UTC."""
    minute, hour, *days = expression.split()
    place = ZoneInfo(zone)
    if hour == "*":
        found = {each for each in _every_minute(first, last) if _is_on(each.astimezone(place), expression)}
        return tuple(sorted(found))
    clock = [(h, m) for h in sorted(_values(hour, 0, 23)) for m in sorted(_values(minute, 0, 59))]
    local = [datetime.combine(day, time(*each)) for day in _days(first, last, days) for each in clock]
    return tuple(sorted({each for each in (_instant(when, place) for when in local) if first <= each <= last}))


def _instant(local: datetime, zone: ZoneInfo) -> datetime:
    """Return the first instant that has this local time, or the first local time after it that exists."""
    while (found := local.replace(tzinfo=zone).astimezone(UTC)).astimezone(zone).replace(tzinfo=None) != local:
        local += MINUTE
    return found


def _every_minute(first: datetime, last: datetime) -> Iterator[datetime]:
    while first <= last:
        yield first
        first += MINUTE


def _days(first: datetime, last: datetime, fields: list[str]) -> Iterator[date]:
    day = first.date() - timedelta(days=2)
    while day <= last.date() + timedelta(days=2):
        if _is_on_day(day, *fields):
            yield day
        day += timedelta(days=1)


def _is_on(local: datetime, expression: str) -> bool:
    minute, _, *days = expression.split()
    return local.minute in _values(minute, 0, 59) and _is_on_day(local.date(), *days)


@cache
def _is_on_day(day: date, month_day: str, month: str, week_day: str) -> bool:
    in_month = day.day in _values(month_day, 1, 31)
    in_week = day.isoweekday() % 7 in {each % 7 for each in _values(week_day, 0, 7)}
    either = in_month or in_week
    both = in_month and in_week
    return day.month in _values(month, 1, 12) and (both if "*" in (month_day[0], week_day[0]) else either)


@cache
def _values(field: str, low: int, high: int) -> frozenset[int]:
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        begin, _, end = (f"{low}-{high}" if span == "*" else span).partition("-")
        found |= set(range(int(begin), int(end or begin) + 1, int(step or 1)))
    return frozenset(found)
