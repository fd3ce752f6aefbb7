"""Lays the canaries (X3): decoys that only who is out of the sandbox can find, each with a value of its own."""

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
def lay_decoy(data: Path) -> Iterator[CanaryAlarm]:
    """Lay a decoy file in the data directory for one look at a thread, and give the alarm that knows its value.

    The decoy of the process, a variable of its environment, is known to every alarm. Nothing is hindered where the file
    cannot be written: then nobody finds it there either.
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
    """Make a value that looks worth stealing; it opens nothing."""
    return f"sk-ant-admin01-{secrets.token_urlsafe(48)}"
