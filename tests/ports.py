"""Ports for servers that tests start, stop, and start again."""

import random
import socket
from contextlib import suppress
from pathlib import Path


def free_port() -> int:
    """Return a port that no process has, and that Linux gives to no connection: the server may stop and start on it.

    https://www.kernel.org/doc/html/latest/networking/ip-sysctl.html (ip_local_port_range)
    """
    above = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.SystemRandom().randrange(above // 2, above)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
