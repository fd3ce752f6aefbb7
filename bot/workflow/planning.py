"""Planning: a session in plan mode that ends with a plan, an answer, or a limit."""

from dataclasses import replace
from datetime import timedelta

from bot.agent.events import End, Ended
from bot.agent.plan_mode import HandedIn, read_plan, rejected, waiting
from bot.agent.session import Session
from bot.core import reply_text
from bot.core.changes import changes
from bot.core.errors import Refused
from bot.core.gate import Move, Stage
from bot.core.paths import is_workflow
from bot.core.plan import PlanDocument, contract_tier, to_json
from bot.core.transcript import unresolved
from bot.ports import Access
from bot.workflow.desk import Desk, Done
from bot.workflow.record import Record
from bot.workflow.sessions import Opening, open_session, run_session, unheard
from bot.workflow.waiting import deliver_reply, move_to_ask

MORE_WAS_SAID = "People said more while you planned. Take it into your plan, and hand that in."
_RESTED = frozenset({End.ANSWERED, End.SUSPENDED})


async def perform(desk: Desk, record: Record) -> Done | None:
    """Make a plan for the newest turn and all that was added to it; an interrupted session goes on where it was."""
    if (stop := await move_if_stopped(desk, record)) is not None:
        return stop
    opening = Opening(record.planning_session, Access.READ, _task(desk, record), quotes=True)
    async with open_session(desk, record, opening) as session:
        if (question := await move_to_ask(desk, record, session)) is not None:
            return question
        await deliver_reply(desk, record, session, unheard(session, record))
        _add(session, unheard(session, record))
        while (handed_in := _handed_in(session)) is None:
            ended = await run_session(desk, record, session)
            if ended is None:
                return None
            if (question := await move_to_ask(desk, record, session)) is not None:
                return question
            if ended.end in _RESTED and session.queued:
                _add(session, _unsent(session))
            elif waiting(session.history) is None:
                return _without_plan(desk, ended)
    plan = document(desk, record, handed_in)
    return Done(Move.PLANNED, {"plan": to_json(plan)}, plan.digest)


async def move_if_stopped(desk: Desk, record: Record) -> Done | None:
    """Give the move that stops planning: the thread was closed after people asked (product.md, Execution)."""
    if await desk.dialogue.closed_since(record.asked_at):
        return Done(Move.STOPPED, {"owes": reply_text.closed(desk.orders.mention)})
    return None


def document(desk: Desk, record: Record, handed_in: HandedIn) -> PlanDocument:
    """Make the plan document of a handed-in plan: the next version, its text inert and redacted before it is hashed.

    A contract is never redacted, because what is left would mean something else: one with a secret is refused.
    """
    contract = replace(handed_in.contract, classes=desk.orders.classes)
    if desk.orders.setup:  # they run for this plan: whoever approves it sees what they may reach
        contract = replace(contract, hosts=tuple(dict.fromkeys((*contract.hosts, *desk.orders.hosts))))
    if hidden := desk.redactor.found("\n".join((*contract.scope, *contract.commands, *contract.hosts))):
        raise Refused(
            f"the plan names a secret ({hidden[0].kind}) among its files, commands or hosts",
            mend="ask again, for a plan without it",
        )
    unpushable = [] if desk.orders.workflows else [glob for glob in contract.scope if is_workflow(glob)]
    if unpushable:
        raise Refused(
            f"the plan changes workflows, which GitHub does not let this bot push ({', '.join(unpushable)})",
            mend="change them by hand, and ask again for what remains",
        )
    expires = desk.world.clock.now() + timedelta(days=desk.orders.expires_days)
    made = PlanDocument(
        repository=desk.place.repository,
        thread=desk.place.thread,
        plan=record.thread.plan + 1,
        base=record.base,
        markdown=desk.redactor.redacted(handed_in.markdown),
        contract=contract,
        tier=str(contract_tier(contract)),
        budget_usd=desk.orders.budget_usd,
        expires=expires.replace(microsecond=0),
        hidden=record.hidden,
    )
    older = record.replaced if desk.pulls is not None else None
    return made if older is None else replace(made, changed=changes(older, made))


def _task(desk: Desk, record: Record) -> str:
    """Say what is asked: the turn itself, and the plan that it revises."""
    parts = [record.turn.text]
    if record.has(Move.PLANNED) and desk.pulls is not None:
        parts.append(f"The last plan for this thread was:\n\n{record.plan.markdown}")
        if record.refused:
            parts.append(f"{rejected()} It was {', '.join(record.refused)}; what they said of it stands in the thread.")
    return "\n\n".join(parts)


def _add(session: Session, said: list[str]) -> None:
    """Tell a session what people added since it was last told: a plan that it waits with goes back to it."""
    if not said:
        return
    if (call := waiting(session.history)) is not None:
        session.answer(call["id"], MORE_WAS_SAID, reminders=said)
    elif session.history[-1]["role"] == "assistant" and not unresolved(session.history):
        session.add({"role": "user", "content": [{"type": "text", "text": text} for text in said]})
    else:
        session.queued += said


def _unsent(session: Session) -> list[str]:
    """Take what waits for a next message of the session that never came, because it came to rest."""
    said = list(session.queued)
    session.queued.clear()
    return said


def _handed_in(session: Session) -> HandedIn | None:
    """Give the plan that a suspended session waits with."""
    call = waiting(session.history)
    return read_plan(call["input"]) if call is not None else None


def _without_plan(desk: Desk, ended: Ended) -> Done:
    match ended.end:
        case End.ANSWERED:
            return Done(Move.ANSWERED, {"answer": ended.text, "owes": ended.text})
        case End.LIMIT:
            return Done(Move.LIMITED, {"detail": ended.text, "owes": desk.ended(Stage.LIMIT, ended.text)})
        case End.REFUSED | End.FAILED | End.SUSPENDED | End.CANCELLED:
            return Done(Move.FAILED, {"detail": ended.text, "owes": desk.ended(Stage.FAILED, ended.text)})
