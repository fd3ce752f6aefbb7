"""Rules that bind one feature to others: to models, to betas, to what stands beside it (M3-M6, C3)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.testing.model.rules import HAIKU_4_5, OPUS, Json, body, refused

SUMMARIZE = "compact-2026-09-04"
SEARCH: Json = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
FOUND: Json = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
READ: Json = {"type": "tool_use", "id": "a", "name": "Read", "input": {}}
RESULT: Json = {"type": "tool_result", "tool_use_id": "a", "content": "x"}
IMAGE: Json = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
MORE: Json = {"type": "text", "text": "more"}
WISH: Json = {"type": "summarize"}


def turns(answer: list[Json], reply: list[Json]) -> Json:
    said = [("user", [MORE]), ("assistant", answer), ("user", reply)]
    return body(messages=[{"role": role, "content": content} for role, content in said])


def pictures(number: int, model: str) -> Json:
    return body(model, messages=[{"role": "user", "content": [MORE, *[IMAGE] * number]}])


ROWS: dict[str, tuple[Json, Json, str, tuple[str, ...]]] = {
    "an open server tool has results alone beside it": (
        turns([SEARCH, READ], [RESULT]),
        turns([SEARCH, READ], [RESULT, MORE]),
        "messages.2: while a server tool is unresolved, a user message may hold `tool_result` blocks alone",
        (),
    ),
    "a resolved one has more": (
        turns([SEARCH, FOUND, READ], [RESULT, MORE]),
        turns([SEARCH], [MORE]),
        "messages.2: while a server tool is unresolved",
        (),
    ),
    "so many images": (pictures(600, OPUS), pictures(601, OPUS), "messages: too many images: 601 > 600", ()),
    "fewer in a small window": (
        pictures(100, HAIKU_4_5),
        pictures(101, HAIKU_4_5),
        "messages: too many images: 101 > 100",
        (),
    ),
    "images of results count": (
        turns([READ], [{**RESULT, "content": [IMAGE] * 600}]),
        turns([READ], [{**RESULT, "content": [IMAGE] * 600}, IMAGE]),
        "messages: too many images",
        (),
    ),
    "a summary by some models": (
        body(compaction=WISH),
        body("claude-haiku-4-5", compaction=WISH),
        "compaction: not supported for this model",
        (SUMMARIZE,),
    ),
    "a truth value for streaming": (body(), body(stream="no"), "stream: Input should be a valid boolean", ()),
}


@pytest.mark.req("M3", "M5", "M6", "C3")
@pytest.mark.parametrize(("good", "bad", "message", "betas"), list(ROWS.values()), ids=list(ROWS))
def test_rule(ok: Any, good: Json, bad: Json, message: str, betas: tuple[str, ...]) -> None:
    assert refused(ok, good, bad, *betas).startswith(message)
