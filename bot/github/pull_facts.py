"""The facts of a pull request, and how the model reads them: each line quoted or fenced (K6)."""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from bot.core.codepoints import with_visible_codepoints
from bot.core.errors import Refused
from bot.core.markdown.elements import shorten_line
from bot.core.markdown.visible import visible_title
from bot.core.names import CommitId, ThreadNumber
from bot.core.turn import Actor
from bot.github.client import PAGE, GitHubClient, Json
from bot.github.repository import Address
from bot.github.repository import file as file_at
from bot.github.responses import WHO, Missing, actor

# --- The facts of a pull request (K6) --------------------------------------------------------------------------------
# They are its commits, files, and checks, and the lines that a review comments on. They take one GraphQL query, and the
# list of files by REST, because GraphQL has no patches. A review takes one more request for each file that its comments
# are about.
# https://docs.github.com/en/graphql/reference/objects#pullrequest
# https://docs.github.com/en/rest/pulls/pulls#list-pull-requests-files

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
    """The number of the first of these lines."""


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
                content = await file_at(self.client, self.address, path, facts.head)
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


# --- A pull request as the model reads it (K6) -----------------------------------------------------------------------
# It is data of people who may be strangers, so each line is quoted or fenced.
#
# Rules
# - Names and titles are shown on one line, without invisible characters. In diffs, which show files, invisible code
#   points are written as ‹U+XXXX›.
# - A fence is longer than any run of backticks inside it.
# - Whatever its size, a pull request takes at most about 100,000 characters, and each part states what it leaves out.

DIFF_LIMIT: Final = 60_000
"""Characters of the diff that are shown."""
FILE_DIFF_LIMIT: Final = 20_000
"""Characters of one file's diff that are shown, so that one large file does not displace all others."""
LIST_LIMIT: Final = 12_000
"""Characters of the list of files."""
HUNKS_LIMIT: Final = 20_000
HUNK_LIMIT: Final = 2_000
"""Characters of a hunk that are shown. They are the last ones, because a hunk ends with the commented line."""
_CHECKS: Final = 30
_NAME: Final = 200
"""Characters of a name that are shown."""
_CUT: Final = "\n[… the rest of this file's diff is left out here …]"


def pull_text(pull: PullFacts) -> str:
    """Return a pull request as quoted text: facts, files, review hunks, and the diff."""
    facts = "\n".join(f"> {line}" for line in (*_facts_text(pull), *_file_list(pull)))
    return "\n\n".join(part for part in (facts, _hunks(pull), _diff(pull)) if part)


def _facts_text(pull: PullFacts) -> Iterator[str]:
    origin = f" of the fork {_name(pull.fork)}" if pull.fork else ""
    yield f"Pull request #{pull.number}: {_name(pull.title, 300)}"
    yield f"By @{pull.author.login}, {pull.state}."
    yield f"From branch {_name(pull.head_branch)}{origin}, head {pull.head}"
    yield f"Into branch {_name(pull.base_branch)}, now at {pull.base}"
    yield f"Checks: {_checks_text(pull)}"
    yield f"Commits: {pull.commit_count:,}{_newest(pull)}"
    for ident, headline in pull.commits:
        yield f"- {ident[:12]} {_name(headline)}"


def _newest(pull: PullFacts) -> str:
    return f"; the newest {len(pull.commits)}:" if len(pull.commits) < pull.commit_count else ""


def _checks_text(pull: PullFacts) -> str:
    if pull.checks is None:
        return "this token may not see them"
    if not (pull.checks.green or pull.checks.others or pull.checks.more):
        return "none"
    others = [f"{_name(name)}: {_name(state)}" for name, state in pull.checks.others[:_CHECKS]]
    more = len(pull.checks.others) - len(others)
    others += [f"{more} others that are not green"] if more else []
    others += [f"{pull.checks.more} that were not read"] if pull.checks.more else []
    return "; ".join((f"{pull.checks.green} green", *others))


def _file_list(pull: PullFacts) -> Iterator[str]:
    """Yield the changed files, a line each, as long as they fit."""
    files = f"{pull.file_count:,} changed file{'s' * (pull.file_count != 1)}"
    yield f"{files}, +{pull.additions:,} -{pull.deletions:,}:"
    room, count = LIST_LIMIT, 0
    for file in pull.files:
        before = f" (was {_name(file.previous)})" if file.previous else ""
        line = f"- {_name(file.status)} +{file.additions} -{file.deletions} {_name(file.path)}{before}"
        room -= len(line) + 3
        if room < 0:
            break
        count += 1
        yield line
    if count < pull.file_count:
        yield f"({pull.file_count - count:,} more files are not listed here. To read them: {_call(pull)}.)"


def _hunks(pull: PullFacts) -> str:
    """Return the hunks that the comments of the session's review are about."""
    hunks, room = list[str](), HUNKS_LIMIT
    for note in pull.notes:
        text = f"Review comment at {_line_reference(note)}:\n{_fence(_last_lines(note.hunk), 'diff')}{_lines_now(note)}"
        room -= len(text)
        if room < 0:
            break
        hunks.append(text)
    if (left := pull.note_count - len(hunks)) > 0:
        hunks.append(f"(The lines of {left} more comments of this review are not shown here.)")
    return "\n\n".join(hunks)


def _line_reference(note: LineNote) -> str:
    if note.line:
        return f"{_name(note.path)}:{note.line}"
    was = f", which was line {note.original_line}" if note.original_line else ""
    return f"{_name(note.path)} (a line that has changed since{was})"


def _lines_now(note: LineNote) -> str:
    """Return the lines around a review comment as they are at the head, with their numbers; "" for none."""
    if not note.now:
        return ""
    lines = "\n".join(f"{number}\t{line[:_NAME]}" for number, line in enumerate(note.now, start=note.now_from))
    return f"\nThe lines there at the head:\n{_fence(lines, '')}"


def _last_lines(hunk: str) -> str:
    """Return a hunk's header and its last lines."""
    if len(hunk) <= HUNK_LIMIT:
        return hunk
    return f"{shorten_line(hunk.partition(chr(10))[0], _NAME)}\n[…]\n{hunk[-HUNK_LIMIT:].partition(chr(10))[2]}"


def _diff(pull: PullFacts) -> str:
    """Return the diff from the merge base to the head, file by file, as far as it fits."""
    patches, room, complete = list[str](), DIFF_LIMIT, 0
    for file in pull.files:
        text = _file_diff(file, min(room, FILE_DIFF_LIMIT))
        if not text:
            break
        patches.append(text)
        room -= len(text) + 1
        complete += not text.endswith(_CUT)
    if not patches:
        return ""
    missing = pull.file_count - complete
    omission = (
        f"\n(The diff of {missing:,} files is missing or cut here. To read it: {_call(pull)}.)" if missing else ""
    )
    return f"Its diff since the merge base:\n{_fence(chr(10).join(patches), 'diff')}{omission}"


def _file_diff(file: ChangedFile, limit: int) -> str:
    """Return the diff of one file, cut after the last line that fits; "" where not even its beginning fits."""
    old = "/dev/null" if file.status == "added" else f"a/{_name(file.previous or file.path)}"
    new = "/dev/null" if file.status == "removed" else f"b/{_name(file.path)}"
    patch = with_visible_codepoints(file.patch[: limit + 1]) or "(no text to show: binary, too large, or only renamed)"
    text = f"--- {old}\n+++ {new}\n{patch}"
    if len(text) <= limit:
        return text
    cut = text[: max(0, limit - len(_CUT))].rpartition("\n")[0]
    return f"{cut}{_CUT}" if cut.count("\n") > 1 else ""


def _fence(text: str, language: str) -> str:
    """Return a text as a code block that nothing in it can end."""
    visible = with_visible_codepoints(text)
    marks = "`" * max(3, 1 + max(map(len, re.findall("`+", visible)), default=0))
    return f"{marks}{language}\n{visible}\n{marks}"


def _name(text: str, longest: int = _NAME) -> str:
    """Return a name that somebody chose, on one line, as people see it."""
    return shorten_line(visible_title(text.replace("`", "'")).text, longest)


def _call(pull: PullFacts) -> str:
    return f'GitHubRead{{what: "diff", number: {pull.number}, path: PATH}}'
