"""Requests: the table of models, their parameters and bytes, cache marks, and context fields (M3-M6, M12, C2)."""

import json
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from anthropic import APIError, AsyncAnthropic, DefaultAsyncHttpxClient
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.agent.model.answer import MalformedAnswer, StreamedAnswer, parse_object, refusal, usage_of
from bot.agent.model.request import ConfiguredModel, body, context_fields, parameters, with_cache_marks
from bot.agent.model.specs import ALIASES, SPECS, cost_usd, merge_listing, resolve
from bot.agent.permissions.tool_gate import Mode
from bot.agent.prompts import Environment, first_message, system_blocks
from bot.agent.subagents.report import SCHEMA
from bot.agent.tools.registry import ALL, READING_GITHUB, READING_WEB, by_name, schemas
from bot.core.transcript import Json, encode_json, sendable
from bot.ports import AnswerCompleted, Delta, ModelRequest, Usage
from bot.testing.model.models import MODELS
from bot.testing.model.models import cost_usd as billed
from bot.testing.model.reply import Policy, call, say, sequence, several, think
from bot.testing.model.request_view import ModelRequest as Seen
from tests.agent.conftest import Open
from tests.agent.ground import ENVIRONMENT, ONE, TASK_TOOL, assert_prefixes, drive, ended, marks, of, stream, unmarked
from tests.rows import Failures, every_row

TOKEN = 3.6
"""Bytes."""
FIRST = first_message(ENVIRONMENT, "Do it.")
TOOLS = schemas(by_name(ALL))


def asking(model: str, role: str = "main", **more: Any) -> ModelRequest:
    return ModelRequest(model, system_blocks("main"), TOOLS, [FIRST], role=role, **more)


@pytest.mark.req("M6", "M12")
async def test_the_strict_server_takes_every_request_of_every_model(room: Open) -> None:
    r, failures = room(lambda _: several(think("Hm."), say("ok"))), Failures()
    for model, role in product(SPECS, ("main", "subagent", "light")):
        with failures.note({"model": model, "role": role}):
            before = r.api.usage.cost_usd
            (completed,) = of(await stream(r.model, asking(model, role, user_id="0badcafe")), AnswerCompleted)
            assert completed.model == model
            body = r.api.requests[-1].body
            assert body["metadata"] == {"user_id": "0badcafe"}
            assert ("output_config" in body) is bool(SPECS[model].efforts)
            assert {"temperature", "top_p", "top_k", "tool_choice", "cache_control"} & set(body) == set()
            assert completed.cost_usd in (None, pytest.approx(r.api.usage.cost_usd - before))
    failures.tell()
    assert r.api.refusals == ()


@pytest.mark.req("M5")
async def test_dear_tools_are_strict_where_the_model_takes_it(room: Open) -> None:
    made = schemas(by_name((*ALL, *READING_WEB, *READING_GITHUB, TASK_TOOL)))
    strict = [tool["name"] for tool in made if tool.get("strict")]
    assert strict == ["AskUserQuestion", "MultiEdit", "Task", "TodoWrite", "exit_plan_mode"]
    r = room(lambda _: say("ok"))
    request = replace(asking("opus"), tools=made, schema=SCHEMA)
    await stream(r.model, request)
    assert r.api.refusals == ()
    assert r.api.requests[0].body["tools"] == list(made)
    plain = parameters(replace(request, model="theirs"), resolve("theirs"))
    assert plain["tools"] == [{key: tool[key] for key in tool if key != "strict"} for tool in made]
    assert "output_config" not in plain


@pytest.mark.req("M12")
def test_windows_caps_and_prices_are_those_of_the_vendor() -> None:
    for spec in SPECS.values():
        theirs = MODELS[spec.id]
        assert (spec.window, spec.max_output) == (theirs.window, theirs.max_output)
        assert set(spec.efforts) <= set(theirs.efforts)
        assert spec.may_disable is ("disabled" in theirs.thinking)
        assert spec.drops is theirs.preserved_thinking
        assert (spec.prices is None) is (spec.id == "claude-mythos-5-2"), "its prices are not published"
        if spec.prices is not None:
            mine, their = spec.prices, theirs.prices
            assert (mine.input, mine.output, mine.read) == (their.input, their.output, their.read)
            assert (mine.write, mine.write_1h) == (their.write_5m, their.write_1h)


COSTS = [
    ("claude-opus-5-5", Usage(1_000_000), 4.0),
    ("claude-opus-5-5", Usage(0, 1_000_000), 20.0),
    ("claude-opus-5-5", Usage(0, 0, 1_000_000), 0.20),
    ("claude-opus-5-5", Usage(0, 0, 0, 1_000_000), 5.0),
    ("claude-opus-5-5", Usage(0, 0, 0, 1_000_000, 1_000_000), 8.0),
    ("claude-opus-5-5", Usage(0, 0, 0, 1_000_000, 400_000), 6.2),
    ("claude-sonnet-5-5", Usage(1000, 2000, 30_000, 4000), 0.002 + 0.02 + 0.003 + 0.01),
    ("claude-haiku-5-5", Usage(100_000, 1000), 0.0105),
    ("claude-haiku-5-5", Usage(100_001, 1000), 0.0525005),
    ("claude-haiku-5-5", Usage(1, 1000, 100_000), 0.0000005 + 0.0025 + 0.005),
    ("claude-haiku-5-5", Usage(0, 0, 50_000, 60_000), 0.0025 + 0.0375),
    ("claude-fable-5-1", Usage(0, 0, 1_000_000), 0.25),
    ("claude-fable-5", Usage(0, 0, 1_000_000), 1.0),
    ("claude-fable-5-2", Usage(1000, 1000), 0.048),
    ("claude-haiku-4-5", Usage(10, 10, 10, 10), 0.0000735),
    ("claude-haiku-5-5", Usage(1000, searches=3), 0.0301),
    ("claude-opus-5-5", Usage(), 0.0),
]


@pytest.mark.req("M12")
@every_row(("model", "usage", "dollars"), COSTS)
def test_costs_agree_with_sums_by_hand(model: str, usage: Usage, dollars: float) -> None:
    assert cost_usd(resolve(model), usage) == pytest.approx(dollars)


_tokens = st.integers(0, 300_000)


@pytest.mark.req("M12")
@given(st.sampled_from([spec for spec in SPECS.values() if spec.prices]), _tokens, _tokens, _tokens, _tokens)
def test_costs_agree_with_the_vendor(spec: Any, fresh: int, out: int, read: int, written: int) -> None:
    raw: Json = {"input_tokens": fresh, "output_tokens": out, "cache_read_input_tokens": read}
    raw |= {"cache_creation_input_tokens": written, "cache_creation": {"ephemeral_1h_input_tokens": written // 3}}
    raw |= {"server_tool_use": {"web_search_requests": out % 7}}
    assert cost_usd(spec, usage_of(raw)) == pytest.approx(billed(spec.id, raw))


@pytest.mark.req("M12")
@pytest.mark.parametrize("model", ("claude-opus-9", "claude-mythos-5-2", "gpt", ""))
def test_a_model_without_prices_has_no_cost(model: str) -> None:
    assert cost_usd(resolve(model), Usage(1, 1)) is None


@pytest.mark.req("M12")
@pytest.mark.parametrize("model", ("claude-haiku-4-5", "claude-sonnet-4-5", "claude-opus-4-5"))
def test_an_id_with_a_date_is_the_same_model(model: str) -> None:
    dated = next(name for name in MODELS if name.startswith(f"{model}-20"))
    assert resolve(dated) == replace(SPECS[model], id=dated)
    assert resolve(f"{model}-2025").prices is None


@pytest.mark.req("M6", "M12")
def test_an_unknown_model_is_sent_the_plainest_request() -> None:
    sent = parameters(asking("their-model"), resolve("their-model"))
    assert sent["model"] == "their-model"
    assert {"thinking", "output_config"} & set(sent) == set()
    assert sent["max_tokens"] == 32_000
    assert resolve("their-model").window == 128_000


@pytest.mark.req("M12")
@pytest.mark.parametrize("alias", ALIASES)
def test_an_alias_stands_for_one_model(alias: str) -> None:
    assert resolve(alias) == SPECS[ALIASES[alias]]


@pytest.mark.req("M6")
@every_row(
    ("model", "role", "chosen", "sent"),
    (
        ("opus", "main", "", "medium"),
        ("opus", "main", "max", "max"),
        ("opus", "subagent", "low", "low"),
        ("opus", "restricted", "max", "low"),
        ("opus", "light", "max", "low"),
        ("claude-opus-4-6", "main", "max", "max"),
        ("claude-opus-4-6", "main", "xhigh", "high"),
        ("claude-opus-4-5", "main", "max", "high"),
    ),
)
def test_effort_is_the_projects_for_whoever_works(model: str, role: str, chosen: str, sent: str) -> None:
    assert parameters(asking(model, role, effort=chosen), resolve(model))["output_config"] == {"effort": sent}


@pytest.mark.req("M6")
def test_an_effort_below_all_becomes_the_lowest() -> None:
    spec = replace(resolve("opus"), efforts=("high", "max"))
    assert parameters(asking("opus", effort="low"), spec)["output_config"] == {"effort": "high"}


@pytest.mark.req("M6")
def test_the_operators_cap_and_extra_body_are_obeyed() -> None:
    haiku = resolve("claude-haiku-4-5")
    assert parameters(asking("haiku"), haiku)["thinking"] == {"type": "enabled", "budget_tokens": 8_000}
    capped = parameters(asking("haiku"), haiku, cap=5_000, extra={"speed": "fast"})
    assert "thinking" not in capped
    assert capped["max_tokens"] == 5_000
    assert capped["extra_body"] == {"speed": "fast"}
    assert parameters(asking("opus"), resolve("opus"), cap=10**6)["max_tokens"] == 64_000


@pytest.mark.req("M1", "M6")
def test_equal_requests_give_equal_bytes() -> None:
    one, two = (json.dumps(parameters(asking("opus"), resolve("opus"))) for _ in range(2))
    assert one == two


def turn(role: str, number: int) -> Json:
    return {"role": role, "content": [{"type": "text", "text": f"{role} {number}"}]}


_histories = st.lists(st.sampled_from(["user", "assistant"]), max_size=12).map(
    lambda roles: [FIRST, *(turn(role, number) for number, role in enumerate(roles))]
)


@pytest.mark.req("M4")
@given(_histories)
def test_at_most_three_cache_marks_are_set_and_nothing_else_changes(history: list[Json]) -> None:
    before = json.dumps(history)
    out = with_cache_marks(history)
    assert json.dumps(history) == before
    assert unmarked(out) == history
    assert 1 <= json.dumps(out).count("cache_control") <= 3
    assert "cache_control" in out[0]["content"][0]
    users = [message for message in out if message["role"] == "user"]
    assert all("cache_control" in message["content"][-1] for message in users[-2:])


@pytest.mark.req("M4")
def test_a_block_that_cannot_carry_a_mark_goes_without() -> None:
    plain = with_cache_marks([{"role": "user", "content": "Hello."}])
    assert plain[0]["content"] == [{"type": "text", "text": "Hello.", "cache_control": {"type": "ephemeral"}}]
    thought = {"role": "user", "content": [{"type": "thinking", "thinking": "", "signature": "x"}]}
    assert with_cache_marks([thought]) == [thought]
    assert parameters(ModelRequest("opus", (), (), [FIRST]), resolve("opus"))["system"] == []


def long_session(steps: int) -> Policy:
    body = "def f():\n    return 1\n" * 40
    turns = [several(think(f"Step {n}."), call("Write", file_path=f"{n}.py", content=body)) for n in range(steps - 1)]
    return sequence(*turns, say("Done."))


@pytest.mark.req("M4")
@pytest.mark.parametrize(("steps", "least"), ((30, 0.93), pytest.param(100, 0.97, marks=pytest.mark.long)))
async def test_a_long_session_reads_its_prefix_from_the_cache(room: Open, steps: int, least: float) -> None:
    """At least 93 % of all input comes out of the cache over 30 steps, 97 % over 100; never more than four marks."""
    r = room(long_session(steps))
    session = r.session(model="claude-sonnet-5-5")
    assert ended(await drive(session)).text == "Done."
    used = r.api.usage
    read = used.cache_read_input_tokens
    share = read / (read + used.cache_creation_input_tokens + used.input_tokens)
    assert len(r.api.requests) == steps
    assert share >= least, f"{share:.1%}"
    assert max(map(marks, r.api.requests)) == 4
    assert_prefixes(r.api.requests)
    assert r.world.ledger.usage.cache_read == read


@pytest.mark.req("M1", "M4")
@pytest.mark.parametrize("mode", (Mode.PLAN, Mode.ACCEPT_EDITS))
async def test_another_job_reads_tools_and_system_from_the_cache(room: Open, mode: Mode) -> None:
    """A session on another checkout, with another task, date and memory, reads at least 90 % of tools and system."""
    r = room(lambda _: say("Done."))
    other = Environment("/srv/elsewhere", "Darwin", "2027-01-02", "rocket", "fedcba987654", "Use spaces.")
    await drive(r.session(mode=mode, ident="one"))
    await drive(r.session(mode=mode, ident="two", environment=other, task="Say what a rocket is."))
    first, second = r.api.requests
    assert first.body["tools"] == second.body["tools"]
    assert first.body["system"] == second.body["system"]
    shared = len(json.dumps([first.body["tools"], first.body["system"]], ensure_ascii=False).encode()) / TOKEN
    assert r.world.ledger.usage.cache_read >= 0.9 * shared


@pytest.mark.req("M4")
async def test_thirty_calls_in_one_message_stay_within_reach_of_the_cache(room: Open) -> None:
    many = several(*(call("LS", path=str(n)) for n in range(30)))
    r = room(sequence(many, many, many, say("Done.")))
    await drive(r.session())
    usages = list(r.world.ledger.rows.values())
    assert usages[0].usage.cache_read > usages[0].usage.cache_write


@pytest.mark.req("L3", "M7")
def test_unknown_events_and_deltas_are_passed_over() -> None:
    answer = StreamedAnswer()
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 3}}}
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    deltas = [
        {"type": "text_delta", "text": "a"},
        {"type": "citations_delta", "citation": {"n": 1}},
        {"type": "citations_delta", "citation": {"n": 2}},
        {"type": "hologram_delta", "light": 1},
    ]
    shown = [answer.feed(event) for event in (start, {"type": "ping"}, {"type": "aurora"}, block)]
    shown += [answer.feed({"type": "content_block_delta", "index": 0, "delta": delta}) for delta in deltas]
    answer.feed({"type": "content_block_stop", "index": 0})
    end = {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2, "input_tokens": None}}
    answer.feed({"type": "message_delta", **end})
    with pytest.raises(MalformedAnswer):
        answer.message()
    answer.feed({"type": "message_stop"})
    assert of(shown, Delta) == [Delta("text", "a")]
    assert answer.message()["content"] == [{"type": "text", "text": "a", "citations": [{"n": 1}, {"n": 2}]}]
    assert usage_of(answer.usage) == Usage(3, 2)


@pytest.mark.req("M10")
@pytest.mark.parametrize(
    ("details", "told"),
    (
        (None, ""),
        ("cyber", ""),
        ({"type": "refusal", "category": None, "explanation": None}, ""),
        ({"category": "bio", "explanation": 7}, "bio"),
        ({"category": None, "explanation": "It\n is\u200b so."}, "It is‹U+200B› so."),
        ({"category": "cyber", "explanation": "x" * 1000}, "cyber: " + "x" * 292 + "…"),
    ),
)
def test_a_refusal_is_explained_in_one_bounded_visible_line(details: object, told: str) -> None:
    assert refusal(details) == told


@pytest.mark.req("M7")
def test_a_delta_for_a_block_that_never_began_is_malformed() -> None:
    with pytest.raises(MalformedAnswer, match="never began"):
        StreamedAnswer().feed({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}})


@pytest.mark.req("M12")
@pytest.mark.parametrize("model", sorted(set(SPECS) & set(MODELS)))
async def test_the_table_agrees_with_the_models_endpoint(room: Open, model: str) -> None:
    r = room(lambda _: say("?"))
    assert await r.model.check_model(model) == model
    told, table = r.model.spec(model), SPECS[model]
    assert (told.window, told.max_output, told.prices) == (table.window, table.max_output, table.prices)
    assert set(table.efforts) <= set(told.efforts)
    assert told.thinking == table.thinking
    assert r.model.abilities(model).summarizes == told.summarizes == MODELS[model].compacts == table.summarizes


@pytest.mark.req("M6", "M12")
@every_row(
    ("model", "adaptive", "enabled", "form"),
    (
        ("opus", False, False, "none"),
        ("opus", False, True, "budget"),
        ("opus", False, None, "none"),
        ("opus", None, False, "adaptive"),
        ("claude-haiku-4-5", False, None, "budget"),
        ("claude-haiku-4-5", None, False, "none"),
        ("claude-haiku-4-5", True, True, "adaptive"),
        ("claude-next-7", None, False, "none"),
    ),
)
def test_a_form_of_thinking_that_the_service_lacks_is_never_sent(
    model: str, adaptive: bool | None, enabled: bool | None, form: str
) -> None:
    told = {"adaptive": adaptive, "enabled": enabled}
    types = {name: {"supported": value} for name, value in told.items() if value is not None}
    spec = merge_listing(resolve(model), {"capabilities": {"thinking": {"types": types}}})
    assert spec.thinking == form
    assert spec.interleaves is (form == "budget" or "4-5" in model)  # with a budget, thinking between calls is a beta


@pytest.mark.req("M12")
@pytest.mark.parametrize("name", ("claude-opus-5-5", "claude-next-7"))
async def test_a_model_is_asked_about_once(room: Open, name: str) -> None:
    new = replace(MODELS["claude-opus-5-5"], id=name, window=300_000, max_output=9_000)
    r = room(lambda _: say("Done."), models={**MODELS, new.id: new})
    session = r.session(model=new.id)
    assert ended(await drive(session)).text == "Done."
    assert r.model.abilities(new.id).window == 300_000
    assert (r.api.requests[0].effort, r.api.requests[0].max_tokens) == ("medium", 9_000)
    assert merge_listing(resolve("unheard-of"), {"capabilities": None}) == resolve("unheard-of")
    assert merge_listing(
        resolve("unheard-of"), {"capabilities": {"structured_outputs": {"supported": True}}}
    ).structured


@pytest.mark.req("C2")
@pytest.mark.parametrize(
    ("window", "chosen", "start"),
    ((1_000_000, 120_000, 120_000), (200_000, 120_000, 100_000), (1_000_000, 600_000, 500_000)),
)
def test_clearing_starts_at_the_chosen_size_or_half_of_a_smaller_window(window: int, chosen: int, start: int) -> None:
    spec = replace(SPECS["claude-opus-5-5"], window=window)
    asked = replace(ONE, clear_at=chosen)
    assert context_fields(replace(asked, peak=start - 1), spec) == ({}, ())
    fields, betas = context_fields(replace(asked, peak=start), spec)
    (edit,) = fields["context_management"]["edits"]
    assert (edit["trigger"]["value"], edit["clear_at_least"]["value"]) == (start, start // 5)
    assert betas == ("context-management-2025-06-27",)


@pytest.mark.req("C2")
async def test_a_project_chooses_where_clearing_starts(room: Open) -> None:
    r = room(lambda _: say("Hi."))
    model = ConfiguredModel(r.model, clear_at=50_000)
    await stream(model, replace(ONE, peak=49_999))
    await stream(model, replace(ONE, peak=50_000))
    first, second = (request.body for request in r.api.requests)
    assert "context_management" not in first
    assert second["context_management"]["edits"][0]["trigger"]["value"] == 50_000


ODD = {"z": 1.5e-7, "a": [None, True, 2**70, -0.0, '\u2028 \x00 \\ " é 😀'], "": {}}


def turn_with_call(number: int, **given: Any) -> list[Json]:
    """A call and its result."""
    used = {"type": "tool_use", "id": f"toolu_{number}", "name": "Read", "input": given}
    result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": f"lines of {number}\n\t…"}
    thought = {"type": "thinking", "thinking": "", "signature": "c2ln"}
    return [{"role": "assistant", "content": [thought, used]}, {"role": "user", "content": [result]}]


HISTORIES: dict[str, list[Json]] = {
    "one message": [FIRST],
    "a plain text": [{"role": "user", "content": "Do it: größer, 😀"}],
    "odd values in odd order": [FIRST, *turn_with_call(1, **ODD)],
    "more turns than marks": [
        FIRST,
        *(message for n in range(9) for message in turn_with_call(n, file_path=f"{n}.py")),
    ],
    "a summary first": [{"role": "assistant", "content": [{"type": "compaction", "content": "s"}]}, FIRST],
}


def requests(history: list[Json], known: int) -> ModelRequest:
    """A request of which so many messages have their bytes already."""
    stored = [encode_json(message) for message in history[:known]]
    return ModelRequest("claude-opus-5-5", system_blocks("main"), TOOLS, history, user_id="0badcafe", stored=stored)


@pytest.mark.req("M3", "M6")
@pytest.mark.parametrize("name", HISTORIES)
async def test_the_library_would_send_the_same_bytes_and_headers(room: Open, name: str) -> None:
    r, ours = room(lambda _: say("ok")), list[Seen]()
    for known in (0, 1, 99):
        before = len(r.api.requests)
        with suppress(Exception):  # whatever the service says to it
            await stream(r.model, requests(HISTORIES[name], known))
        ours.append(r.api.requests[before])
    request = requests(HISTORIES[name], 0)
    plain = DefaultAsyncHttpxClient(verify=False)  # certificates would take 20 ms, for a server without any
    async with AsyncAnthropic(api_key="key", base_url=r.api.base_url, max_retries=0, http_client=plain) as library:
        with suppress(APIError):
            await library.messages.create(**parameters(request, resolve(request.model)), stream=True)
    for mine in ours:
        assert_same(mine, r.api.requests[-1])


def assert_same(mine: Seen, theirs: Seen) -> None:
    """The same fields, bytes and headers."""
    assert {name: encode_json(value) for name, value in mine.body.items()} == {
        name: encode_json(value) for name, value in theirs.body.items()
    }
    for field, value in theirs.body.items():
        piece = b'"%s":%s' % (field.encode(), encode_json(value))
        assert piece in mine.raw
        assert piece in theirs.raw
    own = {"content-length", "x-stainless-read-timeout", "x-stainless-timeout"}
    assert {key: text for key, text in mine.headers.items() if key not in own} == {
        key: text for key, text in theirs.headers.items() if key not in own
    }


@pytest.mark.req("M3", "L9")
def test_what_has_its_bytes_is_not_rendered_again() -> None:
    history = HISTORIES["more turns than marks"]
    stored = [json.dumps(message, indent=1).encode() for message in history]
    request = ModelRequest("opus", (), (), history, stored=stored)
    sent = body(parameters(request, resolve("opus")), request)
    assert [text in sent for text in stored] == [False] + [True] * 15 + [False, True, False]
    assert json.loads(sent)["messages"][1:16] == history[1:16]


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
_messages = st.lists(st.dictionaries(st.text(min_size=1), _json, min_size=1, max_size=3), max_size=4)


@pytest.mark.req("M3")
@settings(max_examples=40)
@given(_messages, st.integers(0, 6))
def test_any_messages_are_joined_to_the_json_of_the_same_fields(messages: list[Json], known: int) -> None:
    made = [sendable(message) for message in messages]
    given_ = [message for message, _ in made]
    request = ModelRequest("opus", (), (), given_, stored=[text for _, text in made[:known]])
    fields = {"model": "opus", "messages": given_, "stream": True}
    sent = json.loads(body(fields, request))
    assert sent == fields
    assert json.dumps(sent["messages"]) == json.dumps(given_)


@pytest.mark.req("M7", "L3")
@pytest.mark.parametrize("text", ('{"a": NaN}', '{"a": [1e999]}', '{"a": -Infinity}', "[1]", '{"a": '))
def test_numbers_that_only_python_reads_are_malformed(text: str) -> None:
    answer = StreamedAnswer()
    answer.feed({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "input": {}}})
    delta = {"type": "input_json_delta", "partial_json": text}
    answer.feed({"type": "content_block_delta", "index": 0, "delta": delta})
    answer.feed({"type": "content_block_stop", "index": 0})
    answer.feed({"type": "message_delta", "delta": {"stop_reason": "tool_use"}})
    answer.feed({"type": "message_stop"})
    with pytest.raises(MalformedAnswer, match="is not"):
        answer.message()
    with pytest.raises(MalformedAnswer, match="is not"):  # without streaming, as a whole
        parse_object(text)
