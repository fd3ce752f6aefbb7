"""Files encrypted at rest: AES-256-GCM, bound to the place that they belong to.

A sealed file is a format byte, a random 96-bit nonce, and the ciphertext with its tag (NIST SP 800-38D, 8.2.2). The
place (repository, thread, path) is authenticated with it, so a file copied elsewhere does not open. The content is
deflated first, because git cannot compress encrypted data.
"""

import os
import zlib

from bot.core.errors import Unreadable
from bot.core.names import RepositoryId, ThreadNumber

FORMAT = b"\x01"
_NONCE_BYTES = 12


def place(repository: RepositoryId, thread: ThreadNumber, path: str) -> str:
    """Return the place of a file of a thread. No other file of any thread has the same place."""
    return f"{repository}/{thread}/{path}"


def seal(content: bytes, key: bytes, where: str) -> bytes:
    """Return a file encrypted for its place. Equal contents give different bytes."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = os.urandom(_NONCE_BYTES)
    return FORMAT + nonce + AESGCM(key).encrypt(nonce, zlib.compress(content), FORMAT + where.encode())


def unseal(sealed: bytes, key: bytes, where: str) -> bytes:
    """Return the content sealed for this place with this key. Raises Unreadable for anything else."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    head, nonce, body = sealed[:1], sealed[1 : 1 + _NONCE_BYTES], sealed[1 + _NONCE_BYTES :]
    if head != FORMAT or len(nonce) < _NONCE_BYTES:
        raise Unreadable("not a sealed file of this format", where=where, fix="read it with the version that wrote it")
    try:
        return zlib.decompress(AESGCM(key).decrypt(nonce, body, FORMAT + where.encode()))
    except InvalidTag as error:
        raise Unreadable(
            "a stored file does not open: another key wrote it, or somebody changed or moved it",
            where=where,
            fix="set PLANGATE_STATE_KEY to the key that wrote it",
        ) from error
