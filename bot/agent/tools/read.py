"""Read: a file's lines, or an image."""

from pydantic import Field

from bot.agent.tools.tool import ToolInput, looking


class ReadInput(ToolInput):
    """Input of Read; `offset` is the first line, from 1."""

    file_path: str = Field(min_length=1)
    offset: int | None = Field(default=None, ge=0)
    limit: int | None = Field(default=None, ge=1)


READ = looking(
    "Read",
    "Read a file: numbered lines, at most 2000 from `offset`; images are shown. Long results are cut with a note. "
    "Read several files in one message.",
    ReadInput,
)
