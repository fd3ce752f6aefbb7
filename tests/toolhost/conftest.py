"""A checkout, and toolhosts on it."""

import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.toolhost import forks
from tests.toolhost.client import Client


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty checkout."""
    (tmp_path / "checkout").mkdir()
    return tmp_path / "checkout"


@pytest.fixture(scope="session")
def fork_server() -> Iterator[socket.socket | None]:
    """What toolhosts are forked from, which saves each the start of an interpreter; None: each is the whole program."""
    with forks.fork_server() as server:
        yield server


@pytest.fixture
def open_host(root: Path, fork_server: socket.socket | None) -> Iterator[Callable[..., Client]]:
    """Start toolhosts on the checkout, or another; all are ended afterwards."""
    clients = []

    def start(where: Path = root, prefix: Sequence[str] = (), **config: Any) -> Client:
        clients.append(Client(where, prefix, server=fork_server, **config))
        return clients[-1]

    yield start
    for client in clients:
        client.close()


@pytest.fixture
def host(open_host: Callable[..., Client]) -> Client:
    """A toolhost that may write."""
    return open_host()
