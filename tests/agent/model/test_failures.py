"""What an answer with an error in it means, told from its status, its headers and its words (M9, M10)."""

import pytest

from bot.agent.model.failures import status_failure
from tests.rows import every_row

OVERFULL = (
    "prompt is too long: 210000 tokens > 200000 maximum",
    "input length and `max_tokens` exceed context limit: 190000 + 21333 > 200000, decrease input length",
    "This model's maximum context length is 131072 tokens. However, you requested 140000 tokens.",
    "Your input exceeds the context window of this model.",
    "the request exceeds the available context size, try increasing it",
    "The input (140000 tokens) is longer than the model's context length (131072 tokens).",
    "The input token count (140000) exceeds the maximum number of tokens allowed (131072).",
    "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
    "Invalid request: Your request exceeded model token limit: 131072",
    "invalid params, context window exceeds limit (2013)",
    "Bad request. (context_length_exceeded)",
)
OTHERWISE_WRONG = (
    "max_tokens: 128000 > 64000, which is the maximum allowed number of output tokens for their-model",
    "The long context beta is not yet available for this subscription.",
    "context_management: Extra inputs are not permitted",
    "messages.0.content.1.image: image exceeds 5 MB maximum",
    "metadata.user_id: the value exceeds the maximum length of 256",
    "A maximum of 4 blocks with cache_control may be provided. Found 5.",
)


@pytest.mark.req("M9")
@pytest.mark.parametrize(
    ("headers", "seconds"),
    (
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "Sat, 21 Nov"}, None),
        ({}, None),
    ),
)
def test_how_long_the_server_asks_for(headers: dict[str, str], seconds: float | None) -> None:
    """Milliseconds before seconds; a date is not understood and not obeyed."""
    assert status_failure(429, "rate_limit_error", "slow down", headers).retry_after == seconds


@pytest.mark.req("M9")
def test_a_spend_limit_is_final() -> None:
    """A 429 without a time to wait that speaks of spend is a limit of the account: waiting helps nothing."""
    assert not status_failure(429, "rate_limit_error", "Your spend limit is reached", {}).retryable
    assert status_failure(429, "rate_limit_error", "Your spend limit is reached", {"retry-after": "1"}).retryable
    assert not status_failure(200, "invalid_request_error", "?", {}).retryable


RAMP = "Usage grows too fast (ramp_limit_exceeded)"


@pytest.mark.req("M9")
@every_row(
    ("status", "text", "headers", "retryable", "fix"),
    (
        (529, "overloaded", {"x-should-retry": "false"}, False, "says not to retry"),
        (500, "odd", {"x-should-retry": "false"}, False, "says not to retry"),
        (401, "no key", {"x-should-retry": "false"}, False, "check ANTHROPIC_API_KEY"),
        (400, "odd", {"x-should-retry": "true"}, True, ""),
        (429, "slow down", {"x-should-retry": "true"}, True, ""),
        (429, RAMP, {}, False, "ramp limit"),
        (429, "w" * 1000 + RAMP, {}, False, "ramp limit"),
        (429, RAMP, {"retry-after": "3600"}, False, "ramp limit"),
        (429, RAMP, {"x-should-retry": "true"}, False, "ramp limit"),
        (429, RAMP, {"retry-after": "7"}, True, "ramp limit"),
    ),
)
def test_the_server_knows_best_whether_to_try_again(
    status: int, text: str, headers: dict[str, str], retryable: bool, fix: str
) -> None:
    """x-should-retry outranks the status; a ramp limit is waited for only as long as the server names, in a minute."""
    found = status_failure(status, "", text, headers)
    assert found.retryable is retryable
    assert fix in found.fix


@pytest.mark.req("M10", "M12")
def test_a_context_that_is_too_full_is_told_from_other_mistakes() -> None:
    """In the words of the service and of other servers that speak its API: the history is shortened then; nothing
    else that a request may be refused for is taken for it."""
    said = {
        text: status_failure(400, "invalid_request_error", text, {}).too_long for text in OVERFULL + OTHERWISE_WRONG
    }
    assert said == dict.fromkeys(OVERFULL, True) | dict.fromkeys(OTHERWISE_WRONG, False)
    assert not status_failure(401, "authentication_error", OVERFULL[0], {}).too_long
