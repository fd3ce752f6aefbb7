"""Publishing: hands the tree to the publisher, once the approval still stands; outgrown scope becomes an amendment."""

from dataclasses import replace
from datetime import datetime

from bot.core import comment, pull_text
from bot.core.approval import ApprovedPlan
from bot.core.errors import Conflict, OutOfScope, Refused, SecretAdded
from bot.core.gate import Move, Stage
from bot.core.markdown.inert import inert, inert_line, inert_message
from bot.core.paths import Tier
from bot.core.plan import PlanDocument, contract_tier, to_json
from bot.core.pull import PullOrder
from bot.core.transcript import Json
from bot.ports import CommitOrder, Published
from bot.workflow.approving import evaluate_live
from bot.workflow.desk import Desk, Done
from bot.workflow.keeping import checkout
from bot.workflow.ledger import current
from bot.workflow.naming import branch_name, pull_title
from bot.workflow.record import Record


async def perform(desk: Desk, record: Record) -> Done | None:
    """Publish what the approved plan covers; the same journal always gives the same branch and commit.

    None when the thread was moved meanwhile (a stop): then nothing more is done.
    """
    _, proof = await evaluate_live(desk, record)
    if proof is None:
        return Done(Move.WITHDRAWN)
    if await _moved(desk, record):
        return None
    try:
        made = await desk.workspace.publish(proof, await checkout(desk, record), _order(desk, record, proof))
    except OutOfScope as error:
        if hidden := desk.redactor.found("\n".join(error.paths)):
            raise SecretAdded((("a file's name", 1, hidden[0].kind),)) from error
        plan = outgrown(proof.document, error.paths, error.tree)
        return Done(Move.OUTGREW, {"plan": to_json(plan)}, plan.digest)
    except (Refused, Conflict) as error:
        if isinstance(error, Conflict) and desk.pulls is None:
            raise  # a person at a terminal is told on the spot
        overtaken = isinstance(error, Conflict) and _order(desk, record, proof).expected is not None
        stage, detail = (Stage.STALE, error.what) if overtaken else (Stage.FAILED, str(error))
        move = Move.DRIFTED if overtaken else Move.FAILED
        return Done(move, {"detail": detail, "owes": desk.ended(stage, detail)})
    facts: Json = {"branch": made.branch, "commit": made.commit, "paths": list(made.paths)}
    if desk.pulls is None:
        owes = comment.outcome(Stage.DONE, branch=made.branch)
        return Done(Move.DELIVERED, facts | {"owes": owes}, proof.document.digest)
    if await _moved(desk, record):
        return None
    pull = await desk.pulls.ensure(_pull(desk, record, proof, made))
    facts |= {"pull_request": pull.url, "pull_number": pull.number, "owes": pull_text.published(pull)}
    if reviews := [key for key in (entry.body["turn"] for entry in record.asked_for) if key.startswith("review-")]:
        facts["reviews"] = reviews
    return Done(Move.PUBLISHED, facts, proof.document.digest)


async def _moved(desk: Desk, record: Record) -> bool:
    """Tell whether somebody moved the thread since the work was handed over (E4)."""
    later = (await current(desk)).thread
    return (later.stage, later.ask) != (record.thread.stage, record.thread.ask)


def outgrown(plan: PlanDocument, paths: tuple[str, ...], tree: str) -> PlanDocument:
    """Give the amendment of a plan whose work changed more than it names: the next version, to be approved as well.

    It is about the work as it stands, its tree and nothing else (product.md, Risk tiers).
    """
    # A plan without a scope covers everything but tier high, as `**` does (core/paths.py).
    scope = tuple(dict.fromkeys((*(plan.contract.scope or ("**",)), *paths)))
    high = {path for path in paths if plan.contract.tier([path]) is Tier.HIGH}
    contract = replace(plan.contract, scope=scope)
    return replace(
        plan,
        plan=plan.plan + 1,
        markdown=comment.amendment(plan, sorted(high), [path for path in paths if path not in high]),
        contract=contract,
        tier=str(contract_tier(contract)),
        tree=tree,
        changed="",
    )


def _order(desk: Desk, record: Record, proof: ApprovedPlan) -> CommitOrder:
    """Say what to commit, all of it from the journal."""
    executed, clean = record.last(Move.EXECUTED), desk.redactor.redacted
    summary = clean(inert_message(clean(executed.body["summary"])))
    message = pull_text.commit_message(inert_message(pull_title(desk, record)), proof.document, summary)
    expected = record.base if desk.place.branch or record.onto else None
    asked_by = record.turn.actor
    return CommitOrder(
        branch_name(desk, record),
        message,
        record.last(Move.REQUESTED).at.replace(microsecond=0),  # the same when the work is taken up again after a push
        pull_text.co_author(asked_by.id, asked_by.login) if desk.pulls is not None else "",
        expected,
    )


def _pull(desk: Desk, record: Record, proof: ApprovedPlan, made: Published) -> PullOrder:
    clean = desk.redactor.redacted
    executed, approvers = record.last(Move.EXECUTED).body, tuple(actor.login for actor in proof.verdict.by)
    origin = pull_text.Origin(
        tuple(dict.fromkeys(entry.body["login"] for entry in record.wishes)),
        proof.verdict,
        datetime.fromisoformat(record.last(Move.APPROVED).body["approved_at"]),
        executed.get("model", ""),
        record.cost_usd if desk.world.ledger.priced else None,  # of the thread, whichever processes it took
        [comment.Row(**agent) for agent in executed.get("agents", ())],
    )
    body = pull_text.pull_body(
        proof.document, origin, summary=clean(inert(clean(executed["summary"]))), checks=executed["checks"]
    )
    orders = desk.orders
    return PullOrder(
        made.branch,
        desk.place.default_branch,
        inert_line(pull_title(desk, record)),
        body,
        draft=orders.draft,
        labels=orders.labels,
        reviewers=approvers if orders.reviewers is None else orders.reviewers,
    )
