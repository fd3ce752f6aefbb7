"""Reads journals from files for `plangate replay`: as a thread's ref stores them, or as plain lines."""

import json
from contextlib import suppress
from pathlib import Path

from bot.compose.parts import local_key_of
from bot.config.settings import Settings
from bot.core.errors import Misconfigured, Unreadable
from bot.ports import Entry
from bot.service.connections import key_of
from bot.store.chain import parse_unverified
from bot.store.git_journal import read_archive
from bot.store.keys import StateKey


def journal(path: Path, settings: Settings) -> tuple[tuple[Entry, ...], str] | None:
    """Return a journal, verified line by line, and a description of the checks; None if the path holds no journal.

    Raises Unreadable, which names the first line that is not as it was written.
    """
    if path.is_dir():
        return _open_files(path, settings), "each has its MAC, and follows the one before it"
    if not (path.is_file() and _begins(path)):
        return None
    lines = path.read_bytes().removesuffix(b"\n").split(b"\n")
    return parse_unverified(
        lines, str(path)
    ), "each follows the one before it; whose they are only the state key could tell"


def _begins(path: Path) -> bool:
    """Return whether a file's first line has the fields of a journal line, which transcript lines do not have."""
    with path.open("rb") as file, suppress(ValueError):
        if file.read(1) == b"{":
            return bool({"n", "prev"} <= json.loads(b"{" + file.readline()).keys())
    return False


def _open_files(folder: Path, settings: Settings) -> tuple[Entry, ...]:
    """Return the entries in the files of a ref, opened with the key for GitHub threads or the key for local runs."""
    keys: list[StateKey] = []
    with suppress(Misconfigured):
        keys.append(key_of(settings))
    if settings.state_key or (settings.data_dir / "state.key").is_file():
        keys.append(local_key_of(settings))
    for key in keys[:-1]:
        with suppress(Unreadable):
            return read_archive(folder, key)
    if not keys:
        raise Misconfigured("no key for a journal", where="PLANGATE_STATE_KEY", fix="set it to the one that wrote it")
    return read_archive(folder, keys[-1])
