"""TodoWrite and TodoRead: the session's todo list, which people watch."""

from typing import Literal

from pydantic import Field

from bot.agent.permissions.tool_gate import CallKind
from bot.agent.tools.tool import Tool, ToolContext, ToolInput, ToolSink
from bot.core.comment import BOXES
from bot.ports import ToolOutput


class Todo(ToolInput):
    """One item."""

    content: str = Field(min_length=1)
    status: Literal["pending", "in_progress", "completed"]
    activeForm: str | None = None  # noqa: N815 - the field's name in the field


class TodoWriteInput(ToolInput):
    """Input of TodoWrite: the whole list."""

    todos: list[Todo]


class TodoReadInput(ToolInput):
    """Input of TodoRead: nothing."""


async def _write(tool_input: TodoWriteInput, context: ToolContext, _emit: ToolSink) -> ToolOutput:
    context.todos[:] = [(todo.content, todo.status) for todo in tool_input.todos]
    active = [todo.activeForm or "" for todo in tool_input.todos if todo.status == "in_progress"]
    context.doing = active[0] if len(active) == 1 else ""
    return ToolOutput(f"Todo list of {len(context.todos)} items saved. Go on with the item in progress.")


async def _read(_: TodoReadInput, context: ToolContext, _emit: ToolSink) -> ToolOutput:
    lines = [f"{BOXES[status]} {content}" for content, status in context.todos]
    return ToolOutput("\n".join(lines) or "The todo list is empty.")


TODO_WRITE = Tool(
    name="TodoWrite",
    description=(
        "Replace the todo list that people watch. One item in progress at a time; `activeForm` is what it is called "
        "meanwhile (Running the tests). Tick items as you go."
    ),
    input_model=TodoWriteInput,
    call=_write,
    kind=lambda _: CallKind.LIST,
    strict=True,
)

TODO_READ = Tool(
    name="TodoRead",
    description="Read the todo list.",
    input_model=TodoReadInput,
    call=_read,
    kind=lambda _: CallKind.LIST,
    concurrent=lambda _: True,
)
