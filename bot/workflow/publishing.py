"""Publishing: hands the tree to the publisher, once the approval still stands; outgrown scope becomes an amendment."""

from dataclasses import replace

from bot.core import comment
from bot.core.approval import ApprovedPlan
from bot.core.errors import OutOfScope, Refused
from bot.core.gate import Move, Stage
from bot.core.inert import inert
from bot.core.names import run_branch, thread_branch
from bot.core.paths import tier_of
from bot.core.plan import PlanDocument, to_json
from bot.core.transcript import Json
from bot.ports import CommitOrder, Published, PullOrder
from bot.workflow.approving import evaluated
from bot.workflow.desk import Desk, Done
from bot.workflow.record import Record
from bot.workflow.sessions import checkout


async def perform(desk: Desk, now: Record) -> Done:
    """Publish what the approved plan covers; the same journal always gives the same branch and commit."""
    _, proof = await evaluated(desk, now)
    if proof is None:
        return Done(Move.WITHDRAWN)
    try:
        made = await desk.workspace.publish(proof, await checkout(desk, now), _order(desk, now, proof))
    except OutOfScope as error:
        plan = outgrown(proof.document, error.paths)
        return Done(Move.OUTGREW, {"plan": to_json(plan)}, plan.digest)
    except Refused as error:
        return Done(Move.FAILED, {"detail": str(error), "owes": comment.outcome(Stage.FAILED, detail=str(error))})
    facts: Json = {"branch": made.branch, "commit": made.commit, "paths": list(made.paths)}
    if desk.pulls is None:
        owes = comment.outcome(Stage.DONE, branch=made.branch)
        return Done(Move.DELIVERED, facts | {"owes": owes}, proof.document.digest)
    pull = await desk.pulls.ensure(_pull(desk, now, proof, made), now.thread.ask)
    facts |= {"pull_request": pull.url, "pull_number": pull.number, "owes": comment.published(pull.number)}
    return Done(Move.PUBLISHED, facts, proof.document.digest)


def outgrown(plan: PlanDocument, paths: tuple[str, ...]) -> PlanDocument:
    """Give the amendment of a plan whose work changed more than it names: the next version, to be approved as well."""
    # A plan without a scope covers everything but tier high, as `**` does (core/paths.py).
    scope = tuple(dict.fromkeys((*(plan.contract.scope or ("**",)), *paths)))
    contract = replace(plan.contract, scope=scope)
    return replace(
        plan,
        plan=plan.plan + 1,
        markdown=comment.amendment(plan, paths),
        contract=contract,
        tier=str(tier_of(scope, contract.dependencies)),
    )


def _order(desk: Desk, now: Record, proof: ApprovedPlan) -> CommitOrder:
    """Say what to commit, all of it from the journal."""
    executed = now.last(Move.EXECUTED)
    message = comment.commit_message(desk.place.title, proof.document, executed.body["summary"])
    expected = now.base if desk.place.branch else None
    asked_by = now.turn.actor
    return CommitOrder(
        _branch(desk, now),
        message,
        executed.at.replace(microsecond=0),
        comment.co_author(asked_by.id, asked_by.login) if desk.pulls is not None else "",
        expected,
    )


def _branch(desk: Desk, now: Record) -> str:
    """Name the branch: as it was named before in this round, else by the thread (interfaces.md, Repository)."""
    place = desk.place
    if place.branch:
        return place.branch
    if desk.pulls is None:
        return run_branch(place.title, place.thread)
    return thread_branch(place.title, place.thread, now.thread.round)


def _pull(desk: Desk, now: Record, proof: ApprovedPlan, made: Published) -> PullOrder:
    executed = now.last(Move.EXECUTED).body
    body = comment.pull_body(
        proof.document,
        summary=inert(executed["summary"]),
        checks=executed["checks"],
        approvers=[actor.login for actor in proof.approvers],
        cost_usd=desk.world.ledger.cost_usd if desk.world.ledger.priced else None,
    )
    return PullOrder(made.branch, desk.place.default_branch, desk.place.title, body, draft=desk.orders.draft)
