"""Which tools the commands of a sandbox find, with their versions: asked once by each process (K11)."""

import os
import re
import subprocess
from functools import lru_cache
from typing import Final

from bot.core.errors import Misconfigured, NoSandbox
from bot.core.git_failures import OLDEST_GIT
from bot.workspace import sandbox, seccomp
from bot.workspace.sandbox import Mount, SandboxProfile

VERSIONED: Final = ("git", "python3", "node", "go", "cargo", "ruby", "php", "gcc", "make")
"""Tools that print their version within milliseconds."""
NAMED: Final = ("pip3", "uv", "npm", "pnpm", "yarn", "java", "mvn", "gradle", "dotnet", "cmake", "jq")
"""Tools that are only named: some of them take a second to print their version."""
SECONDS: Final = 20.0
_SCRIPT: Final = (
    f"for tool in {' '.join(VERSIONED)}; do command -v $tool >/dev/null && echo @$tool && "
    "{ $tool --version || $tool version; } 2>/dev/null </dev/null; done; "
    f"for tool in {' '.join(NAMED)}; do command -v $tool >/dev/null && echo @$tool; done; true"
)
_FOUND: Final = re.compile(r"^@(\S+)\n(?:[^@\n]*?(\d+(?:\.\d+)+))?", re.MULTILINE)


@lru_cache(maxsize=1)
def check_git(program: str = "git") -> str:
    """Return git's version, asked for once; raises Misconfigured if git is missing or older than OLDEST_GIT."""
    fix = f"install git {OLDEST_GIT} or newer"
    try:
        printed = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    except OSError as error:
        raise Misconfigured(f"git does not run: {error.strerror}", where=program, fix=fix) from None
    found = re.search(r"\d+(?:\.\d+)+", printed)
    version = found[0] if found else "without a version"
    if [int(part) for part in version.split(".") if found][:2] < [int(part) for part in OLDEST_GIT.split(".")]:
        raise Misconfigured(f"git {version} is too old", where=program, fix=fix)
    return version


@lru_cache(maxsize=16)
def installed_tools(mounts: tuple[str, ...] = (), *, unsafe: bool = False) -> str:
    """Return the tools that a sandbox with these mounts has, such as ``git 2.39.5, make``; "" if none can be asked.

    Blocks for some milliseconds. Later calls return the same text.
    """
    profile = SandboxProfile("/tmp", tuple(Mount(path, path) for path in mounts))  # noqa: S108 - /tmp is the sandbox's own
    try:
        with seccomp.open_filter() as filters:
            boxed = [] if unsafe else sandbox.argv(profile, filters=filters)
            places = sandbox.environment(profile) if unsafe else {"PATH": os.defpath}
            result = subprocess.run(
                [*boxed, "sh", "-c", _SCRIPT],
                env=places,
                capture_output=True,
                timeout=SECONDS,
                check=False,
                pass_fds=filters,
            )
    except (NoSandbox, OSError, subprocess.TimeoutExpired):
        return ""
    tools = _FOUND.findall(result.stdout.decode(errors="replace"))
    return ", ".join(f"{tool} {version}".rstrip() for tool, version in tools)
