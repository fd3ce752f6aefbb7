"""The museum at home: what is planted in a person's own repository runs nothing outside of a sandbox."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.core.errors import Refused
from bot.ports import Access
from bot.workspace.local_repository import LocalRepository
from bot.workspace.workspace import GitWorkspace
from tests import forks
from tests.workspace.ground import Repository, approved, make_repository, order
from tests.workspace.museum.exhibits import GIT_DIR, PROGRAM, SERVER_HOOKS, config, driven, hooks
from tests.workspace.museum.tour import SECRET, Canary, listening, shell


@pytest.fixture
def canary(tmp_path: Path) -> Iterator[Canary]:
    with listening() as listener:
        yield Canary.put(tmp_path / "outside", listener)


def plant(repository: Repository, canary: Canary, *scripts: str) -> None:
    for script in scripts:
        shell(repository.path, canary.filled(script))
    (canary.folder / "fired").unlink(missing_ok=True)
    os.utime(repository.path / "README.md", (1, 1))


async def work(repository: Repository, data: Path) -> str:
    source = await LocalRepository.open(repository.path)
    workspace = GitWorkspace.on(source, data)
    checkout = await workspace.checkout("main", source.head)
    host = await workspace.open(checkout, Access.WRITE)
    await host.call("Bash", {"command": "echo new > new.py; git status; git add -A; git diff --cached"})
    published = await workspace.publish(approved(source.head), checkout, order())
    assert published.paths == ("new.py",)
    return published.commit


@pytest.mark.long
@pytest.mark.req("G1")
@pytest.mark.parametrize("name", GIT_DIR)
async def test_each_trick_at_home_has_no_effect(
    name: str, repository: Repository, canary: Canary, tmp_path: Path
) -> None:
    plant(repository, canary, GIT_DIR[name].script)
    commit = await work(repository, tmp_path / "data")
    assert canary.traces == ""
    (repository.path / ".git" / "config").unlink()
    assert repository.git("cat-file", "-t", commit) == "commit"


@pytest.mark.req("G1")
async def test_all_tricks_at_once_leave_no_trace(repository: Repository, canary: Canary, tmp_path: Path) -> None:
    elsewhere = ("work_tree_elsewhere",)  # with it git looks for the work tree in /etc, in the sandbox as well
    plant(repository, canary, *(it.script for name, it in GIT_DIR.items() if name not in elsewhere))
    await work(repository, tmp_path / "data")
    assert canary.traces == ""


@pytest.mark.req("G1")
async def test_a_borrowed_object_store_runs_no_command(repository: Repository, canary: Canary, tmp_path: Path) -> None:
    make_repository(tmp_path / "lender")
    lent = f"echo {tmp_path}/lender/.git/objects > .git/objects/info/alternates\n"
    plant(repository, canary, lent + config(("core.alternateRefsCommand", PROGRAM)))
    await work(repository, tmp_path / "data")
    assert canary.traces == ""


@pytest.mark.req("G1")
async def test_a_hook_that_takes_over_pushes_is_refused(repository: Repository, canary: Canary, tmp_path: Path) -> None:
    taking_over = hooks(".git/hooks", f"{SERVER_HOOKS} proc-receive")
    plant(repository, canary, f"{taking_over}\n{config(('receive.procReceiveRefs', 'refs'))}")
    with pytest.raises(Refused, match=r"unset-all receive.procReceiveRefs"):
        await work(repository, tmp_path / "data")
    assert canary.traces == ""


@pytest.mark.req("G1")
async def test_a_filter_runs_in_the_sandbox_and_sees_nothing(repository: Repository, tmp_path: Path) -> None:
    witness, program = repository.path / ".git" / "witness", repository.path / "evil.sh"
    program.write_text(f"#!/bin/sh\ntouch {witness}\nenv >&2\ncat /proc/*/environ >&2\necho ran >&2\nexit 1\n")
    program.chmod(0o755)
    repository.commit()
    shell(repository.path, driven(("filter.evil.clean", str(program)), ("filter.evil.required", "true")))
    (repository.path / "src" / "a.py").write_text("a = 2\n")
    script = "import asyncio, sys; from pathlib import Path; from bot.workspace import local_repository as r; "
    script += "print(asyncio.run(r._ask(r.find(Path(sys.argv[1])), ['diff', 'HEAD'], unsafe=False, check=False)).error)"
    done = forks.script(script).run(str(repository.path), env=os.environ | {"MUSEUM": SECRET})
    assert "ran" in done.stdout
    assert SECRET not in done.stdout
    assert not witness.exists()
    assert (await LocalRepository.open(repository.path)).head == repository.head
