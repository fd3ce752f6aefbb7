"""The form of a request to the Messages API: known fields, types, and blocks. rules.py has the rules for values.

What the bot never sends is not simulated: a field or a type that only other clients use is refused as unknown. The API
words its errors as pydantic does. https://platform.claude.com/docs/en/api/messages
"""

import re
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, ValidationError

from bot.testing.model.request_view import Json

CLEARING = "clear_tool_uses_20250919"
SEARCH = "web_search_20250305"
SERVED = "served"  # stands for blocks of tools that the service runs itself, whose fields are not checked
WORDS = {"dict_type": "Input should be an object", "model_type": "Input should be an object"}


class Part(BaseModel):
    """A part of a request, in which unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Marker(Part):
    type: Literal["ephemeral"]


class Marked(Part):
    cache_control: Marker | None = None


class TextBlock(Marked):
    type: Literal["text"]
    text: str
    citations: Any = None


class SystemBlock(Marked):
    type: Literal["text"]
    text: str


class ImageBlock(Marked):
    type: Literal["image"]
    source: Json


class ThinkingBlock(Part):
    type: Literal["thinking"]
    thinking: str
    signature: str


class RedactedBlock(Part):
    type: Literal["redacted_thinking"]
    data: Any


class CallBlock(Marked):
    type: Literal["tool_use"]
    id: Annotated[str, Field(pattern="^[a-zA-Z0-9_-]+$")]
    name: Any
    input: Json
    caller: Any = None


def _whole_list(content: object) -> object:
    """Return the content as a list of blocks to check. A string stands for one text block."""
    return [] if isinstance(content, str) else content


class ResultBlock(Marked):
    type: Literal["tool_result"]
    tool_use_id: str
    content: (
        Annotated[list[Annotated[TextBlock | ImageBlock, Field(discriminator="type")]], BeforeValidator(_whole_list)]
        | None
    ) = None
    is_error: Any = None


class SummaryBlock(Marked):
    type: Literal["compaction"]
    content: Any = None
    signature: Any = None
    tool_changes: Any = None


def block_type(block: object) -> str | None:
    kind = block.get("type") if isinstance(block, dict) else None
    if isinstance(kind, str) and (kind == "server_tool_use" or kind.endswith("_tool_result")):
        return SERVED
    return kind if isinstance(kind, str) else None


def tool_type(tool: object) -> str | None:
    return str(tool.get("type") or "custom") if isinstance(tool, dict) else "custom"


Block: TypeAlias = Annotated[
    Annotated[TextBlock, Tag("text")]
    | Annotated[ImageBlock, Tag("image")]
    | Annotated[ThinkingBlock, Tag("thinking")]
    | Annotated[RedactedBlock, Tag("redacted_thinking")]
    | Annotated[CallBlock, Tag("tool_use")]
    | Annotated[ResultBlock, Tag("tool_result")]
    | Annotated[SummaryBlock, Tag("compaction")]
    | Annotated[Json, Tag(SERVED)],
    Discriminator(block_type),
]


class Message(Part):
    role: Literal["user", "assistant"]
    content: Annotated[list[Block], BeforeValidator(_whole_list)]


class Tool(Marked):
    name: Annotated[str, Field(pattern="^[a-zA-Z0-9_-]{1,64}$")]
    input_schema: Json
    description: str = ""
    strict: Any = None
    type: Any = None


class SearchTool(Marked):
    type: str
    name: Literal["web_search"]
    max_uses: Annotated[int, Field(gt=0)] | None = None
    allowed_domains: list[str] | None = None
    blocked_domains: list[str] | None = None


class Adaptive(Part):
    type: Literal["adaptive"]
    display: Literal["summarized", "omitted"] | None = None
    block_binding: Json | None = None


class Disabled(Part):
    type: Literal["disabled"]


class Enabled(Part):
    type: Literal["enabled"]
    budget_tokens: Annotated[int, Field(ge=1024)]
    display: Literal["summarized", "omitted"] | None = None


class Format(Part):
    type: Literal["json_schema"]
    form: Json = Field(alias="schema")


class OutputConfig(Part):
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: Format | None = None


class Metadata(Part):
    user_id: Any = None


class Summary(Part):
    type: Literal["summarize"]
    instructions: Any = None


class Tokens(Part):
    type: Literal["input_tokens"]
    value: Annotated[int, Field(ge=0)]


class Uses(Part):
    type: Literal["tool_uses"]
    value: Annotated[int, Field(ge=0)]


class Clearing(Part):
    type: Literal["clear_tool_uses_20250919"]
    trigger: Annotated[Tokens | Uses, Field(discriminator="type")] | None = None
    keep: Uses | None = None
    clear_at_least: Tokens | None = None
    exclude_tools: Any = None
    clear_tool_inputs: Any = None


class Edits(Part):
    edits: list[Clearing]


class MessagesRequest(Part):
    model: str
    max_tokens: Annotated[int, Field(ge=0)]
    messages: Annotated[list[Message], Field(max_length=100_000)]
    system: Annotated[list[SystemBlock], BeforeValidator(_whole_list)] | None = None
    tools: (
        list[Annotated[Annotated[Tool, Tag("custom")] | Annotated[SearchTool, Tag(SEARCH)], Discriminator(tool_type)]]
        | None
    ) = None
    thinking: Annotated[Adaptive | Disabled | Enabled, Field(discriminator="type")] | None = None
    output_config: OutputConfig | None = None
    metadata: Metadata | None = None
    stream: bool = False
    compaction: Summary | None = None
    context_management: Edits | None = None


def malformed_part(body: Json) -> str | None:
    try:
        MessagesRequest.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = _place(first["loc"])
        if first["type"] == "union_tag_not_found":
            return f"{place}.type: Field required"
        said = re.sub(r"using [a-z_]+\(\)", "using 'type'", first["msg"])
        return f"{place}: {WORDS.get(first['type'], said)}"
    return None


def _place(parts: tuple[int | str, ...]) -> str:
    """Return a place as the API's errors write it: with the type tag even where a field has only one type."""
    place = re.sub(r"(?<=cache_control)\.(?!type$)", ".ephemeral.", ".".join(map(str, parts)))
    return re.sub(r"(?<=edits\.\d)\.(?!type$)", f".{CLEARING}.", place)
