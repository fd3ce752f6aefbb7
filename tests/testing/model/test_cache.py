"""The prompt cache: what is written, what is read, and what makes the difference, on the real library's usage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from bot.testing.model.models import MODELS, cost_usd
from bot.testing.model.reply import Fault, call, say, sequence
from bot.testing.model.request_view import ModelRequest
from tests.testing.model.conftest import plain_async_client

OPUS = "claude-opus-5-5"
MARK: Any = {"cache_control": {"type": "ephemeral"}}


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def block(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **more}


def long(word: str, **more: Any) -> dict[str, Any]:
    return block(word * 3600, **more)


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def asked(api: Any, messages: list[Any], *, model: str = OPUS, **more: Any) -> tuple[int, int, int]:
    usage = api.client.messages.create(model=model, max_tokens=50, messages=messages, **more).usage
    return usage.cache_creation_input_tokens, usage.cache_read_input_tokens, usage.input_tokens


@pytest.fixture
def api(serve: Callable[..., Any]) -> Any:
    return serve(lambda request: say("ok"))


@pytest.mark.req("M4")
def test_the_second_identical_prefix_is_read(api: Any) -> None:
    system = [long("s", **MARK)]
    written, read, fresh = asked(api, [user(block("a"))], system=system)
    assert (written > 1000, read, fresh < 20) == (True, 0, True)
    assert asked(api, [user(block("b"))], system=system) == (0, written, fresh)


@pytest.mark.req("M4")
def test_nothing_is_cached_without_a_marker(api: Any) -> None:
    first = asked(api, [user(long("a"))])
    assert first[:2] == (0, 0)
    assert asked(api, [user(long("a"))]) == first


@pytest.mark.parametrize("changed", ("system", "tools", "model", "effort", "thinking"))
def test_the_key_has_all_that_shapes_a_prompt(api: Any, changed: str) -> None:
    tools = [
        {"name": "Read", "input_schema": {"type": "object"}},
        {"name": "Write", "input_schema": {"type": "object"}},
    ]
    haiku = "claude-haiku-5-5"
    same: dict[str, Any] = {"model": haiku, "system": [block("s")], "tools": tools[:1]}
    others: dict[str, dict[str, Any]] = {
        "system": {"system": [block("t")]}, "tools": {"tools": tools}, "model": {"model": OPUS},
        "effort": {"output_config": {"effort": "low"}}, "thinking": {"thinking": {"type": "disabled"}},
    }  # fmt: skip
    messages = [user(long("a", **MARK))]
    assert asked(api, messages, **same)[0] > 0
    assert asked(api, messages, **same)[1] > 0
    assert asked(api, messages, **{**same, **others[changed]})[1] == 0


def test_the_key_has_no_defaults_and_no_metadata(api: Any) -> None:
    messages = [user(long("a", **MARK))]
    written = asked(api, messages)[0]
    spoken: Any = {"output_config": {"effort": "medium"}, "thinking": {"type": "adaptive"}}
    assert asked(api, messages, metadata={"user_id": "u"}, **spoken)[1] == written


def test_another_effort_keeps_the_system_prompt(api: Any) -> None:
    system, messages = [long("s", **MARK)], [user(long("a", **MARK))]
    written = asked(api, messages, system=system)[0]
    rest, read, _ = asked(api, messages, system=system, output_config={"effort": "low"})
    assert read + rest == written
    assert read > 0
    assert rest > 0


@pytest.mark.req("M4")
def test_moved_markers_still_hit(api: Any) -> None:
    first = [user(long("a", **MARK))]
    written = asked(api, first)[0]
    grown = [user(long("a")), {"role": "assistant", "content": "ok"}, user(long("b", **MARK))]
    more, read, fresh = asked(api, grown)
    assert (read, fresh) == (written, 0)
    assert 1000 < more < 1100


def test_a_string_is_the_same_as_a_block(api: Any) -> None:
    assert asked(api, [user(long("a", **MARK))])[0] > 0
    grown = [{"role": "user", "content": "a" * 3600}, {"role": "assistant", "content": "ok"}, user(block("b", **MARK))]
    assert asked(api, grown)[1] > 0


def test_the_look_back_has_an_end(api: Any) -> None:
    head = long("a")
    assert asked(api, [user({**head, **MARK})])[0] > 0
    near = [block(str(number)) for number in range(18)]
    assert asked(api, [user(head, *near, block("end", **MARK))])[1] > 0
    far = [block(f"far {number}") for number in range(19)]
    assert asked(api, [user(head, *far, block("end", **MARK))])[1] == 0


@pytest.mark.req("M4")
def test_a_run_of_results_is_one_position(api: Any) -> None:
    head = user(long("a", **MARK))
    calls = [{"type": "tool_use", "id": f"c{number}", "name": "Read", "input": {}} for number in range(30)]
    results: list[Any] = [{"type": "tool_result", "tool_use_id": f"c{number}", "content": "x"} for number in range(30)]
    results[-1] |= MARK
    assert asked(api, [head])[0] > 0
    assert asked(api, [user(long("a")), {"role": "assistant", "content": calls}, user(*results)])[1] > 0


@pytest.mark.parametrize("model", ("claude-opus-5-5", "claude-sonnet-5", "claude-opus-4-7", "claude-opus-4-6"))
def test_a_prefix_below_the_minimum_is_not_cached(api: Any, model: str) -> None:
    size = int(MODELS[model].min_cache * 3.6)
    assert asked(api, [user(block("a" * (size - 100), **MARK))], model=model)[0] == 0
    assert asked(api, [user(block("a" * (size + 100), **MARK))], model=model)[0] > 0


def test_an_entry_lives_five_minutes_from_its_last_use(serve: Callable[..., Any]) -> None:
    clock = Clock()
    api, messages = serve(lambda request: say("ok"), clock=clock), [user(long("a", **MARK))]
    assert asked(api, messages)[0] > 0
    clock.now = 299
    assert asked(api, messages)[1] > 0
    clock.now = 299 + 299
    assert asked(api, messages)[1] > 0
    clock.now = 299 + 299 + 301
    assert asked(api, messages)[:2] == (asked(api, messages)[1], 0)


@pytest.mark.req("M4")
async def test_an_entry_can_be_read_once_the_answer_begins(serve: Callable[..., Any]) -> None:
    url = serve(lambda request: say("ok"), latency=0.1).model.base_url
    async with plain_async_client(url) as client:

        async def ask() -> Any:
            messages: Any = [user(long("a", **MARK))]
            return (await client.messages.create(model=OPUS, max_tokens=5, messages=messages)).usage

        together = await asyncio.gather(ask(), ask(), ask())
        later = await ask()
    assert [usage.cache_read_input_tokens for usage in together] == [0, 0, 0]
    assert later.cache_read_input_tokens == together[0].cache_creation_input_tokens


def test_a_failed_request_writes_nothing(serve: Callable[..., Any]) -> None:
    api = serve(sequence(Fault.status(529), say("ok")))
    with pytest.raises(Exception, match="529"):
        asked(api, [user(long("a", **MARK))])
    assert asked(api, [user(long("a", **MARK))])[1] == 0


@pytest.mark.req("M4")
def test_prewarming_writes_what_is_read_later(api: Any) -> None:
    messages: Any = [user(long("a", **MARK), block("task"))]
    api.client.messages.create(model=OPUS, max_tokens=0, messages=messages)
    written, read, _ = asked(api, messages)
    assert (written, read > 1000) == (0, True)


def test_images_do_not_count_by_their_bytes(api: Any) -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 400_000}}
    call_block = {"type": "tool_use", "id": "a", "name": "Read", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": [picture]}
    messages = [user(block("a"), picture), {"role": "assistant", "content": [call_block]}, user(result)]
    assert 3000 < asked(api, messages)[2] < 3300


@pytest.mark.req("M12")
def test_a_loop_reads_all_but_its_last_turn(serve: Callable[..., Any]) -> None:
    def policy(request: ModelRequest) -> Any:
        return call("Read", n=request.step) if request.step < 6 else say("done")

    api = serve(policy)
    system, messages, tools = (
        [long("s", **MARK)], [user(long("t"))], [{"name": "Read", "input_schema": {"type": "object"}}],
    )  # fmt: skip
    usages = []
    while True:
        marked = list(messages)
        for index in [i for i, message in enumerate(messages) if message["role"] == "user"][-2:]:
            *rest, last = messages[index]["content"]
            marked[index] = user(*rest, {**last, **MARK})
        answer = api.client.messages.create(model=OPUS, max_tokens=50, messages=marked, system=system, tools=tools)
        usages.append(answer.usage)
        calls = [part for part in answer.content if part.type == "tool_use"]
        if not calls:
            break
        results = [{"type": "tool_result", "tool_use_id": part.id, "content": "x" * 720} for part in calls]
        messages += [answer.to_param(), user(*results)]
    assert usages[0].cache_read_input_tokens == 0
    assert all(usage.cache_creation_input_tokens < 400 for usage in usages[1:])
    assert [usage.cache_read_input_tokens for usage in usages[1:]] == [
        before.cache_read_input_tokens + before.cache_creation_input_tokens for before in usages[:-1]
    ]
    assert api.model.usage.cost_usd == pytest.approx(sum(cost_usd(OPUS, usage.to_dict()) for usage in usages))
