"""`plangate sign`: adds an approver's own signature to a receipt, and explains what it states. SHELL."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TextIO

from bot.compose.approver_signatures import SignableReceipt, sign_receipt, signable_receipt
from bot.compose.receipt_check import ReceiptRepository
from bot.core.codepoints import with_visible_codepoints
from bot.core.lines import shorten_line
from bot.core.names import SHORT_DIGEST

_WIDTH: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class SignOptions:
    """The options of the command."""

    commit: str
    folder: Path
    key: Path
    login: str
    """The approver who signs; "" if one person approved."""
    keys: Path | None
    repository: str


def print_signature(options: SignOptions, out: TextIO) -> int:
    """Print what is about to be signed, sign it, print how to push the signature, and return 0.

    Raises Refused for a receipt that is not valid, and Misconfigured for a wrong option.
    """
    clone = ReceiptRepository.at(options.folder, keys=options.keys, repository=options.repository)
    receipt = signable_receipt(clone, options.commit, login=options.login, now=datetime.now(UTC))
    for line in _meaning(receipt, trusts=options.keys is not None):
        print(line, file=out, flush=True)
    sign_receipt(clone, receipt, options.key)
    print(f"Signed. Push it: git push origin {receipt.ref}", file=out)
    return 0


def _meaning(receipt: SignableReceipt, *, trusts: bool) -> Iterator[str]:
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
    if not trusts:
        yield "Whether the service's key is one that you trust was not checked: --keys FILE does that."


def _visible(text: str) -> str:
    return with_visible_codepoints(shorten_line(text, _WIDTH))
