"""Why a session ends: a limit, a spent budget, a canary, the model's last answer, or `finish` (L5, M10, X3).

When people say `finish`, the session is told once, with the results of the calls that are running. It may then make a
few more requests, so that no file is left half-edited, and ends even if the model does not end its turn. What it was
told is looked up in its history, so that a resumed session gets no further requests.
"""

from typing import Final

from bot.agent.monitor import OverLimit
from bot.agent.prompts import reminder_text
from bot.agent.session import Session
from bot.agent.session_events import End, Ended
from bot.core.errors import CanaryShown
from bot.core.transcript import Json, text_of
from bot.ports import AnswerCompleted


def end_on_canary(session: Session, error: CanaryShown) -> Ended:
    """Record a canary found in a call's output, and return Ended. The calls of that message are not made again."""
    session.unfinished_answer = None
    session.note("canary", {"text": str(error)})
    return Ended(session.agent, End.FAILED, str(error))


def end_at_limit(session: Session) -> Ended | None:
    """Return Ended for a reached limit, with used and allowed, or None if the next request may go out (L5)."""
    for monitor in session.monitor:
        try:
            monitor.check()
        except OverLimit as over:
            return Ended(session.agent, End.LIMIT, over.what, over.resource if monitor is session.monitor else None)
    return end_on_budget(session) if session.resources.ledger.used_up else None


def end_on_budget(session: Session) -> Ended:
    """Return Ended for a spent budget."""
    ledger = session.resources.ledger
    default_reason = f"the budget of ${ledger.budget_usd:.2f} was reached (${ledger.cost_usd:.2f} spent)"
    return Ended(session.agent, End.LIMIT, ledger.reason or default_reason)


def end_with_answer(session: Session, completed: AnswerCompleted) -> Ended:
    """Return Ended according to the model's last message (M10)."""
    text = text_of(completed.message)
    keep_answer(session, completed, whole=bool(text) and completed.stop_reason in {"end_turn", "stop_sequence"})
    match completed.stop_reason:
        case "end_turn" | "stop_sequence" if text:
            return Ended(session.agent, End.ANSWERED, text)
        case "refusal":
            reason = f"the model refused to answer{f' ({completed.why})' if completed.why else ''}"
            return Ended(session.agent, End.REFUSED, reason + (f", after: {text}" if text else ""))
        case "end_turn" | "stop_sequence" | "max_tokens" | "tool_use" | "pause_turn":
            return Ended(session.agent, End.FAILED, f"the model gave no usable answer ({completed.stop_reason})")
        case other:
            return Ended(session.agent, End.FAILED, f"the model stopped for an unknown reason: {other}")


def keep_answer(session: Session, completed: AnswerCompleted, *, whole: bool) -> None:
    """Append a whole answer. For any other answer, record only what it cost."""
    if whole:
        session.commit(completed)
    else:
        session.drop(completed)


LAST_REQUESTS: Final = 3
"""Requests that a session may make after it was told."""
FINISH: Final = reminder_text(
    "People asked you to finish with what is there. Begin nothing new, and ask nobody. Only complete an edit that is "
    "half done. Then end your turn with a summary of what is done and what is left."
)
ENDED_EARLY: Final = "Somebody said `finish`, so the work ended early. It contains what was done until then."


def request_finish(session: Session) -> None:
    """Ask a session to finish. It ends after at most LAST_REQUESTS further requests. Safe to repeat."""
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
