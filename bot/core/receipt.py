"""The receipt of published work: an in-toto Statement of who allowed what, made from the journal (RC1, RC5)."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bot.core.checks import Check
from bot.core.codec import encode
from bot.core.decision_evidence import DecisionEvidence, utc_text
from bot.core.errors import Broken
from bot.core.events import JournalEvent, decode_entries
from bot.core.moves import Approved, Closed, Entry, Executed, Outgrew, Published, Rejected
from bot.core.names import CommitId, Digest, RepositoryId
from bot.core.plan import PlanDocument
from bot.core.thread.request import RequestEntry
from bot.core.thread.state import ThreadState, fold_entries
from bot.core.transcript import Json

# --- Receipt types, canonical bytes, and refs (RC1, RC4) -------------------------------------------------------------
# https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "https://plangate.dev/plan-approval/v1"
RECEIPT_FILE: Final = "receipt.dsse.json"
KEYS_REF: Final = "refs/plangate/keys"
KEYS_FILE: Final = "plangate-keys.json"
"""Where the public keys of a repository's receipts are listed."""
SIGNATURES: Final = "refs/plangate/signatures/"
SIGNATURE_FILE: Final = "approval.sig"


def receipt_ref(commit: str) -> str:
    return f"refs/plangate/receipts/{commit}"


def signature_ref(commit: str, actor_id: int) -> str:
    """Return the ref that keeps an approver's own signature of the receipt of a commit.

    The account's number names the approver: logins change, and some contain characters that no ref may have.
    """
    return f"{SIGNATURES}{commit}/{actor_id}"


def canonical_statement(statement: Json) -> bytes:
    """Return the bytes that are signed: JSON in UTF-8 with sorted keys and no white space between tokens.

    Every number in a statement is an integer, since languages write fractions differently.
    """
    text = json.dumps(statement, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace")  # half a surrogate pair has no UTF-8


# --- The Statement of a receipt (RC1, RC5) ---------------------------------------------------------------------------
# The same journal and the same commit always give the same bytes. The service that signs a receipt attests what GitHub
# reported to it; the signature vouches for no person named in it (RC2). docs/receipts.md describes every field.
#
# https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md
# https://github.com/secure-systems-lab/dsse/blob/master/protocol.md

ATTESTER: Final = (
    "The service attests what GitHub reported to it. The service's signature stands for no person named here."
)


@dataclass(frozen=True, slots=True)
class ReceiptSubject:
    host: str
    """The server's name, such as ``github.com``."""
    repository: RepositoryId
    name: str
    """``OWNER/NAME`` when the commit was made."""
    branch: str
    commit: CommitId
    tree: str
    paths: tuple[str, ...]
    """The changed paths, sorted."""


@dataclass(frozen=True, slots=True)
class Builder:
    version: str
    run: str = ""
    """The run of GitHub Actions, or a name of the service's process; "" if unknown."""


def receipt_statement(entries: Sequence[Entry], subject: ReceiptSubject, builder: Builder) -> Json:
    """Return the Statement about the newest finished work in a journal, from the entries up to its Executed.

    Later entries change nothing, so a receipt that is made again after a crash equals the lost one. Raises Broken if no
    work was done. No work is done without an approval: the gate has no such move.
    """
    events = tuple(decode_entries(entries))
    executed = [n for n, (_, event) in enumerate(events) if isinstance(event, Executed)]
    if not executed:
        raise Broken("no work was done on this thread, so there is no receipt")
    last = entries[executed[-1]]
    round_ends = [n for n, (_, event) in enumerate(events[: last.n]) if isinstance(event, Published | Closed)]
    events_of_round = events[round_ends[-1] if round_ends else 0 : last.n]
    return {
        "_type": STATEMENT_TYPE,
        "subject": _subjects(subject),
        "predicateType": PREDICATE_TYPE,
        "predicate": _predicate(
            fold_entries(entries[: last.n]), last, events_of_round, subject=subject, builder=builder
        ),
    }


def _predicate(
    state: ThreadState,
    last: Entry,
    events: Sequence[tuple[datetime, JournalEvent]],
    *,
    subject: ReceiptSubject,
    builder: Builder,
) -> Json:
    """Return the predicate of the Statement.

    `last` is the entry of the finished work, and `events` are those since the pull request before it, with their times.
    """
    plan, work, approvals = state.plan.current, state.work.current, state.approval.of_current_plan
    missing = _missing(approvals, state)
    return {
        "attester": ATTESTER,
        "repository": {"host": subject.host, "id": subject.repository, "name": subject.name},
        "thread": plan.thread,
        "branch": subject.branch,
        "plan": _plan(plan),
        "requests": [_request(entry) for entry in state.request.entries],
        "approvals": [_decision(approval.digest, approval.approved_at, approval.evidence) for approval in approvals],
        "rejections": [
            _decision(event.digest, at, event.evidence) for at, event in events if isinstance(event, Rejected)
        ],
        "policy": _policy(approvals[-1].evidence),
        "execution": _execution(state, work),
        "scope": _scope(plan, subject, events),
        "verification": {
            "tree": work.tree,
            "baseline": work.no_baseline or "complete",
            "checks": [_check(check) for check in work.checks],
        },
        "journal": {"position": last.n, "hash": last.chain_hash, "at": utc_text(last.at)},
        "builder": {"version": builder.version, "run": state.work.run or builder.run},
        "complete": not missing,
        "missing": missing,
    }


def _scope(plan: PlanDocument, subject: ReceiptSubject, events: Sequence[tuple[datetime, JournalEvent]]) -> Json:
    return {
        "planned": list(plan.contract.scope),
        "changed": list(subject.paths),
        "amendments": sum(isinstance(event, Outgrew) for _, event in events),
    }


def _subjects(subject: ReceiptSubject) -> list[Json]:
    name = f"https://{subject.host}/{subject.name}"
    return [
        {"name": f"{name}/commit/{subject.commit}", "digest": {"gitCommit": subject.commit}},
        {"name": f"{name}/tree/{subject.commit}", "digest": {"gitTree": subject.tree}},
    ]


def _plan(plan: PlanDocument) -> Json:
    return {
        "digest": plan.digest,
        "version": plan.plan,
        "base": plan.base,
        "tier": plan.tier,
        "expires": utc_text(plan.expires),
        "scope_tree": plan.tree,
    }


def _request(entry: RequestEntry) -> Json:
    turn = entry.said
    return {
        "actor_id": turn.actor.id,
        "login": turn.actor.login,
        "turn": turn.key,
        "at": utc_text(turn.at),
        "text_sha256": _sha256(turn.text),
        "editors": list(turn.editors),
    }


def _decision(digest: Digest | None, observed_at: datetime, evidence: DecisionEvidence | None) -> Json:
    return {
        "plan": digest or "",
        "observed_at": utc_text(observed_at),
        "snapshot_sha256": evidence.snapshot if evidence else "",
        "by": [encode(opinion) for opinion in evidence.opinions] if evidence else [],
    }


def _policy(evidence: DecisionEvidence | None) -> Json | None:
    """Return the rule that the newest approval met; None if the journal does not have it."""
    if evidence is None:
        return None
    other_opinions = [opinion for opinion in evidence.opinions if opinion.actor.id not in evidence.requesters]
    return {
        "configuration": evidence.configuration,
        "required_role": evidence.required_role,
        "needed": evidence.needed,
        "fewer": evidence.fewer,
        "four_eyes": evidence.four_eyes,
        "requesters": list(evidence.requesters),
        "approver_is_not_requester": bool(other_opinions),
    }


def _execution(state: ThreadState, work: Executed) -> Json:
    return {
        "session": state.request.work_session,
        "model": work.model or "",
        "agents": [_agent(agent) for agent in work.agents or ()],
        "commands": [_command(command) for command in work.commands or ()],
        "cost_usd": _dollars(state.costs.total_usd),
        "tokens_input": state.costs.tokens[0],
        "tokens_output": state.costs.tokens[1],
        "hosts": list(state.plan.current.contract.hosts),
    }


def _command(command: Json) -> Json:
    """Return a command, without the digest of its output if the journal is of an older version."""
    fields = {key: command.get(key) for key in ("agent", "command", "exit_code")}
    return fields | ({"output_sha256": command["output_sha256"]} if "output_sha256" in command else {})


def _agent(agent: Json) -> Json:
    return {
        "type": agent["type"],
        "state": agent["state"],
        "tool_calls": agent["tool_calls"],
        "cost_usd": _dollars(agent["cost_usd"]),
    }


def _dollars(cost: float | None) -> str | None:
    """Return dollars with six digits after the point; None if the price is unknown."""
    return None if cost is None else f"{cost:.6f}"


def _check(check: Check) -> Json:
    before = check.get("before")
    return {
        "command": check["command"],
        "exit_code": check["exit_code"],
        "exit_code_before": before["exit_code"] if before else None,
        "output_sha256": _sha256(check["output"]),
    }


def _missing(approvals: Iterable[Approved], state: ThreadState) -> list[str]:
    """List what a complete receipt would have and this one lacks, as sentences."""
    missing = []
    if any(approval.evidence is None for approval in approvals):
        missing.append("An approval was journaled by a version that kept no roles and no snapshot.")
    if state.costs.total_usd is None:
        missing.append("The model's price is unknown, so the cost is.")
    if not state.work.current.checks:
        missing.append("No check was configured, so nothing was verified.")
    return missing


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
