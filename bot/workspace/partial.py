"""Partial mirrors: of a large repository the whole history is fetched, but contents of the commits alone that are used.

Rules (security.md, G2)
- The contents of a commit are fetched at once, by the process that holds the mirror's lock, before the commit counts as
  being there; no git ever fetches one by itself, neither on this side (GIT_NO_LAZY_FETCH) nor in a sandbox, where a
  command that needs contents of the past is told so.
- A mirror is whole or partial from its beginning; a server that knows no filters sends everything all the same.
"""

from pathlib import Path
from typing import Final

from bot.core.names import CommitId
from bot.workspace import run

REMOTE: Final = "promised"
"""The name under which a partial mirror, and what borrows from it, keeps in mind that contents are missing."""

# git-config(1), remote.<name>.promisor: what is missing was promised, and is no damage.
PROMISE: Final = f'[remote "{REMOTE}"]\n\tpromisor = true\n\tpartialclonefilter = blob:none\n'


def make(mirror: Path) -> None:
    """Have an empty mirror be a partial one."""
    with (mirror / "config").open("a") as config:
        config.write(PROMISE)


def is_partial(mirror: Path) -> bool:
    """Tell whether a mirror lacks contents that nobody asked for."""
    try:
        return PROMISE in (mirror / "config").read_text()
    except FileNotFoundError:
        return False


async def lacking(mirror: Path, commit: CommitId) -> bytes:
    """List what a partial mirror lacks of a commit's contents, one id a line."""
    named = f"{commit}^{{tree}}"
    listed = (await run.git(mirror, "rev-list", "--objects", "--missing=print", "--no-object-names", named)).out
    return b"".join(line[1:] + b"\n" for line in listed.splitlines() if line.startswith(b"?"))
