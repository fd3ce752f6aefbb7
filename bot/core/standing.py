"""Standing approval of a scheduled task: what the configuration of the default branch approves by itself (MT6). Pure.

It only says whether a plan stays inside what the configuration allows. `core.approval` makes the proof.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bot.core.paths import Tier, is_path_covered, normalized_path
from bot.core.plan import PlanDocument

_WILD: Final = frozenset("*?[]{}!")
_COMPARED: Final = frozenset("[]{}!\\")
"""Signs of globs that are only compared as a whole."""
_ANY_NAME: Final = "\ue000" * 64
"""A name that only a glob for any name matches."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What `approval: standing` of a task allows, as the file on the default branch says now."""

    task: str
    paths: tuple[str, ...]
    hosts: tuple[str, ...] = ()
    asked_before: bool = False
    """Whether people approved a plan of exactly this task before. The first plan always asks."""


def standing_objection(plan: PlanDocument, standing: Standing, *, four_eyes: bool) -> str:
    """Return why a plan needs people although its task has standing approval, or "" if it needs none."""
    if four_eyes:
        return "approve.four_eyes asks for a second person"
    if not standing.asked_before:
        return "it is the first plan of this task, or of its changed version"
    if plan.tier not in {Tier.LOW, Tier.NORMAL}:
        return f"its tier is {plan.tier}"
    if plan.operations:
        return "it has operations on issues"
    named = [glob for glob in plan.contract.scope if not glob.startswith("!")]
    if not named:
        return "it names no files"
    if outside := [glob for glob in named if not is_glob_inside(glob, standing.paths)]:
        return f"it names files outside the task's paths ({outside[0]})"
    if further := sorted(set(plan.contract.hosts) - set(standing.hosts)):
        return f"it reaches a host that the configuration does not list ({further[0]})"
    return ""


def is_glob_inside(glob: str, paths: Sequence[str]) -> bool:
    """Return whether everything that a glob of a plan reaches is reached by one of the task's globs as well.

    False if that is not certain, so that people are asked. A glob that excludes files reaches none.
    """
    return any(_is_inside(glob, path) for path in paths)


def _is_inside(glob: str, path: str) -> bool:
    """Return whether one glob reaches all of another. `core.paths` says what a glob reaches."""
    plain = normalized_path(glob)
    if plain == normalized_path(path) and glob.startswith("/") == path.startswith("/"):
        return True
    if plain.startswith(".") or not _COMPARED.isdisjoint(glob + path):
        return False
    steps = plain.strip("/").split("/")
    if len(steps) == 1 and not glob.startswith("/"):  # it reaches that name in every folder
        return "/" not in path and _WILD.isdisjoint(glob) and is_path_covered(glob, path)
    fixed = steps[: next((n for n, step in enumerate(steps) if not _WILD.isdisjoint(step)), len(steps))]
    rest_of_path = [] if len(fixed) == len(steps) else [_ANY_NAME]
    return bool(fixed) and is_path_covered("/".join([*fixed, *rest_of_path]), path)
