"""Changed: reports which of the files that were read have changed since."""

import os

from bot.toolhost import stamps
from bot.toolhost.checkout_paths import open_file
from bot.toolhost.operation import Arguments, Call, Host
from bot.toolhost.protocol import Failure, OperationResult

_MOST = 500


def changed_files(host: Host, call: Call, arguments: Arguments) -> OperationResult:
    """Return the files of ``stamps`` whose stamp has changed, with the new stamp; "" for a file that is gone."""
    found: dict[str, str] = {}
    for path, stamp in list(arguments["stamps"].items())[:_MOST]:
        if call.cancelled.is_set():
            break
        if (now := _stamp(host, path)) != stamp:
            found[path] = now
    return OperationResult(f"{len(found)} changed", details={"changed": found})


def _stamp(host: Host, path: str) -> str:
    """Return a file's current stamp, or "" if it cannot be read."""
    try:
        descriptor = open_file(host.root, host.root.place(path))
    except (OSError, Failure):
        return ""
    try:
        return stamps.of_file(descriptor)
    finally:
        os.close(descriptor)
