"""Classifies a failed model call: try again, give up on the model, or stop (M9, L4).

The library's classes are not enough: an error event after a 200 arrives as a plain APIStatusError with status 200,
whose `type` holds the actual error, and a stall or a cut connection arrives as the transport's own error
(https://platform.claude.com/docs/en/api/errors; measured with anthropic 2.12).
"""

import re
from dataclasses import dataclass

from bot.core.errors import PlangateError, Refused, TooLong, Transient
from bot.core.lines import shorten_line

LONGEST_WAIT = 60.0
"""The longest wait, in seconds, before the next try, whatever the server asks for."""
RAMP_LIMIT = "ramp_limit_exceeded"
"""The error code of a 429 if usage grew faster than the account allows. Worth a wait only for as long as the server
names, in the library's class RampLimitExceededError.
"""
_RAMP_CURE = "wait before asking again, work on fewer threads at once, or ask Anthropic for a higher ramp limit"
_NO_RETRY = "the server says not to retry"
LONGEST = 500
"""Characters of an error that users see: proxies between here and the model answer with whole pages."""
RETRYABLE_STATUS = frozenset({408, 409, 429})
_TOO_LONG = re.compile(
    r"too long|prompt exceeds max length|input.*exceeds the maximum number of tokens"
    r"|(?=.*(exceed|longer|greater|maximum)).*(context[ _](window|length|size|limit)|prompt length|model token limit)",
    re.IGNORECASE | re.DOTALL,
)
"""How servers of the Messages API, Anthropic's and others, report that a request exceeds the context."""
_PLACE = re.compile(r"\bmessages\.(\d+)\.content\.(\d+)(?:\.tool_result\.content\.(\d+))?")
_OVERLOADED = frozenset({"overloaded_error"})
_RETRYABLE_TYPES = frozenset({"overloaded_error", "api_error", "timeout_error", "rate_limit_error"})
_CURES = {
    401: "check ANTHROPIC_API_KEY",
    402: "check the account's billing",
    403: "check what the key may do",
    404: "check the model's id and ANTHROPIC_BASE_URL",
    413: "the request is too large: ask for less at once",
}


@dataclass(frozen=True, slots=True)
class CallFailure:
    """One failed call, in the terms of the retry rules."""

    text: str
    retryable: bool
    overloaded: bool = False
    retry_after: float | None = None
    """Seconds that the server asked for."""
    status: int = 0
    fix: str = ""
    """The cure, if the status alone does not determine it."""

    @property
    def unavailable(self) -> bool:
        """Whether this account does not have the model (anymore); another model may be available (L4)."""
        return self.status == 404 and "model" in self.text

    @property
    def broke_off(self) -> bool:
        """Whether the stream or an event in it caused the failure: a plain request may work at once (M8).

        An overloaded model is given time in either case.
        """
        return self.status in {0, 200} and not self.overloaded

    @property
    def too_long(self) -> bool:
        """Whether the request was refused because it does not fit into the model's context.

        https://platform.claude.com/docs/en/build-with-claude/context-windows
        """
        return self.status == 413 or (self.status in {400, 422} and bool(_TOO_LONG.search(self.text)))

    @property
    def is_lasting(self) -> bool:
        """Whether the request was refused for something in it: the same request would be refused again."""
        return self.status in {400, 422} and not self.retryable and not self.too_long

    @property
    def place(self) -> tuple[int, ...]:
        """The block of the history that a refusal points at: its message, its index, its index inside a result."""
        place = _PLACE.search(self.text)
        return tuple(int(index) for index in place.groups() if index is not None) if place else ()

    def as_error(self) -> PlangateError:
        """Return the error that ends the session."""
        if self.retryable:
            return Transient(self.text, where="the model", fix="try again later")
        kind = TooLong if self.too_long else Refused
        return kind(self.text, where="the model", fix=self.fix or _CURES.get(self.status, "see the message"))


class ErrorEvent(Exception):
    """An error event inside a stream that began with 200."""

    def __init__(self, error: object) -> None:
        details = error if isinstance(error, dict) else {"message": error}
        super().__init__(details.get("message") or "error event")
        self.type = str(details.get("type") or "")


def status_failure(status: int, kind: str, text: str, headers: dict[str, str]) -> CallFailure:
    """Classify an answer that holds an error: by its type if the status is 200, else by its status.

    The header `x-should-retry` takes precedence over the status, as in the library (anthropic/_base_client.py).
    """
    after, ramp = _seconds(headers), RAMP_LIMIT in text
    text = shorten_line(text, LONGEST)
    if status < 400:
        status = 400 if kind == "invalid_request_error" else status  # in a stream, it means the same
        return CallFailure(text, kind in _RETRYABLE_TYPES, kind in _OVERLOADED, after, status)
    fix = _RAMP_CURE if ramp else ""
    capped = status == 429 and after is None and "spend" in text.lower()
    capped |= ramp and (after is None or after > LONGEST_WAIT)
    retryable = (status in RETRYABLE_STATUS or status >= 500) and not capped
    should_retry = headers.get("x-should-retry")
    if should_retry == "false":
        retryable, fix = False, fix or _CURES.get(status, _NO_RETRY)
    elif should_retry == "true" and not capped:
        retryable = True
    overloaded = status == 529 or kind in _OVERLOADED
    return CallFailure(f"HTTP {status}: {text}", retryable, overloaded, after, status, fix)


def _seconds(headers: dict[str, str]) -> float | None:
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return float(headers[name]) * unit
        except (KeyError, ValueError):
            continue
    return None
