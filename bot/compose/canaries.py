"""Plants the canaries (X3): decoys that only code outside the sandbox can find, each with a value of its own."""

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

from bot.config.environment import decoy_variable
from bot.core.secrets.canary import CanaryAlarm

FILE: Final = "credentials.json"


@contextmanager
def plant_canary(data: Path) -> Iterator[CanaryAlarm]:
    """Create a decoy file in the data directory for one check of a thread, and yield the alarm that knows its value.

    Every alarm also knows the decoy of the process, an environment variable. If the file cannot be written, the check
    goes on: nobody can find the file either.
    """
    value = _decoy_value()
    folder = data / "decoys" / secrets.token_hex(4)
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True)
        (folder / FILE).write_text(json.dumps({"anthropic_admin_key": value}) + "\n")
    try:
        yield CanaryAlarm((value, _of_the_process()))
    finally:
        with suppress(OSError):
            (folder / FILE).unlink()
            folder.rmdir()


@cache
def _of_the_process() -> str:
    value = _decoy_value()
    decoy_variable(value)
    return value


def _decoy_value() -> str:
    """Return a value that looks worth stealing and opens nothing."""
    return f"sk-ant-admin01-{secrets.token_urlsafe(48)}"
