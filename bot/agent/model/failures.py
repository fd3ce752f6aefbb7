"""Tells what a failed model call means: try again, give the model up, or stop (M9, L4).

The library's classes are not enough: an error event after a 200 arrives as a plain APIStatusError with status 200
whose `type` says what it is, and a stall or a cut connection arrives as the transport's own error
(https://platform.claude.com/docs/en/api/errors; measured with anthropic 2.12).
"""

import re
from dataclasses import dataclass

from bot.core.errors import PlangateError, Refused, TooLong, Transient
from bot.core.lines import short

LONGEST = 500
"""Characters of an error that people are shown: what stands between here and the model answers with whole pages."""
RETRYABLE_STATUS = frozenset({408, 409, 429})
_OVERFULL = re.compile(
    r"too long|prompt exceeds max length|input.*exceeds the maximum number of tokens"
    r"|(?=.*(exceed|longer|greater|maximum)).*(context[ _](window|length|size|limit)|prompt length|model token limit)",
    re.IGNORECASE | re.DOTALL,
)
"""How servers of the Messages API say that a request does not fit into the model's context: Anthropic's, and others."""
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
class Failure:
    """One failed call, as the retry rules see it."""

    text: str
    retryable: bool
    overloaded: bool = False
    retry_after: float | None = None
    """Seconds that the server asked for."""
    status: int = 0
    mend: str = ""
    """The cure, where the status alone does not tell it."""

    @property
    def unavailable(self) -> bool:
        """Whether the model is not there (any more) for this account: another one may be (L4)."""
        return self.status == 404 and "model" in self.text

    @property
    def broke_off(self) -> bool:
        """Whether it came of the stream, or of an event in it: a plain request may do at once (M8).

        A model that is overloaded is given time either way.
        """
        return self.status in {0, 200} and not self.overloaded

    @property
    def too_long(self) -> bool:
        """Whether the request is refused because it does not fit into the model's context.

        https://platform.claude.com/docs/en/build-with-claude/context-windows
        """
        return self.status == 413 or (self.status in {400, 422} and bool(_OVERFULL.search(self.text)))

    def as_error(self) -> PlangateError:
        """Give the error that ends the session."""
        if self.retryable:
            return Transient(self.text, where="the model", mend="try again later")
        kind = TooLong if self.too_long else Refused
        return kind(self.text, where="the model", mend=self.mend or _CURES.get(self.status, "see the message"))


def status_failure(status: int, kind: str, text: str, headers: dict[str, str]) -> Failure:
    """Classify an answer with an error in it: by its type where the status is 200, else by its status."""
    after, text = _seconds(headers), short(text, LONGEST)
    if status < 400:
        return Failure(text, kind in _RETRYABLE_TYPES, kind in _OVERLOADED, after, status)
    spend_cap = status == 429 and after is None and "spend" in text.lower()
    retryable = (status in RETRYABLE_STATUS or status >= 500) and not spend_cap
    return Failure(f"HTTP {status}: {text}", retryable, status == 529 or kind in _OVERLOADED, after, status)


def _seconds(headers: dict[str, str]) -> float | None:
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return float(headers[name]) * unit
        except (KeyError, ValueError):
            continue
    return None
