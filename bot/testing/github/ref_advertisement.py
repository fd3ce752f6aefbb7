"""Lists a repository's refs in git's wire protocol, without a git process.

A listing (`ls-refs`) and the refs that precede a push are most of a bot's requests to git, and the answer is in the
repository's files. None means that git has to answer, for example because options hide refs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bot.testing.github.bare import Bare, GitRefusedError
from bot.testing.github.git_services import ConfiguredBare, hidden_from_pushes, push_capabilities
from bot.testing.github.ref_files import ABSENT

FLUSH, DELIMITER = b"0000", b"0001"
CAPABILITIES = re.compile(rb"agent=[!-~]+|object-format=sha1")
"""The capabilities that a client may state before its request."""
ID = re.compile(r"[0-9a-f]{40}")
LINKS = 5
"""How many symbolic refs git follows, one after the other."""
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


def answer_listing(bare: Bare, request: bytes) -> bytes | None:
    """Return the answer to a request of version 2 of the protocol, if it is one for refs.

    https://git-scm.com/docs/protocol-v2#_ls_refs
    """
    listing = parse_listing(request)
    if listing is None or hidden_from_pushes(ConfiguredBare.of(bare)) is None:
        return None
    head, values = (bare.folder / "HEAD").read_text(encoding="utf-8").rstrip(), bare.refs()
    candidates = {"HEAD": head, **values} if listing.covers("HEAD") else values
    refs = {name: follow(value, values) for name, value in candidates.items() if listing.covers(name)}
    peeled = peel_tags(bare, {name: at for name, (_, at) in refs.items() if at}) if b"peel" in listing.options else {}
    if peeled is None or not all(map(is_readable, values.values())):
        return None
    return b"".join(map(packet, _ref_lines(listing, refs, peeled))) + FLUSH


def _ref_lines(listing: Listing, refs: Mapping[str, tuple[str, str]], peeled: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each ref that leads to an object, and for a HEAD that has no commit yet."""
    for name, (target, at) in refs.items():
        symref = f" symref-target:{target}" if target and b"symrefs" in listing.options else ""
        if at:
            tagged = f" peeled:{peeled[name]}" if name in peeled else ""
            yield f"{at} {name}{symref}{tagged}\n"
        elif name == "HEAD" and symref and b"unborn" in listing.options:
            yield f"unborn {name}{symref}\n"


def refs_before_push(bare: Bare) -> bytes | None:
    """Return the refs that are listed to a push, which are those that it may change, and the server's capabilities.

    https://git-scm.com/docs/pack-protocol#_reference_discovery
    """
    served, values = ConfiguredBare.of(bare), bare.refs()
    hidden, elsewhere = hidden_from_pushes(served), ("shallow", "objects/info/alternates")
    is_elsewhere = any((bare.folder / name).exists() for name in elsewhere)
    if hidden is None or is_elsewhere or not all(map(is_readable, values.values())):
        return None
    refs = {name: follow(value, values)[1] for name, value in values.items() if not is_hidden(name, hidden)}
    lines = [f"{at} {name}" for name, at in refs.items() if at] or [f"{ABSENT} capabilities^{{}}"]
    lines[0] += f"\0{push_capabilities(served).decode()}"
    return b"".join(packet(f"{line}\n") for line in lines) + FLUSH


def is_hidden(name: str, prefixes: tuple[str, ...]) -> bool:
    """Return whether a ref is one of those prefixes, or lies below one."""
    return any(f"{name}/".startswith(f"{prefix.rstrip('/')}/") for prefix in prefixes)


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


def follow(value: str, refs: Mapping[str, str]) -> tuple[str, str]:
    """Return the ref that a symbolic ref leads to, and the id; "" is no such ref, and no id."""
    target = ""
    for _ in range(LINKS):
        if not value.startswith("ref: "):
            break
        target = value.removeprefix("ref: ").strip()
        value = refs.get(target, "")
    return target, value if ID.fullmatch(value) else ""


def is_readable(value: str) -> bool:
    """Return whether git reads a ref's file without a complaint."""
    return value.startswith("ref: refs/") or ID.fullmatch(value) is not None


def peel_tags(bare: Bare, refs: Mapping[str, str]) -> dict[str, str] | None:
    """Return what the refs to tags with a text lead to; None if git has to look into packs for many.

    Git lets a branch lead to nothing but a commit.
    """
    others = {name: at for name, at in refs.items() if name != "HEAD" and not name.startswith("refs/heads/")}
    if sum(not bare.is_loose(at) for at in set(others.values())) > FEW:
        return None
    return {name: bare.resolve(at, "") or at for name, at in others.items() if _is_tag(bare, at)}


def _is_tag(bare: Bare, ident: str) -> bool:
    try:
        return bare.kind(ident) == "tag"
    except GitRefusedError:
        return False
