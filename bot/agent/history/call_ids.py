"""Unique ids of tool calls within one session: the service refuses a history in which an id occurs twice.

The service's own ids are unique, but some servers number the calls of each answer from the start.
"""

from collections.abc import Set
from itertools import count

from bot.core.transcript import Json, tool_calls


def unique_call_ids(answer: Json, taken: Set[str]) -> Json:
    """Return an answer whose call ids are not in `taken`. Returns the same object if none was taken."""
    own = [str(call["id"]) for call in tool_calls(answer)]
    if taken.isdisjoint(own):
        return answer
    used = {*taken, *own}
    new: dict[str, str] = {}
    for ident in own:
        if ident in taken:
            new[ident] = next(made for n in count(2) if (made := f"{ident}_{n}") not in used)
            used.add(new[ident])
    content = [
        {**block, "id": new[block["id"]]} if block.get("type") == "tool_use" and block["id"] in new else block
        for block in answer["content"]
    ]
    return {**answer, "content": content}
