"""Write: a whole file."""

from pydantic import Field

from bot.agent.tools.tool import ToolInput, editing


class WriteInput(ToolInput):
    """Input of Write."""

    file_path: str = Field(min_length=1)
    content: str


WRITE = editing(
    "Write",
    "Write a whole file, making its folders. An existing file must have been read before. Prefer Edit.",
    WriteInput,
)
