"""The socket that `plangate serve` takes connections from. SHELL: no rules here.

With its queue in PostgreSQL, several processes on one machine may listen on one port, so that one of them can be
upgraded or killed while the others answer. Linux shares new connections out among them, and lets only processes of one
user do so (SO_REUSEPORT).

https://man7.org/linux/man-pages/man7/socket.7.html
"""

import errno
import socket
from typing import Final

from bot.core.errors import Misconfigured

BACKLOG: Final = 256
"""Size of the accept queue. With the open connections it stays below a process's usual file limit (1,024)."""

_IN_USE_ALONE: Final = (
    "end that process, choose another --port, or set PLANGATE_DATABASE_URL so that several can share it"
)
_IN_USE: Final = "end that process, which shares no port or belongs to another user, or choose another --port"
_OTHERS: Final = "choose another --host or --port"


def bind_listener(host: str, port: int, *, shares: bool = False) -> socket.socket:
    """Return a socket on an address (port 0: any free port). Raises Misconfigured if that fails.

    A socket that `shares` its port does not listen yet: Linux would give it connections that the others could answer
    now. Any other listens at once, so that connections wait for the process instead of being refused.
    """
    # The protocol is named because asyncio turns off Nagle's algorithm only if it is.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shares:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((host, port))
        if not shares:
            listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        is_taken = error.errno == errno.EADDRINUSE
        fix = (_IN_USE if shares else _IN_USE_ALONE) if is_taken else _OTHERS
        raise Misconfigured(f"cannot listen: {error.strerror}", where=f"{host}:{port}", fix=fix) from error
    return listener
