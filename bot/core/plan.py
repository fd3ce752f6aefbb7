"""The plan document: one canonical form, one digest (PR5).

What is stored, shown, approved and executed is this document and nothing else. Its canonical form is JSON in
UTF-8 with sorted keys, no white space between tokens, no byte order mark and no final newline; newlines inside
its texts are LF (interfaces.md, The plan document).
"""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from bot.core.errors import Refused
from bot.core.hosts import tier_of_hosts
from bot.core.names import SHORT_DIGEST, CommitId, Digest, RepositoryId, ThreadNumber
from bot.core.paths import Further, Tier, in_scope, tier_of

FORMAT = 1
MARKDOWN_LIMIT = 40_000
"""Characters: a plan fits one comment, because nobody approves pages that nobody reads (product.md, The gate)."""

_KEYS = frozenset(
    "v repository thread plan base markdown scope commands hosts dependencies tier budget_usd expires".split()
)
HIDDEN_SHOWN = 20
HIDDEN_CHARACTERS = 300
"""So many fragments of a request that nobody sees are shown, and so much of each."""

_OPTIONAL = frozenset({"tree", "hidden", "changed", "classes"})
"""Keys that only some documents have: one without them is the same, byte for byte, as before they were there."""
_FOLDERS = r"(?:[\w.-]+/)+"
_FILE = r"\.[A-Za-z]\w{0,7}"
_PATH = re.compile(rf"(?<![\w/.:@-])({_FOLDERS}[\w.-]*\w{_FILE}|[\w.-]*\w\w{_FILE}|{_FOLDERS})(?![\w/.-]*[\w/])")
# A task-list box: a list marker, white space, the box, white space (GitHub Flavored Markdown, 5.3).
# https://github.github.com/gfm/#task-list-items-extension-
_BOX = re.compile(r"(?<![^\s>])((?:[-*+]|\d{1,9}[.)])[\s>]+)\[([\sxX])\](?!\S)")
# What a terminal obeys instead of showing it, what turns text around, and what is no character at all (X2).
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Contract:
    """What a plan binds its execution to: each field is shown to the person who decides."""

    scope: tuple[str, ...] = ()
    """Path globs that may change; empty means everything but the classes of tier high."""
    commands: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    dependencies: tuple[str, ...] = ()
    classes: Further = ()
    """The project's further globs of path classes when the plan was made: they hold for it to the end."""

    def tier(self, paths: Iterable[str]) -> Tier:
        """Give the tier of paths or globs under this contract."""
        return tier_of(paths, self.dependencies, self.classes)

    def reaches(self, path: str) -> bool:
        """Tell whether the scope reaches a path."""
        return in_scope(path, self.scope, self.dependencies, self.classes)

    def can_name(self, path: str) -> bool:
        """Tell whether a scope can name a path at all, by itself."""
        return in_scope(path, (path,), (), self.classes)


@dataclass(frozen=True, slots=True)
class Hidden:
    """What was removed from a request because nobody sees it (X1): how many fragments, and the first of them."""

    count: int = 0
    shown: tuple[str, ...] = ()

    @classmethod
    def of(cls, fragments: Sequence[str]) -> Self:
        """Give removed fragments as they may be shown: a few, each one short line in which nothing acts."""
        return cls(len(fragments), tuple(map(_short, fragments[:HIDDEN_SHOWN])))

    def __add__(self, other: "Hidden") -> "Hidden":
        """Give what was removed from two turns."""
        return Hidden(self.count + other.count, (*self.shown, *other.shown)[:HIDDEN_SHOWN])

    def to_json(self) -> dict[str, Any]:
        """Give it as a JSON object."""
        return {"count": self.count, "shown": list(self.shown)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Read back what `to_json` gave."""
        return cls(value["count"], tuple(value["shown"]))


@dataclass(frozen=True, slots=True)
class PlanDocument:
    """One version of a plan, as it is stored, shown, approved and executed."""

    repository: RepositoryId
    thread: ThreadNumber
    plan: int
    """The number of the version, from 1."""
    base: CommitId
    markdown: str
    contract: Contract
    tier: str
    budget_usd: float
    expires: datetime
    tree: str = ""
    """The git tree that is approved, of an amendment: nothing else may be published for it; "" for work to come."""
    hidden: Hidden = Hidden()
    changed: str = ""
    """What is different from the version before it (core/changes.py); "" where it takes no other one's place."""
    estimate: str = ""
    """What it will cost, roughly: shown with the document and fixed as long as that is, but no part of it."""

    @property
    def digest(self) -> Digest:
        """The sha256 of the canonical form, in hex."""
        return Digest(hashlib.sha256(canonical_bytes(self)).hexdigest())

    @property
    def short_digest(self) -> str:
        """The first 12 hex digits of the digest, as people see and type it."""
        return self.digest[:SHORT_DIGEST]


def canonical_bytes(document: PlanDocument) -> bytes:
    """Give the one byte form of a document; equal documents give equal bytes."""
    return json.dumps(to_json(document), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def to_json(document: PlanDocument) -> dict[str, Any]:
    """Give the document as the JSON object of interfaces.md."""
    return {
        "v": FORMAT,
        "repository": document.repository,
        "thread": document.thread,
        "plan": document.plan,
        "base": document.base,
        "markdown": document.markdown,
        "scope": list(document.contract.scope),
        "commands": list(document.contract.commands),
        "hosts": list(document.contract.hosts),
        "dependencies": list(document.contract.dependencies),
        "tier": document.tier,
        "budget_usd": float(document.budget_usd),
        "expires": document.expires.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        **({"tree": document.tree} if document.tree else {}),
        **({"hidden": document.hidden.to_json()} if document.hidden.count else {}),
        **({"changed": document.changed} if document.changed else {}),
        **({"classes": [list(each) for each in document.contract.classes]} if document.contract.classes else {}),
    }


def from_json(value: dict[str, Any]) -> PlanDocument:
    """Read back what `to_json` gave; refuse another format or other keys."""
    if value.get("v") != FORMAT or set(value) - _OPTIONAL != _KEYS:
        raise Refused("this is not a plan document of format 1", mend="make the plan again with this version")
    lists = {key: tuple(value[key]) for key in ("scope", "commands", "hosts", "dependencies")}
    return PlanDocument(
        repository=RepositoryId(value["repository"]),
        thread=ThreadNumber(value["thread"]),
        plan=value["plan"],
        base=CommitId(value["base"]),
        markdown=value["markdown"],
        contract=Contract(**lists, classes=tuple((kind, glob) for kind, glob in value.get("classes", ()))),
        tier=value["tier"],
        budget_usd=value["budget_usd"],
        expires=datetime.strptime(value["expires"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC),
        tree=value.get("tree", ""),
        hidden=Hidden.from_json(value["hidden"]) if "hidden" in value else Hidden(),
        changed=value.get("changed", ""),
    )


def contract_tier(contract: Contract) -> Tier:
    """Give what a contract weighs: the heavier of its files and its hosts."""
    order = list(Tier)
    return max(contract.tier(contract.scope), tier_of_hosts(contract.hosts), key=order.index)


def normalize_text(markdown: str) -> str:
    """Give a plan's text with LF newlines, no trailing space and no blank edge, or refuse it with what to change.

    Text is made inert before it is hashed (interfaces.md), so what this returns is what the digest covers.
    """
    lines = disarm_text(markdown.replace("\r\n", "\n").replace("\r", "\n")).split("\n")
    text = "\n".join(line.rstrip() for line in lines).strip()
    if not text:
        raise Refused("the plan is empty", mend="hand in the plan as Markdown text")
    if len(text) > MARKDOWN_LIMIT:
        raise Refused(
            f"the plan has {len(text):,} characters, the limit is {MARKDOWN_LIMIT:,}",
            mend="shorten it: say what will change and why, not every line",
        )
    return text


def disarm_text(markdown: str) -> str:
    """Give a text in which no box can be ticked and no control character acts: they are ☐, ☑ and ‹U+XXXX›.

    Mentions and links stay: `core.inert` takes their effect from what the model wrote.
    """
    seen = _UNSEEN.sub(lambda found: f"‹U+{ord(found.group()):04X}›", markdown)
    return _BOX.sub(lambda found: found.group(1) + ("☐" if found.group(2).isspace() else "☑"), seen)


def _short(fragment: str) -> str:
    """Give a fragment as one short line; what does not print is shown as ‹U+XXXX›."""
    line = disarm_text(" ".join(fragment.split()))
    seen = "".join(sign if sign.isprintable() else f"‹U+{ord(sign):04X}›" for sign in line[:HIDDEN_CHARACTERS])
    return seen if len(line) <= HIDDEN_CHARACTERS >= len(seen) else f"{seen[: HIDDEN_CHARACTERS - 1]}…"


def named_paths(markdown: str) -> tuple[str, ...]:
    """List the paths that a plan's text names, sorted, folders as ``folder/**``: the scope where none is given (P5)."""
    found = {match.group(1) for match in _PATH.finditer(markdown)}
    return tuple(sorted(f"{path}**" if path.endswith("/") else path for path in found))
