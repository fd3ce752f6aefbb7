"""A museum of repositories whose configuration, hooks and attributes run programs, and what becomes of them here."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bot.core.errors import Refused
from bot.ports import Access
from bot.workspace.repository import LocalRepository
from bot.workspace.workspace import GitWorkspace
from tests.workspace.ground import Repository, approved, make_repository, order

Plant = Callable[[Repository, str], None]
SECRET = "museum-secret-77"


def setting(*names: str) -> Plant:
    """Plant configuration values that name the program."""

    def plant(repository: Repository, evil: str) -> None:
        for name in names:
            repository.git("config", name, evil)

    return plant


def hook(*names: str) -> Plant:
    """Plant hooks."""

    def plant(repository: Repository, evil: str) -> None:
        for name in names:
            target = repository.path / ".git" / "hooks" / name
            target.parent.mkdir(exist_ok=True)
            target.write_text(f"#!/bin/sh\nexec {evil}\n")
            target.chmod(0o755)

    return plant


def hooks_elsewhere(repository: Repository, evil: str) -> None:
    """Plant a folder of hooks in the work tree."""
    for name in ("reference-transaction", "post-index-change", "pre-push", "pre-receive"):
        target = repository.path / "tools" / name
        target.parent.mkdir(exist_ok=True)
        target.write_text(f"#!/bin/sh\nexec {evil}\n")
        target.chmod(0o755)
    repository.git("config", "core.hooksPath", str(repository.path / "tools"))


def included(repository: Repository, evil: str) -> None:
    """Plant configuration that lies in the work tree."""
    (repository.path / "team.cfg").write_text(f"[core]\n\tfsmonitor = {evil}\n")
    repository.git("config", "include.path", str(repository.path / "team.cfg"))


def included_if(repository: Repository, evil: str) -> None:
    """Plant configuration under a condition."""
    (repository.path / "team.cfg").write_text(f"[core]\n\tfsmonitor = {evil}\n")
    repository.git("config", f"includeIf.gitdir:{repository.path}/.path", str(repository.path / "team.cfg"))


def driver(*kinds: str) -> Plant:
    """Plant a filter, in attributes that nobody sees."""

    def plant(repository: Repository, evil: str) -> None:
        for kind in kinds:
            repository.git("config", f"filter.evil.{kind}", evil)
        (repository.path / ".git" / "info").mkdir(exist_ok=True)
        (repository.path / ".git" / "info" / "attributes").write_text("* filter=evil diff=evil merge=evil\n")
        (repository.path / "src" / "a.py").write_text("a = 2\n")

    return plant


def alternate_refs(repository: Repository, evil: str) -> None:
    """Plant a command that lists the refs of a borrowed object store."""
    make_repository(repository.path.parent / "lender")
    alternates = repository.path / ".git" / "objects" / "info" / "alternates"
    alternates.write_text(f"{repository.path.parent}/lender/.git/objects\n")
    repository.git("config", "core.alternateRefsCommand", evil)


def proc_receive(repository: Repository, evil: str) -> None:
    """Plant a hook that takes over certain pushes."""
    hook("proc-receive")(repository, evil)
    repository.git("config", "receive.procReceiveRefs", "refs")


MUSEUM: dict[str, Plant] = {
    "core.fsmonitor": setting("core.fsmonitor"),
    "core.sshCommand": setting("core.sshCommand", "core.gitProxy", "core.askPass", "credential.helper"),
    "core.pager and editors": setting("core.pager", "core.editor", "sequence.editor", "diff.external"),
    "core.hooksPath": hooks_elsewhere,
    "core.alternateRefsCommand": alternate_refs,
    "include.path": included,
    "includeIf": included_if,
    "filter.clean": driver("clean", "smudge"),
    "filter.process": driver("process"),
    "uploadpack.packObjectsHook": setting("uploadpack.packObjectsHook"),
    "hook reference-transaction": hook("reference-transaction"),
    "hook pre-receive": hook("pre-receive"),
    "hook update": hook("update"),
    "hook post-receive": hook("post-receive"),
    "hook post-update": hook("post-update"),
    "hook post-index-change": hook("post-index-change"),
    "hooks of clients": hook("pre-push", "post-checkout", "post-commit", "pre-commit", "push-to-checkout"),
    "hook proc-receive": proc_receive,
}


def house(repository: Repository, marks: Path) -> str:
    """Put the program into a repository that leaves a trace outside of it, with what it found in its environment."""
    marks.mkdir(exist_ok=True)
    program = repository.path / "evil.sh"
    program.write_text(f"#!/bin/sh\nenv >> {marks}/fired\nexit 0\n")
    program.chmod(0o755)
    repository.commit()
    return str(program)


@pytest.fixture
def evil(repository: Repository, marker: Path) -> str:
    return house(repository, marker)


@pytest.mark.req("G1")
@pytest.mark.parametrize("exhibit", MUSEUM)
async def test_exhibit_never_fires(
    exhibit: str,
    repository: Repository,
    evil: str,
    marker: Path,
    tmp_path: Path,
) -> None:
    """Opening, mirroring, working and publishing leave no trace of the planted program outside the repository."""
    MUSEUM[exhibit](repository, evil)
    os.utime(repository.path / "README.md", (1, 1))
    source = await LocalRepository.open(repository.path)
    workspace = GitWorkspace.on(source, tmp_path / "data")
    checkout = await workspace.checkout("main", source.head)
    host = await workspace.open(checkout, Access.WRITE)
    await host.call("Bash", {"command": "echo new > new.py; git status; git add -A; git diff --cached"})
    if exhibit == "hook proc-receive":
        with pytest.raises(Refused, match=r"unset-all receive.procReceiveRefs"):
            await workspace.publish(approved(source.head), checkout, order())
    else:
        published = await workspace.publish(approved(source.head), checkout, order())
        assert repository.git("cat-file", "-t", published.commit) == "commit"
    assert os.listdir(marker) == []


def naive(repository: Repository, tmp_path: Path) -> None:
    """What a tool without a sandbox would do in the repository."""
    environment = {**os.environ, "SECRET": SECRET, "GIT_SSH_VARIANT": "simple"}
    clone = tmp_path / "naive"
    steps = (
        (repository.path, ["git", "status"]),
        (tmp_path, ["git", "clone", "-q", str(repository.path), str(clone)]),
        (clone, ["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"]),
        (clone, ["git", "push", "-q", "origin", "HEAD:refs/heads/new"]),
    )
    for where, command in steps:
        subprocess.run(command, cwd=where, env=environment, capture_output=True, check=False)


def test_museum_is_alive(tmp_path: Path, template: Path) -> None:
    """Plain git fires most of the museum, with the caller's secrets in reach: the test above can fail."""
    fired = []
    for number, (name, plant) in enumerate(MUSEUM.items()):
        place = tmp_path / str(number)
        shutil.copytree(template, place / "repo", symlinks=True)
        repository = Repository(place / "repo")
        plant(repository, house(repository, place / "outside"))
        os.utime(repository.path / "README.md", (1, 1))
        (place / "outside" / "fired").unlink(missing_ok=True)
        naive(repository, place)
        trace = place / "outside" / "fired"
        if trace.exists() and SECRET in trace.read_text():
            fired.append(name)
    assert len(fired) >= 10, fired


@pytest.mark.req("G1")
async def test_filter_in_the_sandbox_sees_nothing(repository: Repository, evil: str, tmp_path: Path) -> None:
    """A filter cannot be switched off from outside: it runs in the sandbox, finds no secret, and writes nothing."""
    witness = repository.path / ".git" / "witness"
    text = f"#!/bin/sh\ntouch {witness}\nenv >&2\ncat /proc/*/environ >&2\necho ran >&2\nexit 1\n"
    (repository.path / "evil.sh").write_text(text)
    repository.git("config", "filter.evil.required", "true")
    driver("clean")(repository, evil)
    script = "import asyncio, sys; from pathlib import Path; from bot.workspace import repository as r; "
    script += "print(asyncio.run(r._ask(r.find(Path(sys.argv[1])), ['diff', 'HEAD'], unsafe=False, check=False)).error)"
    environment = {**os.environ, "MUSEUM": SECRET, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(  # noqa: ASYNC221 - nothing else runs
        [sys.executable, "-c", script, str(repository.path)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "ran" in done.stdout
    assert SECRET not in done.stdout
    assert not witness.exists()
    assert (await LocalRepository.open(repository.path)).head == repository.head
