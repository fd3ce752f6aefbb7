"""The refs of a pull request in a checkout: its merge base and its head, for git commands that run offline (K6).

A checkout of a pull request's thread has ``plangate/base`` and ``plangate/head``, with all of their contents, also in a
partial mirror. The file ``<name>/refs`` beside the tree lists the refs that the checkout was made with.

The head may be of a fork: GitHub serves its commits from the repository that the pull request is in
(https://docs.github.com/en/pull-requests/collaborating-with-pull-requests/reviewing-changes-in-pull-requests/checking-out-pull-requests-locally).
If these commits cannot be fetched, the checkout is made without them.
"""

import logging
from pathlib import Path
from typing import Final, TypeAlias

from bot.core.errors import Misconfigured, Refused
from bot.core.names import CommitId
from bot.core.pull import PullCommits
from bot.workspace import run
from bot.workspace.mirror import Mirror

BASE: Final = "plangate/base"
"""The name of the merge base, as git commands take it."""
HEAD: Final = "plangate/head"
_log: Final = logging.getLogger(__name__)

Refs: TypeAlias = tuple[tuple[str, CommitId], ...]


async def fetch(mirror: Mirror, pull: PullCommits) -> Refs:
    """Fetch the head and the merge base of a pull request into the mirror. Return refs to those that could be fetched.

    Raises Transient if the server failed.
    """
    refs = list[tuple[str, CommitId]]()
    try:
        await mirror.ensure(pull.head)
        refs.append((HEAD, pull.head))
        await mirror.ensure(pull.base)
        if base := await _merge_base(mirror, pull):
            await mirror.ensure(base)
            refs.append((BASE, base))
    except (Refused, Misconfigured) as error:
        _log.info("commits of a pull request cannot be fetched: %s", error)
    return tuple(sorted(refs))


def write(refs: Refs, place: Path) -> None:
    """Write refs in the tree of a checkout that no sandbox has seen, and list them beside it."""
    for name, commit in refs:
        ref = place / "tree" / ".git" / "refs" / name
        ref.parent.mkdir(parents=True, exist_ok=True)
        ref.write_text(f"{commit}\n")
    (place / "refs").write_text("".join(f"{name} {commit}\n" for name, commit in refs))


def read(place: Path) -> Refs:
    """Return the refs that a checkout was made with. Older checkouts and forks list none."""
    try:
        lines = (place / "refs").read_text().splitlines()
    except FileNotFoundError:
        return ()
    return tuple((name, CommitId(commit)) for name, _, commit in (line.partition(" ") for line in lines))


async def _merge_base(mirror: Mirror, pull: PullCommits) -> CommitId | None:
    """Return the best common ancestor of both ends; None if the histories are unrelated."""
    answer = await run.git(mirror.path, "merge-base", pull.base, pull.head, check=False)
    return CommitId(answer.out.decode().strip()) if answer.code == 0 else None
