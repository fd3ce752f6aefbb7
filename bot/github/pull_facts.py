"""What a pull request is about: its commits, files, checks, and what a review says at which lines (K6).

One GraphQL query, and the list of files by REST, because GraphQL has no patches.
https://docs.github.com/en/graphql/reference/objects#pullrequest
https://docs.github.com/en/rest/pulls/pulls#list-pull-requests-files
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bot.core.actor import Actor
from bot.core.errors import Refused
from bot.core.names import CommitId, ThreadNumber
from bot.github.client import PAGE, GitHubClient, Json
from bot.github.people import WHO, actor
from bot.github.repository import Address

FILES: Final = 300
"""Maximum number of changed files that are read, in whole pages. The others are only counted."""
_COMMITS: Final = 30
_NOTES: Final = 50

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


@dataclass(frozen=True, slots=True)
class Checks:
    """The checks of the head: how many are green, and each other one with its state. `more` were not read."""

    green: int
    others: tuple[tuple[str, str], ...]
    more: int = 0


@dataclass(frozen=True, slots=True)
class PullFacts:
    """A pull request at one moment. Every text in it is somebody's, and none was made safe."""

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
    """The comments of the review that is worked on."""
    note_count: int = 0


@dataclass(frozen=True, slots=True)
class PullReader:
    """Reads the pull requests of one repository."""

    client: GitHubClient
    address: Address

    async def read(self, number: ThreadNumber, review: str = "") -> PullFacts:
        """Return a pull request, with the line comments of the review that has that global id. Raises Missing."""
        asked = {"owner": self.address.owner, "name": self.address.name, "number": number}
        asked |= {"review": review, "reviewed": bool(review)}
        try:
            found = await self.client.graphql(_QUERY, asked | {"checks": True})
        except Refused as error:
            _log.info("the checks of #%s cannot be seen: %s", number, error)
            found = await self.client.graphql(_QUERY, asked | {"checks": False})
        pull = found["repository"]["pullRequest"]
        files = await self._files(number, pull["changedFiles"])
        return _facts(number, pull, files, (found.get("node") or {}).get("comments"))

    async def _files(self, number: ThreadNumber, count: int) -> tuple[ChangedFile, ...]:
        """Return the first changed files, in as few pages as they need."""
        files = list[ChangedFile]()
        for page in range(1, 1 + -(-min(count, FILES) // PAGE)):
            path = f"{self.address.path}/pulls/{number}/files"
            files += map(_file, await self.client.get(path, {"per_page": PAGE, "page": page}))
        return tuple(files)


def _facts(number: ThreadNumber, pull: Json, files: Sequence[ChangedFile], notes: Json | None) -> PullFacts:
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


def _note(node: Json) -> LineNote:
    line = 0 if node["outdated"] else node["line"] or 0
    return LineNote(node["path"], line, node["originalLine"] or 0, node["diffHunk"])
