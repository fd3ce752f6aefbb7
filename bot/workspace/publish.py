"""The publisher: copies a checkout's work to a branch of the repository (G1, G3, G4).

Rules
- It works in a fresh clone and never runs git in the checkout. A person's work tree, index and HEAD stay untouched.
- It commits nothing outside the approved plan's scope and no secret (X3); for an amendment, exactly its own tree.
- If the work was verified, it commits exactly the verified tree (G3a).
- The harness sets author, date, branch and message (commit.py).
- It pushes with one compare-and-swap: a new branch must not exist yet, and a pull request's branch must still be at the
  plan's base. What was screened and hashed here lands bit for bit. A commit that the server creates could only be
  compared after it is on the branch, and cannot hold every file mode.
- The same order gives the same commit. A branch that holds something else is a Conflict and is never overwritten.
"""

import asyncio
import logging
import re
import secrets
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bot.core.approval import ApprovedPlan
from bot.core.errors import Conflict, OutOfScope, PlangateError, Refused
from bot.core.names import SHORT_DIGEST, CommitId, is_branch
from bot.core.plan import Contract, PlanDocument
from bot.core.work import Checkout, CommitOrder, PushedWork
from bot.ports import BeforePush
from bot.workspace import run, unused_folders
from bot.workspace.checkout import start_repository
from bot.workspace.commit import Committer, commit_tree
from bot.workspace.export import Export, printable
from bot.workspace.locks import Lock
from bot.workspace.mirror import Mirror
from bot.workspace.remote import refusal
from bot.workspace.sandbox import Mount, SandboxProfile
from bot.workspace.screening import PathChange, Screen, changes_of
from bot.workspace.tree import TreeEntry, UntrustedTree

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
        """Return the paths that would be published, whatever their scope; raises Refused if none may be published."""
        async with self._clone_of(checkout, {}) as clone:
            return _paths(await changes_of(clone, checkout.base))

    async def tree(self, checkout: Checkout, leftovers: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
        """Return the id of the git tree that would be published, whatever its scope, and the paths that it changes.

        Raises Refused if none may be published.
        """
        await self._check_history(checkout)
        async with self._clone_of(checkout, leftovers, ()) as clone:
            changes = await changes_of(clone, checkout.base)
            return await _write_tree(clone), _paths(changes)

    async def sweep(self) -> None:
        """Remove the clones that a killed process left."""
        await unused_folders.sweep(self.folder, lambda _: True, _remove)

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
        """Yield a fresh clone with a checkout's tree in its index, without leftovers of set-up commands."""
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
        """Move the branch if it is where the order expects it, or make it; a branch already at this commit stays.

        If a connection breaks, git may repeat a push by itself, and then report that its own first push came earlier.
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
    """Return the id of a clone's tree; raises Refused or OutOfScope unless it is what was verified and approved."""
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
    """Write the tree of a clone's index, and return its id."""
    return (await run.git(clone, "write-tree")).out.decode().strip()


async def _remove(place: Path) -> None:
    """Remove a folder that this program made."""
    await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)


def _check(plan: ApprovedPlan, checkout: Checkout, order: CommitOrder) -> None:
    """Raise Refused for an order that the harness should not have given."""
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
