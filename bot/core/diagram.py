"""The gate as a picture: the README's diagram is generated from the table, and a test holds the two together."""

from bot.core.gate import ON_ENTER, TRANSITIONS, Move, Stage

UNDRAWN = frozenset({Move.STOPPED, Move.FAILED, Move.LIMITED, Move.NOTED})
"""Moves that every working stage has: said in words, so that the way can be seen."""


def mermaid() -> str:
    """Draw the way of a request, from the table, as a Mermaid state diagram; equal tables give equal text.

    Drawn are the moves out of `listening`, of the stages that have an effect, and of `in_review`; from every end a
    new request leads back to planning.
    """
    lines = ["stateDiagram-v2", "    [*] --> listening"]
    for stage in (Stage.LISTENING, *ON_ENTER, Stage.IN_REVIEW):
        for move, target in TRANSITIONS[stage].items():
            if move not in UNDRAWN and target is not stage:
                lines.append(f"    {stage} --> {target} : {move}")
    return "\n".join(lines)
