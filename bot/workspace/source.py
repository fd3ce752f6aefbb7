"""The repository that is worked on, as git reaches it: a person's own on this machine, or one on a server."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol


class Source(Protocol):
    """Where commits come from and branches go to."""

    @property
    def location(self) -> str:
        """The path or URL that git is told; no credential is in it (G2)."""

    @property
    def identity(self) -> str:
        """What names this repository for good: what is kept of it is found by that."""

    @property
    def folder(self) -> str:
        """Where people would expect a checkout of it."""

    @property
    def unsafe(self) -> bool:
        """Whether the person gave up on sandboxes."""

    @property
    def partial(self) -> bool:
        """Whether only those contents are to be fetched that are used: it is large, or lacks some itself."""

    @property
    def upload_pack(self) -> str | None:
        """The command line for git's ``--upload-pack``; None where a server runs it."""

    @property
    def receive_pack(self) -> str | None:
        """The command line for git's ``--receive-pack``; None where a server runs it."""

    @property
    def wait(self) -> Callable[[float], Awaitable[None]]:
        """Waits so many seconds, before something is asked again."""

    def settings(self) -> Mapping[str, str]:
        """Give git's settings for one command that talks to it: the protocol, and what tells the server who we are.

        Asked before each command, since tokens expire; it may block. The values are secret.
        """
