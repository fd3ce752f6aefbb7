"""Reads the end of a job's log (K8).

GitHub answers with a signed address on another host, which needs no token and gets none.
https://docs.github.com/en/rest/actions/workflow-jobs#download-job-logs-for-a-workflow-run
"""

import asyncio
import re
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from bot.core.errors import Refused, Transient
from bot.github.client import GitHubClient
from bot.github.repository import Address
from bot.github.token_connection import USER_AGENT, without_netrc
from bot.ports import Clock

if TYPE_CHECKING:
    from requests import Response

TAIL: Final = 64 * 1024
"""Bytes at the end of a log that are kept."""
MOST: Final = 16 << 20
"""Maximum bytes of a log that are read."""
SECONDS: Final = 20.0
_PIECE: Final = 1 << 16
_ANSI: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_STAMP: Final = re.compile(r"^\ufeff?\d{4}-\d\d-\d\dT[\d:.]{8,20}Z ?", re.MULTILINE)


async def log_tail(client: GitHubClient, at: Address, job: int) -> str:
    """Return the last 64 KiB of a job's log as text without colors and time stamps.

    Raises Refused if GitHub does not give the log, Transient if it does not arrive.
    """
    address = await client.redirect(f"{at.path}/actions/jobs/{job}/logs")
    content, complete = await asyncio.to_thread(_download, address, client.clock, client.authorities)
    text = _STAMP.sub("", _ANSI.sub("", content.decode(errors="replace").replace("\r\n", "\n")))
    _, newline, lines = text.partition("\n")  # a tail begins within a line
    whole = lines if newline and len(content) == TAIL else text
    return whole if complete else f"{whole}\n[only the first {MOST >> 20} MiB of this log were read]"


def _download(address: str, clock: Clock, authorities: str) -> tuple[bytes, bool]:
    """Return the end of the file at an address, and whether all of it was read. Sends no token."""
    import requests

    began = clock.monotonic()
    try:
        with requests.Session() as session:
            session.verify = authorities or True
            session.auth = without_netrc
            headers = {"User-Agent": USER_AGENT, "Accept-Encoding": "identity"}
            with session.get(address, headers=headers, stream=True, allow_redirects=False, timeout=SECONDS) as answer:
                if answer.status_code != 200:
                    raise Refused(f"the log's server answered {answer.status_code}", where="job log")
                return _tail(_pieces(answer, clock, began + SECONDS))
    except (requests.RequestException, OSError) as error:
        raise Transient(f"the log did not arrive ({type(error).__name__})", where="job log") from None


def _pieces(answer: "Response", clock: Clock, deadline: float) -> Iterator[bytes]:
    """Yield the body as it was sent, without decompressing it. Raises Transient at the deadline."""
    for piece in iter(lambda: answer.raw.read1(_PIECE), b""):
        yield piece
        if clock.monotonic() > deadline:
            raise Transient(f"the log did not arrive within {SECONDS:.0f} s", where="job log")


def _tail(pieces: Iterator[bytes]) -> tuple[bytes, bool]:
    window, size, total = deque[bytes](), 0, 0
    for piece in pieces:
        window.append(piece)
        size, total = size + len(piece), total + len(piece)
        while size - len(window[0]) >= TAIL:
            size -= len(window.popleft())
        if total > MOST:
            return b"".join(window)[-TAIL:], False
    return b"".join(window)[-TAIL:], True
