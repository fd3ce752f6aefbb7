"""The socket of `plangate serve`: one process alone has it, or several of one machine share its port."""

import socket

import pytest

from bot.core.errors import Misconfigured
from webhooks.app import BACKLOG, bind_listener

HOST = "127.0.0.1"


def port_of(listener: socket.socket) -> int:
    found: int = listener.getsockname()[1]
    return found


def connect(port: int) -> socket.socket:
    return socket.create_connection((HOST, port), timeout=5)


@pytest.mark.parametrize(
    ("first", "second", "cure"),
    (
        (False, False, "set PLANGATE_DATABASE_URL so that several can share it"),
        (False, True, "which shares no port or belongs to another user"),
        (True, False, "choose another --port"),
    ),
)
def test_an_address_that_is_taken(*, first: bool, second: bool, cure: str) -> None:
    """One line with the cure."""
    with bind_listener(HOST, 0, shares=first) as taken:
        taken.listen()
        with pytest.raises(Misconfigured, match=cure):
            bind_listener(HOST, port_of(taken), shares=second)


def test_an_address_of_another_machine() -> None:
    """The cure is another address."""
    with pytest.raises(Misconfigured, match="choose another --host or --port"):
        bind_listener("192.0.2.1", 0)


def test_a_process_that_starts_gets_no_connection_before_it_can_answer() -> None:
    """All go to the one that listens, and to the other when that one ends."""
    with bind_listener(HOST, 0, shares=True) as first:
        first.listen(BACKLOG)
        port = port_of(first)
        with bind_listener(HOST, port, shares=True) as second:
            for _ in range(16):
                with connect(port), first.accept()[0]:
                    pass
            second.listen(BACKLOG)
            first.close()
            with connect(port), second.accept()[0]:
                pass


def test_connections_wait_for_a_process_that_is_alone() -> None:
    """It listens before it can answer: nobody else does."""
    with bind_listener(HOST, 0) as alone, connect(port_of(alone)), alone.accept()[0]:
        pass
