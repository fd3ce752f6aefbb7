"""Stamps: the state of a file, so that an edit of a file that was not read, or has changed since, is refused.

A stamp is ``<size>-<BLAKE2b of the content, 16 bytes in hex>`` up to 8 MiB and ``<size>-<mtime in ns>`` above.
"""

import os

HASHED = 8 * 1024 * 1024


def of_content(content: bytes) -> str:
    """Return the stamp of a content of at most 8 MiB."""
    from _blake2 import blake2b  # hashlib would load OpenSSL for it

    return f"{len(content)}-{blake2b(content, digest_size=16).hexdigest()}"


def of_file(file: int, content: bytes | None = None) -> str:
    """Return the stamp of an open file; `content` is its whole content if the caller has it."""
    status = os.fstat(file)
    if status.st_size > HASHED:
        return f"{status.st_size}-{status.st_mtime_ns}"
    return of_content(read_all(file, HASHED) if content is None else content)


def read_all(file: int, limit: int) -> bytes:
    """Read an open file from its beginning: at most `limit` bytes, plus one that shows that the file is longer."""
    pieces: list[bytes] = []
    at = 0
    while at <= limit and (piece := os.pread(file, min(1 << 20, limit + 1 - at), at)):
        pieces.append(piece)
        at += len(piece)
    return b"".join(pieces)
