"""Receipts with a valid signature that claim what cannot be: the check that fails, the changed field, and its value."""

from typing import Any, Final

from bot.core.transcript import Json

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
