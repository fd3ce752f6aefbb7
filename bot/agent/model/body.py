"""The body of one call, joined from the bytes that its messages have already (M3): its cost is that of what is new."""

from collections.abc import Mapping
from typing import Any

from bot.core.transcript import encoded
from bot.ports import ModelRequest


def body(fields: Mapping[str, Any], request: ModelRequest) -> bytes:
    """Give the JSON of a call's fields; a message that stands among them as it was stored is not encoded again."""
    known = {id(message): text for message, text in zip(request.messages, request.stored, strict=False)}
    messages = b",".join(known.get(id(message)) or encoded(message) for message in fields["messages"])
    rest = encoded({name: value for name, value in fields.items() if name != "messages"})
    return b'{"messages":[' + messages + b"]," + rest[1:]
