"""The tools that read and change files of the checkout (T4)."""

from typing import Literal

from pydantic import Field

from bot.agent.tools.tool import ToolInput, edit_tool, read_tool

# --- Read, NotebookRead, LS, Glob and Grep: read the files of the checkout -------------------------------------------


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


# --- Write, Edit, MultiEdit and NotebookEdit: change one file --------------------------------------------------------


class WriteInput(ToolInput):
    """Input of Write."""

    file_path: str = Field(min_length=1)
    content: str


WRITE = edit_tool(
    "Write",
    "Write a whole file, making its folders. An existing file must have been read before. Prefer Edit.",
    WriteInput,
)


class Replacement(ToolInput):
    """One replacement; `old_string` must be unique in the file unless `replace_all`."""

    old_string: str
    new_string: str
    replace_all: bool = False


class EditInput(Replacement):
    """Input of Edit."""

    file_path: str = Field(min_length=1)


class MultiEditInput(ToolInput):
    """Input of MultiEdit: replacements in order, all or none."""

    file_path: str = Field(min_length=1)
    edits: list[Replacement] = Field(min_length=1)


EDIT = edit_tool(
    "Edit",
    "Replace `old_string` by `new_string` in a file that was read before. The text must match exactly (without the "
    "line numbers of Read) and be unique, unless `replace_all`.",
    EditInput,
)

MULTI_EDIT = edit_tool(
    "MultiEdit",
    "Make several replacements in one file, in order; either all are made or none. Rules as for Edit.",
    MultiEditInput,
    strict=True,
)


class NotebookEditInput(ToolInput):
    """Input of NotebookEdit; a new cell comes after `cell_id`, or first."""

    notebook_path: str = Field(min_length=1)
    cell_id: str | None = None
    cell_type: Literal["code", "markdown", "raw"] | None = None
    edit_mode: Literal["replace", "insert", "delete"] = "replace"
    new_source: str = ""


NOTEBOOK_EDIT = edit_tool(
    "NotebookEdit",
    "Change one cell of a notebook that was read before: replace its source (a code cell's outputs are cleared), "
    "insert a cell after `cell_id` (first without one; needs `cell_type`), or delete it.",
    NotebookEditInput,
    place="notebook_path",
)
