"""Checks the receipts of a pull request's commits in a checkout, for a job that fails if one is missing."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from bot.compose.receipt_check import ReceiptRepository
from bot.core.errors import Misconfigured
from bot.receipts.signing_keys import PublicKey, decode_keys


@dataclass(frozen=True, slots=True)
class VerifiedCommit:
    """A commit of a pull request, and the problem with its receipt."""

    commit: str
    has_receipt: bool
    problem: str
    """Why it may not be merged; "" for a valid receipt, and for a commit that Plangate did not make."""


def verified_commits(checkout: Path, base: str, head: str, *, keys: str, repository: str) -> Iterator[VerifiedCommit]:
    """Yield the commits of a pull request, the newest first. `base` and `head` are ids of commits.

    A relative path of `keys` is read from the base commit: what the pull request changes in that file counts for
    nothing. An absolute path is read from the disk. `repository` is ``HOST/OWNER/NAME``. Raises Misconfigured for a
    checkout that lacks commits or keys.
    """
    clone = ReceiptRepository.at(checkout, keys=None, repository=repository)
    clone.require_history()
    clone = replace(clone, pinned=_trusted_keys(clone, keys, base))
    for commit in clone.check_range(f"{base}..{head}", datetime.now(UTC)):
        failing = [
            f"{verdict.check}: {'; '.join(verdict.objections)}" for verdict in commit.verdicts if not verdict.passes
        ]
        missing = commit.note if commit.by_agent and not commit.verdicts else ""
        yield VerifiedCommit(commit.commit, bool(commit.verdicts), "; ".join(failing) or missing)


def _trusted_keys(clone: ReceiptRepository, keys: str, base: str) -> tuple[PublicKey, ...]:
    """Return the keys of the file. Raises Misconfigured if there is none."""
    path = Path(keys)
    if keys and path.is_absolute():
        if not path.is_file():
            raise Misconfigured("there is no such file", where=f"keys: {keys}", fix="write it in an earlier step")
        return decode_keys(path.read_bytes())
    result = clone.git.run("cat-file", "blob", f"{base}:{path.as_posix()}") if keys else None
    if result is None or result.code:
        fix = "give the path of plangate-keys.json on the branch that the pull request goes into"
        raise Misconfigured("the base commit has no such file", where=f"keys: {keys}", fix=fix)
    return decode_keys(result.out)
