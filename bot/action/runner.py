"""Writes the commands of the Actions runner: masks, annotations, outputs, and the job's summary.

Rules: all printed text is foreign, so the runner obeys only the commands that this module writes, and no value written
here can begin a line of its own.
https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
"""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TextIO

from bot.core.secrets.redaction import Redactor

SHORTEST: Final = 8
"""Shorter lines of a secret are not masked, because they would occur in every log."""


@dataclass(slots=True)
class Runner:
    """Sends commands to the runner through a log. Call `mask` and then `ignore_foreign_commands` before any text."""

    out: TextIO
    redactor: Redactor = field(default_factory=Redactor)
    _token: str = field(default_factory=lambda: secrets.token_hex(16))

    def mask(self, texts: Iterable[str]) -> None:
        """Make the runner hide these secrets from now on, line by line, and redact them from this class's output."""
        for text in texts:
            self.redactor.learn(text.strip(), "secret")
            lines = {line.strip() for line in text.splitlines() if not line.startswith("-----")}
            for line in sorted(line for line in {text.strip(), *lines} if len(line) >= SHORTEST):
                self._write(f"::add-mask::{_escape(line)}")

    def ignore_foreign_commands(self) -> None:
        """Make the runner ignore commands in the log, except those that this class writes."""
        self._write(f"::stop-commands::{self._token}")

    def say(self, text: str) -> None:
        for line in text.splitlines():
            self._write(self.redactor.redact(line).replace("::", ": :"))

    write = say
    """The same method under the name that streams use."""

    def error(self, text: str) -> None:
        self._command("error", text)

    def warning(self, text: str) -> None:
        self._command("warning", text)

    def outputs(self, values: Mapping[str, str], path: Path | None) -> None:
        lines = [f"{name}={' '.join(self.redactor.redact(value).split())}\n" for name, value in values.items()]
        _append(path, "".join(lines))

    def add_summary(self, text: str, path: Path | None) -> None:
        _append(path, self.redactor.redact(text).rstrip() + "\n\n")

    def _command(self, name: str, text: str) -> None:
        message = _escape(self.redactor.redact(text))
        self._write(f"::{self._token}::\n::{name} title=Plangate::{message}\n::stop-commands::{self._token}")

    def _write(self, line: str) -> None:
        self.out.write(f"{line}\n")
        self.out.flush()


def _escape(text: str) -> str:
    """Return a command's value as one line, escaped for the runner."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _append(path: Path | None, text: str) -> None:
    if path is not None:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
