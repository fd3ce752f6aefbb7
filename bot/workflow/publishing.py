"""Publishing: pushes the work if its approval still stands, and ensures its pull request, receipt, and operations.

Just before the first push, this module compares again what people said until now, the configuration of who may approve,
one live snapshot of the plan comment and its approvals, and whether another process moved the thread. Then
`workspace.publish` compares the tree with the verified and the approved one, and its paths with the plan's scope;
`_claim_push` checks once more whether the thread was moved; and the server moves the branch only if it is where the
order expects it.

Work that changed more than its plan names becomes an amendment. If the process died after the push, the same journal
gives the same commit again: the publisher finds it on the branch, and `Pulls.ensure` finds or creates the pull request.
On a pull request's own branch, the push also moves the head that the plan was made for, so the commit is journaled
before it (`_claim_push`).
"""

from dataclasses import replace
from functools import partial

from bot.core import comment, pull_text, reply_text
from bot.core.approval import ApprovedPlan, Verdict, VerdictOutcome
from bot.core.checks import obstacles
from bot.core.errors import Conflict, OutOfScope, Refused, SecretAdded
from bot.core.gate import Stage
from bot.core.maintenance import Operation
from bot.core.markdown.inert import inert_line, inert_markdown, inert_message
from bot.core.moves import Delivered, Failed, MoveEvent, Outgrew, Published
from bot.core.notes import Operated, Pushing
from bot.core.paths import Tier
from bot.core.plan import PlanDocument, contract_tier
from bot.core.receipt import Builder, ReceiptSubject, receipt_statement
from bot.core.thread.state import ThreadState
from bot.core.turn import Actor
from bot.core.work import CommitOrder, PullOrder, PushedWork
from bot.workflow.approving import evaluate_live, withdrawal_move
from bot.workflow.intake import branch_name, journal_turns, pull_number, pull_title
from bot.workflow.main_session import checkout
from bot.workflow.outbox import post_replies
from bot.workflow.thread_run import ThreadRun
from bot.workflow.verification import leftovers


async def hindrance_move(run: ThreadRun) -> Failed | None:
    """Return the move that ends work that could not be published, and tells people why; None if nothing hinders it.

    Asked before a plan is made, though not of a scheduled task, which may need no branch, and before work begins (CL1).
    """
    state = run.state
    may_push = state.plan.current.changes_files if state.stage is Stage.EXECUTING else state.task is None
    if state.waits_for_session or not may_push:
        return None
    branch = branch_name(run)
    facts = await run.rules.publishing_facts(branch)
    if facts.taken and (state.work.was_finished or await run.pulls.find(branch)):
        facts = replace(facts, taken="")  # it is the bot's own: its work was pushed, as the journal may have lost (A4b)
    found = obstacles(facts, branch, is_new=not (run.location.branch or state.request.onto))
    if not found:
        return None
    return Failed(detail=" ".join(found), text_to_post=reply_text.cannot_publish(found, run.configuration.mention))


async def publish_work(run: ThreadRun) -> MoveEvent | None:
    """Publish what the approved plan covers. The same journal always gives the same branch and commit.

    Returns None if the thread was moved meanwhile, such as by a stop. A commit that an earlier process pushed to a pull
    request's branch was approved at that time: it is reported, and never pushed again.
    """
    if (pushed := await _earlier_push(run)) is not None:
        return await _ensure_pull_request(run, pushed, _verdict(run.state))
    if not await _journal_latest(run):
        return None
    if await run.rules.have_rules_changed():
        raise Conflict("who may approve has changed since this check began", where="approve", fix="try again")
    verdict, proof = await evaluate_live(run)
    if proof is None:
        return withdrawal_move(run, verdict)
    if await run.has_moved():
        return None
    if not run.state.plan.current.changes_files:
        return await _finish_operations(run)
    return await _publish(run, proof)


async def _journal_latest(run: ThreadRun) -> bool:
    """Take in what people said until now. Return False if that moved the thread.

    This finds a stop that no delivery reported, and one that the journal lost because its ref was set back (A4b).
    """
    before = run.state.gate
    await journal_turns(run)
    await post_replies(run)
    return (run.state.stage, run.state.gate.ask) == (before.stage, before.ask)


async def _publish(run: ThreadRun, proof: ApprovedPlan) -> MoveEvent | None:
    order = _order(run)
    try:
        pushed = await run.workspace.publish(
            proof,
            await checkout(run),
            order,
            before_push=partial(_claim_push, run, shared=order.expected is not None),
        )
    except OutOfScope as error:
        if hidden := run.redactor.find_secrets("\n".join(error.paths)):
            raise SecretAdded((("a file's name", 1, hidden[0].kind),)) from error
        plan = amended_plan(proof.document, error.paths, error.tree)
        return Outgrew(plan=plan, digest=plan.digest)
    except Conflict as error:
        run.dialogue.interrupt(error)
        if await run.has_moved():
            return None
        return run.failure_move(str(error)) if order.expected is None else run.drift_move(error.what)
    except Refused as error:
        return run.failure_move(str(error))
    return await _ensure_pull_request(run, pushed, proof.verdict)


async def _ensure_pull_request(run: ThreadRun, work: PushedWork, verdict: Verdict) -> Published | Delivered | None:
    """Find or create the pull request of the pushed work, and return the move; None if the thread was moved meanwhile.

    Without pull requests, as at a terminal, the branch is the result.
    """
    plan, digest = run.state.plan.current, run.state.plan.current.digest
    if await run.has_moved():
        return None
    receipt = await _issue_receipt(run, work)
    pull = await run.pulls.ensure(_pull(run, work, verdict, receipt=receipt))
    if pull is None:
        text = comment.outcome(Stage.DONE, branch=work.branch)
        return Delivered(branch=work.branch, commit=work.commit, paths=work.paths, text_to_post=text, digest=digest)
    if not await _carry_out(run):
        return None
    texts = [pull_text.pull_request_ready(pull), *([_operations_report(run.state)] if plan.operations else [])]
    asked = [entry.said.key for entry in run.state.request.newest_entries]
    return Published(
        branch=work.branch,
        commit=work.commit,
        paths=work.paths,
        pull_request=pull.url,
        pull_number=pull.number,
        text_to_post="\n\n".join(texts),
        reviews=tuple(key for key in asked if key.startswith("review-")),
        digest=digest,
    )


async def _issue_receipt(run: ThreadRun, work: PushedWork) -> str:
    """Issue the receipt of the pushed work (RC1, RC5). Return the pull request's text about it; "" for none.

    The statement is made from the journal up to the end of the work, so that a crash here changes nothing in it.
    """
    if not work.tree:
        return ""
    place = run.location
    subject = ReceiptSubject(place.host, place.repository, place.name, work.branch, work.commit, work.tree, work.paths)
    entries = await run.journal.port.cached_entries(place.thread)
    statement = receipt_statement(entries, subject, Builder(run.conditions.version, run.conditions.run))
    try:
        envelope = await run.receipts.issue(statement, work.commit)
    except Refused as error:
        return pull_text.no_receipt(error.what)
    return pull_text.receipt_block(work.commit, envelope.decode()) if envelope else ""


async def _claim_push(run: ThreadRun, work: PushedWork, *, shared: bool) -> None:
    """Journal the commit before it is pushed to a shared branch, so that a later process recognizes it there (E3).

    Raises Conflict if the thread was moved meanwhile, because copying and screening the work takes time.
    """
    if shared and run.state.work.pushing != work:
        await run.beside().note(Pushing(digest=run.state.plan.current.digest, made=work))
    await run.journal.raise_if_moved()


async def _earlier_push(run: ThreadRun) -> PushedWork | None:
    """Return the work that an earlier process pushed to a pull request's branch before it died; None for none."""
    work, number = run.state.work.pushing, pull_number(run)
    if work is None or not number:
        return None
    return work if await run.pulls.head(number) == work.commit else None


def _verdict(state: ThreadState) -> Verdict:
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


def _order(run: ThreadRun) -> CommitOrder:
    """Return what to commit, computed only from the journal."""
    work, clean = run.state.work.current, run.redactor.redact
    summary = clean(inert_message(clean(work.summary)))
    expected = run.state.request.base if run.location.branch or run.state.request.onto else None
    asked_by, approval = run.state.request.turn.actor, run.state.approval.current
    by_person = asked_by.id != run.policy.bot
    requester = pull_text.co_author(asked_by, run.location.host) if by_person else ""
    trailers: tuple[str, ...] = ()
    # A version that kept no evidence wrote another message, and the same work must keep the same commit.
    if approval.evidence and run.location.host:
        trailers = (*pull_text.approval_trailers(approval.by), *([f"Co-authored-by: {requester}"] if requester else []))
        requester = ""
    message = pull_text.commit_message(inert_message(pull_title(run)), run.state.plan.current, summary, trailers)
    return CommitOrder(
        branch_name(run),
        message,
        run.state.request.journaled_at.replace(microsecond=0),  # the same when the work is taken up again after a push
        requester,
        expected=expected,
        verified=work.tree,
        leftovers=leftovers(run.state),
    )


def _pull(run: ThreadRun, pushed: PushedWork, verdict: Verdict, *, receipt: str) -> PullOrder:
    """Return the pull request to open: its body says who asked, who approved, and what was done."""
    clean = run.redactor.redact
    plan, work, approvers = run.state.plan.current, run.state.work.current, tuple(actor.login for actor in verdict.by)
    evidence, cost_usd = (
        run.state.approval.current.evidence,
        run.state.costs.total_usd,
    )  # of the thread, over all processes
    origin = pull_text.PullOrigin(
        asked=tuple(dict.fromkeys(entry.said.actor.login for entry in run.state.request.entries)),
        verdict=verdict,
        at=run.state.approval.current.approved_at,
        model=work.model or "",
        cost_usd=cost_usd if run.resources.ledger.is_priced else None,
        agents=[comment.AgentRow(**agent) for agent in work.agents or ()],
        commands=work.commands or (),
        task=run.state.task.task if run.state.task is not None else "",
        receipt=receipt,
        workflows_wait=run.conditions.workflows_wait,
        tokens=run.state.costs.tokens,
        ways=[opinion.way for opinion in evidence.opinions] if evidence else (),
        paths=pushed.paths,
        change=evidence.change if evidence else None,
    )
    summary = clean(inert_markdown(clean(work.summary)))
    body = pull_text.pull_body(plan, origin, summary=summary, checks=work.checks, no_baseline=work.no_baseline)
    pull_request = run.configuration.pull_request
    return PullOrder(
        pushed.branch,
        run.location.default_branch,
        inert_line(pull_title(run)),
        body,
        draft=pull_request.draft,
        labels=tuple(pull_request.labels),
        reviewers=pull_request.reviewer_logins(approvers),
        commit=pushed.commit,
    )


# --- Carries out approved operations on issues (MT7)


async def _carry_out(run: ThreadRun) -> bool:
    """Carry out the operations of the approved plan that the journal does not hold yet, in order.

    Each is journaled before the next one begins. Return False once the thread was moved.
    """
    plan, before = run.state.plan.current, run.state
    for n, operation in enumerate(plan.operations):
        if n in {finished.operation for finished in run.state.work.finished_operations}:
            continue
        if run.state.has_moved_since(before) or await run.has_moved():
            return False
        result = await run.tasks.apply(operation, _seen(run.state, operation), f"{plan.digest}/{n}")
        await run.note(Operated(digest=plan.digest, operation=n, outcome=result.outcome, seen=result.seen))
    return True


async def _finish_operations(run: ThreadRun) -> Delivered | None:
    """Carry out a plan that changes no files, and end its round with a report; None when the thread was moved."""
    if not await _carry_out(run):
        return None
    commit, digest = run.state.request.base, run.state.plan.current.digest
    return Delivered(branch="", commit=commit, text_to_post=_operations_report(run.state), digest=digest)


def _operations_report(state: ThreadState) -> str:
    outcomes = [finished.outcome for finished in state.work.finished_operations]
    return f"The approved operations:\n\n{comment.operation_table(state.plan.current.operations, outcomes)}"


def _seen(state: ThreadState, operation: Operation) -> str:
    """Return the digest that the target must have: from the plan, or after the last operation on it."""
    seen = operation.seen
    for finished in state.work.finished_operations:
        if state.plan.current.operations[finished.operation].number == operation.number:
            seen = finished.seen
    return seen
