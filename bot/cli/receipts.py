"""`plangate verify`, `sign`, and `audit`: print what receipts and journals prove. SHELL."""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final, TextIO

from bot.compose.receipt_check import (
    ApproverCheck,
    CheckedCommit,
    ReceiptRepository,
    SignableReceipt,
    sign_receipt,
    signable_receipt,
)
from bot.core.codepoints import with_visible_codepoints
from bot.core.errors import Misconfigured
from bot.core.markdown.elements import shorten_line
from bot.core.names import SHORT_DIGEST
from bot.core.reporting import AuditRow
from bot.receipts.approvers import APPROVER_CODE, AllowedSigners, ApproverVerdict, approvers
from bot.receipts.envelope import SIZE_LIMIT, parse_envelope
from bot.receipts.verdicts import ReceiptCheck, exit_code

# --- `plangate verify`: the verdicts on receipts ----------------------------------------------------------------------

NO_RECEIPT: Final = 27
"""The exit code if a commit of the agent has no receipt."""
_WIDTH: Final = 300
_BELIEVED: Final = frozenset({ReceiptCheck.SYNTAX, ReceiptCheck.SIGNATURE, ReceiptCheck.TRUST, ReceiptCheck.BINDING})
"""Checks that a receipt must pass before its content is shown."""


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    subject: str
    """A commit, or the path of a receipt; "" with a range."""
    revisions: str
    folder: Path
    keys: Path | None
    repository: str
    commit: str
    """The commit that a receipt in a file is compared with; "" for the newest one."""
    as_json: bool
    signers: tuple[Path, ...] = ()
    """Files of the keys that may sign for approvers. If there are any, approvers must have signed the receipt."""
    revoked: Path | None = None


@dataclass(frozen=True, slots=True)
class _VerifiedCommit:
    """A commit with the verdicts on its receipt and on its approvers' own signatures."""

    checked: CheckedCommit
    approver: ApproverVerdict | None
    """None without a well-formed receipt."""
    claims: Mapping[str, str]
    """Who asked and who approved; empty unless a trusted key signed the receipt for this commit."""

    @property
    def code(self) -> int:
        """The exit code for this commit by itself."""
        if not self.checked.verdicts:
            return NO_RECEIPT
        unsigned = APPROVER_CODE if self.approver and self.approver.objections else 0
        return exit_code(self.checked.verdicts) or unsigned


def print_verdicts(options: VerifyOptions, out: TextIO) -> int:
    """Print the verdicts and return the exit code: 0, or the code of the first check that fails on any commit.

    Raises Misconfigured for a commit, a file, or a clone that does not exist.
    """
    clone = ReceiptRepository.at(options.folder, keys=options.keys, repository=options.repository)
    signers = AllowedSigners.read(options.signers, options.revoked) if options.signers else None
    now = datetime.now(UTC)
    approver_check = ApproverCheck.of(clone, signers)
    verified = [
        _VerifiedCommit(replace(checked, receipt=b""), _approver_verdict(approver_check, checked), _claims(checked))
        for checked in _check(clone, options, now)
    ]
    print(json.dumps(_to_json(verified), indent=2) if options.as_json else "\n".join(_lines(verified)), file=out)
    return min(
        (commit.code for commit in verified if commit.code and _must_have_receipt(commit.checked, options)), default=0
    )


def _approver_verdict(check: ApproverCheck, checked: CheckedCommit) -> ApproverVerdict | None:
    is_well_formed = bool(checked.verdicts) and checked.verdicts[0].passes  # the first check is that of the syntax
    return check.verdict(checked) if is_well_formed else None


def _claims(checked: CheckedCommit) -> dict[str, str]:
    """Return what a receipt states about people, if a trusted key signed it for this commit."""
    passed = {verdict.check for verdict in checked.verdicts if verdict.passes}
    if not passed >= _BELIEVED:
        return {}
    statement = parse_envelope(checked.receipt).statement
    predicate, plan = statement["predicate"], statement["predicate"]["plan"]
    requesters = [f"{request['login']} (id {request['actor_id']})" for request in predicate["requests"]]
    people = [
        f"{person.login} (id {person.actor_id}, {person.role or 'listed'}, {person.way}) at {person.at}"
        for person in approvers(statement)
    ]
    who = ", ".join(people) or "the configuration alone"
    return {
        "requested": f"{', '.join(dict.fromkeys(requesters))}, in thread {predicate['thread']}",
        "approved": f"{who}, plan {plan['version']} ({plan['digest'][:SHORT_DIGEST]})",
    }


def _check(clone: ReceiptRepository, options: VerifyOptions, now: datetime) -> Iterable[CheckedCommit]:
    """Return the commits to check: of a range, of a receipt's file, or of one commit."""
    if bool(options.subject) == bool(options.revisions):
        raise Misconfigured("it is not clear what to verify", where="verify", fix="give one commit, file, or range")
    if options.revisions:
        return clone.check_range(options.revisions, now)
    path = Path(options.subject)
    if path.is_file():
        if clone.find_commit(options.subject):
            fix = f"write ./{options.subject} for the file, {options.subject}~0 for the commit"
            raise Misconfigured("a file and a commit have this name", where=options.subject, fix=fix)
        with path.open("rb") as file:
            content = file.read(SIZE_LIMIT + 1)
        return [clone.check_commit(options.commit or "HEAD", content, now)]
    return [clone.check_commit(options.subject, None, now)]


def _must_have_receipt(checked: CheckedCommit, options: VerifyOptions) -> bool:
    """Return whether a commit must have a valid receipt: in a range, only the agent's and those that have one."""
    return not options.revisions or checked.by_agent or bool(checked.verdicts)


def _lines(verified: Sequence[_VerifiedCommit]) -> Iterable[str]:
    for commit in verified:
        checked = commit.checked
        if not checked.verdicts:
            yield f"{checked.commit[:12]}  {checked.note or 'not made by Plangate, and has no receipt'}"
            continue
        fails = [str(verdict.check) for verdict in checked.verdicts if not verdict.passes]
        fails += ["approver"] if commit.approver and commit.approver.objections else []
        yield f"{checked.commit[:12]}  {'receipt is NOT valid: ' + ', '.join(fails) if fails else 'receipt is valid'}"
        yield from (_line(name, value) for name, value in commit.claims.items())
        for verdict in checked.verdicts:
            yield _line(verdict.check, "; ".join(verdict.objections) or "ok")
        if commit.approver:
            yield _line("approver", _approver_text(commit.approver))
    if not verified:
        yield "the range has no commits, so nothing was checked"
    elif len(verified) > 1:
        yield f"{len(verified)} checked"


def _line(name: str, text: str) -> str:
    return f"  {name:<13} {with_visible_codepoints(shorten_line(text, _WIDTH))}"


def _approver_text(approver: ApproverVerdict) -> str:
    """Return who signed the receipt, or what is wrong with the signatures."""
    if approver.objections:
        return "; ".join(approver.objections)
    who = ", ".join(signature.login or str(signature.actor_id) for signature in approver.signatures)
    if not approver.is_checked:
        return f"signatures of {who}, not checked (--allowed-signers FILE)" if who else "signed by the service alone"
    return "ok: " + ", ".join(
        f"{signature.login} with {signature.key}" for signature in approver.signatures if not signature.problem
    )


def _to_json(verified: Sequence[_VerifiedCommit]) -> list[dict[str, object]]:
    return [
        {
            "commit": commit.checked.commit,
            "by_agent": commit.checked.by_agent,
            "note": commit.checked.note,
            "verdicts": {str(verdict.check): list(verdict.objections) for verdict in commit.checked.verdicts},
            "approver": asdict(commit.approver) if commit.approver else None,
            "valid": bool(commit.checked.verdicts) and not commit.code,
        }
        for commit in verified
    ]


# --- `plangate sign`: an approver's own signature ---------------------------------------------------------------------


def print_signature(clone: ReceiptRepository, commit: str, key: Path, *, login: str, out: TextIO) -> int:
    """Print what is about to be signed, sign it, print how to push the signature, and return 0.

    `login` is the approver who signs; "" if one person approved. Raises Refused for a receipt that is not valid, and
    Misconfigured for a wrong option.
    """
    receipt = signable_receipt(clone, commit, login=login, now=datetime.now(UTC))
    for line in _meaning(receipt, is_key_checked=bool(clone.pinned)):
        print(line, file=out, flush=True)
    sign_receipt(clone, receipt, key)
    print(f"Signed. Push it: git push origin {receipt.ref}", file=out)
    return 0


def _meaning(receipt: SignableReceipt, *, is_key_checked: bool) -> Iterator[str]:
    """Yield what the signature will state, line by line, with control characters made visible."""
    predicate, person = receipt.statement["predicate"], receipt.approver
    place, plan = predicate["repository"], predicate["plan"]
    yield f"As {_visible(person.login)} you sign: I approved this plan, and this commit is the work that I approved."
    for name, value in {
        "repository": f"{place['host']}/{place['name']}, thread {predicate['thread']}",
        "plan": f"version {plan['version']}, {plan['digest'][:SHORT_DIGEST]}",
        "approved": f"{person.at}, by {person.way}",
        "commit": receipt.commit,
    }.items():
        yield f"  {name:<13} {_visible(value)}"
    if not is_key_checked:
        yield "Whether the service's key is one that you trust was not checked: --keys FILE does that."


def _visible(text: str) -> str:
    return with_visible_codepoints(shorten_line(text, _WIDTH))


# --- `plangate audit`: rows as CSV or JSON lines ----------------------------------------------------------------------

_FORMULA: Final = re.compile("^(?=[\t\n])|(^|[;\t\n])(?=\\s*[=+@\uff1d\uff0b\uff0d\uff20-])")
"""Matches where a spreadsheet would begin to read a formula. Some end a cell at a semicolon or a tab.

https://owasp.org/www-community/attacks/CSV_Injection
"""
_THREADS_NAMED: Final = 20


def parse_moment(text: str) -> datetime:
    """Return a date or time as a datetime, in UTC if it names no zone. Raises Misconfigured."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        fix = f"write a day, such as {date(2026, 11, 1)}, or a time, such as 2026-11-01T08:30:00+00:00"
        raise Misconfigured(f"not a date: {text!r}", where="--since", fix=fix) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def print_rows(rows: Sequence[AuditRow], out: TextIO, *, as_lines: bool) -> None:
    if as_lines:
        for row in rows:
            print(json.dumps(asdict(row) | {"at": row.at.isoformat()}), file=out)
        return
    table = csv.writer(out, lineterminator="\n")
    table.writerow(column.name for column in fields(AuditRow))
    for row in rows:
        table.writerow(map(_cell, (asdict(row) | {"at": row.at.isoformat()}).values()))


def unreadable_text(threads: Sequence[int]) -> str:
    """Return which threads an export lacks, and why."""
    numbers = ", ".join(f"#{thread}" for thread in threads[:_THREADS_NAMED])
    more = f", and {len(threads) - _THREADS_NAMED} more" if len(threads) > _THREADS_NAMED else ""
    why = "Another state key wrote their journals, or somebody altered them."
    return f"plangate: threads that are not in the export: {numbers}{more}. {why}"


def _cell(value: object) -> object:
    """Return a cell that a spreadsheet shows as text and never evaluates as a formula.

    A carriage return becomes a newline: the csv module quotes only what could end its own lines.
    """
    if not isinstance(value, str):
        return value
    return _FORMULA.sub(r"\1'", re.sub("\r\n?", "\n", value))
