"""Read, NotebookRead, LS, Glob and Grep: read the files of the checkout."""

from typing import Literal

from pydantic import Field

from bot.agent.tools.tool import ToolInput, read_tool


class ReadInput(ToolInput):
    """Input of Read; `offset` is the first line, from 1."""

    file_path: str = Field(min_length=1)
    offset: int | None = Field(default=None, ge=0)
    limit: int | None = Field(default=None, ge=1)


READ = read_tool(
    "Read",
    "Read a file: numbered lines, at most 2000 from `offset`; images are shown. Long results are cut with a note. "
    "Read several files in one message.",
    ReadInput,
)


class GrepInput(ToolInput):
    """Input of Grep, named as ripgrep's options."""

    pattern: str = Field(min_length=1)
    path: str | None = None
    glob: str | None = None
    type: str | None = None
    output_mode: Literal["content", "files_with_matches", "count"] = "files_with_matches"
    after: int | None = Field(default=None, alias="-A", ge=0)
    before: int | None = Field(default=None, alias="-B", ge=0)
    around: int | None = Field(default=None, alias="-C", ge=0)
    numbered: bool | None = Field(default=None, alias="-n")
    ignore_case: bool | None = Field(default=None, alias="-i")
    multiline: bool | None = None
    head_limit: int | None = Field(default=None, ge=0)
    offset: int | None = Field(default=None, ge=0)


GREP = read_tool(
    "Grep",
    "Search file contents with a ripgrep regular expression. output_mode: files_with_matches (default), content "
    "(with -A, -B, -C lines of context) or count. Filter by `glob` or `type`. `head_limit` "
    "results (250) are shown; `offset` skips the first.",
    GrepInput,
)


class LsInput(ToolInput):
    """Input of LS; `ignore` lists globs to leave out."""

    path: str = Field(min_length=1)
    ignore: list[str] | None = None


class GlobInput(ToolInput):
    """Input of Glob; `path` is the folder to search."""

    pattern: str = Field(min_length=1)
    path: str | None = None


LS = read_tool(
    "LS",
    "List one folder.",
    LsInput,
)

GLOB = read_tool(
    "Glob",
    'Find files by a pattern such as "src/**/*.py", newest first, at most 100.',
    GlobInput,
)


class NotebookReadInput(ToolInput):
    """Input of NotebookRead; `cell_id` shows only that cell."""

    notebook_path: str = Field(min_length=1)
    cell_id: str | None = None


NOTEBOOK_READ = read_tool(
    "NotebookRead",
    "Read a Jupyter notebook (.ipynb): its cells with their ids, sources and outputs; images are shown.",
    NotebookReadInput,
)
