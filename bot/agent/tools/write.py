"""Write: a whole file."""

from pydantic import Field

from bot.agent.permissions import Kind
from bot.agent.tools.tool import Tool, ToolInput, hosted


class WriteInput(ToolInput):
    """Input of Write."""

    file_path: str = Field(min_length=1)
    content: str


WRITE = Tool(
    name="Write",
    description="Write a whole file, making its folders. An existing file must have been read before. Prefer Edit.",
    input_model=WriteInput,
    call=lambda given, context: hosted(given, context, operation="Write", stamp="file_path"),
    kind=lambda _: Kind.EDIT,
)
