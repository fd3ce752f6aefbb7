"""Identifiers, and the names that are visible outside: branches, refs, slugs, and rules about tools."""

import hashlib
import re
import unicodedata
from dataclasses import dataclass, field
from typing import Final, NewType

from bot.core.errors import Misconfigured
from bot.core.network import require_host_pattern

# --- Identifiers, branches, refs, and slugs --------------------------------------------------------------------------

RepositoryId = NewType("RepositoryId", int)
ThreadNumber = NewType("ThreadNumber", int)
CommitId = NewType("CommitId", str)
Digest = NewType("Digest", str)
SessionId = NewType("SessionId", str)
AgentId = NewType("AgentId", str)
ToolUseId = NewType("ToolUseId", str)

SHORT_DIGEST = 12

_SLUG_LIMIT = 40
_THREAD_BRANCH = re.compile(r"plangate/[0-9]+-")
# What git-check-ref-format(1) with --branch refuses, and text that is no UTF-8.
_NO_BRANCH = re.compile(
    r"[\x00-\x20\x7f~^:?*\[\\\ud800-\udfff]|\.\.|@\{|//|(?:^|/)\.|\.lock(?:/|\Z)|^[-/]|[./]\Z|^(?:HEAD)?\Z"
)
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


@dataclass(frozen=True, slots=True)
class ThreadAddress:
    """One thread on GitHub, and the App installation that reaches it (None with a plain token)."""

    installation: int | None
    repository: int
    owner: str
    name: str
    number: int
    told: str = field(default="", compare=False)
    """Key of the turn that a delivery reported; "" for none. A check waits briefly until the API shows that turn."""

    @property
    def full_name(self) -> str:
        return f"{self.owner}/{self.name}"

    def __str__(self) -> str:
        return f"{self.full_name}#{self.number}"


def slug(text: str) -> str:
    """Return any text as 1-40 characters of ``[a-z0-9-]``, safe in a branch name; "work" if nothing is left."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    words = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    cut = words[:_SLUG_LIMIT]
    if len(words) > _SLUG_LIMIT and "-" in cut:
        cut = cut.rpartition("-")[0]
    return cut.strip("-") or "work"


def run_branch(title: str, thread: ThreadNumber) -> str:
    """Return the branch of a local run: ``plangate/run-<slug>-<8 hex>``."""
    return f"plangate/run-{slug(title)}-{thread:08x}"


def thread_branch(title: str, thread: ThreadNumber, round_: int) -> str:
    """Return the branch of a thread on GitHub: ``plangate/<number>-<slug>``, with ``-r2`` from the second round on."""
    return f"{branch_prefix(thread)}{slug(title)}" + (f"-r{round_}" if round_ > 1 else "")


def branch_prefix(thread: ThreadNumber) -> str:
    """Return how all branches of a thread on GitHub begin, and those of no other thread."""
    return f"plangate/{thread}-"


def is_branch(name: str) -> bool:
    """Return whether git accepts a text as the name that a person gives to a branch."""
    return _NO_BRANCH.search(name) is None


def is_thread_branch(branch: str) -> bool:
    """Return whether a branch has the name of one that the bot makes for a thread on GitHub."""
    return _THREAD_BRANCH.match(branch) is not None


def thread_ref(thread: ThreadNumber) -> str:
    """Return the ref that keeps a thread's journal and transcripts."""
    return f"refs/plangate/threads/{thread}"


def local_thread(base: CommitId, prompt: str, ordinal: int) -> ThreadNumber:
    """Return the number of a local run (32 bits). The same command on the same commit finds the same thread again."""
    seed = f"{base}\0{ordinal}\0{prompt}".encode(errors="surrogatepass")
    return ThreadNumber(int.from_bytes(hashlib.sha256(seed).digest()[:4], "big"))


def local_repository(location: str) -> RepositoryId:
    """Return an id for a repository without a forge, from the real path of its git directory (63 bits)."""
    name = location.encode(errors="surrogatepass")  # Python decodes bytes that are not UTF-8 to surrogates
    return RepositoryId(int.from_bytes(hashlib.sha256(name).digest()[:8], "big") >> 1)


def is_commit(text: str) -> bool:
    """Return whether a text is a full commit id (SHA-1 or SHA-256, lower-case hex), the only form passed to git."""
    return _COMMIT.fullmatch(text) is not None


# --- Rules about tool calls ------------------------------------------------------------------------------------------
# The written form is ``Tool`` or ``Tool(pattern)``, such as ``Bash(git diff:*)``. What a pattern covers is decided in
# bot/agent/permissions.

FETCH: Final = "WebFetch"
DOMAIN: Final = "domain:"
EVERYTHING: Final = "*"
_RULE: Final = re.compile(r"(?P<tool>[A-Za-z_]+)(?:\((?P<pattern>.*)\))?")


def split_rule(text: str) -> tuple[str, str]:
    """Return the tool and the pattern of a rule; ``*`` stands for no pattern.

    Raises Misconfigured, with the form that the rule should have.
    """
    match = _RULE.fullmatch(text.strip())
    if match is None:
        raise Misconfigured(f"not a tool rule: {text!r}", where="tools", fix="write Tool or Tool(pattern)")
    tool, covered = match["tool"], match["pattern"] or EVERYTHING
    if tool == FETCH and covered.removeprefix(DOMAIN) != EVERYTHING:
        if not covered.startswith(DOMAIN):
            raise Misconfigured(f"not a rule for {FETCH}: {text!r}", where="tools", fix=f"write {FETCH}(domain:NAME)")
        # A name in another spelling would match nothing, and so deny nothing.
        require_host_pattern(covered.removeprefix(DOMAIN))
    return tool, covered
