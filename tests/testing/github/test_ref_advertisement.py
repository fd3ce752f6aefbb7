"""What the simulated GitHub tells of refs by itself is, byte for byte, what git would tell."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bot.testing.github.bare import Bare, bare_environment
from bot.testing.github.git_http import answer_listing, refs_before_push, run_service
from tests.rows import every_row

WHO = {f"GIT_{role}_{key}": "ada" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
ALL = ("peel", "symrefs", "unborn")
CLIENT = ("agent=git/2.39.5", "object-format=sha1")


def nothing(bare: Bare) -> None:
    """No commit yet."""


def branches(bare: Bare) -> str:
    """A few branches, by names that sort by their bytes, with a commit in a file of its own and a tree in another."""
    tree = bare.run("hash-object", "-t", "tree", "-w", "--stdin").decode().strip()
    commit = bare.run("commit-tree", tree, "-m", "one", environment=WHO).decode().strip()
    for name in ("heads/main", "heads/a/b", "heads/a-b", "heads/ä", "pull/1/head", "pulls", "plangate/threads/1"):
        bare.move(f"refs/{name}", commit)
    bare.move("refs/odd/tree", tree)
    return commit


def tags(bare: Bare) -> None:
    """A light tag, one with a text, and a tag of that tag."""
    commit = branches(bare)
    bare.run("tag", "light", commit)
    bare.run("tag", "-m", "text", "told", commit, environment=WHO)
    bare.run("tag", "-m", "text", "twice", "told", environment=WHO)


def packed(bare: Bare) -> None:
    """All of that in packs, and a branch that moved since."""
    tags(bare)
    bare.run("repack", "-adq")
    bare.run("pack-refs", "--all")
    bare.move("refs/heads/a-b", bare.run("commit-tree", "main^{tree}", "-m", "two", environment=WHO).decode().strip())
    bare.move("refs/heads/a/b", "0" * 40)


def broken(bare: Bare) -> None:
    """Refs to objects that are not there."""
    branches(bare)
    for name in ("heads/lost", "tags/lost"):
        (bare.folder / "refs" / name).parent.mkdir(exist_ok=True)
        (bare.folder / "refs" / name).write_text(f"{'1' * 40}\n")


STATES = (nothing, branches, tags, packed, broken)


def lines(*texts: str) -> bytes:
    """Return lines as packets; those that begin with a digit are packets already."""
    return b"".join(
        text.encode() if text[0].isdigit() else b"%04x%b\n" % (len(text.encode()) + 5, text.encode()) for text in texts
    )


def request(*arguments: str) -> bytes:
    return lines("command=ls-refs", *CLIENT, "0001", *arguments, "0000")


REQUESTS = (
    request(), request(*ALL), request("peel"), request("symrefs"), request(*ALL, "ref-prefix HEAD"),
    request(*ALL, "ref-prefix refs/heads/", "ref-prefix refs/tags/t"),
    request("peel", "ref-prefix refs/pull", "ref-prefix refs/none"), lines("command=ls-refs", "0000"),
)  # fmt: skip
OTHERS = (
    b"", b"0000", b"zzzz", lines("command=fetch", "0001", "0000"), request("everything"),
    lines("command=ls-refs", "object-format=sha256", "0001", "0000"), lines("command=ls-refs", "0001", "0001", "0000"),
    lines("command=ls-refs", "0001", "peel"), request() + request(),
)  # fmt: skip


@pytest.fixture
def bare(tmp_path: Path) -> Bare:
    made = Bare(tmp_path / "it.git")
    made.create("main")
    return made


@pytest.mark.parametrize("state", STATES)
def test_refs_are_told_as_git_would_tell_them(bare: Bare, state: Callable[[Bare], object]) -> None:
    state(bare)
    asked = {**bare_environment(), "GIT_PROTOCOL": "version=2"}
    for request in REQUESTS:
        told = answer_listing(bare, request)
        assert told == run_service(bare, "git-upload-pack", "--stateless-rpc", asked, body=request), request
    for protocol in ("", "version=2"):
        asked["GIT_PROTOCOL"] = protocol
        assert refs_before_push(bare) == run_service(bare, "git-receive-pack", "--http-backend-info-refs", asked)


@every_row("request", OTHERS)
def test_other_requests_are_left_to_git(bare: Bare, request: bytes) -> None:
    assert answer_listing(bare, request) is None


def test_many_objects_in_packs_are_left_to_git(bare: Bare) -> None:
    branches(bare)
    assert answer_listing(bare, request("peel")) is not None
    bare.pack_refs({f"refs/tags/{number}": f"{number:040x}" for number in range(9)})
    assert answer_listing(bare, request("peel")) is None


@pytest.mark.parametrize("content", ("", "ref: refs/heads/main\n"))
def test_a_ref_without_an_id_is_left_to_git(bare: Bare, content: str) -> None:
    branches(bare)
    (bare.folder / "refs/heads/odd").write_text(content)
    assert answer_listing(bare, request()) is None
    assert refs_before_push(bare) is None
