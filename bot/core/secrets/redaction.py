"""Removes secrets from every text that leaves (X3, PR4): known ones, and what has the format of one.

`Redactor.redact` returns the text with ``[redacted: KIND]`` in place of each secret; repeating it changes nothing.
`Redactor.find_secrets` lists them, for what must not change silently: commits, and the contract of a plan.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from bot.core.secrets import kinds
from bot.core.secrets.folding import FoldedText, plain
from bot.core.secrets.known import SHORTEST, KnownSecrets, Span

LEARNED: Final = 16
"""Tokens per generation. Two generations of tokens made at run time are remembered; older ones have expired."""
_PASSES: Final = 4
"""The number of passes. Removing secrets can bring another one together, so redaction repeats up to this limit."""

Values: TypeAlias = tuple[tuple[str, str], ...]
"""Secret values, each with its kind. A kind consists of letters, digits, and spaces."""


@dataclass(slots=True)
class Redactor:
    """Finds and removes the known secrets of one process, and anything with the format of a secret."""

    values: Values = field(default=(), repr=False)
    _given: "_Indexed" = field(init=False, repr=False)
    _young: "_Indexed" = field(init=False, repr=False)
    _old: "_Indexed" = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._given, self._young, self._old = _Indexed(self.values), _Indexed(), _Indexed()

    def learn(self, value: str, kind: str) -> None:
        """Add a secret to find from now on."""
        if any(value == existing for existing, _ in (*self._young.values, *self._old.values)):
            return
        if len(self._young.values) >= LEARNED:
            self._old, self._young = self._young, _Indexed()
        self._young.values = (*self._young.values, (value, kind))

    def fork(self) -> "Redactor":
        """Return a redactor for the same values, whose index they share, that remembers tokens of its own."""
        redactor = Redactor()
        redactor.values, redactor._given = self.values, self._given
        return redactor

    def redact(self, text: str) -> str:
        """Return the text without secrets; a text without any is returned as it is."""
        passes = 0
        while (spans := self.find_secrets(text)) and passes < _PASSES:
            text, passes = _without(text, spans), passes + 1
        return text

    def redact_json(self, value: Any) -> Any:
        """Return a JSON value with every text in it redacted, except keys."""
        match value:
            case str():
                return self.redact(value)
            case dict():
                return {key: self.redact_json(item) for key, item in value.items()}
            case list() | tuple():
                return [self.redact_json(item) for item in value]
            case _:
                return value

    def find_secrets(self, text: str) -> Sequence[Span]:
        """Return the secrets in a text, in order and without overlaps."""
        if len(text) < SHORTEST:  # then it holds none; most facts of a log line are such texts
            return ()
        other = plain(text)
        spans = [*self._known_spans(text, other), *kinds.spans(text)]
        if other is not None:
            spans += [Span(*other.original(span.start, span.end), span.kind) for span in kinds.spans(other.text)]
        return _join_overlaps(spans)

    def find_known_secrets(self, text: str) -> Sequence[Span]:
        """Return the known secrets in a text, in order and without overlaps."""
        return _join_overlaps(self._known_spans(text, plain(text)))

    def _known_spans(self, text: str, other: FoldedText | None) -> Iterator[Span]:
        for indexed in (self._given, self._young, self._old):  # what `learn` moves meanwhile moves from left to right
            if secrets := indexed.secrets():
                yield from secrets.spans(text, other)


@dataclass(slots=True)
class _Indexed:
    """Values that are indexed when they are next looked for, each once, because indexing a key takes milliseconds.

    Values are only added, at the end.
    """

    values: Values = field(default=(), repr=False)
    _secrets: KnownSecrets = field(default=KnownSecrets(), repr=False)

    def secrets(self) -> KnownSecrets:
        """Return the index of the values. Another thread may add one meanwhile, which the next call then finds."""
        index, values = self._secrets, self.values
        if new := values[len(index.values) :]:
            index = self._secrets = index + KnownSecrets(new)
        return index


def _join_overlaps(spans: Iterable[Span]) -> list[Span]:
    """Return spans with overlapping ones joined, under the kind of the one that begins first and is longest."""
    joined: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if joined and span.start < joined[-1].end:
            joined[-1] = Span(joined[-1].start, max(joined[-1].end, span.end), joined[-1].kind)
        else:
            joined.append(span)
    return joined


def _without(text: str, spans: Sequence[Span]) -> str:
    parts, at = list[str](), 0
    for span in spans:
        parts += (text[at : span.start], f"[redacted: {span.kind}]")
        at = span.end
    return "".join(parts) + text[at:]
