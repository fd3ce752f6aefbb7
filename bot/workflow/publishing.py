"""Publishing: pushes the work if its approval still stands, and ensures its pull request, receipt, and operations.

Compared again just before the first push: what people said until now, the configuration of who may approve, one live
snapshot of the plan comment and its approvals, and whether another process moved the thread. Then `workspace.publish`
compares the tree with the verified and the approved one, and its paths with the plan's scope; `_claim_push` checks once
more whether the thread was moved; and the server moves the branch only if it is where the order expects it.

Work that changed more than its plan names becomes an amendment. If the process died after the push, the same journal
gives the same commit again: the publisher finds it on the branch, and `Pulls.ensure` finds or creates the pull request.
On a pull request's own branch, the push also moves the head that the plan was made for, so the commit is journaled
before it (`_claim_push`).
"""

from dataclasses import replace
from functools import partial

from bot.core import comment, pull_text
from bot.core.approval import ApprovedPlan, Verdict, VerdictOutcome
from bot.core.errors import Conflict, OutOfScope, Refused, SecretAdded
from bot.core.gate import Stage
from bot.core.markdown.inert import inert_line, inert_markdown, inert_message
from bot.core.moves import Delivered, MoveEvent, Outgrew, Published
from bot.core.notes import Pushing
from bot.core.paths import Tier
from bot.core.plan import PlanDocument, contract_tier
from bot.core.receipt import Builder, ReceiptSubject, receipt_statement
from bot.core.thread.state import ThreadState
from bot.core.turn import Actor
from bot.core.work import CommitOrder, PullOrder, PushedWork
from bot.workflow.approving import evaluate_live, withdrawal_move
from bot.workflow.intake import branch_name, journal_turns, pull_number, pull_title
from bot.workflow.journal import append_notes
from bot.workflow.operating import carry_out, finish_operations, operations_report
from bot.workflow.outbox import post_replies
from bot.workflow.saved_work import checkout
from bot.workflow.thread_context import ThreadContext
from bot.workflow.verification import leftovers


async def perform(context: ThreadContext, state: ThreadState) -> MoveEvent | None:
    """Publish what the approved plan covers. The same journal always gives the same branch and commit.

    Returns None if the thread was moved meanwhile, such as by a stop. A commit that an earlier process pushed to a pull
    request's branch was approved at that time: it is reported, and never pushed again.
    """
    if (pushed := await _earlier_push(context, state)) is not None:
        return await _ensure_pull_request(context, state, pushed, _verdict(state))
    if (latest := await _journal_latest(context, state)) is None:
        return None
    state = latest
    if await context.have_rules_changed():
        raise Conflict("who may approve has changed since this check began", where="approve", fix="try again")
    verdict, proof = await evaluate_live(context, state)
    if proof is None:
        return withdrawal_move(context, state, verdict)
    if await context.fence.has_moved(state):
        return None
    if not state.plan.current.changes_files:
        return await finish_operations(context, state)
    return await _publish(context, state, proof)


async def _journal_latest(context: ThreadContext, state: ThreadState) -> ThreadState | None:
    """Take in what people said until now, and return the state; None if that moved the thread.

    This finds a stop that no delivery reported, and one that the journal lost because its ref was set back (A4b).
    """
    latest = await post_replies(context, await journal_turns(context, state))
    return latest if (latest.stage, latest.gate.ask) == (state.stage, state.gate.ask) else None


async def _publish(context: ThreadContext, state: ThreadState, proof: ApprovedPlan) -> MoveEvent | None:
    """Push the work, and ensure its pull request."""
    order = _order(context, state)
    try:
        pushed = await context.workspace.publish(
            proof,
            await checkout(context, state),
            order,
            before_push=partial(_claim_push, context, state, shared=order.expected is not None),
        )
    except OutOfScope as error:
        if hidden := context.redactor.find_secrets("\n".join(error.paths)):
            raise SecretAdded((("a file's name", 1, hidden[0].kind),)) from error
        plan = amended_plan(proof.document, error.paths, error.tree)
        return Outgrew(plan=plan, digest=plan.digest)
    except Conflict as error:
        context.dialogue.interrupt(error)
        if await context.fence.has_moved(state):
            return None
        return context.failure_move(str(error)) if order.expected is None else context.drift_move(error.what)
    except Refused as error:
        return context.failure_move(str(error))
    return await _ensure_pull_request(context, state, pushed, proof.verdict)


async def _ensure_pull_request(
    context: ThreadContext, state: ThreadState, work: PushedWork, verdict: Verdict
) -> Published | Delivered | None:
    """Find or create the pull request of the pushed work, and return the move; None if the thread was moved meanwhile.

    Without pull requests, as at a terminal, the branch is the result.
    """
    plan, digest = state.plan.current, state.plan.current.digest
    if await context.fence.has_moved(state):
        return None
    receipt = await _issue_receipt(context, work)
    pull = await context.pulls.ensure(_pull(context, state, work, verdict, receipt=receipt))
    if pull is None:
        owes = comment.outcome(Stage.DONE, branch=work.branch)
        return Delivered(branch=work.branch, commit=work.commit, paths=work.paths, owes=owes, digest=digest)
    operated = await carry_out(context, state) if plan.operations else state
    if operated is None:
        return None
    texts = [pull_text.pull_request_ready(pull), *([operations_report(operated)] if plan.operations else [])]
    return Published(
        branch=work.branch,
        commit=work.commit,
        paths=work.paths,
        pull_request=pull.url,
        pull_number=pull.number,
        owes="\n\n".join(texts),
        reviews=tuple(entry.said.key for entry in state.request.newest_entries if entry.said.key.startswith("review-")),
        digest=digest,
    )


async def _issue_receipt(context: ThreadContext, work: PushedWork) -> str:
    """Issue the receipt of the pushed work (RC1, RC5). Return the pull request's text about it; "" for none.

    The statement is made from the journal up to the end of the work, so that a crash here changes nothing in it.
    """
    if not work.tree:
        return ""
    place = context.location
    subject = ReceiptSubject(place.host, place.repository, place.name, work.branch, work.commit, work.tree, work.paths)
    entries = await context.journal.cached_entries(place.thread)
    statement = receipt_statement(entries, subject, Builder(context.settings.version, context.settings.run))
    try:
        envelope = await context.receipts.issue(statement, work.commit)
    except Refused as error:
        return pull_text.no_receipt(error.what)
    return pull_text.receipt_block(work.commit, envelope.decode()) if envelope else ""


async def _claim_push(context: ThreadContext, state: ThreadState, work: PushedWork, *, shared: bool) -> None:
    """Journal the commit before it is pushed to a shared branch, so that a later process recognizes it there (E3).

    Raises Conflict if the thread was moved meanwhile, because copying and screening the work takes time.
    """
    if shared and state.work.pushing != work:
        await append_notes(context, state, Pushing(digest=state.plan.current.digest, made=work))
    await context.fence.check()


async def _earlier_push(context: ThreadContext, state: ThreadState) -> PushedWork | None:
    """Return the work that an earlier process pushed to a pull request's branch before it died; None for none."""
    work, number = state.work.pushing, pull_number(context, state)
    if work is None or not number:
        return None
    return work if await context.pulls.head(number) == work.commit else None


def _verdict(state: ThreadState) -> Verdict:
    """Return the journaled verdict under which the work was pushed."""
    return Verdict(VerdictOutcome.APPROVED, tuple(Actor(0, login) for login in state.approval.current.by))


def amended_plan(plan: PlanDocument, paths: tuple[str, ...], tree: str) -> PlanDocument:
    """Return the amendment for work that changed more than its plan names: the next plan version, which needs approval.

    It allows exactly the tree of the finished work and nothing else.
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


def _order(context: ThreadContext, state: ThreadState) -> CommitOrder:
    """Return what to commit, computed only from the journal."""
    work, clean = state.work.current, context.redactor.redact
    summary = clean(inert_message(clean(work.summary)))
    expected = state.request.base if context.location.branch or state.request.onto else None
    asked_by, approval = state.request.turn.actor, state.approval.current
    by_person = asked_by.id != context.policy.bot
    requester = pull_text.co_author(asked_by, context.location.host) if by_person else ""
    trailers: tuple[str, ...] = ()
    # A version that kept no evidence wrote another message, and the same work must keep the same commit.
    if approval.evidence and context.location.host:
        trailers = (*pull_text.approval_trailers(approval.by), *([f"Co-authored-by: {requester}"] if requester else []))
        requester = ""
    message = pull_text.commit_message(inert_message(pull_title(context, state)), state.plan.current, summary, trailers)
    return CommitOrder(
        branch_name(context, state),
        message,
        state.request.journaled_at.replace(microsecond=0),  # the same when the work is taken up again after a push
        requester,
        expected=expected,
        verified=work.tree,
        leftovers=leftovers(state),
    )


def _pull(
    context: ThreadContext, state: ThreadState, pushed: PushedWork, verdict: Verdict, *, receipt: str
) -> PullOrder:
    """Return the pull request to open: its body says who asked, who approved, and what was done."""
    clean = context.redactor.redact
    plan, work, approvers = state.plan.current, state.work.current, tuple(actor.login for actor in verdict.by)
    evidence, cost_usd = state.approval.current.evidence, state.costs.total_usd  # of the thread, over all processes
    origin = pull_text.PullOrigin(
        asked=tuple(dict.fromkeys(entry.said.actor.login for entry in state.request.entries)),
        verdict=verdict,
        at=state.approval.current.approved_at,
        model=work.model or "",
        cost_usd=cost_usd if context.resources.ledger.is_priced else None,
        agents=[comment.AgentRow(**agent) for agent in work.agents or ()],
        commands=work.commands or (),
        task=state.task.task if state.task is not None else "",
        receipt=receipt,
        workflows_wait=context.settings.workflows_wait,
        tokens=state.costs.tokens,
        ways=[opinion.way for opinion in evidence.opinions] if evidence else (),
        paths=pushed.paths,
        change=evidence.change if evidence else None,
    )
    summary = clean(inert_markdown(clean(work.summary)))
    body = pull_text.pull_body(plan, origin, summary=summary, checks=work.checks, no_baseline=work.no_baseline)
    settings = context.settings
    return PullOrder(
        pushed.branch,
        context.location.default_branch,
        inert_line(pull_title(context, state)),
        body,
        draft=settings.draft,
        labels=settings.labels,
        reviewers=approvers if settings.reviewers is None else settings.reviewers,
        commit=pushed.commit,
    )
