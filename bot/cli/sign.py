"""`plangate sign`: adds an approver's own signature to a receipt, and explains what it states. SHELL."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TextIO

from bot.compose.approver_signatures import SignableReceipt, sign_receipt, signable_receipt
from bot.compose.receipt_check import ReceiptRepository
from bot.core.codepoints import with_visible_codepoints
from bot.core.lines import shorten_line
from bot.core.names import SHORT_DIGEST

_WIDTH: Final = 300


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
