"""Changes to code: pushes, pull requests, reviews, merges, check runs, and the differences between commits.

The rules of conversation.py apply here as well.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from bot.core.markdown.elements import right_lines
from bot.testing.github.bare import Bare
from bot.testing.github.conversation import open_issue, set_state, store, touch_thread
from bot.testing.github.entities import CheckRun, Event, Issue, Pull, Push, Repository, Review, ReviewComment
from bot.testing.github.git_objects import ABSENT, FileContents
from bot.testing.github.world import ActingUser, GitHubState, NotThereError, StateConflictError

CLOSING = re.compile(r"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):?\s+#(\d+)\b", re.IGNORECASE)
"""https://docs.github.com/en/issues/tracking-your-work-with-issues/using-issues/linking-a-pull-request-to-an-issue"""

Verdict = Literal["APPROVED", "CHANGES_REQUESTED", "COMMENTED"]


@dataclass(frozen=True, slots=True)
class LineNote:
    path: str
    line: int
    body: str


@dataclass(frozen=True, slots=True)
class NewPull:
    title: str
    head: str
    base: str
    body: str = ""
    draft: bool = False
    source: Repository | None = None


def push_files(
    by: ActingUser, repository: Repository, branch: str, *, files: FileContents, message: str = "Change files\n"
) -> str:
    with by.world.lock:
        bare = by.world.bare(repository)
        parent = bare.resolve(f"refs/heads/{branch}") or bare.resolve(f"refs/heads/{repository.default_branch}")
        commit = bare.commit(parent, files, message=message, by=by.world.signature(by.id), branch=branch)
        notice_pushes(by, repository)
        return commit


def notice_pushes(by: ActingUser, repository: Repository) -> list[Push]:
    """Record the refs that moved since the last call, update pull requests, send webhooks, and return the moves."""
    with by.world.lock:
        before, after = by.world.seen_refs[repository.id], by.world.bare(repository).refs()
        moved = [
            Push(ref, before.get(ref, ABSENT), after.get(ref, ABSENT))
            for ref in sorted(before.keys() | after.keys())
            if before.get(ref) != after.get(ref) and not ref.startswith("refs/pull/")
        ]
        by.world.seen_refs[repository.id] = after
        for push in moved:
            # Only branches and tags send webhooks; https://docs.github.com/en/webhooks/webhook-events-and-payloads#push
            if push.ref.startswith(("refs/heads/", "refs/tags/")):
                by.world.emit(Event("push", None, by.id, repository, push=push))
            _follow(by, repository, push)
        if moved:
            by.world.pushed_at[repository.id] = by.world.now()
            by.world.touch()
        return moved


def open_pull(by: ActingUser, repository: Repository, new: NewPull) -> Issue:
    """Open a pull request. Raises StateConflictError if one is already open for the same branches."""
    with by.world.lock:
        source = new.source or repository
        if pull_for(by.world, repository, (source.id, new.head, new.base)):
            raise StateConflictError(f"A pull request already exists for {source.owner_login}:{new.head}.")
        head, base = _tip(by.world, source, new.head), _tip(by.world, repository, new.base)
        pull = Pull(source.id, new.head, new.base, head, base, new.draft)
        _fetch_head(by.world, repository, pull)
        if by.world.bare(repository).merge_base(base, head) == head:
            raise StateConflictError(f"No commits between {new.base} and {new.head}")
        issue = open_issue(by, repository, title=new.title, body=new.body, pull=pull)
        _publish_head(by.world, issue)
        return issue


def pull_for(world: GitHubState, repository: Repository, branches: tuple[int, str, str]) -> Issue | None:
    for issue in world.issues.values():
        pull = issue.pull
        if pull is None or issue.repository != repository.id or issue.state != "open":
            continue
        if (pull.head_repository, pull.head_ref, pull.base_ref) == branches:
            return issue
    return None


def review(
    by: ActingUser, issue: Issue, *, verdict: Verdict = "COMMENTED", body: str = "", notes: Sequence[LineNote] = ()
) -> Review:
    with by.world.lock:
        pull = pull_of(issue)
        home = by.world.repositories[issue.repository]
        new = Review(
            by.world.next_id(), home.id, issue.number, by.write(body), by.id, verdict, pull.head_sha, by.world.now()
        )
        by.world.reviews[new.id] = new
        issue = touch_thread(by.world, issue)
        by.world.emit(Event("pull_request_review", "submitted", by.id, home, issue, review=new))
        for note in notes:
            add_line_comment(by, new, note)
        return new


def add_line_comment(by: ActingUser, review: Review, note: LineNote, *, reply_to: int | None = None) -> ReviewComment:
    with by.world.lock:
        now = by.world.now()
        home = by.world.repositories[review.repository]
        issue = by.world.issues[review.repository, review.number]
        new = ReviewComment(
            id=by.world.next_id(), review=review.id, repository=home.id, number=issue.number,
            text=by.write(note.body), author=by.id, path=note.path, line=note.line, commit_id=review.commit_id,
            created_at=now, updated_at=now, in_reply_to=reply_to,
        )  # fmt: skip
        by.world.review_comments[new.id] = new
        issue = touch_thread(by.world, issue)
        by.world.emit(Event("pull_request_review_comment", "created", by.id, home, issue, review_comment=new))
        return new


def change_pull(by: ActingUser, issue: Issue, pull: Pull, action: str, *, push: Push | None = None) -> Issue:
    return store(by, replace(issue, pull=pull), action, push=push)


def merge(by: ActingUser, issue: Issue, message: str | None = None) -> str:
    """Merge a pull request with a merge commit, close the issues that its body names, and return the commit."""
    with by.world.lock:
        pull, home = pull_of(issue), by.world.repositories[issue.repository]
        bare = by.world.bare(home)
        base = bare.resolve(f"refs/heads/{pull.base_ref}")
        if issue.state != "open" or base is None:
            raise StateConflictError("Pull Request is not mergeable")
        text = message or f"Merge pull request #{issue.number} from {home.owner_login}/{pull.head_ref}\n"
        commit = bare.merge(base, pull.head_sha, message=text, by=by.world.signature(by.id))
        if commit is None:
            raise StateConflictError("Pull Request is not mergeable")
        bare.move(f"refs/heads/{pull.base_ref}", commit, base)
        now = by.world.now()
        merged = replace(pull, merged_at=now, merged_by=by.id, merge_commit_sha=commit)
        closed = replace(issue, pull=merged, state="closed", closed_at=now, closed_by=by.id)
        store(by, closed, "closed")
        notice_pushes(by, home)
        if pull.base_ref == home.default_branch:
            for named in issues_named(by.world, home.id, issue.text.body):
                set_state(by, named, "closed")
        return commit


def check(by: ActingUser, run: CheckRun) -> CheckRun:
    with by.world.lock:
        action = "created" if run.id not in by.world.check_runs else "completed" if run.conclusion else "rerequested"
        by.world.check_runs[run.id] = run
        by.world.emit(Event("check_run", action, by.id, by.world.repositories[run.repository], check_run=run))
        return run


def pull_of(issue: Issue) -> Pull:
    if issue.pull is None:
        raise NotThereError(f"pull request {issue.number}")
    return issue.pull


def _follow(by: ActingUser, repository: Repository, push: Push) -> None:
    for issue in list(by.world.issues.values()):
        pull = issue.pull
        if pull is None or issue.state == "closed":
            continue
        if (pull.head_repository, f"refs/heads/{pull.head_ref}") != (repository.id, push.ref):
            continue
        if push.after == ABSENT:
            set_state(by, issue, "closed")
        else:
            base = by.world.bare(by.world.repositories[issue.repository]).resolve(f"refs/heads/{pull.base_ref}")
            follows = replace(pull, head_sha=push.after, base_sha=base or pull.base_sha)
            _publish_head(by.world, change_pull(by, issue, follows, "synchronize", push=push))


def _tip(world: GitHubState, repository: Repository, branch: str) -> str:
    commit = world.bare(repository).resolve(f"refs/heads/{branch}")
    if commit is None:
        raise NotThereError(f"branch {branch} of {repository.full_name}")
    return commit


def _fetch_head(world: GitHubState, home: Repository, pull: Pull) -> None:
    if pull.head_repository != home.id:
        source = world.repositories[pull.head_repository].folder
        world.bare(home).run("fetch", "--quiet", str(source), pull.head_sha)


def _publish_head(world: GitHubState, issue: Issue) -> None:
    pull, home = pull_of(issue), world.repositories[issue.repository]
    _fetch_head(world, home, pull)
    world.bare(home).move(f"refs/pull/{issue.number}/head", pull.head_sha)


def issues_named(world: GitHubState, repository: int, body: str) -> list[Issue]:
    numbers = sorted({int(number) for number in CLOSING.findall(body)})
    issues = [world.issues.get((repository, number)) for number in numbers]
    return [issue for issue in issues if issue is not None and issue.pull is None]


def pulls_naming(world: GitHubState, issue: Issue) -> list[Issue]:
    pulls = [each for each in world.issues.values() if each.pull and each.repository == issue.repository]
    return [pull for pull in pulls if issue in issues_named(world, issue.repository, pull.text.body)]


STATUSES = {"A": "added", "M": "modified", "D": "removed", "R": "renamed", "C": "copied", "T": "changed"}
SHOWN_LINES = 4  # maximum lines of a hunk shown with a line comment


@dataclass(frozen=True, slots=True)
class ChangedFile:
    path: str
    status: str
    sha: str
    additions: int
    deletions: int
    patch: str | None
    previous: str | None = None


def changed_files(bare: Bare, base: str, head: str) -> tuple[ChangedFile, ...]:
    return files_between(bare, bare.merge_base(base, head) or base, head)


@lru_cache(maxsize=256)
def files_between(bare: Bare, old: str, new: str) -> tuple[ChangedFile, ...]:
    """Return the files that differ between two commits or trees, given by id. Cached, because ids never change."""
    flags = ("-r", "-M", "-z", "--raw", "--numstat", "--patch", "--no-abbrev")
    # Git ends each field with a zero byte and adds another one before the patches, so the first pair separates the two.
    told, _, text = bare.run("diff-tree", *flags, old, new, "--").decode(errors="replace").partition("\0\0")
    raw: list[tuple[str, str, str, str | None]] = []
    counts: dict[str, tuple[int, int]] = {}
    rest = iter(told.split("\0"))
    for part in rest:
        if part.startswith(":"):
            *_, before, after, status = part.split(" ")
            path = next(rest)
            previous, path = (path, next(rest)) if status[0] in "RC" else (None, path)
            raw.append((path, STATUSES[status[0]], before if status[0] == "D" else after, previous))
        elif part:
            added, deleted, path = part.split("\t")
            path = path or (next(rest), next(rest))[1]
            counts[path] = (_count(added), _count(deleted))
    patches, files = _patches(text), list[ChangedFile]()
    for path, status, sha, previous in raw:
        patch = next(patches)
        if status == STATUSES["T"]:  # git shows a change of type as a deletion and a creation
            next(patches)
        files.append(ChangedFile(path, status, sha, *counts[path], patch, previous))
    return tuple(sorted(files, key=lambda file: file.path))


@lru_cache(maxsize=256)
def commits_between(bare: Bare, base: str, head: str) -> tuple[str, ...]:
    """Return the commits, given by id, that are in `head` but not in `base`, oldest first. Cached as the files are."""
    return tuple(bare.text("rev-list", "--reverse", "--topo-order", f"{base}..{head}", "--").splitlines())


def hunk(world: GitHubState, comment: ReviewComment) -> str:
    issue = world.issues[comment.repository, comment.number]
    bare = world.bare(world.repositories[comment.repository])
    base = issue.pull.base_sha if issue.pull else comment.commit_id
    files = changed_files(bare, base, comment.commit_id)
    patch = next((file.patch for file in files if file.path == comment.path), None)
    if not patch:
        return f"@@ -0,0 +{comment.line} @@"
    lines, at = patch.split("\n"), right_lines(patch).get(comment.line, 1)
    top = max(number for number, line in enumerate(lines[:at]) if line.startswith("@@ "))
    return "\n".join([lines[top], *lines[top + 1 : at + 1][-SHOWN_LINES:]])


def is_outdated(world: GitHubState, comment: ReviewComment) -> bool:
    """Return whether the commented line reads differently at the head of the pull request."""
    issue = world.issues[comment.repository, comment.number]
    bare, head = world.bare(world.repositories[comment.repository]), issue.pull.head_sha if issue.pull else ""
    return head != comment.commit_id and _line(bare, head, comment) != _line(bare, comment.commit_id, comment)


def _line(bare: Bare, commit: str, comment: ReviewComment) -> str | None:
    blob = bare.resolve(f"{commit}:{comment.path}", "blob")
    lines = bare.text("cat-file", "blob", blob).split("\n") if blob else []
    return lines[comment.line - 1] if comment.line <= len(lines) else None


def _patches(text: str) -> Iterator[str | None]:
    for section in re.split("^diff --git ", text, flags=re.MULTILINE)[1:]:
        at = section.find("\n@@ ")
        yield None if at < 0 else section[at + 1 :].rstrip("\n")


def _count(text: str) -> int:
    return 0 if text == "-" else int(text)
