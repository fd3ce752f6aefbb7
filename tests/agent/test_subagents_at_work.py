"""Sub-agents in real checkouts and sandboxes (S3, S4, S6, S9)."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from bot.agent.assembly import SessionSettings, assemble_session, begin_session
from bot.agent.loop import run
from bot.agent.permissions.tool_gate import Mode
from bot.agent.resources import SessionPlace
from bot.agent.session import Session
from bot.agent.session_events import End, ToolStarted
from bot.agent.subagents.types import RESTRICTED, TYPES
from bot.core.configuration import Configuration, Execution, Subagents
from bot.core.names import SessionId
from bot.core.transcript import Json
from bot.core.work import Checkout
from bot.ports import Access
from bot.testing import sample
from bot.testing.model.reply import Reply, call, say, several
from bot.testing.model.request_view import ModelRequest
from bot.workspace.local_repository import LocalRepository
from bot.workspace.workspace import GitWorkspace, SandboxLimits
from tests.agent.conftest import Open
from tests.agent.ground import ENVIRONMENT, Room, drive, ended, results

AGENTS = 8
USUAL = Subagents()


async def team(
    r: Room, folder: Path, limits: SandboxLimits | None = None, subagents: Subagents = USUAL
) -> tuple[Session, Checkout, GitWorkspace]:
    """A parent at work on the sample repository; limits are those of every sandbox."""
    source = await LocalRepository.open(sample.make(folder / "shop"))
    workspace = GitWorkspace.on(source, folder / "data", limits)
    checkout = await workspace.checkout("main", source.head)
    host = await workspace.open(checkout, Access.WRITE)
    configuration = Configuration(execution=Execution(subagents=subagents))
    session, _ = assemble_session(
        SessionSettings(SessionId("thread-1"), TYPES, configuration, mode=Mode.ACCEPT_EDITS),
        r.world,
        place=SessionPlace(workspace, checkout, host, ENVIRONMENT),
    )
    begin_session(session, ENVIRONMENT, "Fix the shipping.")
    return session, checkout, workspace


def task(brief: str, kind: str = "code") -> Reply:
    return call("Task", description=brief, prompt=f"Brief: {brief}, please.", subagent_type=kind)


def brief(request: ModelRequest) -> str:
    return request.texts()[0].partition("Brief: ")[2].partition(", please.")[0]


@pytest.mark.req("S4", "T3a")
async def test_writers_meet_and_nothing_is_lost(room: Open, tmp_path: Path) -> None:
    """Two write files of their own and one line both: the files arrive, the first one's line stays, and the parent is
    shown the other side of the conflict."""

    def policy(request: ModelRequest) -> Reply:
        name = brief(request)
        if not name:
            return say("Done.") if request.step else several(task("one"), task("two"))
        write = call("Write", file_path=f"{name}.txt", content=f"{name}\n")
        edit = call("Bash", command=f"sed -i 's/^FREE_FROM = .*/FREE_FROM = \"{name}\"/' parcel/shipping.py")
        return say(f"Did {name}.") if request.step else several(write, edit)

    r = room(policy)
    session, checkout, workspace = await team(r, tmp_path)
    assert ended(await drive(session)).end is End.ANSWERED
    one, two = (block["content"] for block in results(session))
    tree = Path(checkout.path)
    assert (tree / "one.txt").read_text() == "one\n"
    assert (tree / "two.txt").read_text() == "two\n"
    assert 'FREE_FROM = "one"' in (tree / "parcel/shipping.py").read_text()
    assert "one.txt" in one
    assert "CONFLICT" not in one
    assert "CONFLICT in parcel/shipping.py" in two
    assert '+FREE_FROM = "two"' in two
    assert sorted(path.name for path in (tmp_path / "data/checkouts").iterdir() if path.is_dir()) == ["main"]
    await workspace.discard(checkout)


@pytest.mark.req("P4", "T3a")
async def test_a_reader_cannot_write_even_past_the_gate(room: Open, tmp_path: Path) -> None:
    r = room(lambda _: say("?"))
    session, checkout, workspace = await team(r, tmp_path)
    host = await workspace.open(checkout, Access.READ)
    tried = await host.call("Bash", {"command": "touch x; echo hi > README.md"})
    written = await host.call("Write", {"file_path": "x", "content": "x", "stamp": ""})
    assert written.is_error
    assert "Read-only file system" in tried.text
    assert not (Path(checkout.path) / "x").exists()
    await workspace.discard(checkout)
    assert session.context.mode is Mode.ACCEPT_EDITS


@pytest.mark.req("S3", "L6")
async def test_processes_are_gone_when_the_parent_is_cancelled(room: Open, tmp_path: Path) -> None:
    def policy(request: ModelRequest) -> Reply:
        return call("Bash", command="sleep 4321.5") if brief(request) else task("sleep")

    others = children()
    session, checkout, workspace = await team(room(policy), tmp_path)
    before = children()
    begun = asyncio.Event()

    async def follow() -> None:
        async for event in run(session):
            if isinstance(event, ToolStarted) and event.name == "Bash":
                begun.set()

    running = asyncio.create_task(follow())
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert children() <= before
    await workspace.discard(checkout)
    assert children() <= others


@pytest.mark.long
@pytest.mark.req("S3", "L6")
async def test_eight_end_within_two_seconds_of_their_parent(room: Open, tmp_path: Path) -> None:
    def policy(request: ModelRequest) -> Reply:
        if brief(request):
            return call("Bash", command="trap '' TERM INT HUP; sleep 4321.5 & sleep 4321.5")
        return several(*(task(f"part {n}") for n in range(AGENTS)))

    session, checkout, workspace = await team(room(policy), tmp_path, subagents=Subagents(at_once=AGENTS))
    before, begun, all_begun = children(), set[str](), asyncio.Event()

    async def follow() -> None:
        async for event in run(session):
            if isinstance(event, ToolStarted) and event.name == "Bash":
                begun.add(event.agent)
                if len(begun) == AGENTS:
                    all_begun.set()

    running = asyncio.create_task(follow())
    await all_begun.wait()
    await asyncio.sleep(0.5)
    asked = time.monotonic()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    took = time.monotonic() - asked
    assert children() <= before
    assert took < 2, f"{took:.2f} s"
    await workspace.discard(checkout)


def children() -> frozenset[str]:
    """The processes that this one started and that are still there (proc(5))."""
    found = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    return frozenset(pid for pid in found if state(pid) != "Z")


def state(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]
    except OSError:
        return "Z"


@pytest.mark.req("S9", "T3a")
async def test_a_restricted_sandbox_holds_memory_disk_and_files(room: Open, tmp_path: Path) -> None:
    """256 MiB of memory, 100 MiB of disk, 1 MiB a file: what takes more is ended or refused, and says so."""
    _, checkout, workspace = await team(room(lambda _: say("?")), tmp_path)
    (Path(checkout.path) / "large.txt").write_text("x" * ((1 << 20) + 1))
    host = await workspace.open(checkout, Access.READ, bounds=RESTRICTED.bounds)
    hungry = await host.call("Bash", {"command": "python3 -c 'x = bytearray(400 << 20); import time; time.sleep(60)'"})
    full = await host.call("Bash", {"command": "head -c 120M /dev/zero > /tmp/x"})
    large = await host.call("Read", {"file_path": "large.txt"})
    assert "more than 256 MB of memory" in hungry.text
    assert "No space left" in full.text
    assert large.is_error
    assert "1,048,577 bytes" in large.text
    await workspace.discard(checkout)


@pytest.mark.long
@pytest.mark.req("S9", "T3a")
async def test_a_restricted_sandbox_has_a_share_of_its_parents_memory(room: Open, tmp_path: Path) -> None:
    _, checkout, workspace = await team(room(lambda _: say("?")), tmp_path, SandboxLimits(memory_mb=400))
    host = await workspace.open(checkout, Access.READ, bounds=RESTRICTED.bounds)
    hungry = await host.call("Bash", {"command": "python3 -c 'x = bytearray(200 << 20); import time; time.sleep(60)'"})
    assert "more than 120 MB of memory" in hungry.text
    await workspace.discard(checkout)


@pytest.mark.req("S3", "S6")
async def test_a_child_whose_sandbox_dies_harms_nobody(room: Open, tmp_path: Path) -> None:
    def policy(request: ModelRequest) -> Reply:
        name = brief(request)
        if not name:
            return say("Done.") if request.step else several(task("dies"), task("lives"))
        command = "kill -9 $PPID; sleep 1" if name == "dies" else "echo alive > alive.txt"
        return say(f"{name}.") if request.step else call("Bash", command=command)

    others = children()
    session, checkout, workspace = await team(room(policy), tmp_path)
    assert ended(await drive(session)).end is End.ANSWERED
    dies, lives = results(session)
    assert "dies." in dies["content"]
    assert "lives." in lives["content"]
    assert (Path(checkout.path) / "alive.txt").read_text() == "alive\n"
    await workspace.discard(checkout)
    assert children() <= others


WRITERS = 20
PLACES = 10
"""Agents n and n + 10 change one line."""


def policy(request: ModelRequest) -> Reply:
    """A parent that sends all, and agents that each write a file of their own and a line that another writes too."""
    name = brief(request)
    if not name:
        return say("Done.") if request.step else several(*(task(str(n)) for n in range(WRITERS)))
    line = 1 + 4 * (int(name) % PLACES)
    edit = call("Bash", command=f"sed -i '{line}s/.*/agent {name}/' shared.txt && echo {name} > own-{name}.txt")
    return say(f"Did {name}.") if request.step else edit


async def once(r: Room, folder: Path) -> tuple[dict[str, str], list[Json]]:
    """Run all, and give the tree that came of it and what the parent was told."""
    folder.mkdir()
    session, checkout, workspace = await team(r, folder, subagents=Subagents(at_once=PLACES, in_all=WRITERS))
    tree = Path(checkout.path)
    (tree / "shared.txt").write_text("".join(f"line {n}\n" for n in range(4 * PLACES)))
    assert ended(await drive(session)).end is End.ANSWERED
    files = {path.name: path.read_text() for path in sorted(tree.glob("*.txt"))}
    told = results(session)
    await workspace.discard(checkout)
    return files, told


@pytest.mark.long
@pytest.mark.req("S4", "S6")
async def test_twenty_writers_lose_nothing_and_two_runs_agree(room: Open, tmp_path: Path) -> None:
    files, told = await once(room(policy), tmp_path / "one")
    again, told_again = await once(room(policy), tmp_path / "two")
    lines = files["shared.txt"].splitlines()
    for n, result in enumerate(told):
        assert files[f"own-{n}.txt"] == f"{n}\n"
        if n < PLACES:
            assert lines[4 * n] == f"agent {n}"
            assert "CONFLICT" not in result["content"]
        else:
            assert "CONFLICT in shared.txt" in result["content"]
            assert f"+agent {n}\n" in result["content"]
            assert f"+agent {n - PLACES}\n" in result["content"]
    assert files == again
    assert [each["content"] for each in told] == [each["content"] for each in told_again]
