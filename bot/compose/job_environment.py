"""Describes a job's environment to its sessions (K10, K11), and plants the canaries around them (X3)."""

import asyncio
import json
import platform
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bot.agent.prompts import Environment
from bot.agent.prompts.environment_text import ProjectMemory
from bot.compose.parts import egress_route_of, server_host
from bot.config.environment import decoy_variable
from bot.config.settings import Settings
from bot.core.errors import Refused
from bot.core.names import CommitId
from bot.core.secrets.redaction import CanaryAlarm
from bot.core.transcript import Json
from bot.core.work import ThreadLocation
from bot.ports import Clock
from bot.toolhost.files import checked_image_block, media_type
from bot.toolhost.protocol import Failure
from bot.workspace.egress.fetch import PictureFetcher, attachment_hosts
from bot.workspace.export import MODULES, submodule_paths
from bot.workspace.sandbox import installed_tools
from bot.workspace.workspace import GitWorkspace

if TYPE_CHECKING:
    from bot.core.configuration import Configuration

# --- Canaries (X3) ----------------------------------------------------------------------------------------------------
# A canary is a decoy that only code outside the sandbox can find. Each has a value of its own.

FILE: Final = "credentials.json"


@contextmanager
def plant_canary(data: Path) -> Iterator[CanaryAlarm]:
    """Create a decoy file in the data directory for one check of a thread, and yield the alarm that knows its value.

    Every alarm also knows the value of the process's own decoy, an environment variable. If the file cannot be written,
    the check goes on without that decoy.
    """
    value = _decoy_value()
    folder = data / "decoys" / secrets.token_hex(4)
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True)
        (folder / FILE).write_text(json.dumps({"anthropic_admin_key": value}) + "\n")
    try:
        yield CanaryAlarm((value, _of_the_process()))
    finally:
        with suppress(OSError):
            (folder / FILE).unlink()
            folder.rmdir()


@cache
def _of_the_process() -> str:
    value = _decoy_value()
    decoy_variable(value)
    return value


def _decoy_value() -> str:
    """Return a value that resembles a secret and is valid nowhere."""
    return f"sk-ant-admin01-{secrets.token_urlsafe(48)}"


# --- Pictures (K9) ----------------------------------------------------------------------------------------------------


async def fetch_image_block(fetcher: PictureFetcher, url: str) -> Json:
    return image_block(await fetcher.fetch(url))


def picture_fetcher_of(settings: Settings) -> PictureFetcher:
    hosts = attachment_hosts(server_host(settings))
    own = () if "github.com" in hosts else tuple(hosts)
    return PictureFetcher(hosts, replace(egress_route_of(settings), own=own))


def image_block(content: bytes) -> Json:
    """Return the image block of a picture, typed by its first bytes. Raises Refused if the model cannot take it."""
    kind = media_type(content[:16])
    if kind is None:
        raise Refused("it is not a PNG, JPEG, GIF, or WebP image")
    try:
        return checked_image_block(content, kind, "it")
    except Failure as failure:
        raise Refused(str(failure)) from None


# --- The environment of a session (K10, K11) --------------------------------------------------------------------------
# A session is told the place, its tools, the newest commits, and the project memory. All of it comes from the mirror,
# which holds the commits anyway: it costs a few git processes for each session, and no request to GitHub.

COMMITS: Final = 5
"""Number of newest commits that a session is shown."""


@dataclass(frozen=True, slots=True)
class JobEnvironment:
    """Makes the environment of a session. `guidance` is the commit of the default branch with the project memory."""

    job: Environment
    workspace: GitWorkspace
    guidance: CommitId | None

    async def at(self, base: CommitId) -> Environment:
        """Return the environment of one session's work on a commit, with the project memory as it is now."""
        mirror, mounts = self.workspace.mirror, self.workspace.limits.mounts
        await mirror.ensure(base)
        top_level = await mirror.top_level(base)
        modules = await mirror.read(base, MODULES) if MODULES in top_level else None
        environment = replace(
            self.job,
            base=base[:12],
            tools=await asyncio.to_thread(installed_tools, mounts, unsafe=self.workspace.source.unsafe),
            top_level=top_level,
            submodules=submodule_paths(modules or b""),
            commits=await mirror.newest_commits(base, COMMITS),
        )
        if self.guidance is None:
            return environment
        await mirror.ensure(self.guidance)
        project = ProjectMemory(partial(mirror.starts, self.guidance))
        return replace(environment, project=project, memory=await project.root())


def job_of(keys: "Configuration", *, folder: str, repository: str, clock: Clock) -> Environment:
    """Return the part of a job's environment that does not depend on its commit: the machine and the configuration."""
    return Environment(
        folder,
        _operating_system(),
        f"{clock.now():%Y-%m-%d}",
        repository,
        language="" if keys.language == "thread" else keys.language,
        setup=tuple(keys.sandbox.setup),
        verify=tuple(keys.execution.verify),
        hosts=tuple(keys.sandbox.hosts),
    )


def _operating_system() -> str:
    """Return system, processor, and distribution, as programs in the sandbox see them too."""
    try:
        name = f", {platform.freedesktop_os_release()['PRETTY_NAME']}"
    except OSError:
        name = ""
    return f"{platform.system()} {platform.machine()}{name}"


def place_on_github(job: Environment, location: ThreadLocation) -> Environment:
    pull, number = location.branch, location.thread
    kind = "pull request" if pull or location.pull else "issue"
    return replace(
        job,
        branch=f"{location.default_branch} is the default" + (f"; the pull request's is {pull}" if pull else ""),
        place=f"on {kind} #{number} on GitHub. Your last message becomes a comment there, or "
        "the summary in the pull request once approved work is done.",
    )


def place_in_terminal(job: Environment, branch: str) -> Environment:
    return replace(job, branch=branch, place="at a terminal, where your last message is printed.")
