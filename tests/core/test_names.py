"""Identifiers, branches, refs, and the rules about tools."""

import re
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.errors import Misconfigured
from bot.core.names import (
    CommitId,
    RepositoryId,
    ThreadAddress,
    ThreadNumber,
    is_branch,
    is_commit,
    is_thread_branch,
    local_repository,
    local_thread,
    run_branch,
    slug,
    split_rule,
    thread_branch,
    thread_ref,
)
from bot.core.work import LocalRun, ThreadLocation
from tests.rows import every_row

BASE = CommitId("a" * 40)
FIVE = ThreadNumber(5)


@every_row(
    ("text", "name"),
    (
        ("Fix the login page", "fix-the-login-page"),
        ("  --Über_Größe!!  ", "uber-groe"),
        ("ﬁle № 1", "file-no-1"),
        ("../../etc/passwd", "etc-passwd"),
        ("a.lock", "a-lock"),
        ("@{-1}~^:?*[\\", "1"),
        ("", "work"),
        ("日本語", "work"),
        ("---", "work"),
        ("a" * 60, "a" * 40),
        ("word " * 20, "word-word-word-word-word-word-word-word"),
        ("x" * 39 + " yz", "x" * 39),
        ("x" * 40 + " yz", "x" * 40),
        ("x" * 36 + " abc", "x" * 36 + "-abc"),
        ("\ud800half", "half"),
    ),
)
def test_slug(text: str, name: str) -> None:
    """Letters and digits stay, all else is one dash; a long text is cut between words where it has any."""
    assert slug(text) == name


BRANCHES = (
    "feature/AB#1992-x",
    "feat(x)",
    "a+b",
    "ü",
    "a`b`",
    "@maya",
    "it's",
    "a&b;c",
    "a/-b",
    "x" * 300,
    "日本/語",
    "{}",
    "a]",
)
NO_BRANCHES = (
    "",
    "-x",
    "HEAD",
    "@{-1}",
    "a@{1}",
    "a b",
    "a..b",
    "/a",
    "a/",
    "a//b",
    ".a",
    "a/.b",
    "a.",
    "a.lock/b",
    "a\n",
    "\0",
)


@every_row("name", BRANCHES)
def test_names_that_git_accepts_are_branches(name: str) -> None:
    assert is_branch(name)


@every_row("name", (*NO_BRANCHES, "a:b", "a~", "a^", "a?", "a*", "a[", "a\\b", "a\x7f", "\ud800"))
def test_names_that_git_refuses_are_no_branches(name: str) -> None:
    assert not is_branch(name)


@given(
    st.lists(
        st.sampled_from((*BRANCHES[:9], *NO_BRANCHES[:-1], "/", ".", "-", "@", "{", "\x85", "\u2028", "lock")),
        max_size=4,
    )
    | st.lists(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)
)
def test_a_branch_is_what_git_accepts(parts: list[str]) -> None:
    name = "".join(parts)
    answer = subprocess.run(["git", "check-ref-format", "--branch", name], cwd="/", capture_output=True, check=False)
    assert is_branch(name) == (answer.returncode == 0)


@given(st.text(st.characters(codec=None)))
def test_slug_is_always_safe(text: str) -> None:
    """Whatever the text, its slug has 1-40 characters of [a-z0-9-] with none at the edges, and is its own slug."""
    name = slug(text)
    assert re.fullmatch(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?", name)
    assert slug(name) == name


@pytest.mark.req("G3")
def test_branches() -> None:
    """Branch names have the round from the second on, eight hex digits for a local run."""
    assert thread_branch("Fix it!", FIVE, 1) == "plangate/5-fix-it"
    assert [is_thread_branch(name) for name in (thread_branch("x", FIVE, 1), "plangate/x", "5-x")] == [
        True,
        False,
        False,
    ]
    assert thread_branch("Fix it!", FIVE, 2) == "plangate/5-fix-it-r2"
    assert run_branch("Fix it!", FIVE) == "plangate/run-fix-it-00000005"
    assert run_branch("Fix it!", ThreadNumber(2**32 - 1)) == "plangate/run-fix-it-ffffffff"
    location = RepositoryId(1), FIVE, "Fix it!", BASE
    assert ThreadLocation(*location).new_branch("Fix it!", 2) == thread_branch("Fix it!", FIVE, 2)
    assert LocalRun(*location).new_branch("Fix it!", 1) == run_branch("Fix it!", FIVE)
    assert thread_ref(FIVE) == "refs/plangate/threads/5"


@pytest.mark.req("G3")
@every_row("title", ("-rf ..", "a..b", "HEAD", "x.lock", "@{u}", "a b\n\tc", "/", "日本"))
def test_git_itself_finds_each_name_well_formed(title: str) -> None:
    for name in (thread_branch(title, FIVE, 3), run_branch(title, FIVE)):
        assert subprocess.run(["git", "check-ref-format", "--branch", name], check=False).returncode == 0


@pytest.mark.req("PR2")
def test_local_thread() -> None:
    """The same command on the same commit finds its thread again; another commit, prompt or ordinal has its own."""
    numbers = [
        local_thread(BASE, "fix", 1),
        local_thread(CommitId("b" * 40), "fix", 1),
        local_thread(BASE, "fix it", 1),
        local_thread(BASE, "fix", 2),
        local_thread(BASE, "2\0fix", 1),
    ]
    assert local_thread(BASE, "fix", 1) == numbers[0] == 616121972
    assert len(set(numbers)) == len(numbers)
    assert all(0 <= number < 2**32 for number in numbers)


def test_a_repositorys_number_is_that_of_its_place_and_fits_63_bits() -> None:
    here, there = local_repository("/srv/a.git"), local_repository("/srv/b.git")
    assert here == local_repository("/srv/a.git") != there
    assert here == 3511937486254402747
    assert 0 <= there < 2**63


def test_words_that_are_not_unicode() -> None:
    """A path or a prompt of bytes that are no UTF-8, as Python hands it over, is numbered like every other."""
    odd = b"caf\xe9".decode(errors="surrogateescape")
    assert local_repository(odd) != local_repository("caf")
    assert local_thread(BASE, odd, 1) != local_thread(BASE, "caf", 1)


@pytest.mark.req("G1")
@every_row(
    ("text", "full"),
    (
        ("0123456789abcdef0123456789abcdef01234567", True),
        ("0" * 64, True),
        ("0" * 39, False),
        ("0" * 41, False),
        ("0" * 63, False),
        ("A" * 40, False),
        ("g" * 40, False),
        ("0" * 40 + "\n", False),
        ("-" + "0" * 39, False),
        ("٠" * 40, False),
        ("HEAD", False),
        ("", False),
    ),
)
def test_is_commit(text: str, full: bool) -> None:
    """Only a full commit id in lower case is one."""
    assert is_commit(text) is full


def test_a_thread_is_shown_as_people_refer_to_it() -> None:
    address = ThreadAddress(7, 1, "octo", "hello", 5)
    assert (address.full_name, str(address)) == ("octo/hello", "octo/hello#5")


@pytest.mark.parametrize(
    ("text", "parts"),
    (
        ("Bash", ("Bash", "*")),
        (" Bash() ", ("Bash", "*")),
        ("Bash(git diff:*)", ("Bash", "git diff:*")),
        ("Bash(f (x))", ("Bash", "f (x)")),
        ("WebFetch", ("WebFetch", "*")),
        ("WebFetch(domain:*)", ("WebFetch", "domain:*")),
        ("WebFetch(domain:*.pypi.org)", ("WebFetch", "domain:*.pypi.org")),
    ),
)
def test_a_rule_is_a_tool_and_a_pattern(text: str, parts: tuple[str, str]) -> None:
    assert split_rule(text) == parts


@pytest.mark.parametrize(
    ("text", "said"),
    (
        ("Bash(", "write Tool or Tool"),
        ("git diff", "write Tool or Tool"),
        ("", "write Tool or Tool"),
        ("WebFetch(pypi.org)", "domain:NAME"),
        ("WebFetch(domain:PyPI.org)", "not a host"),
        ("WebFetch(domain:)", "not a host"),
    ),
)
def test_a_mistake_is_told_with_the_right_form(text: str, said: str) -> None:
    with pytest.raises(Misconfigured, match=said):
        split_rule(text)
