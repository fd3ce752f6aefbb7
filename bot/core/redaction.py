"""Takes secrets out of every text that leaves (X3, PR4): those that are known, and what has the form of one.

`Redactor.redacted` gives the text with ``[redacted: KIND]`` in the place of each; doing it again changes nothing.
`Redactor.found` says what is there, for what must not be changed silently: commits, and the contract of a plan.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from bot.core import kinds
from bot.core.folding import Plain, plain
from bot.core.known import Known, Span

LEARNED: Final = 64
"""So many tokens that were made while the process runs are remembered; older ones have ended."""
SECRET: Final = "secret"
_PASSES: Final = 4

Secrets: TypeAlias = Iterable[tuple[str, str]]
"""Values, each with what it is called: letters, digits and spaces."""


@dataclass(slots=True)
class Redactor:
    """Knows the secrets of one process; without any it knows their forms."""

    values: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    _learned: "OrderedDict[str, str]" = field(default_factory=OrderedDict, repr=False)
    _known: Known | None = field(default=None, repr=False)

    def learn(self, value: str, kind: str) -> None:
        """Know one more secret from now on."""
        if value in self._learned:
            return
        learned = OrderedDict(self._learned)
        learned[value] = kind
        while len(learned) > LEARNED:
            learned.popitem(last=False)
        self._learned, self._known = learned, None

    def redacted(self, text: str) -> str:
        """Give the text without secrets; what holds none is given as it is."""
        for _ in range(_PASSES):
            spans = self.found(text)
            if not spans:
                return text
            text = _without(text, spans)
        return text

    def deep(self, value: Any) -> Any:
        """Give a value of JSON with every text in it redacted, keys aside."""
        match value:
            case str():
                return self.redacted(value)
            case dict():
                return {key: self.deep(each) for key, each in value.items()}
            case list() | tuple():
                return [self.deep(each) for each in value]
            case _:
                return value

    def found(self, text: str) -> Sequence[Span]:
        """List the secrets in a text, in order and apart from each other."""
        other = plain(text)
        spans = [*self._known_in(text, other), *kinds.spans(text)]
        if other is not None:
            spans += [Span(*other.original(span.start, span.end), span.kind) for span in kinds.spans(other.text)]
        return _apart(spans)

    def known(self, text: str) -> Sequence[Span]:
        """List the known secrets in a text, in order and apart from each other."""
        return _apart(self._known_in(text, plain(text)))

    def _known_in(self, text: str, other: Plain | None) -> Iterable[Span]:
        if self._known is None:
            self._known = Known((*self.values, *self._learned.items()))
        return self._known.spans(text, other) if self._known else ()


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
