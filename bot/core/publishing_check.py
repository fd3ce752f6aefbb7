"""Whether work can be published: a pure function over what GitHub shows before anything is spent (CL1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from bot.core.markdown.elements import code, codes

UNSIGNED: Final = "required_signatures"
NAMING: Final = "branch_name_pattern"
REFUSING: Final[Mapping[str, str]] = MappingProxyType(
    {
        "creation": "creating them",
        "update": "pushing to them",
        "pull_request": "pushing to them without a pull request",
        "merge_queue": "pushing to them without a merge queue",
        UNSIGNED: "pushing unsigned commits",
    }
)
"""Types of rules that keep the bot from pushing its branches, and what they refuse."""


@dataclass(frozen=True, slots=True)
class PublishingFacts:
    """What GitHub shows of a branch and of the bot's rights. What is unknown hinders nothing."""

    rules: frozenset[str] = frozenset()
    """The types of the rules for the branch that the bot cannot bypass."""
    misnamed: tuple[str, ...] = ()
    """The rules for names of branches that its name breaks, such as ``starts with feature/``."""
    taken: str = ""
    """An existing branch that has the name, or whose name is the first part of it; "" for none."""
    no_pulls: str = ""
    """GitHub's words if this token may not open pull requests; "" otherwise."""


def obstacles(facts: PublishingFacts, branch: str, *, is_new: bool) -> tuple[str, ...]:
    """Return what keeps work from being published on a branch, a sentence with its cure for each.

    `is_new` says whether the branch is created, and gets a pull request.
    """
    found, moot = list[str](), "update" if is_new else "creation"
    if refused := [text for rule, text in REFUSING.items() if rule in facts.rules and rule != moot]:
        found.append(f"The rules for branches such as {code(branch)} forbid {', '.join(refused)}. {_CURE}")
    if is_new and facts.misnamed:
        found.append(f"The name {code(branch)} breaks the rules for branches: {codes(facts.misnamed)}. {_CURE}")
    if is_new and facts.taken:
        found.append(f"The branch {code(facts.taken)} is in the way of {code(branch)}. Rename or delete it.")
    if is_new and facts.no_pulls:
        found.append(f"GitHub doesn't let me open pull requests: {code(facts.no_pulls)}. {_PULLS_CURE}")
    return tuple(found)


_CURE: Final = "Leave such branches out of them, or let me bypass them (Settings > Rules > Rulesets)."
_PULLS_CURE: Final = (
    "In Settings > Actions > General, tick *Allow GitHub Actions to create and approve pull requests*, and grant the "
    "job or the token `pull-requests: write`."
)
