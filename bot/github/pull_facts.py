"""The facts of a pull request: its commits, files, and checks, and the lines that a review comments on (K6).

One GraphQL query, and the list of files by REST, because GraphQL has no patches. For a review one request for each file
that its comments are about.
https://docs.github.com/en/graphql/reference/objects#pullrequest
https://docs.github.com/en/rest/pulls/pulls#list-pull-requests-files
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from bot.core.actor import Actor
from bot.core.errors import Refused
from bot.core.names import CommitId, ThreadNumber
from bot.github.client import PAGE, GitHubClient, Json
from bot.github.errors import Missing
from bot.github.people import WHO, actor
from bot.github.repository import Address, file

FILES: Final = 300
"""Maximum number of changed files that are read, in whole pages. The others are only counted."""
_COMMITS: Final = 30
_NOTES: Final = 50
_NOTED_FILES: Final = 10
"""Maximum number of files that are read for the lines of a review's comments."""
NEAR: Final = 3
"""Lines of a file that are read before and after the line of a review comment."""

_QUERY: Final = f"""
query (
  $owner: String!, $name: String!, $number: Int!, $review: ID!, $reviewed: Boolean!, $checks: Boolean!
) {{
  repository(owner: $owner, name: $name) {{
    pullRequest(number: $number) {{
      title closed merged isDraft author {{ ...who }}
      baseRefName baseRefOid headRefName headRefOid isCrossRepository headRepository {{ nameWithOwner }}
      additions deletions changedFiles
      commits(last: {_COMMITS}) {{ totalCount nodes {{ commit {{ oid messageHeadline }} }} }}
      statusCheckRollup @include(if: $checks) {{
        contexts(first: 100) {{
          totalCount
          nodes {{
            __typename
            ... on CheckRun {{ name status conclusion }}
            ... on StatusContext {{ context state }}
          }}
        }}
      }}
    }}
  }}
  node(id: $review) @include(if: $reviewed) {{
    ... on PullRequestReview {{
      comments(first: {_NOTES}) {{ totalCount nodes {{ path line originalLine outdated diffHunk }} }}
    }}
  }}
}}
{WHO}
"""
# https://docs.github.com/en/graphql/reference/enums#checkconclusionstate
_GREEN: Final = frozenset({"SUCCESS", "NEUTRAL", "SKIPPED"})
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """One changed file. `patch` is "" where GitHub shows none: binary, too large, or only renamed."""

    path: str
    status: str
    additions: int
    deletions: int
    patch: str = ""
    previous: str = ""


@dataclass(frozen=True, slots=True)
class LineNote:
    """The place of a review comment. `line` is 0 where the line is no longer part of the diff."""

    path: str
    line: int
    original_line: int
    hunk: str
    now: tuple[str, ...] = ()
    """The lines around it in the file as it is at the head; empty if they were not read or there are none."""
    now_from: int = 0
    """The number of the first of them."""


@dataclass(frozen=True, slots=True)
class Checks:
    """The checks of the head: how many are green, and each other one with its state. `more` were not read."""

    green: int
    others: tuple[tuple[str, str], ...]
    more: int = 0


@dataclass(frozen=True, slots=True)
class PullFacts:
    """A pull request at one moment. Its texts are as people wrote them, neither redacted nor made inert."""

    number: ThreadNumber
    title: str
    author: Actor
    state: str
    base_branch: str
    base: CommitId
    head_branch: str
    head: CommitId
    fork: str
    """The repository that it comes from; "" for this one."""
    additions: int
    deletions: int
    file_count: int
    files: tuple[ChangedFile, ...]
    commit_count: int
    commits: tuple[tuple[str, str], ...]
    """The newest commits, oldest first: id and headline."""
    checks: Checks | None
    """None where this token may not see them."""
    notes: tuple[LineNote, ...] = ()
    """The comments of the review that the session is about."""
    note_count: int = 0


@dataclass(frozen=True, slots=True)
class PullReader:
    """Reads the pull requests of one repository."""

    client: GitHubClient
    address: Address

    async def read(self, number: ThreadNumber, review: str = "") -> PullFacts:
        """Return a pull request, with the line comments of the review that has that global id. Raises Missing."""
        variables = {**self.address.variables, "number": number, "review": review, "reviewed": bool(review)}
        try:
            data = await self.client.graphql(_QUERY, variables | {"checks": True})
        except Refused as error:
            _log.info("the checks of #%s cannot be seen: %s", number, error)
            data = await self.client.graphql(_QUERY, variables | {"checks": False})
        pull = (data["repository"] or {}).get("pullRequest")
        if pull is None:
            raise Missing("GitHub has no such pull request", where=f"{self.address.path}#{number}")
        files = await self._files(number, pull["changedFiles"])
        facts = _facts(number, pull, files, (data.get("node") or {}).get("comments"))
        texts = await self._noted_files(facts)
        return replace(facts, notes=tuple(_with_lines(note, texts) for note in facts.notes))

    async def _noted_files(self, facts: PullFacts) -> Mapping[str, Sequence[str]]:
        """Return the lines of the first files that a review's comments are about, as they are at the head.

        A file that is gone, binary, or too large is left out.
        """
        lines = dict[str, Sequence[str]]()
        for path in list(dict.fromkeys(note.path for note in facts.notes))[:_NOTED_FILES]:
            with suppress(Refused, UnicodeDecodeError):
                content = await file(self.client, self.address, path, facts.head)
                lines[path] = (content or b"").decode().removesuffix("\n").split("\n")
        return lines

    async def _files(self, number: ThreadNumber, count: int) -> tuple[ChangedFile, ...]:
        """Return the first changed files, in as few pages as they need."""
        files = list[ChangedFile]()
        for page in range(1, 1 + -(-min(count, FILES) // PAGE)):
            path = f"{self.address.path}/pulls/{number}/files"
            files += map(_file, await self.client.get(path, {"per_page": PAGE, "page": page}))
        return tuple(files)


def _facts(number: ThreadNumber, pull: Json, files: Sequence[ChangedFile], notes: Json | None) -> PullFacts:
    """Return the facts in GitHub's answer about a pull request."""
    fork = (pull["headRepository"] or {}).get("nameWithOwner") or "a deleted repository"
    commits = pull["commits"]
    return PullFacts(
        number=number,
        title=pull["title"],
        author=actor(pull["author"]),
        state=_state(pull),
        base_branch=pull["baseRefName"],
        base=CommitId(pull["baseRefOid"]),
        head_branch=pull["headRefName"],
        head=CommitId(pull["headRefOid"]),
        fork=fork if pull["isCrossRepository"] else "",
        additions=pull["additions"],
        deletions=pull["deletions"],
        file_count=pull["changedFiles"],
        files=tuple(files),
        commit_count=commits["totalCount"],
        commits=tuple((node["commit"]["oid"], node["commit"]["messageHeadline"]) for node in commits["nodes"] or []),
        checks=_checks(pull),
        notes=tuple(map(_note, (notes or {}).get("nodes") or [])),
        note_count=(notes or {}).get("totalCount", 0),
    )


def _state(pull: Json) -> str:
    if pull["merged"]:
        return "merged"
    return "closed" if pull["closed"] else "draft" if pull["isDraft"] else "open"


def _checks(pull: Json) -> Checks | None:
    """Return the state of the checks; None where it was not asked for. Without any check the rollup is null."""
    if "statusCheckRollup" not in pull:
        return None
    contexts = (pull["statusCheckRollup"] or {}).get("contexts") or {"totalCount": 0, "nodes": []}
    nodes = [node for node in contexts["nodes"] or [] if node]
    states = [(node.get("name") or node.get("context") or "", _check_state(node)) for node in nodes]
    others = tuple((name, state.lower()) for name, state in states if state not in _GREEN)
    return Checks(len(states) - len(others), others, contexts["totalCount"] - len(nodes))


def _check_state(node: Json) -> str:
    """Return the conclusion of a check run, its status while it runs, or the state of a commit status."""
    return str(node.get("conclusion") or node.get("status") or node.get("state") or "")


def _file(node: Json) -> ChangedFile:
    counts = int(node["additions"]), int(node["deletions"])
    patch, previous = node.get("patch") or "", node.get("previous_filename") or ""
    return ChangedFile(node["filename"], node["status"], *counts, patch, previous)


def _with_lines(note: LineNote, texts: Mapping[str, Sequence[str]]) -> LineNote:
    """Return a note with the lines around it. Where its line has changed since, those around its first place."""
    at, lines = note.line or note.original_line, texts.get(note.path, ())
    first = max(1, at - NEAR)
    return replace(note, now=tuple(lines[first - 1 : at + NEAR]), now_from=first) if at else note


def _note(node: Json) -> LineNote:
    line = 0 if node["outdated"] else node["line"] or 0
    return LineNote(node["path"], line, node["originalLine"] or 0, node["diffHunk"])
