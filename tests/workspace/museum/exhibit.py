"""What an exhibit is: one trick, planted by a shell script, and what must become of the work beside it."""

from collections.abc import Callable
from dataclasses import dataclass

NEW = "new.txt"
"""What every agent of the museum writes beside its trick."""


@dataclass(frozen=True, slots=True)
class Trap:
    """What a trick tries to reach: outside of every sandbox, and seen when it is touched."""

    program: str
    """Leaves a trace, with the environment that it found."""
    address: str
    """Where nobody ever has a reason to connect to."""


Script = Callable[[Trap], str]


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One trick."""

    script: Script
    refused: str = ""
    """What the publisher says; empty when the work beside the trick is published."""
    changes: tuple[str, ...] = (NEW,)
    """Paths that the published commit changes."""
    unreadable: bool = False
    """Whether no copy can be made of the checkout."""

    @property
    def judged(self) -> bool:
        """Whether the publisher says so beside all other reasons, before git sees anything."""
        later = ("does not name", "failed to encode", "Ignoring path")
        return not self.unreadable and not any(sign in self.refused for sign in later)

    @property
    def name(self) -> str:
        """Its name."""
        return self.script.__name__

    @property
    def trick(self) -> str:
        """What it does, in one line."""
        return (self.script.__doc__ or "").strip()


class Room:
    """Exhibits by their names."""

    def __init__(self) -> None:
        self.exhibits: dict[str, Exhibit] = {}

    def harmless(self, script: Script) -> Script:
        """Show a trick beside which the work is published as if there were none."""
        self._hang(Exhibit(script))
        return script

    def publishes(self, *changes: str) -> Callable[[Script], Script]:
        """Show a trick that itself becomes part of the commit, as what it is."""
        return lambda script: self._hang(Exhibit(script, changes=tuple(sorted({NEW, *changes}))))

    def refuses(self, said: str) -> Callable[[Script], Script]:
        """Show a trick that may not be published, for this reason."""
        return lambda script: self._hang(Exhibit(script, refused=said))

    def locks(self, refused: str = "") -> Callable[[Script], Script]:
        """Show a trick after which no copy can be made; the publisher may refuse it as well."""
        return lambda script: self._hang(Exhibit(script, refused=refused, unreadable=True))

    def _hang(self, exhibit: Exhibit) -> Script:
        assert exhibit.trick, exhibit.name
        assert exhibit.name not in self.exhibits, exhibit.name
        self.exhibits[exhibit.name] = exhibit
        return exhibit.script
