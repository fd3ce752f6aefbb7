"""What every operation receives: the host that it works on, and the call that it answers."""

import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from bot.toolhost.checkout_paths import Root
from bot.toolhost.milestones import Milestones
from bot.toolhost.processes import Children
from bot.toolhost.protocol import Config, OperationResult, Writer, printable

if TYPE_CHECKING:
    from bot.toolhost.background import Shell

_TICK = 0.1
"""Seconds by which the time stamps of files may be behind the clock."""

Arguments: TypeAlias = dict[str, Any]


class Host:
    """One checkout and the state of its operations."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.root = Root(config.root)
        self.is_first_process = os.getpid() == 1
        """Whether this is the first process of a sandbox, where every process and /tmp belong to its tools."""
        self.began = time.time() - _TICK
        self.children = Children()
        self.writing = threading.Lock()
        """Held from the check of a file's stamp until the file is replaced."""
        self.milestones = Milestones()
        self.cwd = self.root.real
        """The folder in which the next command starts."""
        self.shells: dict[str, Shell] = {}
        """Commands in the background, by id, in the order of their start."""
        self.starting = threading.Lock()
        """Held while a command is added to them."""


class Call(NamedTuple):
    """One request that is being answered."""

    id: int
    writer: Writer
    cancelled: threading.Event

    def progress(self, text: str) -> None:
        """Send a progress message."""
        self.writer.send({"id": self.id, "progress": printable(text)})


Operation: TypeAlias = Callable[[Host, Call, Arguments], OperationResult]
