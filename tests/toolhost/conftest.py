"""A checkout, and toolhosts on it."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.toolhost.client import Client


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "checkout").mkdir()
    return tmp_path / "checkout"


@pytest.fixture
def whole() -> bool:
    """Whether a toolhost is the whole program from its start on, not a fork of a process that has loaded it."""
    return False


@pytest.fixture
def open_host(root: Path, whole: bool) -> Iterator[Callable[..., Client]]:
    """Start toolhosts on the checkout, or another; all are ended afterwards."""
    clients = []

    def start(where: Path = root, prefix: Sequence[str] = (), **config: Any) -> Client:
        clients.append(Client(where, prefix, whole=whole, **config))
        return clients[-1]

    yield start
    for client in clients:
        client.close()


@pytest.fixture
def host(open_host: Callable[..., Client]) -> Client:
    return open_host()
