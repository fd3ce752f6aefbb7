"""What a session reads of its work and of others' words, and how far it trusts them (K1, K8, S11a, A9)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final

from bot.core.codepoints import with_visible_codepoints
from bot.core.comment import contract, finding_list
from bot.core.markdown.elements import code
from bot.core.plan import PlanDocument

# --- Escapes text that imitates the harness (S11a) -------------------------------------------------------------------
# Text from others is escaped before it enters a history, because data must not look like the harness.

_HARNESS: Final = re.compile(
    r"<\s*(?:/\s*)?system-reminder\b|^[^\S\n]*(?:human|user|assistant|system)[^\S\n]*:|^[^\S\n]*\[harness",
    re.IGNORECASE | re.MULTILINE,
)
"""Matches blanks within one line only.

A match that may span lines is retried at every line, and a page has thousands.
"""

_TAG: Final = re.compile(r"(?<!\\)<(?=\s*(?:/\s*)?system-reminder\b)", re.IGNORECASE)


def escape_reminders(text: str) -> str:
    """Escape text that imitates the tags of reminders, and nothing else.

    For the words of people whom the session is to follow: they have authority over the work, but may not speak as the
    harness. Text that is already escaped stays as it is.
    """
    return _TAG.sub(r"\\<", text)


def escape_harness_markup(text: str) -> str:
    """Escape text that imitates reminders, roles, or harness markers."""
    return _HARNESS.sub(lambda match: match.group(0).replace("<", "\\<").replace(":", "\\:").replace("[", "\\["), text)


def as_data(text: str) -> str:
    """Return a sub-agent's text as data: escaped, with every invisible code point as ‹U+XXXX›."""
    return escape_harness_markup(with_visible_codepoints(text))


# --- The brief of an execution session (K1) --------------------------------------------------------------------------
# It holds everything that the session knows of the work when it begins. People's words are quoted line by line, so that
# no heading in them passes for one of the brief.

_EDITED: Final = (
    "The text of the request is left out: it was edited after it was posted, or somebody else wrote it. "
    "The approved plan says what to do."
)
_BEFORE: Final = "Said before the plan was approved. Where the plan differs from these words, the plan decides."


@dataclass(frozen=True, slots=True)
class Words:
    """What one person said, unedited."""

    login: str
    text: str
    question: str = ""
    """The planner's question that it answers; "" for none."""


@dataclass(frozen=True, slots=True)
class ExecutionBrief:
    """What crosses the gate from planning to execution."""

    plan: PlanDocument
    request: Words | None
    """None if somebody else wrote, or may have written, its text."""
    additions: Sequence[Words] = ()
    withheld: int = 0
    """How many additions and answers are left out for the same reason."""
    checks: Sequence[str] = ()
    """The commands that verify the work."""
    repairs: int = 0
    """How often the session gets failing checks back."""
    result: str = ""
    """What happens to the result of the work, and where people see it."""

    def render(self) -> str:
        """Return the brief as Markdown: request, additions, plan, checks, result, each under its heading."""
        parts = ["# Request", _EDITED if self.request is None else _quote(self.request, "asked")]
        parts += ["# Additions and answers", *self._additions()]
        parts += ["# Approved plan", *_plan(self.plan)]
        parts += ["# What will be verified", self._checks()]
        return "\n\n".join([*parts, "# How the result is used", self.result])

    def _additions(self) -> list[str]:
        texts = [
            _quote(words, f"answered the planner's question {code(words.question)}" if words.question else "added")
            for words in self.additions
        ]
        if self.withheld:
            count = "1 text is" if self.withheld == 1 else f"{self.withheld} texts are"
            texts.append(f"{count} left out, edited after being posted, sent by mail, or of somebody else.")
        return [_BEFORE, *texts] if texts else ["None."]

    def _checks(self) -> str:
        if not self.checks:
            return "No command is configured or planned. Check the work yourself as far as you can."
        commands = "\n".join(f"- {code(command)}" for command in self.checks)
        times = "once" if self.repairs == 1 else f"up to {self.repairs} times"
        failing = f"handed back to you {times}" if self.repairs else "said at the top of the pull request"
        return (
            f"When you end your turn, these commands run on a copy of your work. What fails is {failing}.\n\n{commands}"
        )


def _quote(words: Words, did: str) -> str:
    quoted = "\n".join(f"> {line}".rstrip() for line in words.text.splitlines())
    return f"{code('@' + words.login)} {did}:\n\n{quoted}"


def _plan(plan: PlanDocument) -> list[str]:
    head = f"Plan {plan.plan} ({plan.short_digest}), made for commit {plan.base[:12]}. Carry out exactly this."
    notes = ["## Notes of the planner", plan.notes] if plan.notes else []
    findings = ["## Findings", finding_list(plan.findings)] if plan.findings else []
    return [head, plan.markdown, *notes, *findings, "## What you may do", contract(plan)]


# --- What a session reads of its repository on GitHub (K8) -----------------------------------------------------------


class Topic(StrEnum):
    ISSUE = "issue"
    PULL_REQUEST = "pull_request"
    """The description, the changed files, the reviews, and their comments."""
    DIFF = "diff"
    COMMENTS = "comments"
    CHECKS = "checks"
    """Check runs, and the end of each failed job's log."""
    COMMIT = "commit"
    LINKED = "linked"
    """The issues that a pull request closes, or the pull requests that close an issue."""


@dataclass(frozen=True, slots=True)
class RepositoryQuery:
    """One query. It names no repository: there is only the one of the thread."""

    topic: Topic
    number: int = 0
    """The issue or pull request; 0 if the query names a commit."""
    commit: str = ""
    """A commit id in hex."""
    path: str = ""
    """A file or folder that restricts a diff; "" for all files."""
    page: int = 1
    strangers: bool = False
    """Whether to include text that people who may not ask may have written. If not, it is withheld unread."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A text, and the harness's line above it that attributes it."""

    head: str
    """Contains nothing that anybody chose, apart from logins."""
    text: str
    foreign: bool = False
    """Whether people who may not ask may have written the text."""


@dataclass(frozen=True, slots=True)
class RepositoryText:
    passages: tuple[Passage, ...]
    more: bool = False


# --- Entrances of outside words into a session (A9) ------------------------------------------------------------------
# Rules
# - What the table does not list enters no session. `tests/stories/github/test_recipes.py` checks what planning reads.
# - Once a session has read strangers' words, no standing approval covers its plan (MT6), and its sub-agents that only
#   read are restricted (S9).


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
        """Whether all words that the entrance brings count as strangers'."""
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
