"""The rules for the order of messages: the first, the last, and the places of system messages.

https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages
"""

from __future__ import annotations

from collections.abc import Iterator

from bot.testing.model.subject import Finding, Subject
from bot.testing.model.wire import Json, blocks

SMALL_WINDOW = 200_000
MAX_IMAGES = 600
MAX_IMAGES_SMALL = 100


def first_message(subject: Subject) -> Iterator[Finding]:
    """Check that the first message is the user's, or an assistant's that starts with a compaction block."""
    first = subject.messages[0]
    begins = blocks(first["content"])[:1]
    compacted = first["role"] == "assistant" and [block["type"] for block in begins] == ["compaction"]
    if first["role"] == "assistant" and not compacted:
        yield 'messages: first message must use the "user" role'


def system_messages(subject: Subject) -> Iterator[Finding]:
    """Check that the model accepts system messages, and that each follows a user turn or a server tool's result."""
    for index, message in enumerate(subject.messages):
        if message["role"] != "system":
            continue
        place = f"messages.{index}"
        if not subject.model.system_messages:
            yield (
                f'{place}: Unexpected role "system". The Messages API accepts a top-level `system` parameter, '
                'not "system" as an input message role.'
            )
        if message["content"]:
            yield from _placement(subject.messages, index)
        if message.get("clear_at") == "next_user_message":
            yield from _without_marks(message, place)


def _placement(messages: list[Json], index: int) -> Iterator[Finding]:
    if index == 0:
        yield 'messages.0: a "system" message cannot be the first message; use the top-level `system` parameter'
    elif not _may_precede_system(messages[index - 1]):
        yield (
            f'messages.{index}: a "system" message must follow a "user" message or an "assistant" message that ends '
            "with a server tool result"
        )
    if index + 1 < len(messages) and messages[index + 1]["role"] != "assistant":
        yield f'messages.{index}: a "system" message must be last or be followed by an "assistant" message'


def _may_precede_system(message: Json) -> bool:
    # A message that only sets the effort is not a turn of its own.
    if message["role"] != "assistant":
        return message["role"] == "user" or not message["content"]
    content = blocks(message["content"])
    return bool(content) and str(content[-1]["type"]).endswith("_tool_result")


def _without_marks(message: Json, place: str) -> Iterator[Finding]:
    for position, block in enumerate(blocks(message["content"])):
        if block.get("cache_control") is not None:
            yield (
                f"{place}.content.{position}.{block['type']}.cache_control: cache_control cannot be set on a system "
                "message with `clear_at`"
            )


def prefill(subject: Subject) -> Iterator[Finding]:
    """Check that the last turn is the user's, unless the model accepts prefill or a paused turn continues."""
    last = subject.messages[-1]
    if last["role"] != "assistant" or subject.body.get("compaction") is not None:
        return
    content = blocks(last["content"])
    if any(block["type"] == "server_tool_use" for block in content):
        return
    if not subject.model.prefill:
        yield ("This model does not support assistant message prefill. The conversation must end with a user message.")
    elif content and content[-1]["type"] == "text" and content[-1]["text"] != content[-1]["text"].rstrip():
        yield "messages: final assistant content cannot end with trailing whitespace"


def images(subject: Subject) -> Iterator[Finding]:
    """Check that a request has no more images than the model accepts.

    https://platform.claude.com/docs/en/build-with-claude/vision
    """
    parts = [block for message in subject.messages for block in blocks(message["content"])]
    parts += [part for block in parts if block["type"] == "tool_result" for part in blocks(block.get("content"))]
    number = sum(block.get("type") == "image" for block in parts)
    most = MAX_IMAGES if subject.model.window > SMALL_WINDOW else MAX_IMAGES_SMALL
    if number > most:
        yield f"messages: too many images: {number} > {most} maximum"
