"""The publisher: copies a checkout's work to a branch of the repository (G1, G3, G4, X3)."""

import asyncio
import logging
import os
import re
import secrets
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import Final

from bot.core.approval import ApprovedPlan
from bot.core.errors import Conflict, Misconfigured, OutOfScope, PlangateError, Refused, SecretAdded
from bot.core.names import SHORT_DIGEST, CommitId, is_branch
from bot.core.paths import is_path_covered
from bot.core.plan import Contract, PlanDocument
from bot.core.secrets.known import Span
from bot.core.secrets.redaction import Redactor
from bot.core.work import Checkout, CommitOrder, PushedWork
from bot.ports import BeforePush
from bot.workspace import locks, run
from bot.workspace.checkout import start_repository
from bot.workspace.export import EntryKind, Export, TreeEntry, UntrustedTree, printable
from bot.workspace.locks import Lock
from bot.workspace.mirror import Mirror
from bot.workspace.remote import refusal
from bot.workspace.sandbox import Mount, SandboxProfile

# The search for secrets in a commit's additions (X3). A secret stops the commit; a commit is never changed silently.
# Only additions are searched: changed files as git will store them, new names, links, the message and the branch.
# Unchanged files, and secrets that the base already contains, do not count.

AT_ONCE: Final = 1 << 20
"""Characters that are searched in one piece."""
OVERLAP: Final = 1 << 14
"""Characters that two pieces share: more than any key has."""
READ_AT_ONCE: Final = 8 << 20
SHOWN: Final = 50
_BINARY_BYTES: Final = 8_000
"""The first bytes of a file, in which git searches for a zero byte to tell binary from text."""

Place = tuple[str, int, str]
"""The place of a secret: path, line, and kind."""
Search = Callable[[str], Sequence[Span]]


@dataclass(frozen=True, slots=True)
class PathChange:
    """One path that differs from the base; an id is "" where there is no file."""

    path: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Screen:
    """Knows which secrets may not be published. In files that match the globs `examples`, only known secrets count."""

    redactor: Redactor = field(default_factory=Redactor)
    examples: tuple[str, ...] = ()

    async def check(self, clone: Path, changes: Sequence[PathChange], order: CommitOrder) -> None:
        """Raise SecretAdded for an order or changes that add a secret; the clone is the publisher's own."""
        places = self._in_words(order, changes)
        old: list[str] | None = None
        async for change, data in _contents(clone, changes):
            if len(places) > SHOWN:
                break
            secrets = await asyncio.to_thread(self._in_file, change.path, data)
            if secrets and old is None:
                blobs = [changed for changed in changes if changed.before]
                old = [_text(before) async for _, before in _contents(clone, blobs, old=True)]
            old_texts = old or []
            places += [place for place, secret in secrets if not any(secret in text for text in old_texts)]
        if places:
            raise SecretAdded(tuple(places))

    def _in_words(self, order: CommitOrder, changes: Sequence[PathChange]) -> list[Place]:
        words = [("the commit message", order.message)]
        words += [("the branch", order.branch)] if order.expected is None else []  # else the branch already exists
        words += [("a file's name", change.path) for change in changes if not change.before]
        return [(place, 1, span.kind) for place, text in words for span in self.redactor.find_secrets(text)]

    def _in_file(self, path: str, data: bytes) -> list[tuple[Place, str]]:
        """Return the places of a file that hold a secret, each with the text found there."""
        text = _text(data)
        known_alone = _is_binary(data) or any(is_path_covered(path, glob) for glob in self.examples)
        search = self.redactor.find_known_secrets if known_alone else self.redactor.find_secrets
        name = printable(self.redactor.redact(path))
        return [
            ((name, text.count("\n", 0, span.start) + 1, span.kind), text[span.start : span.end])
            for span in _pieces(text, search)
        ]


def _pieces(text: str, search: Search) -> Iterator[Span]:
    """Search a text piece by piece, so that a file takes only a few pieces of memory; each span is yielded once."""
    last = -1
    for start in range(0, max(1, len(text)), AT_ONCE - OVERLAP):
        for span in search(text[start : start + AT_ONCE]):
            if start + span.start > last:
                last = start + span.start
                yield Span(start + span.start, start + span.end, span.kind)


async def changes_of(clone: Path, base: CommitId) -> list[PathChange]:
    """Return the changes of a clone's index relative to the base: git-diff-index(1), raw output format."""
    names = ("diff-index", "--cached", "--raw", "--no-abbrev", "--no-renames", "-z", base, "--")
    records = (await run.git(clone, *names)).out.split(b"\0")
    changes = []
    for about, name in zip(records[::2], records[1::2], strict=False):
        was, now, before, after, _ = about.decode().lstrip(":").split(" ")
        ids = (oid if mode not in {"000000", EntryKind.MODULE} else "" for mode, oid in ((was, before), (now, after)))
        changes.append(PathChange(os.fsdecode(name), *ids))
    return changes


async def _contents(
    clone: Path, changes: Sequence[PathChange], *, old: bool = False
) -> AsyncIterator[tuple[PathChange, bytes]]:
    blobs = [(change, oid) for change in changes if (oid := change.before if old else change.after)]
    if not blobs:
        return
    object_ids = "".join(f"{oid}\n" for _, oid in blobs).encode()
    lines = (await run.git(clone, "cat-file", "--batch-check=%(objectsize)", stdin=object_ids)).out.decode().split("\n")
    sizes = [int(line) for line in lines if line]
    for group in _groups(sizes):
        object_ids = "".join(f"{blobs[number][1]}\n" for number in group).encode()
        out, at = (await run.git(clone, "cat-file", "--batch=", stdin=object_ids)).out, 0
        for number in group:
            yield blobs[number][0], out[at + 1 : at + 1 + sizes[number]]
            at += 1 + sizes[number] + 1


def _groups(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Yield groups of consecutive indexes whose sizes add up to at most READ_AT_ONCE; a larger item stands alone."""
    group, total = list[int](), 0
    for number, size in enumerate(sizes):
        if group and total + size > READ_AT_ONCE:
            yield group
            group, total = [], 0
        group.append(number)
        total += size
    if group:
        yield group


def _is_binary(data: bytes) -> bool:
    return b"\0" in data[:_BINARY_BYTES]


def _text(data: bytes) -> str:
    """Return a file as text; zero bytes of a binary file are dropped, so that 16-bit text is searched as well."""
    return data.replace(b"\0", b"").decode("latin-1") if _is_binary(data) else data.decode(errors="replace")


# The commit that is published, signed if the operator has configured a key:
# - Every part of a commit is derived from the order and the committer, so the same order gives the same commit (E3).
#   Therefore only keys with deterministic signatures are accepted: Ed25519 and RSA.
# - Only this module uses GitPython, in a clone that this program made, and passes it no argument that others control.
# - The signature is the one that git makes with ``gpg.format=ssh`` (git-config(1)): ``ssh-keygen -Y sign`` over the
#   commit, in the namespace ``git``. Only ssh-keygen reads the key, next to the trusted clone; no sandbox sees it.

KEY_VARIABLE: Final = "PLANGATE_SIGNING_KEY_PATH"
_DETERMINISTIC: Final = (b"ssh-ed25519 ", b"ssh-rsa ")
_NO_PASSPHRASE: Final = ("-P", "")


@dataclass(frozen=True, slots=True)
class Committer:
    """Author and committer of published commits, and the SSH key that signs them, or None for no signature."""

    name: str = "Plangate"
    address: str = "plangate@users.noreply.github.com"
    key: Path | None = None


async def commit_tree(clone: Path, tree: str, base: CommitId, order: CommitOrder, *, committer: Committer) -> CommitId:
    """Write the commit of a tree into a trusted clone; raises Misconfigured if it cannot be signed."""
    commit = await asyncio.to_thread(_write_unsigned, clone, tree, base, order, committer=committer)
    return commit if committer.key is None else await _write_signed(clone, commit, committer.key)


async def check_key(key: Path) -> None:
    """Raise Misconfigured for a key that cannot sign: unreadable, with a passphrase, or of an unsupported kind."""
    public = await _run_keygen("-y", *_NO_PASSPHRASE, "-f", str(key))
    if not public.startswith(_DETERMINISTIC):
        kind = public.split(b" ")[0].decode(errors="replace")[:40]
        raise Misconfigured(f"commits cannot be signed by a key of the kind {kind}", where=KEY_VARIABLE, fix=_FIX)


_FIX: Final = "name a private key that `ssh-keygen -t ed25519 -N ''` made, readable only by this user"


def _write_unsigned(clone: Path, tree: str, base: CommitId, order: CommitOrder, *, committer: Committer) -> CommitId:
    from git import Actor, Commit, Repo, Tree

    trailer = f"\n\nCo-authored-by: {order.requester}" if order.requester else ""
    message = "\n".join(order.message.replace("\r\n", "\n").strip().splitlines()) + trailer + "\n"
    author, at = Actor(committer.name, committer.address), order.at.astimezone(UTC).replace(microsecond=0)
    with Repo(clone) as repo:
        commit = Commit.create_from_tree(
            repo,
            Tree(repo, bytes.fromhex(tree)),
            message,
            parent_commits=[Commit(repo, bytes.fromhex(base))],
            author=author,
            committer=author,
            author_date=at,
            commit_date=at,
        )
        return CommitId(commit.hexsha)


async def _write_signed(clone: Path, commit: CommitId, key: Path) -> CommitId:
    """Write a commit again with its signature as the last header (git-commit-tree, gpgsig)."""
    await check_key(key)
    content = (await run.git(clone, "cat-file", "commit", commit)).out
    signature = await _run_keygen("-Y", "sign", "-n", "git", "-f", str(key), stdin=content)
    headers, _, message = content.partition(b"\n\n")
    signed = b"%b\ngpgsig %b\n\n%b" % (headers, signature.strip().replace(b"\n", b"\n "), message)
    result = await run.git(clone, "hash-object", "-t", "commit", "-w", "--stdin", stdin=signed)
    return CommitId(result.out.decode().strip())


async def _run_keygen(*arguments: str, stdin: bytes = b"") -> bytes:
    environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": "/nonexistent", "LANG": "C.UTF-8"}
    try:
        answer = await run.execute(["ssh-keygen", *arguments], Path("/"), environment=environment, stdin=stdin)
    except FileNotFoundError:
        fix = "install it: apt-get install openssh-client"
        raise Misconfigured("ssh-keygen is missing: commits cannot be signed", where=KEY_VARIABLE, fix=fix) from None
    if answer.code != 0:
        message = " ".join(answer.error.split())[-300:]
        raise Misconfigured(f"commits cannot be signed: {message}", where=KEY_VARIABLE, fix=_FIX)
    return answer.out


# The rules of the publisher (G1, G3, G4):
# - It works in a fresh clone and never runs git in the checkout. A person's work tree, index and HEAD stay untouched.
# - It commits nothing outside the approved plan's scope and no secret (X3); for an amendment, exactly its own tree.
# - If the work was verified, it commits exactly the verified tree (G3a).
# - The harness sets author, date, branch and message.
# - It pushes with one compare-and-swap: a new branch must not exist yet, and a pull request's branch must still be at
#   the plan's base. The server gets exactly the commit that was screened and hashed here. A commit made through the
#   server's API could be compared only once it is on the branch, and cannot hold every file mode.
# - The same order gives the same commit. A branch that holds something else is a Conflict and is never overwritten.

KEPT_LIMIT: Final = 32 << 20
"""The most work, in bytes, that is kept in a thread's ref, which only grows."""

HISTORY_SECONDS: Final = 60.0

_log: Final = logging.getLogger(__name__)
_PERSON = re.compile(r"[^<>\x00-\x1f\x7f]+ <[^<>\s\x00-\x1f\x7f]+>")
_SHOWN = 20

# git-config(1), push.negotiate: if the base's branch has moved on the server, git would otherwise send the whole
# history, whose contents a partial mirror lacks. It starts the remote program itself, so a person's repository does not
# use it.
_NEGOTIATED = {"push.negotiate": "true"}

# What git prints if another push came first: before ours, or while ours was under way.
_OVERTAKEN = ("stale info", "fetch first", "non-fast-forward", "but expected", "reference already exists")


@dataclass(frozen=True, slots=True)
class Publishing:
    """Settings that apply to everything that is published."""

    screen: Screen = field(default_factory=Screen)
    committer: Committer = Committer()


@dataclass(frozen=True, slots=True)
class Publisher:
    """Publishes to the repository that a mirror belongs to."""

    folder: Path
    """Where fresh clones are made; each is removed afterward."""
    mirror: Mirror
    rules: Publishing = field(default_factory=Publishing)

    async def publish(
        self, plan: ApprovedPlan, checkout: Checkout, order: CommitOrder, *, before_push: BeforePush | None = None
    ) -> PushedWork:
        """Publish a checkout that nothing writes anymore; raises Refused or Conflict, and then nothing was pushed.

        `before_push` is called with the work that is about to be pushed; if it raises, nothing is pushed.
        """
        _check(plan, checkout, order)
        await self.mirror.ensure(checkout.base)
        await self._check_history(checkout)
        async with self._clone_of(checkout, order.leftovers, plan.document.contract.scope) as clone:
            changes = await changes_of(clone, checkout.base)
            tree = await _approved_tree(clone, changes, plan.document, order)
            await self.rules.screen.check(clone, changes, order)
            commit = await commit_tree(clone, tree, checkout.base, order, committer=self.rules.committer)
            work = PushedWork(order.branch, commit, _paths(changes), tree)
            if before_push is not None:
                await before_push(work)
            await self._push(clone, commit, order)
        return work

    async def keep(self, checkout: Checkout) -> bytes:
        """Return what would be published, whatever its scope: the id of its tree, and a pack of what the base lacks.

        Returns b"" if nothing changed, if the work may not be published, and if it is larger than KEPT_LIMIT.
        """
        try:
            async with self._clone_of(checkout, {}) as clone:
                tree = (await _write_tree(clone)).encode()
                revisions = b"%b\n^%b\n" % (tree, checkout.base.encode())
                pack = (await run.git(clone, "pack-objects", "--quiet", "--revs", "--stdout", stdin=revisions)).out
        except Refused as error:
            _log.warning("the work cannot be kept: %s", error)
            return b""
        if len(pack) > KEPT_LIMIT:
            _log.warning("the work is too large to be kept: %d bytes", len(pack))
            return b""
        return b"%b\n%b" % (tree, pack)

    async def changed_paths(self, checkout: Checkout) -> tuple[str, ...]:
        """Return the paths that would be published, whatever their scope; raises Refused if the work may not be."""
        async with self._clone_of(checkout, {}) as clone:
            return _paths(await changes_of(clone, checkout.base))

    async def tree(self, checkout: Checkout, leftovers: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
        """Return the id of the git tree that would be published, whatever its scope, and the paths that it changes.

        Raises Refused if the work may not be published.
        """
        await self._check_history(checkout)
        async with self._clone_of(checkout, leftovers, ()) as clone:
            changes = await changes_of(clone, checkout.base)
            return await _write_tree(clone), _paths(changes)

    async def sweep(self) -> None:
        """Remove the clones that a killed process left."""
        await locks.sweep(self.folder, lambda _: True, _remove)

    @asynccontextmanager
    async def make_place(self) -> AsyncIterator[Path]:
        """Make a private folder for the duration of the context, and hold its lock."""
        place = self.folder / secrets.token_hex(8)
        lock = Lock(place.with_suffix(".lock"))
        lock.acquire()
        try:
            place.mkdir(mode=0o700)
            yield place
        finally:
            await _remove(place)
            lock.drop()

    @asynccontextmanager
    async def _clone_of(
        self, checkout: Checkout, leftovers: Mapping[str, str], scope: tuple[str, ...] | None = None
    ) -> AsyncIterator[Path]:
        """Yield a fresh clone whose index holds a checkout's tree without the leftovers of set-up commands."""
        async with self.make_place() as place:
            clone = place / "clone"
            start_repository(clone, self.mirror, head=checkout.base)
            await run.git(clone, "read-tree", checkout.base)
            await Export(UntrustedTree(checkout.path), clone, leftovers, scope, self.mirror.source.unsafe).run()
            yield clone

    async def _check_history(self, checkout: Checkout) -> None:
        """Raise Refused for a merge: the work becomes one commit on its base, and the other parent would be lost.

        git runs, in a sandbox, only where the session made commits.
        """
        tree = UntrustedTree(checkout.path)
        if not await asyncio.to_thread(tree.has, ".git/HEAD"):
            return  # the session removed its copy of the history
        is_merge = await asyncio.to_thread(tree.has, ".git/MERGE_HEAD")
        _, head = next(await asyncio.to_thread(tree.content, [TreeEntry(".git/HEAD", "file")]))
        if not is_merge and head.data != f"{checkout.base}\n".encode():
            mounts = (Mount(checkout.path, checkout.path), Mount(str(self.mirror.path), str(self.mirror.path)))
            command = ("git", "rev-list", "--merges", "--max-count=1", "HEAD", f"^{checkout.base}")
            profile = SandboxProfile(checkout.path, mounts)
            try:
                async with asyncio.timeout(HISTORY_SECONDS):
                    is_merge = bool((await run.run_sandboxed(profile, command, unsafe=self.mirror.source.unsafe)).out)
            except TimeoutError:
                raise Refused("the commits of the session take too long to read", fix="ask again") from None
        if is_merge:
            fix = "ask for the same work without a merge; its changes alone can be taken with `git merge --squash`"
            raise Refused("the work is a merge, whose other commits would be lost", fix=fix)

    async def _push(self, clone: Path, commit: CommitId, order: CommitOrder) -> None:
        """Make the branch, or move it from where the order expects it. A branch that is already at this commit stays.

        After a broken connection, git may repeat a push and report its own first attempt as somebody else's push.
        Therefore a push that was overtaken is tried once more (E1).
        """
        answer = await self._push_commit(clone, commit, order)
        if answer.code != 0 and _is_overtaken(answer):
            answer = await self._push_commit(clone, commit, order)
        if answer.code != 0:
            raise _push_error(self.mirror.source.location, order, answer)

    async def _push_commit(self, clone: Path, commit: CommitId, order: CommitOrder) -> run.ProcessResult:
        source, ref = self.mirror.source, f"refs/heads/{order.branch}"
        through = (f"--receive-pack={source.receive_pack}",) if source.receive_pack else ()
        options = ("--porcelain", "--no-verify", "--no-follow-tags", "--recurse-submodules=no", *through)
        lease, what = f"--force-with-lease={ref}:{order.expected or ''}", ("--", source.location, f"{commit}:{ref}")
        return await self.mirror.reach(clone, "push", *options, lease, *what, settings={} if through else _NEGOTIATED)


async def _approved_tree(clone: Path, changes: Sequence[PathChange], plan: PlanDocument, order: CommitOrder) -> str:
    """Return the id of a clone's tree; raises Refused or OutOfScope unless that tree was verified and approved."""
    if not changes:
        raise Refused("the work changed nothing", fix="say what should be different")
    tree = await _write_tree(clone)
    if order.verified not in {"", tree}:
        where = f"tree {tree[:SHORT_DIGEST]}, verified was {order.verified[:SHORT_DIGEST]}"
        raise Refused("the work changed after it was verified", where=where, fix="ask again")
    if plan.tree not in {"", tree}:
        where = f"tree {tree[:SHORT_DIGEST]}, approved was {plan.tree[:SHORT_DIGEST]}"
        raise Refused("the work is not what was approved: it has changed since", where=where, fix="ask again")
    await asyncio.to_thread(_check_scope, _paths(changes), plan.contract, tree)
    return tree


def _paths(changes: Sequence[PathChange]) -> tuple[str, ...]:
    return tuple(sorted(change.path for change in changes))


async def _write_tree(clone: Path) -> str:
    return (await run.git(clone, "write-tree")).out.decode().strip()


async def _remove(place: Path) -> None:
    await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)


def _check(plan: ApprovedPlan, checkout: Checkout, order: CommitOrder) -> None:
    """Raise Refused for an order that does not fit the plan or checkout, or has a bad branch, co-author, or message."""
    if plan.document.base != checkout.base:
        raise Refused(
            "the checkout was made from another commit than the plan", where=checkout.base, fix="start the work again"
        )
    if order.expected not in {None, checkout.base}:
        raise Refused("the work did not start from the branch's head", where=order.branch, fix="start the work again")
    if not is_branch(order.branch):
        raise Refused("this is not a branch name", where=printable(order.branch[:80]), fix="rename the branch")
    if order.requester and not _PERSON.fullmatch(order.requester):
        raise Refused("this is not a co-author", where=printable(order.requester[:80]), fix="use `Name <address>`")
    if not order.message.strip() or "\0" in order.message:
        raise Refused("the commit message is empty or binary", fix="give a message")


def _check_scope(paths: tuple[str, ...], contract: Contract, tree: str) -> None:
    """Raise OutOfScope for paths that the plan does not name, Refused for paths that no plan can name."""
    outside = tuple(path for path in paths if not contract.reaches(path))
    odd = [printable(path) for path in outside if printable(path) != path or not contract.can_name(path)]
    if odd:
        raise Refused("no plan can name these files", where=", ".join(odd[:_SHOWN]), fix="leave them as they were")
    if outside:
        raise OutOfScope(outside, tree)


def _git_message(answer: run.ProcessResult) -> str:
    return " ".join((answer.out.decode(errors="replace") + " " + answer.error).split())[-600:]


def _is_overtaken(answer: run.ProcessResult) -> bool:
    """Return whether git reports that the branch is not where it was expected."""
    return any(sign in _git_message(answer) for sign in _OVERTAKEN)


def _push_error(location: str, order: CommitOrder, answer: run.ProcessResult) -> PlangateError:
    """Return the error for a failed push, with the cure if the cause is known."""
    message = _git_message(answer)
    if _is_overtaken(answer):
        if order.expected:
            return Conflict("the branch has moved since the plan was made", where=order.branch, fix="ask again")
        return Conflict("the branch holds something else", where=order.branch, fix="delete or rename that branch")
    if "proc-receive" in message:
        return Refused(
            "the repository passes pushes to a hook, which does not run here",
            where=location,
            fix="git config --unset-all receive.procReceiveRefs",
        )
    if "cannot lock ref" in message or "refname conflict" in message:
        return Refused(
            f"the branch cannot be made: {message}", where=order.branch, fix="rename the branch that blocks it"
        )
    if "ermission denied" in message or "insufficient permission" in message or "Read-only file system" in message:
        return Refused(
            f"the repository cannot be written: {message}", where=location, fix="run as the user who owns it"
        )
    output = f"{answer.out.decode(errors='replace')}\n{answer.error}"
    return refusal(location, output) or run.git_error("push", location, answer)
