"""`plangate verify`: prints the verdicts on receipts, and returns their exit code. SHELL."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TextIO

from bot.compose.receipt_check import CheckedCommit, ReceiptRepository
from bot.core.codepoints import with_visible_codepoints
from bot.core.errors import Misconfigured
from bot.core.lines import shorten_line
from bot.receipts.verdicts import exit_code

NO_RECEIPT: Final = 27
"""The exit code if a commit of the agent has no receipt."""
_WIDTH: Final = 300


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """The options of the command."""

    subject: str
    """A commit, or the path of a receipt; "" with a range."""
    revisions: str
    folder: Path
    keys: Path | None
    repository: str
    commit: str
    """The commit that a receipt in a file is compared with; "" for the newest one."""
    as_json: bool


def print_verdicts(options: VerifyOptions, out: TextIO) -> int:
    """Print the verdicts and return the exit code: 0, or the code of the first check that fails on any commit.

    Raises Misconfigured for a commit, a file, or a clone that does not exist.
    """
    clone = ReceiptRepository.at(options.folder, keys=options.keys, repository=options.repository)
    now = datetime.now(UTC)
    checked = tuple(_check(clone, options, now))
    print(json.dumps(_to_json(checked), indent=2) if options.as_json else "\n".join(_lines(checked)), file=out)
    codes = [_exit_code(each) for each in checked if _counts(each, options)]
    return min((code for code in codes if code), default=0)


def _check(clone: ReceiptRepository, options: VerifyOptions, now: datetime) -> Iterable[CheckedCommit]:
    if bool(options.subject) == bool(options.revisions):
        raise Misconfigured("give a commit, a file, or a range", where="verify", fix="see plangate verify --help")
    if options.revisions:
        return clone.check_range(options.revisions, now)
    path = Path(options.subject)
    if path.is_file():
        return [clone.check_commit(options.commit or "HEAD", path.read_bytes(), now)]
    return [clone.check_commit(options.subject, None, now)]


def _counts(checked: CheckedCommit, options: VerifyOptions) -> bool:
    """Return whether a commit must have a valid receipt: in a range, only the agent's and those that have one."""
    return not options.revisions or checked.by_agent or bool(checked.verdicts)


def _exit_code(checked: CheckedCommit) -> int:
    return exit_code(checked.verdicts) if checked.verdicts else NO_RECEIPT


def _lines(checked: Sequence[CheckedCommit]) -> Iterable[str]:
    for each in checked:
        if not each.verdicts:
            yield f"{each.commit[:12]}  {each.note or 'not made by Plangate, and has no receipt'}"
            continue
        fails = [verdict.check for verdict in each.verdicts if not verdict.passes]
        yield f"{each.commit[:12]}  {'receipt is NOT valid: ' + ', '.join(fails) if fails else 'receipt is valid'}"
        for verdict in each.verdicts:
            told = "; ".join(verdict.objections) if verdict.objections else "ok"
            yield f"  {verdict.check:<13} {with_visible_codepoints(shorten_line(told, _WIDTH))}"
    if len(checked) != 1:
        yield f"{len(checked)} checked"


def _to_json(checked: Sequence[CheckedCommit]) -> list[dict[str, object]]:
    return [
        {
            "commit": each.commit,
            "by_agent": each.by_agent,
            "note": each.note,
            "verdicts": {str(verdict.check): list(verdict.objections) for verdict in each.verdicts},
            "valid": bool(each.verdicts) and not exit_code(each.verdicts),
        }
        for each in checked
    ]
