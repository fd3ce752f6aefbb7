"""The README's diagram of the gate, generated from the table. A test keeps the two in step."""

from bot.core.gate import ON_ENTER, TRANSITIONS, Move, Stage

UNDRAWN = frozenset({Move.STOPPED, Move.FAILED, Move.LIMITED, Move.NOTED})
"""Moves that every working stage has. The README describes them in words to keep the diagram readable."""


def mermaid() -> str:
    """Return the gate's table as a Mermaid state diagram. Equal tables give equal text.

    It shows the moves out of `listening`, of the stages that have an effect, and of `in_review`. From every end, a new
    request leads back to planning.
    """
    lines = ["stateDiagram-v2", "    [*] --> listening"]
    for stage in (Stage.LISTENING, *ON_ENTER, Stage.IN_REVIEW):
        for move, target in TRANSITIONS[stage].items():
            if move not in UNDRAWN and target is not stage:
                lines.append(f"    {stage} --> {target} : {move}")
    return "\n".join(lines)
