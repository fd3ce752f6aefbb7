"""The way through the museum: from a server to a checkout, through a toolhost, a fork and a merge, and back to it."""

import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bot.core.errors import Refused
from bot.core.names import CommitId
from bot.core.work import Checkout, PushedWork
from bot.ports import Access
from bot.workspace.workspace import GitWorkspace
from tests.contracts.smart_http import Site
from tests.workspace.ground import Repository, approved, order
from tests.workspace.museum.exhibits import ADDRESS, NEW, PROGRAM

SECRET = "museum-secret-77"


@dataclass(slots=True)
class Listener:
    """Counts whoever connects to it, and tells them nothing."""

    address: str
    visits: int = 0


@contextmanager
def listening() -> Iterator[Listener]:
    """Listen on loopback while the context is open."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        listener = Listener(f"http://127.0.0.1:{server.getsockname()[1]}")

        def serve() -> None:
            while True:
                try:
                    visitor, _ = server.accept()
                except OSError:
                    return
                listener.visits += 1
                visitor.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


@dataclass(frozen=True, slots=True)
class Canary:
    """A program of the machine that leaves a trace where it is started, and an address that counts its visitors."""

    folder: Path
    listener: Listener

    @classmethod
    def put(cls, folder: Path, listener: Listener) -> "Canary":
        """Put the program into an empty folder; no sandbox sees it."""
        folder.mkdir()
        program = folder / "evil"
        program.write_text(f"#!/bin/sh\nenv >> {folder}/fired\nexit 1\n")
        program.chmod(0o755)
        return cls(folder, listener)

    def filled(self, script: str) -> str:
        """Return the script of an exhibit with this program and this address."""
        return script.replace(PROGRAM, str(self.folder / "evil")).replace(ADDRESS, self.listener.address)

    @property
    def traces(self) -> str:
        """What it left: environments, and one line for visits; empty where nothing happened."""
        fired = self.folder / "fired"
        seen = f"{self.listener.visits} visits" if self.listener.visits else ""
        return (fired.read_text() if fired.exists() else "") + seen


@dataclass(frozen=True, slots=True)
class Tour:
    """One server, and a workspace on it."""

    site: Site
    bare: Repository
    workspace: GitWorkspace
    canary: Canary
    before: set[str] = field(default_factory=set)

    def host_history(self, repository: Repository, script: str) -> CommitId:
        shell(repository.path, self.canary.filled(script))
        everything = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*", "+refs/replace/*:refs/replace/*")
        repository.git("push", "-q", "--force", str(self.bare.path), *everything)
        return CommitId(self.bare.git("rev-parse", "refs/heads/main"))

    async def agent(self, base: CommitId, name: str, *scripts: str) -> Checkout:
        checkout = await self.workspace.checkout(name, base)
        said = await self._run(checkout, "\n".join(f"( {self.canary.filled(script)} )" for script in scripts))
        assert "planted" in said, said
        return checkout

    async def crew(self, checkout: Checkout, *, unreadable: bool) -> None:
        """Let a sub-agent work in a copy, and take over what it did; where none can be made it works alone."""
        name = f"{Path(checkout.path).parent.name}-fork"
        if unreadable:
            with pytest.raises(Refused, match="cannot be copied"):
                await self.workspace.fork(checkout, name)
            await self._run(checkout, f"echo hello > {NEW}")
            return
        fork = await self.workspace.fork(checkout, name)
        await self._run(fork, f"echo hello > {NEW}")
        merge = await self.workspace.merge(fork, checkout)
        assert merge.merged == (NEW,), merge
        await self.workspace.discard(fork)

    async def publish(self, checkout: Checkout, branch: str) -> PushedWork:
        return await self.workspace.publish(approved(checkout.base), checkout, order(branch=branch))

    def published(self, published: PushedWork) -> dict[str, str]:
        listed = self.bare.git("diff-tree", "-r", "-z", "--no-renames", f"{published.commit}^", published.commit)
        records = listed.split("\0")[:-1]
        return {path: about.split()[1] for about, path in zip(records[::2], records[1::2], strict=True)}

    async def _run(self, checkout: Checkout, script: str) -> str:
        host = await self.workspace.open(checkout, Access.WRITE)
        try:
            return (await host.call("Bash", {"command": f"{script}\necho planted"})).text
        finally:
            await host.close()


def shell(where: Path, script: str) -> None:
    who = "export GIT_{AUTHOR,COMMITTER}_NAME=p GIT_{AUTHOR,COMMITTER}_EMAIL=p@example.org\n"
    subprocess.run(["bash", "-c", who + script], cwd=where, check=True, capture_output=True)
