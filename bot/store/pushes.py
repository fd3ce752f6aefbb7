"""Pushes of thread refs to one remote, one at a time. Refs that arrive during a push go together in the next one.

GitHub recommends at most six pushes per minute to a repository, so threads that are worked on at the same time share
pushes. Each ref has its own compare-and-swap: refusing one ref does not stop the others.
https://docs.github.com/en/repositories/creating-and-managing-repositories/repository-limits
"""

import re
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from bot.core import git_failures
from bot.core.errors import PlangateError, Transient, Unwritable
from bot.store.plumbing import Plumbing

# https://git-scm.com/docs/git-push#_output; "[remote failure]" means that the remote did not say.
_STATUS: Final = re.compile(r"^([ +\-*=!])\t\S*:(\S+)\t(.*)$", re.MULTILINE)
_REJECTED: Final = re.compile(r"\[(?:remote )?rejected\] ?(.*)")


@dataclass(slots=True, eq=False)
class _RefUpdate:
    """One ref to move, and the outcome: "" if it moved, else the reason for the refusal or the error."""

    ref: str
    before: str
    after: str
    outcome: str | PlangateError | None = None


@dataclass(slots=True)
class Pushes:
    """Pushes commits of a scratch repository. Safe to use from several threads."""

    git: Plumbing
    location: str
    receive_pack: str | None = None
    """The command that serves a repository given as path; None for git's own."""
    _waiting: list[_RefUpdate] = field(default_factory=list)
    _push_lock: Lock = field(default_factory=Lock)
    """Held by the thread that pushes."""

    @property
    def waiting(self) -> int:
        """The number of refs that wait for the push in progress."""
        return len(self._waiting)

    def push(self, ref: str, before: str, after: str) -> str:
        """Move a ref from a commit ("" if the ref does not exist yet) to another one.

        Returns "" if it moved, else the remote's reason for refusing. Raises Transient if the remote does not report
        the outcome; the ref may have moved then.
        """
        update = _RefUpdate(ref, before, after)
        self._waiting.append(update)
        with self._push_lock:
            while update.outcome is None:
                self._push(self._next())
        if isinstance(update.outcome, str):
            return update.outcome
        raise update.outcome

    def _next(self) -> list[_RefUpdate]:
        """Return the oldest waiting update of each ref, removed from the queue, because one push moves a ref once."""
        updates: dict[str, _RefUpdate] = {}
        for update in tuple(self._waiting):
            if updates.setdefault(update.ref, update) is update:
                self._waiting.remove(update)
        return list(updates.values())

    def _push(self, updates: list[_RefUpdate]) -> None:
        """Push the updates together, and record the outcome of each."""
        leases = [f"--force-with-lease={update.ref}:{update.before}" for update in updates]
        through = [f"--receive-pack={self.receive_pack}"] if self.receive_pack else []
        moves = [f"{update.after}:{update.ref}" for update in updates]
        for update in updates:  # so that nobody waits forever if an error ends this push
            update.outcome = Transient("a push was interrupted: it may have arrived", where=update.ref, fix="try again")
        try:
            result = self.git.run("push", "--porcelain", "--no-verify", *leases, *through, self.location, *moves)
        except PlangateError as error:
            for update in updates:
                update.outcome = error
            return
        statuses = {ref: (sign, words) for sign, ref, words in _STATUS.findall(result.out.decode("utf-8", "replace"))}
        violation = git_failures.rule_violation(result.err.decode("utf-8", "replace"))
        for update in updates:
            sign, words = statuses.get(update.ref, ("!", ""))
            refusal = _REJECTED.match(words)
            if result.code == 0 or sign != "!":
                update.outcome = ""
            elif refusal:
                update.outcome = " ".join((refusal.group(1) or "rejected", violation)).rstrip()
            else:
                update.outcome = _unknown_outcome(update.ref, result.reason)


def _unknown_outcome(ref: str, reason: str) -> Transient:
    """Return the error for a push whose outcome the remote did not report."""
    if reason.endswith("error: 403"):
        return Unwritable("the server does not let this token write", where=ref, fix="grant it contents: write")
    return Transient("no answer to a push: it may have arrived", where=ref, fix=reason)
