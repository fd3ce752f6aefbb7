"""The body of one call, joined from the stored bytes of its messages (M3): only new messages cost encoding time."""

from collections.abc import Mapping
from itertools import chain, repeat
from typing import Any

from bot.core.transcript import encode_json
from bot.ports import ModelRequest


def body(fields: Mapping[str, Any], request: ModelRequest) -> bytes:
    """Return the JSON of a call's fields; a message that is among them as it was stored is not encoded again."""
    kept, texts = chain(request.messages, repeat(None)), chain(request.stored, repeat(b""))
    aligned = zip(fields["messages"], kept, texts, strict=False)
    parts = [text if text and message is stored else encode_json(message) for message, stored, text in aligned]
    rest = encode_json({name: value for name, value in fields.items() if name != "messages"})
    if not parts:
        return b'{"messages":[],' + rest[1:]
    parts[0] = b'{"messages":[' + parts[0]
    parts[-1] += b"]," + rest[1:]
    return b",".join(parts)  # the only copy of the whole body
