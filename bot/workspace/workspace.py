"""The Workspace port on a git repository, local or on a server: combines mirror, checkouts, sandboxes and publisher."""

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from bot.core.approval import ApprovedPlan
from bot.core.errors import Refused
from bot.core.names import CommitId
from bot.core.network import NO_NETWORK, Network
from bot.core.work import (
    UNBOUND,
    Checkout,
    CommitOrder,
    FrozenWork,
    MergeResult,
    PullCommits,
    PushedWork,
    SandboxBounds,
)
from bot.ports import Access, BeforePush, Toolhost, ToolOutput
from bot.workspace import run, sandbox
from bot.workspace.checkout import Checkouts
from bot.workspace.egress.route import EgressRoute
from bot.workspace.mirror import Mirror, Source, mirrors
from bot.workspace.publish import Publisher, Publishing
from bot.workspace.sandbox import Mount, SandboxProfile
from bot.workspace.toolhost import SandboxedToolhost, program

_BOT = Path(__file__).parent.parent
_READ_ONLY_SETTINGS = {
    "GIT_CONFIG_COUNT": "2",
    # A folder of the repository may be a bare repository, whose configuration names programs (git-config(1)).
    "GIT_CONFIG_KEY_0": "safe.bareRepository",
    "GIT_CONFIG_VALUE_0": "explicit",
    "GIT_CONFIG_KEY_1": "core.fsmonitor",
    "GIT_CONFIG_VALUE_1": "false",
}
"""git's settings in the sandbox of a read-only checkout."""
_SOCKET: Final = "/run/plangate/egress"
"""Where a sandbox sees the egress proxy's socket."""
_PROXY: Final = "http://127.0.0.1:3128"  # bot/toolhost/tunnel.py listens there, and passes everything to the socket
_HERE: Final = "localhost,127.0.0.1,::1"
PROXY_SETTINGS: Final = {"HTTPS_PROXY": _PROXY, "https_proxy": _PROXY, "NO_PROXY": _HERE, "no_proxy": _HERE}
"""The variables that direct the programs of a sandbox with network access to the egress proxy."""


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """What one sandbox may use."""

    memory_mb: int = 4096
    seconds: float = 600.0
    """The time limit of one command."""
    tmp_mb: int | None = None
    """The size of its /tmp in memory; with None, /tmp is on disk next to the checkout."""
    disk_mb: int = 10_240
    """How much a session may write to the machine's disk."""
    files: int = 1_000_000
    """How many files it may make or change there."""
    mounts: tuple[str, ...] = ()
    """Further folders of the machine, read-only, at their own paths."""


@dataclass(frozen=True, slots=True)
class GitWorkspace:
    """A safe place to work on a repository; `GitWorkspace.on` makes it."""

    source: Source
    mirror: Mirror
    checkouts: Checkouts
    publisher: Publisher
    limits: SandboxLimits
    route: EgressRoute = EgressRoute()
    _open: dict[str, list[Toolhost]] = field(default_factory=dict)

    @classmethod
    def on(
        cls,
        source: Source,
        data: Path,
        limits: SandboxLimits | None = None,
        publishing: Publishing | None = None,
        *,
        route: EgressRoute | None = None,
    ) -> Self:
        """Assemble the workspace; everything that is kept is in the folder `data`."""
        run.leave_keyring()
        folder, bounds = data.resolve(), limits or SandboxLimits()
        mirror = Mirror.of(source, mirrors(folder))
        shown_as = sandbox.shown_path(source.folder, (str(mirror.path), *bounds.mounts))
        checkouts = Checkouts(folder / "checkouts", mirror, shown_as)
        publisher = Publisher(folder / "publishing", mirror, publishing or Publishing())
        return cls(source, mirror, checkouts, publisher, bounds, route or EgressRoute())

    async def checkout(
        self,
        name: str,
        base: CommitId,
        kept: Callable[[], bytes] = bytes,
        *,
        fresh: bool = False,
        pull: PullCommits | None = None,
    ) -> Checkout:
        """Return the existing checkout of that name, or make it from `base` and the kept work.

        With `fresh` it is always made again. A checkout that is made gets refs to the commits of `pull`. Removes
        leftovers of killed processes first. Raises Conflict if another process holds the checkout.
        """
        await self.checkouts.sweep()
        await self.publisher.sweep()
        return await self.checkouts.get(name, base, kept, fresh=fresh, pull=pull)

    async def keep(self, checkout: Checkout) -> bytes:
        """Return the changes of a checkout, to restore it if this disk is lost; b"" if nothing can be kept."""
        self.checkouts.place(checkout)
        return await self.publisher.keep(checkout)

    async def changed_paths(self, checkout: Checkout) -> tuple[str, ...]:
        """Return the paths that changed in a checkout since its base; raises Refused if they may not be published."""
        self.checkouts.place(checkout)
        return await self.publisher.changed_paths(checkout)

    async def links(self, commit: CommitId) -> dict[str, str]:
        """Return the symbolic links of a commit: path -> target."""
        await self.mirror.ensure(commit)
        return await self.mirror.links(commit)

    async def fork(self, checkout: Checkout, name: str, *, lasting: bool = False) -> Checkout:
        """Copy a checkout in its current state, inside a sandbox, or return the lasting fork of that name (S4)."""
        return await self.checkouts.fork(checkout, name, lasting=lasting)

    async def freeze(self, checkout: Checkout, name: str, leftovers: Mapping[str, str]) -> FrozenWork:
        """End every sandbox of a checkout, then copy it for verification (G3a).

        Programs that verify the copy cannot change what is published. Raises Refused if the checkout cannot be copied
        or published.
        """
        await self._close(checkout)
        copy = await self.checkouts.fork(checkout, name)
        try:
            return FrozenWork(copy, *await self.publisher.tree(copy, leftovers))
        except BaseException:
            await self.checkouts.discard(copy)
            raise

    async def merge(self, fork: Checkout, into: Checkout) -> MergeResult:
        """Merge what changed in a fork since it was made, three ways, inside a sandbox (S4); loses nothing."""
        output = await self._run_merge(fork, into)
        if output.is_error:
            await self.checkouts.make_readable(fork)
            output = await self._run_merge(fork, into)
        if output.is_error:
            raise Refused(f"the merge failed: {output.text[:500]}")
        merged, conflicts = output.details.get("merged"), output.details.get("conflicts")
        return MergeResult(
            merged=tuple(str(path) for path in merged) if isinstance(merged, list) else (),
            conflicts={str(path): str(diff) for path, diff in conflicts.items()} if isinstance(conflicts, dict) else {},
        )

    async def _run_merge(self, fork: Checkout, into: Checkout) -> ToolOutput:
        """Run the merge in a sandbox of its own; merging again what was already merged gives the same result."""
        origin = str(self.checkouts.origin(fork))
        mounts = (Mount(origin, origin), Mount(fork.path, fork.path))
        host = await self._start(into, Access.WRITE, mounts)
        try:
            return await host.call("Merge", {"base": origin, "theirs": fork.path, "into": into.shown_as})
        finally:
            await host.close()

    async def open(
        self, checkout: Checkout, access: Access, *, network: Network = NO_NETWORK, bounds: SandboxBounds = UNBOUND
    ) -> Toolhost:
        """Start a toolhost on a checkout, within limits; raises NoSandbox if no sandbox can be made (D1).

        The toolhost reaches the hosts of `network`; with read-only access, it reaches no host.
        """
        is_connected = bool(network.hosts) and access is Access.WRITE and not self.source.unsafe
        host = await self._start(checkout, access, network=network if is_connected else NO_NETWORK, bounds=bounds)
        self._open.setdefault(checkout.path, []).append(host)
        return host

    async def publish(
        self, plan: ApprovedPlan, checkout: Checkout, commit: CommitOrder, *, before_push: BeforePush | None = None
    ) -> PushedWork:
        """End all sandboxes of a checkout, then publish it; raises Refused or Conflict with nothing pushed."""
        self.checkouts.place(checkout)
        await self._close(checkout)
        return await self.publisher.publish(plan, checkout, commit, before_push=before_push)

    async def discard(self, checkout: Checkout) -> None:
        """Remove a checkout and everything in it."""
        await self._close(checkout)
        await self.checkouts.discard(checkout)

    async def close(self) -> None:
        """End all sandboxes and release the checkouts for other processes; a later call starts again."""
        for hosts in tuple(self._open.values()):
            for host in hosts:
                await host.close()
        self._open.clear()
        self.checkouts.release()
        await self.mirror.tidy()

    async def _close(self, checkout: Checkout) -> None:
        for host in self._open.pop(checkout.path, []):
            await host.close()

    async def _start(
        self,
        checkout: Checkout,
        access: Access,
        beside: tuple[Mount, ...] = (),
        *,
        network: Network = NO_NETWORK,
        bounds: SandboxBounds = UNBOUND,
    ) -> SandboxedToolhost:
        """Start a toolhost that sees one checkout, the mirror, and the mounts in `beside`.

        Also makes a folder for /tmp and, if the network has hosts, a proxy; both end with the toolhost.
        """
        self.checkouts.place(checkout)
        variables = {} if access is Access.WRITE else _READ_ONLY_SETTINGS
        resources, tmp = AsyncExitStack(), ""
        try:
            if network.hosts:
                from bot.workspace.egress.proxy import Proxy  # late: most work has no way out

                proxy = await Proxy.start(network, self.route)
                resources.push_async_callback(proxy.close)
                beside, variables = (*beside, Mount(str(proxy.path), _SOCKET)), PROXY_SETTINGS
            sizes = [size for size in (self.limits.tmp_mb, bounds.tmp_mb) if size is not None]
            if not (sizes or self.source.unsafe):
                scratch = await self.checkouts.scratch(checkout)
                resources.push_async_callback(self.checkouts.clear, scratch)
                tmp = str(scratch)
            tree = Mount(checkout.path, checkout.shown_as, access is Access.WRITE)
            shared = tuple(Mount(path, path) for path in (str(self.mirror.path), *self.limits.mounts))
            mounts = (tree, *shared, *beside)
            profile = SandboxProfile(checkout.shown_as, mounts, min(sizes, default=0), tmp, variables)
            return await self._launch(profile, bounds, resources)
        except BaseException:
            await resources.aclose()
            raise

    async def _launch(
        self, profile: SandboxProfile, bounds: SandboxBounds, resources: AsyncExitStack
    ) -> SandboxedToolhost:
        """Start the toolhost of a profile, in its sandbox unless sandboxes are off; closing it closes the resources."""
        environment = sandbox.environment(profile)
        config = {
            "root": profile.directory,
            "writable": profile.mounts[0].writable,  # the checkout
            "memory_mb": _memory_mb(self.limits.memory_mb, bounds),
            "file_bytes": bounds.file_bytes or 0,
            "seconds": self.limits.seconds,
            "disk_mb": self.limits.disk_mb,
            "files": self.limits.files,
            "rg": "rg",
            "env": environment,
            "egress": _SOCKET if any(mount.target == _SOCKET for mount in profile.mounts) else "",
        }
        if self.source.unsafe:
            command = program(sandbox.python(), str(_BOT.parent))
            return await SandboxedToolhost.start(command, config, environment=environment)
        with sandbox.open_filter() as filters:
            command = [*sandbox.argv(profile, init=False, filters=filters), *program(sandbox.python(), sandbox.PACKAGE)]
            return await SandboxedToolhost.start(
                command, config, environment={}, descriptors=filters, after=resources.aclose
            )


class LocalWorkspace(GitWorkspace):
    """The workspace of a local run, whose checkouts stay on this disk."""

    __slots__ = ()

    async def keep(self, checkout: Checkout) -> bytes:  # noqa: ARG002 - the port's
        """Return b"": the checkouts of a local run are never restored on another disk."""
        return b""


def _memory_mb(every: int, bounds: SandboxBounds) -> int:
    """Return one sandbox's share of the memory that a sandbox may use."""
    share = int(every * bounds.memory_share)
    return share if bounds.memory_mb is None else min(share, bounds.memory_mb)
