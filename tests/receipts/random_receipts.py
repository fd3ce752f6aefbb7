"""Random receipts that are valid, every mutation of them, and receipts that contradict themselves."""

import copy
import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from bot.core.approval import Candidate, Opinion, Policy, Reason, Verdict, VerdictOutcome, VerdictReason, Way
from bot.core.events import JournalEvent
from bot.core.moves import Executed, Outgrew, Planned, Proposed, Rejected
from bot.core.names import CommitId
from bot.core.paths import Tier
from bot.core.plan import PlanDocument
from bot.core.transcript import Json
from bot.core.turn import Actor, Role
from bot.receipts.verdicts import CommitFacts
from tests.core.receipt_story import NOW, PLAN, REQUESTED, SUBJECT, approved, evidence, executed, statement_of

_WORDS: Final = ("a", "Ünï", "日本", "🎉", "\\", '"', "\u2028", "\x7f", "/", " ", "toString", "\x01", "e\u0301", "-0")
_REPOSITORY: Final = "github.com/acme/site"
_REMOVED: Final = object()


@dataclass(frozen=True, slots=True)
class RandomReceipt:
    """A statement, and the commit that it is about."""

    statement: Json
    commit: str
    """The commit object as text."""
    facts: CommitFacts


def random_receipt(seed: int) -> RandomReceipt:
    """Return a receipt of random work: requests, rejections, amendments, agents, commands, checks, and people."""
    chance = random.Random(seed)
    base, tree = (CommitId(f"{chance.getrandbits(160):040x}") for _ in "ab")
    plan = replace(PLAN, base=base, plan=chance.randint(1, 9), tier=chance.choice([str(Tier.NORMAL), str(Tier.HIGH)]))
    plan = replace(
        plan, contract=replace(plan.contract, hosts=tuple(_text(chance) for _ in range(chance.randint(0, 2))))
    )
    paths = tuple(sorted({_text(chance) for _ in range(chance.randint(1, 6))}))
    events, last = _journal(chance, plan, tree)
    text = f"tree {tree}\nparent {base}\nauthor p <p@e> {seed} +0000\ncommitter p <p@e> {seed} +0000\n\n"
    text += f"{_text(chance)}\n\nPlangate-Plan: {last.digest}\nPlangate-Approved-By: @maya\n"
    content = text.encode()
    commit = hashlib.sha1(b"commit %d\0%b" % (len(content), content), usedforsecurity=False).hexdigest()
    subject = replace(SUBJECT, commit=CommitId(commit), tree=tree, paths=paths, branch=_text(chance))
    facts = CommitFacts(commit, tree, (base,), paths, text.partition("\n\n")[2], _REPOSITORY)
    return RandomReceipt(statement_of(*events, subject=subject), text, facts)


def _journal(chance: random.Random, plan: PlanDocument, tree: str) -> tuple[list[JournalEvent], PlanDocument]:
    """Return a journal, and the plan that it published."""
    editors = tuple(chance.sample(range(1, 99), k=chance.randint(0, 2)))
    said = replace(REQUESTED.said, text=_text(chance), editors=editors)
    events: list[JournalEvent] = [replace(REQUESTED, said=said, base=plan.base)]
    for n in range(chance.randint(0, 2)):
        events += [Planned(plan=plan, digest=plan.digest), Proposed(shown=f"c{n}", digest=plan.digest)]
        no = Candidate(Actor(9, "maya"), Way.COMMAND, Opinion.REJECT, NOW, Role.ADMIN)
        rests_on = evidence(no, plan=plan, verdict=Verdict(VerdictOutcome.REJECTED, (no.actor,)))
        events.append(Rejected(digest=plan.digest, evidence=rests_on))
        events.append(replace(REQUESTED, said=replace(REQUESTED.said, key=f"comment-{n}"), base=plan.base))
        plan = replace(plan, plan=plan.plan + 1)
    events += [
        Planned(plan=plan, digest=plan.digest, cost_usd=chance.random()),
        Proposed(shown="c", digest=plan.digest),
    ]
    events += [_approval(chance, plan), _work(chance, plan, tree)]
    for n in range(chance.randint(0, 2)):
        plan = replace(plan, plan=plan.plan + 1, tree=tree)
        events += [Outgrew(plan=plan, digest=plan.digest), Proposed(shown=f"d{n}", digest=plan.digest)]
        events += [_approval(chance, plan), _work(chance, plan, tree)]
    return events, plan


def _approval(chance: random.Random, plan: PlanDocument) -> JournalEvent:
    """Return an approval that is enough for its rule, by one or more people, or by the configuration."""
    policy = Policy(four_eyes=chance.random() < 0.3, high_needs=chance.randint(1, 2))
    if plan.tier != Tier.HIGH and not policy.four_eyes and chance.random() < 0.2:
        nobody = Verdict(VerdictOutcome.APPROVED, (), (VerdictReason(Reason.STANDING),))
        return approved(evidence(plan=plan, policy=policy, verdict=nobody), plan)
    people = [Actor(9, "maya"), Actor(8, "ana-lisa"), Actor(10, "Bob_x")][: chance.randint(2, 3)]
    roles = (Role.MAINTAIN, Role.ADMIN, None)
    said = [
        Candidate(each, chance.choice(list(Way)), Opinion.APPROVE, NOW + timedelta(minutes=n), role, role is None)
        for n, (each, role) in enumerate(zip(people, roles, strict=False))
    ]
    return approved(evidence(*said, plan=plan, policy=policy), plan)


def _work(chance: random.Random, plan: PlanDocument, tree: str) -> Executed:
    checks = tuple(_check(chance) for _ in range(chance.randint(0, 3)))
    commands = tuple(
        {"agent": "main", "command": _text(chance), "exit_code": chance.choice([0, 1, None])}
        | ({"output_sha256": f"{chance.getrandbits(256):064x}"} if chance.random() < 0.8 else {})
        for _ in range(chance.randint(0, 4))
    )
    cost = chance.choice([None, chance.random() * 9])
    tokens = chance.randint(0, 2**40)
    done = replace(executed(plan, checks), tree=tree if checks else "", commands=commands, cost_usd=cost)
    return replace(done, tokens_input=tokens, tokens_output=tokens // 7)


def _check(chance: random.Random) -> dict[str, Any]:
    check: dict[str, Any] = {
        "command": _text(chance),
        "exit_code": chance.choice([0, 1]),
        "seconds": 1.0,
        "output": _text(chance),
    }
    return check | {"before": {"exit_code": 1, "seconds": 1.0, "output": ""}} if chance.random() < 0.5 else check


def _text(chance: random.Random) -> str:
    return "x" + "".join(chance.choices(_WORDS, k=chance.randint(0, 6)))


def mutations(value: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield copies of a statement with one field that is changed, removed, doubled, or added, each with its place.

    A copy shares with the statement all that does not contain the field.
    """
    for path in _paths(value):
        for other in _others(value, path):
            yield path, _copy_with(value, path, other)
        yield path, _copy_with(value, path, _REMOVED)


def _copy_with(value: Any, path: tuple[Any, ...], other: Any) -> Any:
    """Return a copy of a value that has another value at a path, or nothing there."""
    step, *rest = path
    made = copy.copy(value)
    if other is _REMOVED and not rest:
        del made[step]
    else:
        made[step] = _copy_with(value[step], tuple(rest), other) if rest else other
    return made


def _paths(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if above:
        yield above
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from _paths(each, (*above, key))


def _others(value: Any, path: tuple[Any, ...]) -> list[Any]:
    for step in path:
        value = value[step]
    match value:
        case bool():
            return [not value, int(value)]
        case int():
            return [value + 1, -value - 1, 2**53, str(value), None]
        case str():
            return [f"{value}x", value[:-1] if value else "x", value.swapcase() + "\n", None]
        case list():
            return [[*value, "x"], [*value, *value, {}], {}]
        case dict():
            return [{**value, "toString": 1}, {}, [value]]
        case _:
            return [1, "", {}]


CONTRADICTIONS: Final[tuple[tuple[str, str, Any], ...]] = (
    ("syntax", "thread", "two"),
    ("syntax", "plan.digest", "abc"),
    ("syntax", "journal.at", "yesterday"),
    ("binding", "plan.base", "b" * 40),
    ("binding", "scope.changed", ["b.py"]),
    ("binding", "verification.tree", "e" * 40),
    ("binding", "repository.name", "acme/other"),
    ("binding", "repository.host", "example.com"),
    ("freshness", "journal.at", "2027-01-01T00:00:00+00:00"),
    ("freshness", "journal.at", "2026-11-20T08:00:00+00:00"),
    ("freshness", "plan.expires", "2026-11-20T08:31:00+00:00"),
    ("freshness", "plan.expires", "2026-02-30T00:00:00+00:00"),
    ("freshness", "approvals.0.by.0.at", "2026-11-20T09:30:00+00:00"),
    ("policy", "approvals.0.plan", "d" * 64),
    ("policy", "approvals.0.by", []),
    ("policy", "approvals.0.by.0.role", "write"),
    ("policy", "approvals.0.by.0.role", "owner"),
    ("policy", "policy.required_role", "admin"),
    ("policy", "policy.needed", 2),
    ("policy", "policy.approver_is_not_requester", False),
    ("policy", "policy.requesters", [7, 9]),
    ("policy", "approvals", []),
    ("policy", "plan.scope_tree", "e" * 40),
    ("completeness", "missing", ["The cost is unknown."]),
    ("completeness", "complete", False),
)


def contradict(statement: Json, where: str, value: Any) -> Json:
    """Return the statement with another value at a place in its predicate, such as ``plan.digest``."""
    *path, last = (int(step) if step.isdecimal() else step for step in where.split("."))
    target: Any = statement["predicate"]
    for step in path:
        target = target[step]
    target[last] = value
    return statement
