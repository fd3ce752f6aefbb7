"""Recipes: maintenance tasks that are written once, as Markdown files with front matter (MT8).

The front matter holds a description, a check, and parameters with their defaults; the text is the prompt. ``{{name}}``
stands for a parameter: as it is in the prompt, as quoted words of the shell in the check. ``{{cooldown-days}}`` is the
task's key. A project's own recipes, in `.plangate/recipes/` of its default branch, come first.
"""

import re
import shlex
from collections.abc import Mapping
from importlib.resources import files
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from bot.config.repository_file import validate_yaml
from bot.core.configuration import MaintenanceTask
from bot.core.errors import Misconfigured

FOLDER: Final = ".plangate/recipes/"
_FRONT: Final = re.compile(r"---[ \t]*\n(.*?\n)---[ \t]*(?:\n|$)(.*)", re.DOTALL)
_PARAMETER: Final = re.compile(r"\{\{([a-z0-9-]+)\}\}")

Value = str | int | float | bool | list[str]
Line = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]+$", max_length=300)]


class RecipeFrontMatter(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    description: Line
    check: str | None = None
    parameters: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")], Value] = {}


def shipped_recipes() -> Mapping[str, str]:
    """Return the recipes that come with the bot: name -> text."""
    folder = files("bot.config").joinpath("recipes")
    return {file.name.removesuffix(".md"): file.read_text(encoding="utf-8") for file in folder.iterdir()}


def with_recipe(task: MaintenanceTask, own: Mapping[str, str]) -> MaintenanceTask:
    """Return a task with the prompt and the check of its recipe, if it has one.

    `own` holds the project's recipes: name -> text. Raises Misconfigured for a recipe that does not exist, cannot be
    read, or has no such parameter.
    """
    if task.recipe is None:
        return task
    recipes = {**shipped_recipes(), **own}
    if task.recipe not in recipes:
        names = ", ".join(sorted(recipes))
        raise Misconfigured(
            f"task {task.name!r}: there is no recipe {task.recipe!r}",
            where=task.place_of("recipe"),
            fix=f"use one of {names}, or write {FOLDER}{task.recipe}.md",
        )
    where = f"{FOLDER}{task.recipe}.md" if task.recipe in own else f"the recipe {task.recipe} of Plangate"
    recipe, prompt = _split(recipes[task.recipe], where)
    if unknown := sorted(set(task.parameters) - set(recipe.parameters)):
        raise Misconfigured(
            f"task {task.name!r}: the recipe {task.recipe!r} has no parameter {unknown[0]!r}",
            where=task.place_of("with"),
            fix=f"its parameters are {', '.join(recipe.parameters) or 'none'} ({where})",
        )
    values: dict[str, Value] = {"cooldown-days": task.cooldown_days, **recipe.parameters, **task.parameters}
    check = task.check or _fill(recipe.check or "", {name: _words(value) for name, value in values.items()}, where)
    prompt = _fill(prompt, {name: _text(value) for name, value in values.items()}, where)
    return task.model_copy(update={"prompt": prompt.strip(), "check": check.strip()})


def _split(text: str, where: str) -> tuple[RecipeFrontMatter, str]:
    """Return a recipe's front matter and its prompt. Raises Misconfigured with line and column."""
    match = _FRONT.fullmatch(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    if match is None or not match[2].strip():
        raise Misconfigured(
            "no front matter with a text below it",
            where=f"{where}:1",
            fix="begin with ---, keys, and ---; then write the prompt",
        )
    return validate_yaml(RecipeFrontMatter, f"\n{match[1]}", where), match[2]  # the first line is the ---


def _fill(text: str, values: Mapping[str, str], where: str) -> str:
    """Return a text with its parameters in place. Raises Misconfigured for one that has no value."""
    if missing := [name for name in _PARAMETER.findall(text) if name not in values]:
        raise Misconfigured(f"no parameter {missing[0]!r}", where=where, fix="add it to parameters, with a default")
    return _PARAMETER.sub(lambda match: values[match[1]], text)


def _words(value: Value) -> str:
    return shlex.join(value) if isinstance(value, list) else shlex.quote(_text(value))


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(value) if isinstance(value, list) else str(value)
