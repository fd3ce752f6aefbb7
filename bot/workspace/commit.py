"""Writes the commit that is published, and signs it if the operator has configured a key.

Rules
- Every part of a commit is derived from the order and the committer, so the same order gives the same commit (E3).
  Therefore only keys with deterministic signatures are accepted: Ed25519 and RSA.
- Only this module uses GitPython, in a clone that this program made, and passes it no argument that others control.
- The signature is the one that git makes with ``gpg.format=ssh`` (git-config(1)): ``ssh-keygen -Y sign`` over the
  commit, in the namespace ``git``. Only ssh-keygen reads the key, next to the trusted clone; no sandbox sees it.
"""

import asyncio
import os
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Final

from bot.core.errors import Misconfigured
from bot.core.names import CommitId
from bot.core.work import CommitOrder
from bot.workspace import run

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
    """Run ssh-keygen without a passphrase prompt; raises Misconfigured with its error message."""
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
