"""LS and Glob: list files."""

from pydantic import Field

from bot.agent.tools.tool import ToolInput, looking


class LsInput(ToolInput):
    """Input of LS; `ignore` lists globs to leave out."""

    path: str = Field(min_length=1)
    ignore: list[str] | None = None


class GlobInput(ToolInput):
    """Input of Glob; `path` is the folder to search."""

    pattern: str = Field(min_length=1)
    path: str | None = None


LS = looking(
    "LS",
    "List one folder.",
    LsInput,
)

GLOB = looking(
    "Glob",
    'Find files by a pattern such as "src/**/*.py", newest first, at most 100.',
    GlobInput,
)
