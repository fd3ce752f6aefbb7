"""Ends a session early with what is there, because people said `finish`.

The session is told once, with the results of the calls that are running. It may then make a few more requests, so that
no file is left half-edited, and ends even if the model does not end its turn. What it was told is looked up in its
history, so that a resumed session gets no further requests.
"""

from typing import Final

from bot.agent.prompts import reminder_text
from bot.agent.session import Session
from bot.agent.session_events import End, Ended
from bot.core.transcript import Json

LAST_REQUESTS: Final = 3
"""Requests that a session may make after it was told."""
FINISH: Final = reminder_text(
    "People asked you to finish with what is there. Begin nothing new, and ask nobody. Only complete an edit that is "
    "half done. Then end your turn with a summary of what is done and what is left."
)
ENDED_EARLY: Final = "Somebody said `finish`, so the work ended early. It contains what was done until then."


def request_finish(session: Session) -> None:
    """Have a session end at its next step; safe to repeat."""
    session.is_finishing = True
    if _requests_since(session.history) is None and FINISH not in session.queued:
        session.queued.append(FINISH)


def end_if_finished(session: Session) -> Ended | None:
    """Return Ended if the session was told to finish and made its last requests, else None."""
    if not session.is_finishing or (_requests_since(session.history) or 0) < LAST_REQUESTS:
        return None
    return Ended(session.agent, End.ANSWERED, ENDED_EARLY)


def _requests_since(history: list[Json]) -> int | None:
    """Return how many answers the model gave since it was told, or None if it was not."""
    answers = 0
    for message in reversed(history):
        if message["role"] == "assistant":
            answers += 1
        elif any(isinstance(block, dict) and block.get("text") == FINISH for block in message["content"]):
            return answers
    return None
