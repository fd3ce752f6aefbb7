"""Write, Edit, MultiEdit and NotebookEdit: change one file."""

from typing import Literal

from pydantic import Field

from bot.agent.tools.tool import ToolInput, edit_tool


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
