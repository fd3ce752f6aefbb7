"""Takes secrets out of every text that leaves (X3, PR4): those that are known, and what has the form of one.

`Redactor.redacted` gives the text with ``[redacted: KIND]`` in the place of each; doing it again changes nothing.
`Redactor.found` says what is there, for what must not be changed silently: commits, and the contract of a plan.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from bot.core.secrets import kinds
from bot.core.secrets.folding import Plain, plain
from bot.core.secrets.known import KnownSecrets, Span

LEARNED: Final = 16
"""So many tokens that were made while the process runs are a generation: two are remembered, older ones have ended."""
_PASSES: Final = 4
"""What is left when secrets are gone may hold another one; that ends."""

Values: TypeAlias = tuple[tuple[str, str], ...]
"""Secret values, each with what it is called: letters, digits and spaces."""


@dataclass(slots=True)
class Redactor:
    """Knows the secrets of one process; without any it knows their forms."""

    values: Values = field(default=(), repr=False)
    _given: KnownSecrets | None = field(default=None, repr=False)
    _young: dict[str, str] = field(default_factory=dict, repr=False)
    _old: dict[str, str] = field(default_factory=dict, repr=False)
    _made: tuple[KnownSecrets, KnownSecrets] = field(default=(KnownSecrets(), KnownSecrets()), repr=False)

    def learn(self, value: str, kind: str) -> None:
        """Know one more secret from now on."""
        if value in self._young or value in self._old:
            return
        known, older = self._made
        if len(self._young) >= LEARNED:
            self._old, self._young, older = self._young, {}, known
        self._young = {**self._young, value: kind}
        self._made = (KnownSecrets(tuple(self._young.items())), older)

    def redact(self, text: str) -> str:
        """Give the text without secrets; what holds none is given as it is."""
        passes = 0
        while (spans := self.find_secrets(text)) and passes < _PASSES:
            text, passes = _without(text, spans), passes + 1
        return text

    def redact_json(self, value: Any) -> Any:
        """Give a value of JSON with every text in it redacted, keys aside."""
        match value:
            case str():
                return self.redact(value)
            case dict():
                return {key: self.redact_json(each) for key, each in value.items()}
            case list() | tuple():
                return [self.redact_json(each) for each in value]
            case _:
                return value

    def find_secrets(self, text: str) -> Sequence[Span]:
        """List the secrets in a text, in order and apart from each other."""
        other = plain(text)
        spans = [*self._known_in(text, other), *kinds.spans(text)]
        if other is not None:
            spans += [Span(*other.original(span.start, span.end), span.kind) for span in kinds.spans(other.text)]
        return _apart(spans)

    def find_known_secrets(self, text: str) -> Sequence[Span]:
        """List the known secrets in a text, in order and apart from each other."""
        return _apart(self._known_in(text, plain(text)))

    def _known_in(self, text: str, other: Plain | None) -> Iterator[Span]:
        if self._given is None:  # an index of a key takes milliseconds, so it is made when it is first needed
            self._given = KnownSecrets(self.values)
        for known in (self._given, *self._made):
            if known:
                yield from known.spans(text, other)


def _apart(spans: Iterable[Span]) -> list[Span]:
    """Join spans that overlap, under the kind of the one that begins first and is longest."""
    made: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if made and span.start < made[-1].end:
            made[-1] = Span(made[-1].start, max(made[-1].end, span.end), made[-1].kind)
        else:
            made.append(span)
    return made


def _without(text: str, spans: Sequence[Span]) -> str:
    made, at = list[str](), 0
    for span in spans:
        made += (text[at : span.start], f"[redacted: {span.kind}]")
        at = span.end
    return "".join(made) + text[at:]
