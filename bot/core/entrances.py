"""Every entrance of words from outside into a session, and whose words they count as (A9).

Rules
- What the table does not list enters no session. `tests/stories/github/test_entrances.py` looks at what planning reads.
- Once a session has read strangers' words, no standing approval covers its plan (MT6), and its sub-agents that only
  read are restricted (S9).
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Trust(StrEnum):
    """Whose words an entrance brings."""

    PROJECT = "project"
    """Of people who can push to the default branch, and of the harness itself."""
    AUTHOR = "author"
    """Looked up text by text: strangers' unless people who may ask wrote it and nobody else edited it."""
    STRANGERS = "strangers"
    """Of anybody. What was fetched, or what ran with a network, says what a server wants it to say."""


class Entrance(StrEnum):
    """A way by which words get into a session."""

    TASK = "prompt of a scheduled task or recipe"
    REQUEST = "requests and additions on the thread, and their pictures"
    ANSWER = "answers to questions"
    THREAD = "rest of the thread, quoted: titles, labels, posts, pictures, a pull request's branches and diff"
    EARLIER_PLANS = "earlier plans of the thread, and findings that people decided on"
    OFFLINE_CHECK = "output of a task's check without a network"
    NETWORK_CHECK = "output of a task's check that can reach a host"
    GITHUB_CHECK = "output of a task's check that asks GitHub"
    RED_CHECKS = "output and logs of red checks of the bot's pull request"
    PLACE = "names of the repository, its default branch, and of files; newest commits"
    MEMORY = "project memory and types of sub-agents"
    FILES = "files of the checkout, and what commands without a network print about them"
    GITHUB = "issues, pull requests, commits, and check runs, read on GitHub"
    WEB = "pages and results of searches of the web"
    REPORTS = "reports of sub-agents, each marked by what it read"
    OWN = "what the session said itself"


TRUST: Final[Mapping[Entrance, Trust]] = {
    Entrance.TASK: Trust.PROJECT,
    Entrance.REQUEST: Trust.AUTHOR,
    Entrance.ANSWER: Trust.AUTHOR,
    Entrance.THREAD: Trust.AUTHOR,
    Entrance.EARLIER_PLANS: Trust.AUTHOR,
    Entrance.OFFLINE_CHECK: Trust.PROJECT,
    Entrance.NETWORK_CHECK: Trust.STRANGERS,
    Entrance.GITHUB_CHECK: Trust.STRANGERS,
    Entrance.RED_CHECKS: Trust.STRANGERS,
    Entrance.PLACE: Trust.PROJECT,
    Entrance.MEMORY: Trust.PROJECT,
    Entrance.FILES: Trust.PROJECT,
    Entrance.GITHUB: Trust.AUTHOR,
    Entrance.WEB: Trust.STRANGERS,
    Entrance.REPORTS: Trust.AUTHOR,
    Entrance.OWN: Trust.PROJECT,
}
TOOLS: Final[Mapping[str, Entrance]] = {
    **dict.fromkeys(("Read", "NotebookRead", "LS", "Glob", "Grep", "Bash", "BashOutput", "KillShell"), Entrance.FILES),
    **dict.fromkeys(("Write", "Edit", "MultiEdit", "NotebookEdit"), Entrance.FILES),
    **dict.fromkeys(("TodoRead", "TodoWrite", "exit_plan_mode", "submit_review", "resource_request"), Entrance.OWN),
    "AskUserQuestion": Entrance.ANSWER,
    "GitHubRead": Entrance.GITHUB,
    **dict.fromkeys(("WebFetch", "WebSearch"), Entrance.WEB),
    "Task": Entrance.REPORTS,
}
"""What the result of each tool brings."""


def brings_strangers(entrance: Entrance) -> bool:
    """Return whether all words of an entrance count as strangers'."""
    return TRUST[entrance] is Trust.STRANGERS
