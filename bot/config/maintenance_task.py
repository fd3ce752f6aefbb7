"""The key `maintenance`: scheduled tasks, strict."""

import re
from collections import Counter
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    model_validator,
)

from bot.config.schedule import Schedule, valid_schedule, valid_timezone

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
