"""Publishing: hands the tree to the publisher, once the approval still stands; outgrown scope becomes an amendment."""

from dataclasses import replace

from bot.core.approval import ApprovedPlan
from bot.core.comment import amendment, commit_message
from bot.core.errors import OutOfScope, Refused
from bot.core.gate import Move
from bot.core.names import run_branch
from bot.core.paths import tier_of
from bot.core.plan import PlanDocument, to_json
from bot.ports import CommitOrder
from bot.workflow.approving import evaluated
from bot.workflow.desk import Desk, Done
from bot.workflow.record import Record


async def perform(desk: Desk, current: Record) -> Done:
    """Publish what the approved plan covers; the same journal always gives the same branch and commit."""
    _, proof = await evaluated(desk, current)
    if proof is None:
        return Done(Move.WITHDRAWN)
    try:
        made = await desk.workspace.publish(proof, desk.checkout, _order(desk, current, proof))
    except OutOfScope as error:
        plan = outgrown(proof.document, error.paths)
        return Done(Move.OUTGREW, {"plan": to_json(plan)}, plan.digest)
    except Refused as error:
        return Done(Move.FAILED, {"detail": str(error)})
    facts = {"branch": made.branch, "commit": made.commit, "paths": list(made.paths)}
    return Done(Move.DELIVERED, facts, proof.document.digest)


def outgrown(plan: PlanDocument, paths: tuple[str, ...]) -> PlanDocument:
    """Give the amendment of a plan whose work changed more than it names: the next version, to be approved as well."""
    scope = tuple(dict.fromkeys((*plan.contract.scope, *paths)))
    contract = replace(plan.contract, scope=scope)
    return replace(
        plan,
        plan=plan.plan + 1,
        markdown=amendment(plan, paths),
        contract=contract,
        tier=str(tier_of(scope, contract.dependencies)),
    )


def _order(desk: Desk, current: Record, proof: ApprovedPlan) -> CommitOrder:
    executed = current.last(Move.EXECUTED)
    title = desk.place.title
    message = commit_message(title, proof.document, executed.body["summary"])
    return CommitOrder(run_branch(title, desk.place.thread), message, executed.at.replace(microsecond=0))
