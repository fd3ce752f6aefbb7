"""What every operation is handed: the host that it works on, and the call that it answers."""

import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from bot.toolhost.paths import Root
from bot.toolhost.processes import Children
from bot.toolhost.protocol import Answer, Config, Writer, printable

Arguments: TypeAlias = dict[str, Any]


class Host:
    """One checkout and what is done to it."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.root = Root(config.root)
        self.children = Children()
        self.writing = threading.Lock()
        """Held from the check of a file's stamp until the file is replaced."""
        self.cwd = self.root.real
        """Where the next command starts."""


class Call(NamedTuple):
    """One request that is being answered."""

    id: int
    writer: Writer
    cancelled: threading.Event

    def progress(self, text: str) -> None:
        """Tell how it goes."""
        self.writer.send({"id": self.id, "progress": printable(text)})


Operation: TypeAlias = Callable[[Host, Call, Arguments], Answer]
