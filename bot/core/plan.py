"""The plan document: one canonical form, one digest (PR5).

Exactly this document is stored, shown, approved, and executed. Its canonical form is JSON in UTF-8 with sorted keys, no
white space between tokens, no byte order mark, and no final newline. Newlines inside its texts are LF.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final, Self

from bot.core.codec import ALWAYS, UNSTORED, Form, Inline, decode, encode
from bot.core.codepoints import as_numbers, with_printable_signs
from bot.core.errors import Refused
from bot.core.maintenance import Operation, TaskFinding
from bot.core.names import SHORT_DIGEST, CommitId, Digest, RepositoryId, ThreadNumber
from bot.core.network import tier_of_hosts
from bot.core.paths import Further, Tier, in_scope, tier_of
from bot.core.transcript import Json

FORMAT = 1
MARKDOWN_LIMIT = 40_000
"""Characters. A plan must fit one comment, because nobody approves pages that nobody reads."""

_KEYS: Final = tuple(
    "v repository thread plan base markdown scope commands hosts dependencies tier budget_usd expires".split()
)
NOTES_LIMIT = 6_000
"""Characters of the notes for the executor. They count toward MARKDOWN_LIMIT as well."""
HIDDEN_SHOWN = 20
HIDDEN_CHARACTERS = 300
"""The number of invisible fragments of a request that are shown, and the characters of each."""

_OPTIONAL: Final = ("tree", "hidden", "changed", "classes", "notes", "operations", "branch", "findings")
"""Keys that only some documents have. A document without them keeps the bytes it had before they were introduced."""
_EXPIRY: Final = "%Y-%m-%dT%H:%M:%SZ"
_FOLDERS = r"(?:[\w.-]+/)+"
_FILE = r"\.[A-Za-z]\w{0,7}"
_PATH = re.compile(rf"(?<![\w/.:@-])({_FOLDERS}[\w.-]*\w{_FILE}|[\w.-]*\w\w{_FILE}|{_FOLDERS})(?![\w/.-]*[\w/])")
# A task-list box: a list marker, white space, the box, white space (GitHub Flavored Markdown, 5.3).
# https://github.github.com/gfm/#task-list-items-extension-
_BOX = re.compile(r"(?<![^\s>])((?:[-*+]|\d{1,9}[.)])[\s>]+)\[([\sxX])\](?!\S)")
# Characters that a terminal obeys instead of showing, characters that change text direction, and surrogates (X2).
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Contract:
    """What a plan binds its execution to. Each field is shown to the person who decides."""

    scope: Annotated[tuple[str, ...], ALWAYS] = ()
    """Path globs that may change. Empty means everything except the classes of tier high."""
    commands: Annotated[tuple[str, ...], ALWAYS] = ()
    hosts: Annotated[tuple[str, ...], ALWAYS] = ()
    dependencies: Annotated[tuple[str, ...], ALWAYS] = ()
    classes: Further = ()
    """The project's additional globs of path classes when the plan was made. They stay in force for this plan."""

    def tier(self, paths: Iterable[str]) -> Tier:
        return tier_of(paths, self.dependencies, self.classes)

    def reaches(self, path: str) -> bool:
        return in_scope(path, self.scope, self.dependencies, self.classes)

    def can_name(self, path: str) -> bool:
        """Return whether a scope of only this path reaches it."""
        return in_scope(path, (path,), (), self.classes)


@dataclass(frozen=True, slots=True)
class Hidden:
    """The invisible fragments removed from a request (X1): their number, and the first of them."""

    count: Annotated[int, ALWAYS] = 0
    shown: Annotated[tuple[str, ...], ALWAYS] = ()

    @classmethod
    def of(cls, fragments: Sequence[str]) -> Self:
        """Return removed fragments in the form to show: at most HIDDEN_SHOWN, each one short inert line."""
        return cls(len(fragments), tuple(map(_fragment_line, fragments[:HIDDEN_SHOWN])))

    def __add__(self, other: "Hidden") -> "Hidden":
        return Hidden(self.count + other.count, (*self.shown, *other.shown)[:HIDDEN_SHOWN])


def _read_expiry(text: str) -> datetime:
    return datetime.strptime(text, _EXPIRY).replace(tzinfo=UTC)


def _write_expiry(at: datetime) -> str:
    return at.astimezone(UTC).strftime(_EXPIRY)


@dataclass(frozen=True, slots=True)
class PlanDocument:
    """One version of a plan, as it is stored, shown, approved, and executed."""

    repository: RepositoryId
    thread: ThreadNumber
    plan: int
    """The version number, from 1."""
    base: CommitId
    markdown: str
    contract: Annotated[Contract, Inline()]
    tier: str
    budget_usd: Annotated[float, Form(float, float)]
    expires: Annotated[datetime, Form(_read_expiry, _write_expiry)]
    tree: str = ""
    """For an amendment, the approved git tree, the only one that may be published; "" for work still to come."""
    hidden: Hidden = Hidden()
    changed: str = ""
    """The difference from the previous version (`core.comment.changes`); "" if it replaces none."""
    notes: str = ""
    """Notes for the executor that a reader may skip (K2); "" for none."""
    findings: tuple[TaskFinding, ...] = ()
    """What the plan of a scheduled task wants to change, one by one (MT5)."""
    operations: tuple[Operation, ...] = ()
    """What the harness does to issues once the plan of a scheduled task is approved (MT7)."""
    branch: str = ""
    """On a pull request that the work cannot be added to, such as one of a fork: the branch of its own that the work
    gets (CL4); "" otherwise."""
    estimate: Annotated[str, UNSTORED] = ""
    """The estimated cost. It is shown with the document and fixed as long as that is shown, but is not part of it."""

    @property
    def digest(self) -> Digest:
        return Digest(hashlib.sha256(canonical_bytes(self)).hexdigest())

    @property
    def changes_files(self) -> bool:
        """Whether a session carries the plan out. The harness alone carries out a plan with operations and no scope."""
        return bool(self.contract.scope) or not self.operations

    @property
    def short_digest(self) -> str:
        """The first 12 hex digits of the digest, as people see and type it."""
        return self.digest[:SHORT_DIGEST]


def canonical_bytes(document: PlanDocument) -> bytes:
    return json.dumps(to_json(document), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def to_json(document: PlanDocument) -> Json:
    """Return the document as a JSON object in its canonical form."""
    body = {"v": FORMAT, **encode(document)}
    return {key: body[key] for key in (*_KEYS, *_OPTIONAL) if key in body}


def from_json(value: Json) -> PlanDocument:
    """Return the document from a JSON object made by `to_json`. Raises Refused for another format or other keys."""
    if value.get("v") != FORMAT or value.keys() - set(_OPTIONAL) != set(_KEYS):
        raise Refused("this is not a plan document of format 1", fix="make the plan again with this version")
    return decode(PlanDocument, value)


def contract_tier(contract: Contract) -> Tier:
    """Return the tier of a contract: the higher of the tiers of its files and its hosts."""
    order = list(Tier)
    return max(contract.tier(contract.scope), tier_of_hosts(contract.hosts), key=order.index)


def normalize_text(markdown: str) -> str:
    """Return a plan's text with LF newlines, no trailing space, and no blank edges.

    Raises Refused, with what to change, if the text is empty or too long. Text is made inert before it is hashed, so
    the digest covers what this returns.
    """
    text = _normalize_lines(markdown)
    if not text:
        raise Refused("the plan is empty", fix="hand in the plan as Markdown text")
    if len(text) > MARKDOWN_LIMIT:
        raise Refused(
            f"the plan has {len(text):,} characters, the limit is {MARKDOWN_LIMIT:,}",
            fix="shorten it: say what will change and why, not every line",
        )
    return text


def normalize_notes(notes: str) -> str:
    """Return a plan's notes normalized as its text is; "" for none.

    Raises Refused, with what to change, if they are too long.
    """
    text = _normalize_lines(notes)
    if len(text) > NOTES_LIMIT:
        raise Refused(
            f"the notes have {len(text):,} characters, the limit is {NOTES_LIMIT:,}",
            fix="keep what the executor cannot see in the code: causes with `path:line`, what was ruled out",
        )
    return text


def _normalize_lines(text: str) -> str:
    """Return a text with LF newlines, no trailing space, no blank edges, and nothing active in it."""
    lines = disarm_text(text.replace("\r\n", "\n").replace("\r", "\n")).split("\n")
    return "\n".join(line.rstrip() for line in lines).strip()


def disarm_text(markdown: str) -> str:
    """Return a text without boxes to tick or active control characters: they become ☐, ☑, and ‹U+XXXX›.

    Mentions and links stay. `core.markdown.inert` makes those in the model's text inert.
    """
    visible = _UNSEEN.sub(lambda match: as_numbers(match.group()), markdown)
    return _BOX.sub(lambda match: match.group(1) + ("☐" if match.group(2).isspace() else "☑"), visible)


def _fragment_line(fragment: str) -> str:
    """Return a fragment as one short line. Unprintable characters become ‹U+XXXX›."""
    line = disarm_text(" ".join(fragment.split()))
    visible = with_printable_signs(line[:HIDDEN_CHARACTERS])
    return visible if len(line) <= HIDDEN_CHARACTERS >= len(visible) else f"{visible[: HIDDEN_CHARACTERS - 1]}…"


def named_paths(markdown: str) -> tuple[str, ...]:
    """Return the paths named in a plan's text, sorted, folders as ``folder/**``: the scope if none is given (P5)."""
    paths = {match.group(1) for match in _PATH.finditer(markdown)}
    return tuple(sorted(f"{path}**" if path.endswith("/") else path for path in paths))
