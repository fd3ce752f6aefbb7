"""LS and Glob: which files there are."""

from pydantic import Field

from bot.agent.permissions import Kind
from bot.agent.tools.tool import Tool, ToolInput, hosted


class LsInput(ToolInput):
    """Input of LS; `ignore` lists globs to leave out."""

    path: str = Field(min_length=1)
    ignore: list[str] | None = None


class GlobInput(ToolInput):
    """Input of Glob; `path` is the folder to search."""

    pattern: str = Field(min_length=1)
    path: str | None = None


LS = Tool(
    name="LS",
    description="List one folder.",
    input_model=LsInput,
    call=lambda given, context: hosted(given, context, operation="LS"),
    kind=lambda _: Kind.LOOK,
    concurrent=lambda _: True,
)

GLOB = Tool(
    name="Glob",
    description='Find files by a pattern such as "src/**/*.py", newest first, at most 100.',
    input_model=GlobInput,
    call=lambda given, context: hosted(given, context, operation="Glob"),
    kind=lambda _: Kind.LOOK,
    concurrent=lambda _: True,
)
