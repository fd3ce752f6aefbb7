"""What a failed model call means: try again, leave something out, change the model, or stop (L4, M6, M9)."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from bot.agent.history.cutting import images, messages_since_answer, picture_digest
from bot.agent.model.request import BINDING, CLEARING, COMPACTION, INTERLEAVED
from bot.agent.model.specs import ModelSpec
from bot.core.errors import PlangateError, Refused, TooLong, Transient
from bot.core.exchange import HistoryView
from bot.core.markdown.elements import shorten_line
from bot.core.transcript import THINKING, Json
from bot.ports import Replay

# --- Classifies a failed model call (M9, L4) --------------------------------------------------------------------------
# The library's classes are not enough: an error event after a 200 arrives as a plain APIStatusError with status 200,
# whose `type` holds the actual error, and a stall or a cut connection arrives as the transport's own error
# (https://platform.claude.com/docs/en/api/errors; measured with anthropic 2.12).

LONGEST_WAIT = 60.0
"""The longest wait, in seconds, before the next try, whatever the server asks for."""
RAMP_LIMIT = "ramp_limit_exceeded"
"""The error code of a 429 if usage grew faster than the account allows (the library's RampLimitExceededError).

The call is tried again only if the server names a wait of at most LONGEST_WAIT.
"""
_RAMP_CURE = "wait before asking again, work on fewer threads at once, or ask Anthropic for a higher ramp limit"
_NO_RETRY = "the server says not to retry"
LONGEST = 500
"""Most characters of an error that users see: a proxy on the way to the model may answer with a whole page."""
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
        """Whether the stream or an event in it caused the failure, so that a request without streaming may work (M8).

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
        """Indexes of the block that a refusal names: message, block, and block inside a result; () if it names none."""
        place = _PLACE.search(self.text)
        return tuple(int(index) for index in place.groups() if index is not None) if place else ()

    def as_error(self) -> PlangateError:
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
        status = 400 if kind == "invalid_request_error" else status  # this error in a stream means the same as a 400
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


# --- Features that a server refuses are not sent again (M6, M12) ------------------------------------------------------
# A compatible server or a proxy may refuse a feature that a request can do without. Rules: a 400 or 422 removes a
# feature if it names a beta or `context_management`, or reports an unknown field that the feature uses. Each feature is
# removed once per endpoint, so a request is repeated only a few times. A refusal that says that the model lacks an
# ability removes the ability for that model. What the operator adds to each request (PLANGATE_EXTRA_BODY) is never
# removed.

_UNKNOWN: Final = re.compile(
    r"extra inputs|extra_forbidden|additional propert"
    r"|\b(unknown|unrecognized|unexpected|unsupported|invalid)\b.{0,20}\b(field|key|keyword|name|argument|parameter|property)",
    re.IGNORECASE | re.DOTALL,
)
"""How servers report an unknown field: pydantic, and the JSON decoders of Go, Rust and Google."""
_SOME_BETA: Final = re.compile(r"anthropic-beta|\bbeta (flag|header|feature)", re.IGNORECASE)
"""How a server refuses a beta without its name: Bedrock says "invalid beta flag"."""
_UNSUPPORTED: Final = re.compile(r"\bnot (?:\w+ )?(?:support|available)|\bunsupported\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Feature:
    """Something that a request can do without; `terms` are the names of its fields and betas in errors."""

    name: str
    terms: tuple[str, ...]
    without: Mapping[str, Any]
    """The fields of a ModelSpec that keep it out of requests."""
    beta: str = ""


def _feature(name: str, *terms: str, beta: str = "", **without: Any) -> Feature:
    return Feature(name, terms, MappingProxyType(without), beta)


FEATURES: Final = (
    _feature("clearing of old tool results", "context_management", beta=CLEARING, clears=False),
    _feature("summaries by the service", "compaction", beta=COMPACTION, summarizes=False),
    _feature("thinking between tool calls", beta=INTERLEAVED, interleaves=False),
    _feature("control of thinking blocks", "block_binding", beta=BINDING, drops=False),
    _feature("effort", "output_config.effort", efforts=()),
    _feature("structured output", "output_config.format", "strict", structured=False),
    _feature("output_config", "output_config", efforts=(), structured=False),
    _feature("thinking", "thinking", thinking="none"),
)
"""In the order in which they are searched: a field before the object that contains it."""


def refused_features(failure: CallFailure, fields: Mapping[str, Any], betas: Collection[str]) -> tuple[Feature, ...]:
    """Return the features of a request that the service refused; () if it refused something else."""
    if not failure.is_lasting or failure.place:
        return ()
    refused = tuple(feature for feature in FEATURES if feature.beta in betas and feature.beta in failure.text)
    if refused:
        return refused
    used = set(_used_terms(fields))
    for feature in FEATURES:
        says_unknown = "context_management" in feature.terms or _UNKNOWN.search(failure.text)
        if says_unknown and any(term in used and _names(failure.text, term) for term in feature.terms):
            return (feature,)
    if _SOME_BETA.search(failure.text):
        return tuple(feature for feature in FEATURES if feature.beta in betas)
    return ()


def unsupported_abilities(failure: CallFailure, fields: Mapping[str, Any]) -> tuple[Feature, ...]:
    """Return the ability of a request that a refusal says the model lacks; () if there is none.

    If the refusal names several, only the narrowest is returned, and of equally narrow ones the first that it names.
    """
    if not failure.is_lasting or failure.place or not _UNSUPPORTED.search(failure.text):
        return ()
    used, text = set(_used_terms(fields)), failure.text.lower()
    named = [feature for feature in FEATURES if feature.name in text and not used.isdisjoint(feature.terms)]
    return tuple(sorted(named, key=lambda feature: (len(feature.without), text.index(feature.name)))[:1])


def without_features(spec: ModelSpec, missing: Sequence[Feature]) -> ModelSpec:
    for feature in missing:
        spec = replace(spec, **feature.without)
    return spec


def _used_terms(fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names that errors may use for a request's fields."""
    yield from fields
    yield from (f"output_config.{name}" for name in fields.get("output_config", ()))
    yield from fields.get("thinking", ())
    if any(tool.get("strict") for tool in fields.get("tools", ())):
        yield "strict"


def _names(text: str, term: str) -> bool:
    """Return whether an error names a field of the body, of a tool, or of `thinking`, but not of a message."""
    prefix = r"(?<![\w.])(?:body\.)?(?:tools\.\d+\.(?:\w+\.)?|thinking\.(?:\w+\.)?)?"
    return re.search(rf"{prefix}{re.escape(term)}(?!\w)", text) is not None


# --- Leaves out a block that the service refuses (L9, M3, M9) ---------------------------------------------------------
# If the service refuses one block of a history for good, the history is sent again without it: thinking is left out,
# and a picture becomes a note. The block is found by the position (`messages.N.content.M`) and the type of block that
# the error names, never by its wording. Each view leaves out more than the one before, so a refusal is final if nothing
# that it could be about is left.

_THINKING: Final = re.compile(r"\b(?:redacted_)?thinking\b")
_THINKING_BLOCK: Final = re.compile(rf"{_THINKING.pattern}\W{{1,2}}blocks?\b")
_PICTURE: Final = re.compile(r"\b(?:image|picture)s?\b", re.IGNORECASE)


def view_without_refused(
    failure: CallFailure, view: HistoryView, sent: Sequence[Json], *, drops: bool
) -> HistoryView | None:
    """Return the view that leaves out what the service refused; None if nothing can be left out.

    `sent` are the messages as the service got them. `drops` says whether the service can drop thinking by itself.
    """
    if not failure.is_lasting:
        return None
    blocks = _blocks_at(failure.place, sent)
    named = _THINKING if failure.place else _THINKING_BLOCK
    if named.search(failure.text) or any(block.get("type") in THINKING for block in blocks):
        replay = Replay.MATCHING if drops and view.thinking is Replay.WHOLE else Replay.NONE
        return replace(view, thinking=replay) if replay is not view.thinking else None
    if not (_PICTURE.search(failure.text) or any(block.get("type") == "image" for block in blocks)):
        return None
    # If the service does not say which picture it refuses, it is one that it has not accepted before.
    for messages in ([{"content": blocks}], messages_since_answer(sent), sent):
        if pictures := {picture_digest(image) for image in images(messages)}:
            return replace(view, left_out=view.left_out | pictures)
    return None


def _blocks_at(place: Sequence[int], sent: Sequence[Json]) -> list[Json]:
    blocks: list[Json] = list(sent[place[0] : place[0] + 1]) if place else []
    for at in place[1:]:
        content = blocks[0].get("content") if blocks else None
        blocks = content[at : at + 1] if isinstance(content, list) else []
    return blocks
