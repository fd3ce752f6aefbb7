"""resource_request: a sub-agent asks its parent for more of a limit before it runs out (S11)."""

from typing import Final, Literal

from pydantic import Field

from bot.agent.limits import Resource
from bot.agent.permissions.tool_gate import CallKind
from bot.agent.tools.tool import Tool, ToolContext, ToolInput, ToolSink
from bot.ports import ToolOutput

NO_MORE: Final = "There is no more. Report what you have, and say what is left."


class RequestInput(ToolInput):
    """Input of resource_request."""

    resource: Literal["tool_calls", "context_tokens", "file_operations", "file_reads", "file_writes"]
    reason: str = Field(min_length=1, max_length=500)


async def _call(tool_input: RequestInput, context: ToolContext, _emit: ToolSink) -> ToolOutput:
    resource = Resource(tool_input.resource)
    if context.raise_limit is not None and context.raise_limit(resource):
        return ToolOutput(f"You have half as much again of {resource.label}.")
    return ToolOutput(NO_MORE, is_error=True)


RESOURCE_REQUEST = Tool(
    name="resource_request",
    description="Ask for more of a limit when you need it to finish; it is given at most twice.",
    input_model=RequestInput,
    call=_call,
    kind=lambda _: CallKind.LIST,
)
