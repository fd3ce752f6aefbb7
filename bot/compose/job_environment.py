"""Describes a job to its sessions: the place, its tools, the commits, the project memory (K10, K11).

All of it comes from the mirror, which holds the commits that are worked on anyway: it costs a few git processes for
each session, and no request to GitHub.
"""

import asyncio
import platform
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from bot.agent.prompts import Environment
from bot.agent.prompts.memory import ProjectMemory
from bot.core.names import CommitId
from bot.core.work import ThreadLocation
from bot.ports import Clock
from bot.workspace.export import MODULES
from bot.workspace.installed import installed_tools
from bot.workspace.tree import submodule_paths
from bot.workspace.workspace import GitWorkspace

if TYPE_CHECKING:
    from bot.config.repository_file import Configuration

COMMITS: Final = 5
"""Number of newest commits that a session is shown."""


@dataclass(frozen=True, slots=True)
class JobEnvironment:
    """Makes the environment of a session. `guidance` is the commit of the default branch with the project memory."""

    job: Environment
    workspace: GitWorkspace
    guidance: CommitId | None

    async def at(self, base: CommitId) -> Environment:
        """Return the environment of work on a commit. Each session gets its own, with the memory of this moment."""
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
    """Return a job with its thread and branch, and where people read its last message."""
    pull, number = location.branch, location.thread
    kind = "pull request" if pull or location.pull else "issue"
    return replace(
        job,
        branch=f"{location.default_branch} is the default" + (f"; the pull request's is {pull}" if pull else ""),
        place=f"on {kind} #{number} on GitHub. Your last message becomes a comment there, or "
        "the summary in the pull request once approved work is done.",
    )


def place_in_terminal(job: Environment, branch: str) -> Environment:
    """Return a job with its branch, for one person at a terminal."""
    return replace(job, branch=branch, place="at a terminal, where your last message is printed.")
