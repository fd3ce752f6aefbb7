"""The administrators' settings of a simulated repository: Actions, environments, secrets, and rules.

https://docs.github.com/en/rest/actions/permissions and https://docs.github.com/en/rest/repos/rules
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class EnvironmentSettings:
    """An environment: the names of its secrets, and what holds a job back."""

    secrets: frozenset[str] = frozenset()
    reviewed: bool = False
    """Whether a person must let each job in."""
    limited: bool = False
    """Whether only some branches may use it."""


@dataclass(frozen=True, slots=True)
class RulesetSettings:
    """A set of rules. Rules of branches apply to the branches whose names begin with `prefix`."""

    name: str
    rules: tuple[str, ...] = ()
    target: Literal["branch", "tag", "push", "repository"] = "branch"
    prefix: str = ""
    enforcement: Literal["disabled", "active", "evaluate"] = "active"
    pattern: str = ""
    """How the names of branches must begin, for the rule `branch_name_pattern`."""
    bypassed: bool = False
    """Whether the caller bypasses it, whoever that is."""


@dataclass(frozen=True, slots=True)
class RepositorySettings:
    """The settings of one repository; the defaults are those of a new one."""

    actions: bool = True
    allowed_actions: Literal["all", "local_only", "selected"] = "all"
    pinned: bool = False
    """Whether actions must be named by the full id of a commit."""
    actions_open_pulls: bool = False
    environments: Mapping[str, EnvironmentSettings] = field(default_factory=dict)
    secrets: frozenset[str] = frozenset()
    shared_secrets: frozenset[str] = frozenset()
    """Secrets of the organization that this repository may read."""
    rulesets: tuple[RulesetSettings, ...] = ()
    stars: int = 0
