"""What a session reached of the network, and what it was refused: counted, a thousand of one kind in one row."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from bot.core.network import Reached
from bot.core.transcript import Json

MOST: Final = 50
"""Rows that are kept; what comes beyond them is only counted."""


@dataclass(slots=True)
class Reaching:
    """The decisions of one session, oldest first."""

    rows: Counter[Reached] = field(default_factory=Counter)
    beyond: int = 0

    def take(self, decision: Reached) -> None:
        """Count one decision."""
        if decision in self.rows or len(self.rows) < MOST:
            self.rows[decision] += 1
        else:
            self.beyond += 1

    def facts(self) -> list[Json]:
        """Give the rows as a journal keeps them."""
        told: list[Json] = [
            {"host": row.host, "port": row.port, "allowed": row.allowed, "reason": row.reason, "times": times}
            for row, times in self.rows.items()
        ]
        return told + ([{"beyond": self.beyond}] if self.beyond else [])
