"""The picture of the gate: what it draws is the table, and all of the way is drawn."""

import re

from bot.core.diagram import UNDRAWN, mermaid
from bot.core.gate import ON_ENTER, TRANSITIONS, Stage


def test_arrows_are_rows() -> None:
    """Each arrow is one row of the table, and each row of the way that leads elsewhere is one arrow."""
    arrows = re.findall(r"^    (\w+) --> (\w+) : (\w+)$", mermaid(), re.MULTILINE)
    rows = [
        (stage, target, move)
        for stage in (Stage.LISTENING, *ON_ENTER, Stage.IN_REVIEW)
        for move, target in TRANSITIONS[stage].items()
        if target is not stage and move not in UNDRAWN
    ]
    assert arrows == rows
    assert len(set(arrows)) == len(arrows)


def test_nothing_else_is_drawn() -> None:
    """Beside the arrows stand the kind of picture and its beginning alone."""
    other = [line for line in mermaid().splitlines() if " : " not in line]
    assert other == ["stateDiagram-v2", "    [*] --> listening"]
