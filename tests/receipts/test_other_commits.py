"""The same work in another commit: amended, rebased, picked, or squashed. Nobody approved that commit (RC3, RC4)."""

from collections.abc import Callable

import pytest

from tests.receipts.conftest import Clone
from tests.receipts.test_verdicts import NOW, failing


def amend(clone: Clone, _: str) -> None:
    clone.git("commit", "-q", "--amend", "--no-edit", "--date", "2026-11-20T09:00:00Z")


def rebase(clone: Clone, base: str) -> None:
    clone.git("checkout", "-q", "-b", "moved", base)
    clone.commit("other\n", "Something else", path="b.py")
    clone.git("rebase", "-q", "moved", "main")


def pick(clone: Clone, base: str) -> None:
    clone.git("checkout", "-q", "-b", "release", base)
    clone.git("cherry-pick", "-x", "main")


def squash(clone: Clone, base: str) -> None:
    """Merge as GitHub's button does by default: the message is that of the commits."""
    clone.commit("more\n", "By hand", path="b.py")
    message = clone.git("log", "--format=* %B", f"{base}..main")
    clone.git("checkout", "-q", "-b", "target", base)
    clone.git("merge", "-q", "--squash", "main")
    clone.git("commit", "-q", "-m", f"Do it (#3)\n\n{message}")


@pytest.mark.req("RC3", "RC4")
@pytest.mark.parametrize("make", (amend, rebase, pick, squash))
def test_another_commit_of_the_same_work(clone: Clone, make: Callable[[Clone, str], None]) -> None:
    """It has no receipt, and the reason says so; the receipt of the original one does not fit it, and stays valid."""
    base = clone.head
    commit, statement = clone.work()
    receipt = clone.issue(commit, statement)
    make(clone, base)
    made = clone.git("rev-list", "--grep", "Plangate-Plan", "-1", "HEAD")
    assert made != commit
    checked = clone.opened().check_commit(made, None, NOW)
    assert (checked.verdicts, checked.by_agent) == ((), True)
    assert "rebased, squashed, or amended has none" in checked.note
    assert failing(clone.opened().check_commit(made, receipt, NOW).verdicts) == ["binding"]
    assert failing(clone.opened().check_commit(commit, None, NOW).verdicts) == []


@pytest.mark.req("RC3")
def test_a_squash_that_names_no_plan(clone: Clone) -> None:
    """Whoever writes another message makes the commit their own: in a range it needs no receipt."""
    base = clone.head
    clone.issue(*clone.work())
    clone.git("reset", "-q", "--soft", base)
    clone.git("commit", "-q", "-m", "My own work")
    (checked,) = clone.opened().check_range(f"{base}..HEAD", NOW)
    assert (checked.verdicts, checked.by_agent, checked.note) == ((), False, "")
