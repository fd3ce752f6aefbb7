"""Every entrance of words from outside into a session, and whose words they count as (A9).

Rules
- What the table does not list enters no session. `tests/stories/github/test_entrances.py` looks at what planning reads.
- Once a session has read strangers' words, no standing approval covers its plan (MT6), and its sub-agents that only
  read are restricted (S9).
"""

from collections.abc import Mapping
from enum import Enum, StrEnum
from typing import Final


class EntranceTrust(StrEnum):
    """Whose words an entrance brings."""

    PROJECT = "project"
    """Of people who can push to the default branch, and of the harness itself."""
    AUTHOR = "author"
    """Looked up text by text: strangers' unless people who may ask wrote it and nobody else edited it."""
    STRANGERS = "strangers"
    """Of anybody. What was fetched, or what ran with a network, says what a server wants it to say."""


class Entrance(Enum):
    """A way by which words get into a session, and whose words it brings."""

    TASK = "prompt of a scheduled task or recipe", EntranceTrust.PROJECT
    REQUEST = "requests and additions on the thread, mails among them, and their pictures", EntranceTrust.AUTHOR
    ANSWER = "answers to questions", EntranceTrust.AUTHOR
    THREAD = "rest of the thread: titles, labels, posts, pictures, branches, and diff", EntranceTrust.AUTHOR
    EARLIER_PLANS = "earlier plans of the thread, and findings that people decided on", EntranceTrust.AUTHOR
    OFFLINE_CHECK = "output of a task's check without a network", EntranceTrust.PROJECT
    NETWORK_CHECK = "output of a task's check that can reach a host", EntranceTrust.STRANGERS
    GITHUB_CHECK = "output of a task's check that asks GitHub", EntranceTrust.STRANGERS
    RED_CHECKS = "output and logs of red checks of the bot's pull request", EntranceTrust.STRANGERS
    PLACE = "names of the repository, its default branch, and files; newest commits", EntranceTrust.PROJECT
    MEMORY = "project memory and types of sub-agents", EntranceTrust.PROJECT
    FILES = "files of the checkout, and what commands without a network print about them", EntranceTrust.PROJECT
    GITHUB = "issues, pull requests, commits, and check runs, read on GitHub", EntranceTrust.AUTHOR
    WEB = "pages and results of searches of the web", EntranceTrust.STRANGERS
    REPORTS = "reports of sub-agents, each marked by what it read", EntranceTrust.AUTHOR
    OWN = "what the session said itself", EntranceTrust.PROJECT

    def __init__(self, words: str, trust: EntranceTrust) -> None:
        self.words, self.trust = words, trust

    @property
    def brings_strangers(self) -> bool:
        """Whether all of its words count as strangers'."""
        return self.trust is EntranceTrust.STRANGERS


_TOOLS: Final = {
    Entrance.FILES: "Read NotebookRead LS Glob Grep Bash BashOutput KillShell Write Edit MultiEdit NotebookEdit",
    Entrance.OWN: "TodoRead TodoWrite exit_plan_mode SubmitReview resource_request",
    Entrance.ANSWER: "AskUserQuestion",
    Entrance.GITHUB: "GitHubRead",
    Entrance.WEB: "WebFetch WebSearch",
    Entrance.REPORTS: "Task",
}
TOOLS: Final[Mapping[str, Entrance]] = {tool: entrance for entrance, tools in _TOOLS.items() for tool in tools.split()}
"""What the result of each tool brings."""
