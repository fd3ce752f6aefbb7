"""Keys, encrypted files, and authenticated lines: what is stored cannot be read or changed by others (A4, L9)."""

import contextlib
import hashlib
import hmac
import json
import os
import re
import secrets
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from bot.core.errors import Broken, Misconfigured, Unreadable
from bot.core.marker import Key
from bot.core.names import RepositoryId, ThreadNumber
from bot.core.transcript import Json
from bot.ports import Entry

# --- The state key: one secret, and keys derived for each purpose ----------------------------------------------------
# No key is ever printed. Every repr omits the secret, and only `key_file` writes it.
#
# With another state key, what is stored cannot be read (`unseal` raises Unreadable), and no marker in an earlier
# comment counts. The thread gets one notice, and nothing is planned, approved, or pushed on it. When the old key is
# back, the thread goes on.

KEY_BYTES = 32
SHORTEST = 16
"""Minimum characters of a key given as text. HKDF does not stretch keys, so a guessable text is no key."""

_HEX = re.compile(rf"[0-9a-f]{{{2 * KEY_BYTES}}}")
_MODE_OF_OTHERS = 0o077
_PEM = "-----BEGIN "


@dataclass(frozen=True, slots=True)
class StateKey:
    """A secret of any length, and the keys derived from it. Printing it shows nothing."""

    secret: bytes = field(repr=False)

    @classmethod
    def of(cls, text: str) -> "StateKey":
        """Return a configured key. Raises Misconfigured if it is too short to be a secret.

        A private key in PEM is taken exactly as PLANGATE_PRIVATE_KEY is, with ``\\n`` for the end of a line. So the key
        that came from an App's private key can be kept when that one is replaced.
        """
        if text.startswith(_PEM):
            return cls(text.replace("\\n", "\n").encode())
        text = text.strip()
        if len(text) < SHORTEST:
            raise Misconfigured(
                f"the state key has fewer than {SHORTEST} characters",
                fix="set PLANGATE_STATE_KEY to 64 random hex digits, such as `openssl rand -hex 32` prints",
            )
        return cls(text.encode())

    @property
    def mac(self) -> bytes:
        """32 bytes for the MACs of journal lines and comment markers (A4)."""
        return self._derive("mac")

    @property
    def encryption(self) -> bytes:
        """32 bytes for AES-256-GCM."""
        return self._derive("encryption")

    @property
    def receipts(self) -> bytes:
        """32 bytes for signing receipts."""
        return self._derive("receipts")

    @property
    def id(self) -> str:
        """8 hex digits that distinguish one key from another and reveal nothing about it."""
        return self._derive("id")[:4].hex()

    def _derive(self, purpose: str) -> bytes:
        """Return the key for one purpose: HKDF-SHA256 without salt (RFC 5869)."""
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        return HKDF(SHA256(), KEY_BYTES, salt=None, info=f"plangate:state:1:{purpose}".encode()).derive(self.secret)


def marker_key(key: StateKey, repository: RepositoryId) -> Key:
    """Return the key of the markers of one repository's comments, so that none counts in another repository (A4).

    A MAC is the first 32 hex digits of HMAC-SHA256 over repository and text.
    """

    def mac(text: str) -> str:
        return hmac.new(key.mac, f"marker:{repository}:{text}".encode(), "sha256").hexdigest()[:32]

    return Key(key.id, mac)


def key_file(path: Path) -> StateKey:
    """Return the key in a file, creating the file (mode 0600, 64 hex digits) if it does not exist.

    Processes that race end up with one key, because the file appears under its name once and complete.
    """
    try:
        return _read(path)
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(KEY_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)  # unlike a rename, a link never replaces a key that another process made first
    finally:
        temporary.unlink()
    return _read(path)


def _read(path: Path) -> StateKey:
    """Return the key in a file. Raises Misconfigured if others can read the file or it holds something else."""
    with path.open() as file:
        if os.fstat(file.fileno()).st_mode & _MODE_OF_OTHERS:
            raise Misconfigured("others can read the key file", where=str(path), fix="run chmod 600 on it")
        text = file.read(4 * KEY_BYTES).strip()
    if not _HEX.fullmatch(text):
        raise Misconfigured("the key file does not hold a key", where=str(path), fix="restore it, or remove it")
    return StateKey(bytes.fromhex(text))


# --- Files encrypted at rest, each bound to its place ----------------------------------------------------------------
# Encryption is AES-256-GCM. A sealed file is a format byte, a random 96-bit nonce, and the ciphertext with its tag
# (NIST SP 800-38D, 8.2.2). The place (repository, thread, path) is authenticated with it, so a file copied elsewhere
# cannot be decrypted. The content is deflated first, because git cannot compress encrypted data.

FORMAT = b"\x01"
_NONCE_BYTES = 12


def place(repository: RepositoryId, thread: ThreadNumber, path: str) -> str:
    """Return the place of a thread's file: a text that no other file of any thread has."""
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


# --- The lines of a journal: chained and authenticated. Pure (A4) ----------------------------------------------------
# A line is one JSON object: ``{"n": from 1, "at": time, "kind": ..., body..., "prev": hex, "mac": hex}``. `prev` is the
# SHA-256 of the previous line, 64 zeros for the first. `mac` is HMAC-SHA256 over repository, thread, and the line
# without its mac. So no line can be changed, moved, removed from the middle, or copied to another thread. A chain
# cannot show that lines are missing at its END: only somebody who remembers a later position can detect a rollback.

RESERVED = frozenset({"n", "at", "kind", "prev", "mac"})
_FIRST = "0" * 64
_FIX = "set PLANGATE_STATE_KEY to the key that wrote it, or restore the ref"
_MAC_BYTES = len(f',"mac":"{_FIRST}"}}')


@dataclass(frozen=True, slots=True)
class Chain:
    """Extends and verifies the lines of one thread's journal."""

    repository: RepositoryId
    thread: ThreadNumber
    key: bytes = field(repr=False)

    def extend(self, after: Sequence[bytes], at: datetime, entries: Sequence[tuple[str, Json]]) -> tuple[bytes, ...]:
        """Return the lines (without newline) that append these entries (kind, body) to the lines so far."""
        lines = list(after[-1:])
        for n, (kind, body) in enumerate(entries, start=len(after) + 1):
            prev = hashlib.sha256(lines[-1]).hexdigest() if lines else _FIRST
            head = {"n": n, "at": at.astimezone(UTC).isoformat(), "kind": str(kind)}
            lines.append(self._line(head, body, prev))
        return tuple(lines[len(after[-1:]) :])

    def verify(self, lines: Sequence[bytes]) -> tuple[Entry, ...]:
        """Return the entries of the lines. Raises Unreadable, with the line number, at the first altered line."""
        return parse_unverified(self._verified_lines(lines), f"repository {self.repository}, thread {self.thread}")

    def _line(self, head: Json, body: Json, prev: str) -> bytes:
        """Return one line. Raises Broken if the body is not JSON or uses the line's own fields."""
        if reserved := RESERVED & body.keys():
            raise Broken(f"an entry's body may not hold {', '.join(sorted(reserved))}", where=str(head["kind"]))
        value = head | body | {"prev": prev}
        try:
            text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise Broken("an entry's body is not JSON", where=str(head["kind"]), fix=str(error)) from error
        bare = text.encode("utf-8", "surrogatepass")  # JSON may hold half a surrogate pair, but UTF-8 may not
        return bare[:-1] + f',"mac":"{self._mac(bare)}"}}'.encode()

    def _verified_lines(self, lines: Sequence[bytes]) -> Iterator[bytes]:
        """Yield each line with a valid MAC. Raises Unreadable at the first line without one."""
        for n, line in enumerate(lines, start=1):
            bare = line[:-_MAC_BYTES] + b"}"
            if not hmac.compare_digest(line[-_MAC_BYTES:], f',"mac":"{self._mac(bare)}"}}'.encode()):
                where = f"repository {self.repository}, thread {self.thread}, line {n}"
                raise Unreadable("a journal line is not as this bot wrote it for this thread", where=where, fix=_FIX)
            yield line

    def _mac(self, bare: bytes) -> str:
        """Return the MAC of a line without its mac, in hex."""
        context = f"plangate:journal:1\0{self.repository}\0{self.thread}\0".encode()
        return hmac.new(self.key, context + bare, hashlib.sha256).hexdigest()


def parse_unverified(lines: Iterable[bytes], where: str) -> tuple[Entry, ...]:
    """Return the entries of lines, checking numbers and hashes but not MACs.

    Raises Unreadable at the first bad line.
    """
    prev, entries = _FIRST, []
    for n, line in enumerate(lines, start=1):
        try:
            value: Json = json.loads(line.decode("utf-8", "surrogatepass"))
            follows = (value.pop("n"), value.pop("prev")) == (n, prev) and value.pop("mac")
            prev = hashlib.sha256(line).hexdigest()
            entries.append(Entry(n, datetime.fromisoformat(value.pop("at")), value.pop("kind"), value, prev))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Unreadable("this is not a journal line", where=f"{where}, line {n}", fix=_FIX) from error
        if not follows:
            raise Unreadable("the journal's lines do not follow each other", where=f"{where}, line {n}", fix=_FIX)
    return tuple(entries)
