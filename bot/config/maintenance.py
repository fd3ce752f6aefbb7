"""The key `maintenance`: scheduled tasks, strict, and when they are due."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice, takewhile
from typing import Annotated, Any, Final, Literal, Self
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    model_validator,
)

# --- When a scheduled task is due: a 5-field cron expression in a time zone ------------------------------------------
# A local time that does not exist on the day that clocks go forward is due at the next instant that does, and one that
# exists twice on the day that they go back is due once (MT1). A schedule whose hour is * follows elapsed time instead,
# and is due in both hours. cronsim computes the times. Like Debian's cron, it follows elapsed time for each * in the
# minute or the hour, also for */30 2 * * *, which would be due four times on one day and not at all on another. Where
# clocks move by half an hour (Australia/Lord_Howe), it may leave out one time of an hourly schedule on that day.
# https://github.com/cuu508/cronsim

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
        """Yield the due times after a moment, in UTC, in order."""
        for time in CronSim(self._local_expression, moment.astimezone(self.zone)):
            if time > moment:  # in an hour that exists twice, cronsim begins with the first one
                yield time.astimezone(UTC)

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
        never = next(Schedule.of(text, "UTC").times_after(datetime(2000, 1, 1, tzinfo=UTC)), None) is None
    except CronSimError as error:
        if _fits_another_month(text):
            problem = "none of its months has such a day, so the task would never run: change the day or the month"
            raise ValueError(problem) from error
        raise ValueError(f"{error}: write five fields of cron, such as 0 6 * * 1, or {names}") from error
    if never:
        raise ValueError("no date fits this schedule, so the task would never run")
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


# --- The key `maintenance`: scheduled tasks, strict ------------------------------------------------------------------

MOST: Final = 20
"""Tasks of one repository."""
_NAME: Final = r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$"
_LINE: Final = r"^\S([^\n\r]*\S)?$"
_GLOB: Final = r"^[^!\s]([^\n]*\S)?$"


def _text_validator(pattern: str, cure: str) -> AfterValidator:
    """Return a validator of texts. The error says what to write instead."""

    def check(text: str) -> str:
        if re.fullmatch(pattern, text) is None:
            raise ValueError(cure)
        return text

    return AfterValidator(check)


Line = Annotated[
    str,
    Field(json_schema_extra={"pattern": _LINE}),
    _text_validator(_LINE, "write one line of text, without blanks around it"),
]
Name = Annotated[
    str,
    Field(json_schema_extra={"pattern": _NAME}),
    _text_validator(_NAME, "write lowercase letters, digits, and hyphens, at most 40, such as update-pins"),
]
Parameter = Annotated[str, Field(pattern=_NAME)]
Glob = Annotated[
    str,
    Field(json_schema_extra={"pattern": _GLOB}),
    _text_validator(_GLOB, "write a glob that does not begin with !, such as docs/**"),
]


class MaintenanceTask(BaseModel):
    """One scheduled task. Either `prompt` or `recipe` says what to do."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=True)

    name: Name
    schedule: Annotated[str, AfterValidator(valid_schedule)]
    timezone: Annotated[str, AfterValidator(valid_timezone)] = "UTC"
    prompt: Annotated[str, Field(min_length=1, max_length=10_000)] | None = None
    recipe: Name | None = None
    parameters: dict[Parameter, str | int | float | bool | list[str]] = Field(default={}, alias="with")
    """What the recipe is given."""
    paths: list[Glob] = []
    check: Line | None = None
    approval: Literal["required", "standing"] = "required"
    budget_usd: float | None = Field(default=None, gt=0)
    limit: int = Field(default=1, ge=1, le=10)
    cooldown_days: int = Field(default=0, ge=0, le=365)
    labels: list[Line] = []
    _places: dict[str, tuple[int, int]] = PrivateAttr(default_factory=dict)
    """The line and the column of each key, from 1, as far as the file is known."""

    @model_validator(mode="wrap")
    @classmethod
    def _remember_places(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Return the task with the places of its keys, if the value comes from a YAML file."""
        task = handler(value)
        if (marks := getattr(value, "lc", None)) is not None:
            task._places = {key: (line + 1, column + 1) for key in value for line, column in [marks.key(key)]}
        return task

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Raise ValueError for keys that contradict each other."""
        if (self.prompt is None) == (self.recipe is None):
            raise ValueError(f"task {self.name!r} needs either prompt or recipe, and not both")
        if self.parameters and self.recipe is None:
            raise ValueError(f"task {self.name!r} has the key `with`, which only a recipe reads")
        if self.approval == "standing" and not self.paths:
            raise ValueError(f"task {self.name!r} needs paths, because approval: standing covers only these")
        return self

    def place_of(self, key: str) -> str:
        """Return the position of a key, such as ``line 3, column 5 of the configuration``."""
        line, column = self._places.get(key, (0, 0))
        return f"line {line}, column {column} of the configuration" if line else "maintenance"

    @property
    def line(self) -> int:
        """The line that the task is named on; 0 if the file is unknown."""
        return self._places.get("name", (0, 0))[0]

    def due_times(self) -> Schedule:
        """Return when the task is due."""
        return Schedule.of(self.schedule, self.timezone)


def _distinct(tasks: list[MaintenanceTask]) -> list[MaintenanceTask]:
    """Return the tasks. Raises ValueError if two have one name, since a name is what a task is known by."""
    twice = [name for name, times in Counter(task.name for task in tasks).items() if times > 1]
    if twice:
        lines = [str(task.line) for task in tasks if task.name == twice[0]]
        raise ValueError(f"two tasks are named {twice[0]!r}, in lines {' and '.join(lines)}; give each its own name")
    return tasks


Tasks = Annotated[list[MaintenanceTask], Field(max_length=MOST), AfterValidator(_distinct)]
