"""The log of a process and its terminal, without secrets or message bodies (PR4, X3)."""

import json
import logging
import re
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from io import TextIOBase, TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO, cast

from bot.core.errors import PlangateError
from bot.core.secrets.known import SHORTEST
from bot.core.secrets.redaction import Redactor

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

# --- Redaction of standard output and standard error (PR4, X3) --------------------------------------------------------
# `redirect_output` applies this to standard output and standard error of a process, including tracebacks.


class Outlet(TextIOBase):
    """A stream that redacts secrets from each write and passes it on at once."""

    def __init__(self, out: TextIO, redactor: Redactor) -> None:
        super().__init__()
        self.raw = out
        self._redactor = redactor

    def write(self, text: str) -> int:
        """Write a text with its secrets redacted. Return the length of the original text."""
        self.raw.write(self._redactor.redact(text))
        return len(text)

    def flush(self) -> None:
        self.raw.flush()

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self.raw.isatty()

    def fileno(self) -> int:
        return self.raw.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]  # a text stream has one, and the base class says None
        return self.raw.encoding


def outlet(out: TextIO, redactor: Redactor) -> TextIO:
    """Return a stream that redacts secrets from everything written to `out`."""
    return cast(TextIO, Outlet(out, redactor))


def unredacted_stream(out: TextIO) -> TextIO:
    """Return the underlying stream, for the runner's masks, which name what the log must never show."""
    while isinstance(out, Outlet):
        out = out.raw
    return out


@contextmanager
def redirect_output(redactor: Redactor) -> Iterator[None]:
    """Redact standard output and standard error. Characters that a stream's encoding lacks appear as ``?``."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    with redirect_stdout(outlet(sys.stdout, redactor)), redirect_stderr(outlet(sys.stderr, redactor)):
        yield


# --- The log of a process (PR4) ---------------------------------------------------------------------------------------
# Each event is one line of text or JSON, without secrets or message bodies. Service and Action log what happens. A
# `run` logs only warnings and errors, because it prints its events.

LOGGER: Final = logging.getLogger("plangate")
OURS: Final = logging.getLogger("bot")
"""Parent of the loggers of all modules."""
LONGEST_VALUE: Final = 500
_NUMBERS: Final = (bool, int, float, type(None))
_BETWEEN: Final = "\n" * 5
"""Separates texts that are searched together. The redactor connects a secret with the word that reveals it over at most
four line breaks, so each text is searched as if it stood alone."""
_PLAIN: Final = re.compile(r"[\w.:/#@+ \n-]*", re.ASCII)
"""Texts without characters that could hide or quote a secret."""
_QUOTED: Final = re.compile(r'[ "=]')


class LineFormatter(logging.Formatter):
    """Formats a record as one line. Escapes control characters and redacts secrets."""

    def __init__(self, *, as_json: bool, redactor: Redactor) -> None:
        super().__init__()
        self._as_json = as_json
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        """Return the formatted line; of a record that stands for several events, the line of each."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        head = {"level": record.levelname.lower(), "what": record.getMessage().strip()}
        events = self._clean_all([{**head, **fields} for fields in _events(record)])
        return "\n".join([self._line({"at": at, **facts}) for facts in events])

    def _line(self, facts: dict[str, object]) -> str:
        if self._as_json:
            return json.dumps(facts)
        head = " ".join([_format_value(facts.pop(name)) for name in ("at", "level", "what")])
        return " ".join([head, *[f"{name}={_format_value(value)}" for name, value in facts.items()]])

    def _clean_all(self, events: list[dict[str, object]]) -> list[dict[str, object]]:
        """Return the facts of events without secrets. Plain texts are searched together to save time."""
        values = [value for facts in events for value in facts.values() if not isinstance(value, _NUMBERS)]
        texts = [value for value in values if isinstance(value, str) and len(value) <= LONGEST_VALUE]
        joined = _BETWEEN.join(dict.fromkeys([text for text in texts if len(text) >= SHORTEST]))
        if len(texts) == len(values) and _PLAIN.fullmatch(joined) and not self._redactor.find_secrets(joined):
            return events
        return [{name: self._clean(value) for name, value in facts.items()} for facts in events]

    def _clean(self, value: object) -> object:
        if isinstance(value, _NUMBERS):
            return value
        return self._redactor.redact(str(value))[:LONGEST_VALUE]


def setup(
    style: str, level: str = "INFO", *, redactor: Redactor | None = None, out: "SupportsWrite[str] | None" = None
) -> None:
    """Send the process's log, from `level` up, to a stream (default: standard error), in the style `text` or `json`."""
    handler = logging.StreamHandler(out or sys.stderr)
    handler.setLevel(level)
    handler.setFormatter(LineFormatter(as_json=style == "json", redactor=redactor or Redactor()))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)  # libraries log only when something is wrong
    for logger in (LOGGER, OURS):
        logger.setLevel(level)


def say(what: str, *, level: int = logging.INFO, **fields: object) -> None:
    """Write one line: what happened, and its facts by name."""
    LOGGER.log(level, what, extra={"fields": fields})


def say_each(what: str, events: Sequence[Mapping[str, object]]) -> None:
    """Write one line for each of several events of one kind, with one write: what happened, and the facts of each."""
    LOGGER.info(what, extra={"events": events})


def failure(what: str, error: BaseException, **fields: object) -> None:
    """Write one line about a failure: our errors with their text, other errors with their type and origin.

    The text of another library's error may quote a secret or a message body.
    """
    is_own = isinstance(error, PlangateError)
    text = str(error) if is_own else f"{type(error).__name__} at {_origin(error)}"
    level = logging.WARNING if is_own else logging.ERROR
    say(what, level=level, **fields, failed=type(error).__name__, error=text)


def _origin(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"


def _events(record: logging.LogRecord) -> Sequence[Mapping[str, object]]:
    """Return the facts of each event that a record stands for."""
    fields: Mapping[str, object] = getattr(record, "fields", {})
    if record.exc_info and record.exc_info[0] is not None:
        # The text of an error, and its traceback, may quote a secret or a message body.
        fields = {**fields, "error": record.exc_info[0].__name__}
    return getattr(record, "events", (fields,))


def _format_value(value: object) -> str:
    text = str(value)
    return text if text and text.isprintable() and not _QUOTED.search(text) else json.dumps(text)
