"""The machine around a sandbox as an attacker would like to find it: who reaches a thing on it can tell."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CANARY = "canary-5f1d2c"


@contextmanager
def attackers_machine(folder: Path) -> Iterator[dict[str, str]]:
    """Yield what there is to reach, by the names that probes use; the folder is outside of all mounts."""
    secret, shared = folder / "secret", Path("/dev/shm") / f"plangate-{os.getpid()}-{folder.name}"
    secret.write_text(CANARY)
    shared.write_text(CANARY)
    with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as named, socket.socket(socket.AF_UNIX) as abstract:
        tcp.bind(("127.0.0.1", 0))
        named.bind(str(folder / "socket"))
        abstract.bind(f"\0{folder}/abstract")
        for listening in (tcp, named, abstract):
            listening.listen(16)
        yield {
            "SECRET": str(secret),
            "SOCKET": str(folder / "socket"),
            "ABSTRACT": f"{folder}/abstract",
            "SHARED": str(shared),
            "PORT": str(tcp.getsockname()[1]),
            "PARENT": str(os.getpid()),
            "HOSTNAME": socket.gethostname(),
        }
    shared.unlink()
