"""The repository that is worked on, as git reaches it: a person's own on this machine, or one on a server."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol


class Source(Protocol):
    """Where commits come from and branches go to."""

    @property
    def location(self) -> str:
        """The path or URL that git gets; it contains no credential (G2)."""

    @property
    def identity(self) -> str:
        """A permanent name of this repository, under which its stored data is found."""

    @property
    def folder(self) -> str:
        """The path at which people would expect a checkout of it."""

    @property
    def unsafe(self) -> bool:
        """Whether the user has switched sandboxes off."""

    @property
    def partial(self) -> bool:
        """Whether to fetch only the contents in use, because the repository is large or itself lacks some."""

    @property
    def upload_pack(self) -> str | None:
        """The command line for git's ``--upload-pack``; None if a server runs it."""

    @property
    def receive_pack(self) -> str | None:
        """The command line for git's ``--receive-pack``; None if a server runs it."""

    @property
    def wait(self) -> Callable[[float], Awaitable[None]]:
        """Waits for a number of seconds before a retry."""

    def settings(self) -> Mapping[str, str]:
        """Return git's settings for one command that contacts it: the protocol and the credentials.

        Called before each command, since tokens expire; it may block. The values are secret.
        """
