"""Lists a repository's refs in git's wire protocol, without a git process.

A listing (`ls-refs`) and the refs that precede a push are most of a bot's requests to git, and the answer is in the
repository's files. None means that git has to answer, for example because a ref is symbolic.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bot.testing.github.bare import Bare, GitRefusedError, bare_environment
from bot.testing.github.ref_files import ABSENT

FLUSH, DELIMITER = b"0000", b"0001"
CAPABILITIES = re.compile(rb"agent=[!-~]+|object-format=sha1")
"""The capabilities that a client may state before its request."""
ID = re.compile(r"[0-9a-f]{40}")
FEW = 8
"""Maximum number of packed objects that git is asked about one by one, once each. One process is asked about more."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A request for refs: the prefixes of their names, and the facts to list about each."""

    prefixes: tuple[str, ...]
    options: frozenset[bytes]

    def covers(self, name: str) -> bool:
        """Return whether a ref is asked for."""
        return not self.prefixes or name.startswith(self.prefixes)


def run_service(bare: Bare, service: str, option: str, environment: Mapping[str, str], *, body: bytes = b"") -> bytes:
    """Return the answer of git's own upload-pack or receive-pack. An error is part of the answer."""
    command = ["git", service.removeprefix("git-"), option, "."]
    return subprocess.run(
        command, cwd=bare.folder, input=body, env=environment, capture_output=True, check=False
    ).stdout


@cache
def fetch_capabilities() -> bytes:
    """Return a server's capabilities in version 2 of the protocol. They name no refs, so git is asked only once.

    https://git-scm.com/docs/protocol-v2#_capability_advertisement
    """
    return _advertise_nothing("git-upload-pack", {"GIT_PROTOCOL": "version=2"})


@cache
def push_capabilities() -> bytes:
    """Return a server's capabilities for a push, which follow its first ref. Git is asked only once.

    https://git-scm.com/docs/pack-protocol#_reference_discovery
    """
    advertised = _advertise_nothing("git-receive-pack", {})
    return advertised[: int(advertised[:4], 16)].partition(b"\0")[2].rstrip(b"\n")


def _advertise_nothing(service: str, environment: Mapping[str, str]) -> bytes:
    """Return what a service advertises of an empty repository; all are configured like it."""
    with tempfile.TemporaryDirectory() as folder:
        empty = Bare(Path(folder) / "empty.git")
        empty.create("main")
        return run_service(empty, service, "--http-backend-info-refs", {**bare_environment(), **environment})


def answer_listing(bare: Bare, request: bytes) -> bytes | None:
    """Return the answer to a request of version 2 of the protocol, if it is one for refs.

    https://git-scm.com/docs/protocol-v2#_ls_refs
    """
    listing, refs = parse_listing(request), _plain_refs(bare)
    if listing is None or refs is None:
        return None
    wanted = {name: at for name, at in refs.items() if listing.covers(name)}
    peeled = peel_tags(bare, wanted) if b"peel" in listing.options else {}
    if peeled is None:
        return None
    tagged = {name: f" peeled:{at}" for name, at in peeled.items()}
    lines = [f"{at} {name}{tagged.get(name, '')}\n" for name, at in wanted.items()]
    return b"".join(map(packet, [*_head_line(bare, listing, refs), *lines])) + FLUSH


def _head_line(bare: Bare, listing: Listing, refs: Mapping[str, str]) -> Iterator[str]:
    """Yield the line of HEAD, if it is asked for and has a commit or may be told of without one."""
    target = (bare.folder / "HEAD").read_text(encoding="utf-8").removeprefix("ref: ").rstrip()
    symref = f" symref-target:{target}" if b"symrefs" in listing.options else ""
    at = refs.get(target, "unborn" if symref and b"unborn" in listing.options else "")
    if at and listing.covers("HEAD"):
        yield f"{at} HEAD{symref}\n"


def refs_before_push(bare: Bare) -> bytes | None:
    """Return the refs that are listed to a push, which are those that it may change, and the server's capabilities.

    https://git-scm.com/docs/pack-protocol#_reference_discovery
    """
    refs = _plain_refs(bare)
    if refs is None:
        return None
    changeable = (f"{at} {name}" for name, at in refs.items() if not name.startswith("refs/pull/"))
    lines = list(changeable) or [f"{ABSENT} capabilities^{{}}"]
    lines[0] += f"\0{push_capabilities().decode()}"
    return b"".join(packet(f"{line}\n") for line in lines) + FLUSH


def _plain_refs(bare: Bare) -> dict[str, str] | None:
    """Return all refs; None if what one of them holds is no id."""
    refs = bare.refs()
    return refs if all(map(ID.fullmatch, refs.values())) else None


def parse_listing(request: bytes) -> Listing | None:
    """Return a request for refs; None if it is another one, or if git would have something to say of it."""
    packets = list(split_packets(request))
    if packets[:1] != [b"command=ls-refs"] or packets[-1] != FLUSH or packets.count(DELIMITER) > 1:
        return None
    end = packets.index(DELIMITER) if DELIMITER in packets else len(packets) - 1
    arguments = packets[end + 1 : -1]
    options = frozenset(each for each in arguments if not each.startswith(b"ref-prefix "))
    if not all(map(CAPABILITIES.fullmatch, packets[1:end])) or options - {b"peel", b"symrefs", b"unborn"}:
        return None
    prefixes = (each.removeprefix(b"ref-prefix ") for each in arguments if each not in options)
    return Listing(tuple(prefix.decode(errors="surrogateescape") for prefix in prefixes), options)


def split_packets(stream: bytes) -> Iterator[bytes]:
    """Yield the packets at the start of a stream, without line break; special ones, and what is none, as they are.

    https://git-scm.com/docs/protocol-common#_pkt_line_format
    """
    while stream:
        length = int(stream[:4], 16) if re.match(rb"[0-9a-f]{4}", stream) else 0
        if length <= len(FLUSH):
            yield stream[: len(FLUSH)]
            stream = stream[len(FLUSH) :]
        else:
            yield stream[4:length].removesuffix(b"\n")
            stream = stream[length:]


def packet(line: str) -> bytes:
    """Return a line as a packet."""
    content = line.encode(errors="surrogateescape")
    return b"%04x%b" % (len(content) + 4, content)


def peel_tags(bare: Bare, refs: Mapping[str, str]) -> dict[str, str] | None:
    """Return what the refs to tags with a text lead to; None if git has to look into packs for many.

    Git lets a branch lead to nothing but a commit.
    """
    others = {name: at for name, at in refs.items() if not name.startswith("refs/heads/")}
    if sum(not bare.is_loose(at) for at in set(others.values())) > FEW:
        return None
    return {name: bare.resolve(at, "") or at for name, at in others.items() if _is_tag(bare, at)}


def _is_tag(bare: Bare, ident: str) -> bool:
    try:
        return bare.kind(ident) == "tag"
    except GitRefusedError:
        return False
