"""The tools that run in the sandbox, on the checkout: they read and change files, and run commands (T3a, T4)."""

import asyncio
import re
from dataclasses import replace
from functools import partial
from typing import Final, Literal

from pydantic import Field

from bot.agent.permissions.tool_gate import CallKind, Mode
from bot.agent.tools.tool import Tool, ToolContext, ToolInput, ToolProgress, ToolSink, relative
from bot.ports import ToolOutput


async def run_in_toolhost(
    tool_input: ToolInput, context: ToolContext, emit: ToolSink, *, operation: str, stamp: str | None = None
) -> ToolOutput:
    """Run an operation in the toolhost. `stamp` names the input field whose file must have been read before."""
    arguments = tool_input.arguments()
    if stamp is not None:
        arguments["stamp"] = context.stamps.get(relative(arguments[stamp], context.folder), "")
    progress: asyncio.Queue[str | None] = asyncio.Queue()
    reporting = asyncio.create_task(_report_progress(progress, emit))
    try:
        output = await context.host.call(operation, arguments, progress=progress.put_nowait)
        progress.put_nowait(None)
        await reporting
    finally:
        reporting.cancel()
        await asyncio.gather(reporting, return_exceptions=True)
    context.stamps.update({relative(path, context.folder): stamp for path, stamp in output.stamps.items()})
    return output


async def _report_progress(progress: "asyncio.Queue[str | None]", emit: ToolSink) -> None:
    while (text := await progress.get()) is not None:
        await emit(ToolProgress(text))


def read_tool(name: str, description: str, input_model: type[ToolInput]) -> Tool:
    """Return a tool that reads the checkout. It runs in the toolhost, concurrently with others of its kind."""
    return Tool(
        name=name,
        description=description,
        input_model=input_model,
        call=partial(run_in_toolhost, operation=name),
        kind=lambda _: CallKind.READ,
        concurrent=lambda _: True,
    )


def edit_tool(
    name: str, description: str, input_model: type[ToolInput], *, place: str = "file_path", strict: bool = False
) -> Tool:
    """Return a tool that changes a file. It runs alone, in the toolhost.

    `place` is the input field that names the file. An existing file must have been read before.
    """
    return Tool(
        name=name,
        description=description,
        input_model=input_model,
        call=partial(run_in_toolhost, operation=name, stamp=place),
        kind=lambda _: CallKind.EDIT,
        strict=strict,
    )


# --- Read, NotebookRead, LS, Glob, and Grep: read the checkout --------------------------------------------------------


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


LS = read_tool("LS", "List one folder.", LsInput)

GLOB = read_tool("Glob", 'Find files by a pattern such as "src/**/*.py", newest first, at most 100.', GlobInput)


class NotebookReadInput(ToolInput):
    """Input of NotebookRead; `cell_id` shows only that cell."""

    notebook_path: str = Field(min_length=1)
    cell_id: str | None = None


NOTEBOOK_READ = read_tool(
    "NotebookRead",
    "Read a Jupyter notebook (.ipynb): its cells with their ids, sources and outputs; images are shown.",
    NotebookReadInput,
)


# --- Write, Edit, MultiEdit, and NotebookEdit: change one file --------------------------------------------------------


class WriteInput(ToolInput):
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


# --- Bash, BashOutput, and KillShell: run shell commands --------------------------------------------------------------

LONGEST_MS: Final = 600_000
DEFAULT_MS: Final = 120_000
_CHANGES_FOLDER: Final = re.compile(r"\bcd\b")
"""A command that changes the working directory of later calls must not run concurrently with them."""

_PLANNING: Final = "Not run: plan mode is on, and a command that only reads needs no background. Call it without."
_TIMEOUT_HINT: Final = " (what takes longer: run_in_background, then BashOutput)"
"""Follows the line that ends a timed-out command, in the form that bot/core/transcript.py reads."""


class BashInput(ToolInput):
    """Input of Bash; `timeout` in milliseconds."""

    command: str = Field(min_length=1)
    timeout: int | None = Field(default=None, ge=1, le=LONGEST_MS)
    description: str | None = None
    run_in_background: bool | None = None


def _kind(tool_input: BashInput) -> CallKind:
    from bot.agent.permissions.shell_policy import is_read_only

    return CallKind.READ_COMMAND if is_read_only(tool_input.command) else CallKind.COMMAND


async def _call(tool_input: BashInput, context: ToolContext, emit: ToolSink) -> ToolOutput:
    """Run a command on the checkout.

    In plan mode, a command that may write runs on a copy that is thrown away (P4a), and no command runs in the
    background.
    """
    planning = context.mode is Mode.PLAN
    if tool_input.run_in_background and planning:
        return ToolOutput(_PLANNING, is_error=True)
    if context.rehearsal is not None and planning and _kind(tool_input) is CallKind.COMMAND:
        return await context.rehearsal.run(tool_input.arguments())
    operation = "StartShell" if tool_input.run_in_background else "Bash"
    output = await run_in_toolhost(tool_input, context, emit, operation=operation)
    if planning or output.details.get("ended") != "timeout":
        return output
    return replace(output, text=output.text + _TIMEOUT_HINT)


BASH = Tool(
    name="Bash",
    description=(
        "Run a shell command in the sandbox (no network but https to hosts that an approved plan names); the working "
        "directory is kept between calls. Timeout 120 s unless `timeout` (ms) says otherwise. `run_in_background` "
        "returns at once and has no timeout of its own: read on with BashOutput. In plan mode only read-only commands, "
        "and those that the reminder of plan mode lists, in the foreground. Do not use it to read or search files; "
        "there are tools for that."
    ),
    input_model=BashInput,
    call=_call,
    kind=_kind,
    concurrent=lambda tool_input: (
        _kind(tool_input) is CallKind.READ_COMMAND
        and not tool_input.run_in_background
        and not _CHANGES_FOLDER.search(tool_input.command)
    ),
    timeout=lambda tool_input: (tool_input.timeout or DEFAULT_MS) / 1000 + 10,
)


class BashOutputInput(ToolInput):
    """Input of BashOutput; `filter` is a regular expression as in Grep."""

    bash_id: str = Field(min_length=1)
    filter: str | None = None


class KillShellInput(ToolInput):
    shell_id: str = Field(min_length=1)


BASH_OUTPUT = Tool(
    name="BashOutput",
    description=(
        "Read what a command in the background wrote since the last call, and how it ended or that it runs. Waits up "
        "to 10 s for something new. With `filter`, lines that do not match it are dropped for good."
    ),
    input_model=BashOutputInput,
    call=partial(run_in_toolhost, operation="BashOutput"),
    kind=lambda _: CallKind.BACKGROUND,
)

KILL_SHELL = Tool(
    name="KillShell",
    description="End a command in the background, and all that it started.",
    input_model=KillShellInput,
    call=partial(run_in_toolhost, operation="KillShell"),
    kind=lambda _: CallKind.BACKGROUND,
)
