"""The log of a process: one line per event, as text or JSON (PLANGATE_LOG), without secrets or message bodies (PR4).

Service and Action log what happens. A `run` logs only what goes wrong, because it prints its story on the screen.
"""

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

from bot.core.errors import PlangateError
from bot.core.secrets.redaction import Redactor

LOGGER: Final = logging.getLogger("plangate")
OURS: Final = logging.getLogger("bot")
"""Parent of the loggers of all modules."""
LONGEST_VALUE: Final = 500


class LineFormatter(logging.Formatter):
    """Formats a record as one line. Escapes control characters and redacts secrets."""

    def __init__(self, *, as_json: bool, redactor: Redactor) -> None:
        super().__init__()
        self._as_json = as_json
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        """Return the formatted line."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        facts = {"level": record.levelname.lower(), "what": record.getMessage().strip(), **_fields(record)}
        facts = {"at": at} | {name: self._clean(value) for name, value in facts.items()}
        if self._as_json:
            return json.dumps(facts)
        head = " ".join(_format_value(facts.pop(name)) for name in ("at", "level", "what"))
        return " ".join((head, *(f"{name}={_format_value(value)}" for name, value in facts.items())))

    def _clean(self, value: object) -> object:
        if isinstance(value, bool | int | float) or value is None:
            return value
        return self._redactor.redact(str(value))[:LONGEST_VALUE]


class Writes(Protocol):
    """Destination of log lines."""

    def write(self, text: str, /) -> object:
        """Write one line, including its newline."""


def setup(style: str, level: str = "INFO", *, redactor: Redactor | None = None, out: Writes | None = None) -> None:
    """Send the log of the whole process to a stream (default: standard error), as `text` or `json`, from a level on."""
    handler = logging.StreamHandler(out or sys.stderr)
    handler.setLevel(level)
    handler.setFormatter(LineFormatter(as_json=style == "json", redactor=redactor or Redactor()))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)  # libraries log only when something is wrong
    for ours in (LOGGER, OURS):
        ours.setLevel(level)


def say(what: str, *, level: int = logging.INFO, **fields: object) -> None:
    """Write one line: what happened, and its facts by name."""
    LOGGER.log(level, what, extra={"fields": fields})


def failure(what: str, error: BaseException, **fields: object) -> None:
    """Write one line about a failure: our errors with their text, other errors with their type and origin.

    The text of a foreign error may quote what nobody should read.
    """
    ours = isinstance(error, PlangateError)
    text = str(error) if ours else f"{type(error).__name__} at {_origin(error)}"
    level = logging.WARNING if ours else logging.ERROR
    say(what, level=level, **fields, failed=type(error).__name__, error=text)


def _origin(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"


def _fields(record: logging.LogRecord) -> dict[str, object]:
    fields = dict(getattr(record, "fields", {}))
    if record.exc_info and record.exc_info[0] is not None:
        fields["error"] = record.exc_info[0].__name__  # its text and its traceback may quote what nobody should read
    return fields


def _format_value(value: object) -> str:
    text = str(value)
    return text if text and text.isprintable() and not set(text) & set(' "=') else json.dumps(text)
