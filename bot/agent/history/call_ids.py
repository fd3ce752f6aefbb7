"""Ids of tool calls, which no two of one session share: the service refuses a history in which one stands twice.

Its own are unique; some servers number the calls of each answer anew.
"""

from collections.abc import Set
from itertools import count

from bot.core.transcript import Json, tool_calls


def unique_call_ids(answer: Json, taken: Set[str]) -> Json:
    """Give an answer whose calls have ids that are not taken: the very same where they have."""
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
