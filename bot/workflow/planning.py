"""Planning: a session in plan mode that ends with a plan, an answer, or a limit."""

from datetime import timedelta

from bot.agent.events import End
from bot.agent.plan_mode import EXIT_PLAN_MODE, HandedIn, read_plan
from bot.agent.session import Session
from bot.core.gate import Move
from bot.core.paths import tier_of
from bot.core.plan import PlanDocument, to_json
from bot.core.transcript import pending_calls
from bot.ports import Access
from bot.workflow.desk import Desk, Done
from bot.workflow.record import Record
from bot.workflow.sessions import driven, opened


async def perform(desk: Desk, current: Record) -> Done:
    """Make a plan for the newest turn; an interrupted session goes on where it was."""
    async with opened(desk, current.planning_session, Access.READ, current.turn.text) as session:
        if (handed_in := _handed_in(session)) is None:
            ended = await driven(desk, session)
            handed_in = _handed_in(session) if ended.end is End.SUSPENDED else None
            if handed_in is None:
                return _without_plan(ended.end, ended.text)
    plan = document(desk, current, handed_in)
    return Done(Move.PLANNED, {"plan": to_json(plan)}, plan.digest)


def document(desk: Desk, current: Record, handed_in: HandedIn) -> PlanDocument:
    """Make the plan document of a handed-in plan: the next version for this thread."""
    contract = handed_in.contract
    expires = desk.world.clock.now() + timedelta(days=desk.orders.expires_days)
    return PlanDocument(
        repository=desk.place.repository,
        thread=desk.place.thread,
        plan=current.thread.plan + 1,
        base=desk.place.base,
        markdown=handed_in.markdown,
        contract=contract,
        tier=str(tier_of(contract.scope, contract.dependencies)),
        budget_usd=desk.orders.budget_usd,
        expires=expires.replace(microsecond=0),
    )


def _handed_in(session: Session) -> HandedIn | None:
    """Give the plan that a suspended session waits with."""
    calls = [call for call in pending_calls(session.history) if call["name"] == EXIT_PLAN_MODE]
    return read_plan(calls[0]["input"]) if calls else None


def _without_plan(end: End, text: str) -> Done:
    match end:
        case End.ANSWERED:
            return Done(Move.ANSWERED, {"answer": text})
        case End.LIMIT:
            return Done(Move.LIMITED, {"detail": text})
        case End.REFUSED | End.FAILED | End.SUSPENDED:
            return Done(Move.FAILED, {"detail": text})
