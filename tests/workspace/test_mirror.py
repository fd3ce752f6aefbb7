"""The mirror: what it fetches, gives and refuses."""

import hashlib
import zlib
from pathlib import Path

import pytest

from bot.core.errors import Misconfigured, Refused
from bot.core.names import CommitId
from bot.core.work import FileStart
from bot.ports import Access
from bot.workspace.local_repository import LocalRepository
from bot.workspace.mirror import START_LIMIT, Mirror
from bot.workspace.workspace import GitWorkspace
from tests.workspace.ground import Repository, approved, order


@pytest.fixture
async def mirror(repository: Repository, tmp_path: Path) -> Mirror:
    return Mirror.of(await LocalRepository.open(repository.path), tmp_path / "mirrors")


def put(repository: Repository, kind: str, data: bytes) -> str:
    whole = f"{kind} {len(data)}\0".encode() + data
    oid = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
    target = repository.path / ".git" / "objects" / oid[:2] / oid[2:]
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(zlib.compress(whole))
    return oid


def commit_of(repository: Repository, tree: str, who: bytes = b"A <a@b> 1 +0000") -> CommitId:
    data = b"tree %s\nauthor %s\ncommitter %s\n\nm\n" % (tree.encode(), who, who)
    oid = put(repository, "commit", data)
    repository.git("update-ref", "refs/heads/odd", oid)
    return CommitId(oid)


async def test_history_comes_along(mirror: Mirror, repository: Repository) -> None:
    first = repository.head
    await mirror.ensure(first)
    second = repository.commit(src__a_dot_py="a = 2\n", CLAUDE_dot_md="be kind")
    await mirror.ensure(second)
    assert await mirror.changed_paths(first, second) == ("CLAUDE.md", "src/a.py")
    assert await mirror.read(second, "CLAUDE.md") == b"be kind"
    assert await mirror.read(first, "CLAUDE.md") is None


async def test_a_known_commit_needs_no_source(mirror: Mirror, repository: Repository) -> None:
    head = repository.head
    await mirror.ensure(head)
    repository.path.rename(repository.path.with_name("gone"))
    await mirror.ensure(head)
    assert await mirror.read(head, "src/b.py") == b"b = 1\n"


async def test_links_are_read_but_never_out_of_the_repository(mirror: Mirror, repository: Repository) -> None:
    (repository.path / "out").symlink_to("/etc/passwd")
    head = repository.commit(big="x" * 2000)
    await mirror.ensure(head)
    assert await mirror.read(head, "big", limit=1999) is None
    assert await mirror.read(head, "big", limit=2000) == b"x" * 2000
    assert await mirror.read(head, "link") == b"a = 1\n"
    for path in ("src", "missing", "out", "a\nb", "../x", ""):
        assert await mirror.read(head, path) is None


async def test_a_commit_that_a_repository_lacks_is_a_wrong_usage(mirror: Mirror) -> None:
    with pytest.raises(Misconfigured, match="has no commit"):
        await mirror.ensure(CommitId("0" * 39 + "1"))


@pytest.mark.req("G1")
@pytest.mark.parametrize("name", ("HEAD", "--upload-pack=touch x", "main", "-x", "A" * 40, ""))
async def test_only_a_full_commit_id_is_handed_to_git(name: str, mirror: Mirror) -> None:
    with pytest.raises(Refused, match="not a commit id"):
        await mirror.ensure(CommitId(name))


@pytest.mark.req("G2")
@pytest.mark.parametrize("name", (b".git", b".GIT", b"git~1", b"..", b"a/b", b".g\xe2\x80\x8cit"))
async def test_a_tree_with_a_dangerous_name_is_refused(name: bytes, mirror: Mirror, repository: Repository) -> None:
    blob = put(repository, "blob", b"x")
    tree = put(repository, "tree", b"100644 " + name + b"\0" + bytes.fromhex(blob))
    with pytest.raises(Refused, match="dangerous object"):
        await mirror.ensure(commit_of(repository, tree))


@pytest.mark.req("G2")
async def test_modules_whose_address_is_an_option_are_refused(mirror: Mirror, repository: Repository) -> None:
    blob = put(repository, "blob", b'[submodule "x"]\n\tpath = x\n\turl = --upload-pack=evil\n')
    tree = put(repository, "tree", b"100644 .gitmodules\0" + bytes.fromhex(blob))
    with pytest.raises(Refused, match="dangerous object"):
        await mirror.ensure(commit_of(repository, tree))


OLD_FAULTS = (b"A <a@b> 1 +051800", b"A a@b> 1 +0000", b"A<a@b> 1 +0000", b"A <a@b> 01 +0000")


@pytest.mark.parametrize("who", OLD_FAULTS)
async def test_odd_names_and_dates_of_history_are_taken(who: bytes, mirror: Mirror, repository: Repository) -> None:
    tree = repository.git("rev-parse", "HEAD^{tree}")
    await mirror.ensure(commit_of(repository, tree, who))


async def test_zero_padded_modes_of_old_trees_are_taken(mirror: Mirror, repository: Repository) -> None:
    blob = put(repository, "blob", b"x")
    inner = put(repository, "tree", b"100644 f\0" + bytes.fromhex(blob))
    tree = put(repository, "tree", b"040000 d\0" + bytes.fromhex(inner))
    await mirror.ensure(commit_of(repository, tree))


async def test_a_shallow_repository_can_be_worked_on(repository: Repository, tmp_path: Path) -> None:
    repository.commit(a="1")
    repository.git("clone", "-q", "--depth=1", f"file://{repository.path}", str(tmp_path / "shallow"))
    shallow = Repository(tmp_path / "shallow")
    workspace = GitWorkspace.on(await LocalRepository.open(shallow.path), tmp_path / "data")
    checkout = await workspace.checkout("main", shallow.head)
    host = await workspace.open(checkout, Access.WRITE)
    said = await host.call("Bash", {"command": "git log --oneline | wc -l; echo x > x"})
    assert said.text.strip() == "1"
    published = await workspace.publish(approved(shallow.head), checkout, order())
    assert shallow.git("log", "--format=%H", published.branch).split() == [published.commit, shallow.head]


@pytest.mark.req("K10")
async def test_the_beginnings_of_many_files_are_read_at_once(mirror: Mirror, repository: Repository) -> None:
    for name, target in (("AGENTS.md", "src/a.py"), ("out", "/etc/passwd"), ("lost", "gone"), ("ring", "ring")):
        (repository.path / name).symlink_to(target)
    (repository.path / "a blob 5").write_text("odd\n")
    (repository.path / "below").symlink_to("link/x")
    head = repository.commit(big="x" * 2000, huge="x" * (START_LIMIT + 1))
    await mirror.ensure(head)
    odd = ("out", "lost", "ring", "below", "", "a\nb", "../x", "src", "missing", "missing blob 5", "/etc/passwd")
    found = await mirror.starts(head, [*odd, "big", *odd, "AGENTS.md", "huge", "a blob 5"], 1000)
    assert found == {
        "big": FileStart(b"x" * 1000, 2000), "AGENTS.md": FileStart(b"a = 1\n", 6),
        "huge": FileStart(b"", START_LIMIT + 1), "a blob 5": FileStart(b"odd\n", 4),
    }  # fmt: skip
    assert await mirror.starts(head, [], 1000) == {}


@pytest.mark.req("K11")
async def test_the_top_level_and_the_newest_commits(mirror: Mirror, repository: Repository) -> None:
    for number in range(3):
        repository.git(
            "commit", "-q", "--allow-empty", "-m", f"Step {number}\n\nbody", "--date", "2026-01-02T03:04:05Z"
        )
    await mirror.ensure(repository.head)
    assert await mirror.top_level(repository.head) == ("README.md", "link", "run.sh", "src/")
    told = await mirror.newest_commits(repository.head, 2)
    assert [line.split(" ", 2)[2] for line in told] == ["Step 2", "Step 1"]
    assert repository.head.startswith(told[0].split()[0])
    assert len(await mirror.newest_commits(repository.head, 9)) == 4


@pytest.mark.req("G4")
async def test_symbolic_links_of_a_commit_are_known(mirror: Mirror, repository: Repository) -> None:
    (repository.path / ".claude").mkdir()
    (repository.path / ".claude" / "skills").symlink_to("../skills")
    (repository.path / "odd \u00e4\n").symlink_to("nowhere\nat all")
    commit = repository.commit(src__a_dot_py="a = 3\n")
    await mirror.ensure(commit)
    links = await mirror.links(commit)
    assert links.pop("link", "src/a.py") == "src/a.py"
    assert links == {".claude/skills": "../skills", "odd \u00e4\n": "nowhere\nat all"}
