"""Receipts of other commits, and of repositories under other names."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from bot.cli.receipts import NO_RECEIPT, VerifyOptions, print_verdicts
from bot.core.errors import Misconfigured
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


def verify(clone: Clone, subject: str = "", revisions: str = "") -> tuple[int, str]:
    """Run the command and return its exit code and output."""
    out = io.StringIO()
    options = VerifyOptions(subject, revisions, clone.path, clone.keys, "", "", as_json=False)
    return print_verdicts(options, out), out.getvalue()


@pytest.fixture
def forged(clone: Clone) -> tuple[str, str]:
    """Return an approved commit with a receipt, and one after it that claims the same plan and has none."""
    good, statement = clone.work()
    clone.issue(good, statement)
    plan = statement["predicate"]["plan"]["digest"]
    return good, clone.commit("evil\n", f"Do it\n\nPlangate-Plan: {plan}")


@pytest.mark.req("RC3", "RC4")
@pytest.mark.parametrize("kind", ("heads", "tags"))
def test_a_ref_that_is_named_like_a_commit(clone: Clone, forged: tuple[str, str], kind: str) -> None:
    """The first digits of a commit, also of one that was not fetched, never name a branch or a tag."""
    good, other = forged
    for digits in (other[:12], other[:12].upper(), "0123456789ab"):
        clone.git("update-ref", f"refs/{kind}/{digits}", good)
        with pytest.raises(Misconfigured, match="more than one branch, tag, or commit"):
            verify(clone, digits)
    assert verify(clone, f"refs/{kind}/{other[:12]}")[0] == 0


@pytest.mark.req("RC3", "RC4")
def test_all_digits_name_a_commit(clone: Clone, forged: tuple[str, str]) -> None:
    good, other = forged
    clone.git("update-ref", f"refs/tags/{other}", good)
    assert verify(clone, other)[0] == NO_RECEIPT
    assert verify(clone, other.upper())[0] == NO_RECEIPT
    assert verify(clone, good.upper())[0] == 0


@pytest.mark.req("RC3", "RC4")
def test_head_is_that_of_the_clone(clone: Clone, forged: tuple[str, str]) -> None:
    good, _ = forged
    for kind in ("heads", "tags"):
        clone.git("update-ref", f"refs/{kind}/HEAD", good)
    assert [verify(clone, name)[0] for name in ("HEAD", "@", "HEAD~1", "HEAD^")] == [NO_RECEIPT, NO_RECEIPT, 0, 0]
    assert verify(clone, revisions="HEAD~1..HEAD")[0] == NO_RECEIPT


@pytest.mark.req("RC3", "RC4")
@pytest.mark.parametrize("name", ("main", "origin/main"))
def test_a_tag_that_is_named_like_a_branch(clone: Clone, forged: tuple[str, str], name: str) -> None:
    """Git takes the tag, so that a range could lose its commits. A configuration that hides this changes nothing."""
    good, other = forged
    clone.git("update-ref", "refs/remotes/origin/main", f"{good}~1")
    assert verify(clone, revisions="origin/main..HEAD")[0] == NO_RECEIPT
    clone.git("update-ref", f"refs/tags/{name}", other)
    clone.git("config", "core.warnAmbiguousRefs", "false")
    for start in (name, f"{name}~0"):
        with pytest.raises(Misconfigured, match="more than one branch, tag, or commit"):
            verify(clone, revisions=f"{start}..HEAD")
    assert verify(clone, revisions="refs/remotes/origin/main..HEAD")[0] == NO_RECEIPT


@pytest.mark.req("RC3", "RC4")
def test_a_file_that_is_named_like_the_commit(
    clone: Clone, forged: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A receipt in that file is about another commit: the command asks which one is meant."""
    good, other = forged
    receipt = clone.path / other
    receipt.write_text(clone.git("show", f"refs/plangate/receipts/{good}:receipt.dsse.json") + "\n")
    clone.git("checkout", "-q", good)
    monkeypatch.chdir(clone.path)
    with pytest.raises(Misconfigured, match=f"write ./{other} for the file, {other}~0 for the commit"):
        verify(clone, other)
    assert verify(clone, f"./{other}")[0] == 0
    assert verify(clone, f"{other}~0")[0] == NO_RECEIPT


@pytest.mark.req("RC3", "RC4")
def test_a_range_without_commits(clone: Clone) -> None:
    """It says that nothing was checked, such as when its ends were swapped."""
    assert verify(clone, revisions="HEAD..HEAD") == (0, "the range has no commits, so nothing was checked\n")


@pytest.mark.req("RC3", "RC4")
def test_a_submodule_that_gitmodules_hides(clone: Clone) -> None:
    (clone.path / ".gitmodules").write_text('[submodule "m"]\n\tpath = m\n\turl = ./m\n\tignore = all\n')
    clone.git("update-index", "--add", "--cacheinfo", f"160000,{'a' * 40},m")
    clone.git("add", ".gitmodules")
    clone.git("commit", "-q", "-m", "Add a submodule")
    clone.git("update-index", "--cacheinfo", f"160000,{'b' * 40},m")
    clone.git("commit", "-q", "-m", "Move it")
    assert clone.facts(clone.head).paths == ("m",)


@pytest.mark.req("RC3", "RC4")
def test_a_commit_that_is_too_large_to_read(clone: Clone, tmp_path: Path) -> None:
    tree = clone.git("rev-parse", "HEAD^{tree}")
    message = tmp_path / "message"
    message.write_bytes(b"x" * ((4 << 20) + 1))
    commit = clone.git("commit-tree", tree, "-F", str(message))
    with pytest.raises(Misconfigured, match="too large"):
        verify(clone, commit)
