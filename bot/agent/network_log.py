"""Which network hosts a session reached or was refused, with equal decisions counted in one row."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from bot.core.network import NetworkDecision
from bot.core.transcript import Json

MOST: Final = 50
"""How many kinds of decisions get a row. Decisions of further kinds are only counted."""


@dataclass(slots=True)
class NetworkLog:
    """Decisions of one session that are not recorded yet, oldest first."""

    rows: Counter[NetworkDecision] = field(default_factory=Counter)
    beyond: int = 0
    new: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by the first decision of each kind."""
    _kinds: set[NetworkDecision] = field(default_factory=set)

    def record(self, decision: NetworkDecision) -> None:
        """Count one decision."""
        if decision in self._kinds or len(self._kinds) < MOST:
            self.rows[decision] += 1
            if decision not in self._kinds:
                self._kinds.add(decision)
                self.new.set()
        else:
            self.beyond += 1

    def drop_recorded(self, rows: Counter[NetworkDecision], beyond: int) -> None:
        """Subtract what has been recorded."""
        self.rows -= rows
        self.beyond -= beyond


def network_rows(rows: Counter[NetworkDecision], beyond: int) -> list[Json]:
    """Return decisions in the form that a journal stores."""
    counted: list[Json] = [
        {"host": row.host, "port": row.port, "allowed": row.allowed, "reason": row.reason, "times": times}
        for row, times in rows.items()
    ]
    return counted + ([{"beyond": beyond}] if beyond else [])
