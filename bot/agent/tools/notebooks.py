"""NotebookRead and NotebookEdit: read and edit notebooks cell by cell."""

from typing import Literal

from pydantic import Field

from bot.agent.tools.tool import ToolInput, edit_tool, read_tool


class NotebookReadInput(ToolInput):
    """Input of NotebookRead; `cell_id` shows only that cell."""

    notebook_path: str = Field(min_length=1)
    cell_id: str | None = None


class NotebookEditInput(ToolInput):
    """Input of NotebookEdit; a new cell comes after `cell_id`, or first."""

    notebook_path: str = Field(min_length=1)
    cell_id: str | None = None
    cell_type: Literal["code", "markdown", "raw"] | None = None
    edit_mode: Literal["replace", "insert", "delete"] = "replace"
    new_source: str = ""


NOTEBOOK_READ = read_tool(
    "NotebookRead",
    "Read a Jupyter notebook (.ipynb): its cells with their ids, sources and outputs; images are shown.",
    NotebookReadInput,
)

NOTEBOOK_EDIT = edit_tool(
    "NotebookEdit",
    "Change one cell of a notebook that was read before: replace its source (a code cell's outputs are cleared), "
    "insert a cell after `cell_id` (first without one; needs `cell_type`), or delete it.",
    NotebookEditInput,
    place="notebook_path",
)
