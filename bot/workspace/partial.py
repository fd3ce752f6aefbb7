"""Partial mirrors: for a large repository, the whole history is fetched, but only the contents of commits in use.

Rules (G2)
- The process that holds the mirror's lock fetches the contents of a commit all at once, before the commit counts as
  present. No git process fetches contents on its own, neither here (GIT_NO_LAZY_FETCH) nor in a sandbox, where a
  command that needs contents of the past gets an error.
- A mirror is complete or partial from its creation. A server that does not support filters sends everything anyway.
"""

from pathlib import Path
from typing import Final

from bot.core.names import CommitId
from bot.workspace import run

REMOTE: Final = "promised"
"""The remote by which a partial mirror, and checkouts that borrow from it, record that contents are missing."""

# git-config(1), remote.<name>.promisor: missing objects were promised and are not damage.
PROMISE: Final = f'[remote "{REMOTE}"]\n\tpromisor = true\n\tpartialclonefilter = blob:none\n'


def make(mirror: Path) -> None:
    """Make an empty mirror a partial one."""
    with (mirror / "config").open("a") as config:
        config.write(PROMISE)


def is_partial(mirror: Path) -> bool:
    """Return whether a mirror lacks contents that were never requested."""
    try:
        return PROMISE in (mirror / "config").read_text()
    except FileNotFoundError:
        return False


async def missing_contents(mirror: Path, commit: CommitId) -> bytes:
    """Return the ids of a commit's contents that a partial mirror lacks, one per line."""
    tree = f"{commit}^{{tree}}"
    listing = (await run.git(mirror, "rev-list", "--objects", "--missing=print", "--no-object-names", tree)).out
    return b"".join(line[1:] + b"\n" for line in listing.splitlines() if line.startswith(b"?"))
