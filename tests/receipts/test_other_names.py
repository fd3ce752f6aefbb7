"""Which commit a name means: whoever can push branches, tags, or files must not have another one checked."""

import io
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.cli.receipts import NO_RECEIPT, VerifyOptions, print_verdicts
from bot.core.errors import Misconfigured
from tests.receipts.conftest import Clone

pytestmark = pytest.mark.req("RC3", "RC4")
NOW = datetime(2026, 11, 21, tzinfo=UTC)


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


@pytest.mark.parametrize("kind", ("heads", "tags"))
def test_a_ref_that_is_named_like_a_commit(clone: Clone, forged: tuple[str, str], kind: str) -> None:
    """The first digits of a commit, also of one that was not fetched, never name a branch or a tag."""
    good, other = forged
    for digits in (other[:12], other[:12].upper(), "0123456789ab"):
        clone.git("update-ref", f"refs/{kind}/{digits}", good)
        with pytest.raises(Misconfigured, match="more than one branch, tag, or commit"):
            verify(clone, digits)
    assert verify(clone, f"refs/{kind}/{other[:12]}")[0] == 0


def test_all_digits_name_a_commit(clone: Clone, forged: tuple[str, str]) -> None:
    good, other = forged
    clone.git("update-ref", f"refs/tags/{other}", good)
    assert verify(clone, other)[0] == NO_RECEIPT
    assert verify(clone, other.upper())[0] == NO_RECEIPT
    assert verify(clone, good.upper())[0] == 0


def test_head_is_that_of_the_clone(clone: Clone, forged: tuple[str, str]) -> None:
    good, _ = forged
    for kind in ("heads", "tags"):
        clone.git("update-ref", f"refs/{kind}/HEAD", good)
    assert [verify(clone, name)[0] for name in ("HEAD", "@", "HEAD~1", "HEAD^")] == [NO_RECEIPT, NO_RECEIPT, 0, 0]
    assert verify(clone, revisions="HEAD~1..HEAD")[0] == NO_RECEIPT


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


def test_a_range_without_commits(clone: Clone) -> None:
    """It says that nothing was checked, such as when its ends were swapped."""
    assert verify(clone, revisions="HEAD..HEAD") == (0, "the range has no commits, so nothing was checked\n")


def test_a_submodule_that_gitmodules_hides(clone: Clone) -> None:
    (clone.path / ".gitmodules").write_text('[submodule "m"]\n\tpath = m\n\turl = ./m\n\tignore = all\n')
    clone.git("update-index", "--add", "--cacheinfo", f"160000,{'a' * 40},m")
    clone.git("add", ".gitmodules")
    clone.git("commit", "-q", "-m", "Add a submodule")
    clone.git("update-index", "--cacheinfo", f"160000,{'b' * 40},m")
    clone.git("commit", "-q", "-m", "Move it")
    assert clone.facts(clone.head).paths == ("m",)


def test_a_commit_that_is_too_large_to_read(clone: Clone, tmp_path: Path) -> None:
    tree = clone.git("rev-parse", "HEAD^{tree}")
    message = tmp_path / "message"
    message.write_bytes(b"x" * ((4 << 20) + 1))
    commit = clone.git("commit-tree", tree, "-F", str(message))
    with pytest.raises(Misconfigured, match="too large"):
        verify(clone, commit)
