"""Read: a file's lines, or an image."""

from pydantic import Field

from bot.agent.permissions import Kind
from bot.agent.tools.tool import Tool, ToolInput, hosted


class ReadInput(ToolInput):
    """Input of Read; `offset` is the first line, from 1."""

    file_path: str = Field(min_length=1)
    offset: int | None = Field(default=None, ge=0)
    limit: int | None = Field(default=None, ge=1)


READ = Tool(
    name="Read",
    description=(
        "Read a file: numbered lines, at most 2000 from `offset`; images are shown. Long results are cut with a note. "
        "Read several files in one message."
    ),
    input_model=ReadInput,
    call=lambda given, context: hosted(given, context, operation="Read"),
    kind=lambda _: Kind.LOOK,
    concurrent=lambda _: True,
)
