"""The format and place of receipts: types, canonical bytes, and refs (RC1, RC4).

https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md
"""

import json
from typing import Final

from bot.core.transcript import Json

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "https://plangate.dev/plan-approval/v1"
RECEIPT_FILE: Final = "receipt.dsse.json"
"""The file in a receipt's ref."""
KEYS_REF: Final = "refs/plangate/keys"
KEYS_FILE: Final = "plangate-keys.json"
"""Where the public keys of a repository's receipts are listed."""
SIGNATURES: Final = "refs/plangate/signatures/"
SIGNATURE_FILE: Final = "approval.sig"
"""The file in the ref of an approver's own signature."""


def receipt_ref(commit: str) -> str:
    """Return the ref that keeps the receipt of a commit."""
    return f"refs/plangate/receipts/{commit}"


def signature_ref(commit: str, actor_id: int) -> str:
    """Return the ref that keeps an approver's own signature of the receipt of a commit.

    The account's number names the approver: logins change, and some contain characters that no ref may have.
    """
    return f"{SIGNATURES}{commit}/{actor_id}"


def canonical_statement(statement: Json) -> bytes:
    """Return the bytes that are signed: JSON in UTF-8 with sorted keys and no white space between tokens.

    Every number in a statement is an integer, since languages write fractions differently.
    """
    text = json.dumps(statement, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace")  # half a surrogate pair has no UTF-8
