"""The museum of hostile repositories: none of them runs a program or moves a push outside of a sandbox.

Each trick is tried alone in the long run, and every day many at once; a control shows that plain git falls for them.
"""

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from bot.core.errors import Refused
from bot.core.work import Checkout
from bot.workspace.remote import RemoteRepository
from bot.workspace.workspace import GitWorkspace
from tests.contracts.smart_http import served
from tests.workspace.ground import Repository, begin, write
from tests.workspace.museum.exhibits import GIT_DIR, HISTORY, NEW, POINTERS, TREE, Exhibit
from tests.workspace.museum.tour import SECRET, Canary, Tour, listening, shell

TOKEN = "ghs_museum"
PLANTED = {
    f"{room}-{name}": exhibit
    for room, hall in (("git_dir", GIT_DIR), ("pointers", POINTERS), ("tree", TREE))
    for name, exhibit in hall.items()
}


@pytest.fixture
def tour(repository: Repository, tmp_path: Path) -> Iterator[Tour]:
    name = "owner/name.git"
    repository.git("clone", "-q", "--bare", ".", str(tmp_path / "site" / name))
    with served(tmp_path / "site", TOKEN) as site, listening() as listener:
        workspace = GitWorkspace.on(RemoteRepository(site.url(name), lambda: TOKEN), tmp_path / "data")
        yield Tour(site, Repository(tmp_path / "site" / name), workspace, Canary.put(tmp_path / "outside", listener))
    # What is left of a trick that failed may be too deep for pytest, whose next run would stumble over it.
    subprocess.run(["rm", "-rf", tmp_path / "data"], check=True)


async def visit(tour: Tour, exhibit: Exhibit, checkout: Checkout) -> None:
    await tour.crew(checkout, unreadable=exhibit.unreadable)
    if exhibit.refused:
        with pytest.raises(Refused) as caught:
            await tour.publish(checkout, "work")
        assert exhibit.refused in str(caught.value)
        assert tour.bare.git("branch", "--list", "work") == ""
    else:
        published = await tour.publish(checkout, "work")
        assert tuple(sorted(tour.published(published))) == exhibit.changes == published.paths
        assert tour.bare.git("show", f"work:{NEW}") == "hello"
    await tour.workspace.discard(checkout)
    assert not Path(checkout.path).exists()
    assert tour.canary.traces == ""


@pytest.mark.soak
@pytest.mark.req("G1", "G2", "G3")
@pytest.mark.parametrize("name", PLANTED)
async def test_what_an_agent_plants_has_no_effect(name: str, tour: Tour) -> None:
    exhibit = PLANTED[name]
    await visit(tour, exhibit, await tour.agent(tour.bare.head, "work", exhibit.script))


@pytest.mark.soak
@pytest.mark.req("G1", "G2", "G3")
@pytest.mark.parametrize("name", HISTORY)
async def test_what_somebody_pushed_has_no_effect(name: str, tour: Tour, repository: Repository) -> None:
    exhibit = HISTORY[name]
    head = tour.host_history(repository, exhibit.script)
    if exhibit.refused:
        with pytest.raises(Refused, match=exhibit.refused):
            await tour.agent(head, "work")
        assert tour.canary.traces == ""
    else:
        await visit(tour, exhibit, await tour.agent(head, "work"))


@pytest.mark.req("G1")
async def test_all_configuration_at_once_has_no_effect(tour: Tour) -> None:
    exhibits = GIT_DIR.values()
    checkout = await tour.agent(tour.bare.head, "work", *(exhibit.script for exhibit in exhibits))
    await tour.crew(checkout, unreadable=False)
    published = await tour.publish(checkout, "work")
    assert published.paths == tuple(sorted({path for exhibit in exhibits for path in exhibit.changes}))
    assert tour.canary.traces == ""


@pytest.mark.req("G1", "G4")
async def test_a_refusal_names_everything_with_its_reason(tour: Tour) -> None:
    shown = [exhibit for exhibit in TREE.values() if exhibit.judged][1::3]
    checkout = await tour.agent(tour.bare.head, "work", *(exhibit.script for exhibit in shown))
    with pytest.raises(Refused) as caught:
        await tour.publish(checkout, "work")
    assert [exhibit.script for exhibit in shown if exhibit.refused not in str(caught.value)] == []
    assert tour.canary.traces == ""


def naive(repository: Repository, address: str) -> None:
    steps = (["status"], ["add", "-A"], ["diff", "HEAD"], ["commit", "-qm", "x"], ["push", "-q", address, "HEAD:x"])
    environment = {**os.environ, "SECRET": SECRET, "GIT_TERMINAL_PROMPT": "0"}
    for step in steps:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *step]
        subprocess.run(command, cwd=repository.path, env=environment, capture_output=True, check=False)


@pytest.mark.long
def test_plain_git_falls_for_much_of_the_museum(tmp_path: Path, template: Path) -> None:
    fired = []
    with served(tmp_path / "site", TOKEN) as site:
        for number, exhibit in enumerate((*GIT_DIR.values(), *POINTERS.values())):
            place = tmp_path / str(number)
            shutil.copytree(template, place / "repo", symlinks=True)
            with listening() as listener:
                canary = Canary.put(place / "outside", listener)
                shell(place / "repo", canary.filled(exhibit.script))
                (canary.folder / "fired").unlink(missing_ok=True)
                (place / "repo" / "README.md").write_text("changed")
                naive(Repository(place / "repo"), site.url("owner/name.git"))
            if SECRET in canary.traces or "visits" in canary.traces:
                fired.append(exhibit.script)
    assert len(fired) >= 10, fired


@asynccontextmanager
async def swapping(folder: Path, target: Path) -> AsyncIterator[None]:
    def swap() -> None:
        aside = folder.with_name("aside")
        while not ended.is_set():
            with suppress(OSError):
                os.rename(folder, aside)
                os.symlink(target, folder)
                os.unlink(folder)
                os.rename(aside, folder)

    ended = asyncio.Event()
    working = asyncio.create_task(asyncio.to_thread(swap))
    try:
        yield
    finally:
        ended.set()
        await working


@pytest.mark.long
@pytest.mark.req("G1")
async def test_no_race_publishes_a_file_from_elsewhere(tour: Tour, repository: Repository, tmp_path: Path) -> None:
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    for name in ("a.py", "b.py"):
        (secrets / name).write_text(SECRET)
    checkout = await begin(tour.workspace, tour.bare, write(**{NEW: "hello"}))
    async with swapping(Path(checkout.path) / "src", secrets):
        for number in range(6):
            with suppress(Refused):
                await tour.publish(checkout, f"work{number}")
    held = tour.bare.git("log", "--all", "-p", "--format=%H")
    assert SECRET not in held


@pytest.mark.long
async def test_twenty_thousand_files_are_published(tour: Tour) -> None:
    many = "for n in $(seq 20); do mkdir d$n; (cd d$n; seq 1000 | xargs touch); done"
    checkout = await tour.agent(tour.bare.head, "work", many)
    published = await tour.publish(checkout, "work")
    assert len(published.paths) == 20_000
