"""The proof of an approval: nothing but core/approval.py makes one, and nothing changes it."""

import ast
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from bot.core import approval
from bot.core.approval import (
    ApprovedPlan,
    Candidate,
    Opinion,
    Policy,
    ShownPlan,
    Snapshot,
    Verdict,
    VerdictOutcome,
    Way,
    prove,
)
from bot.core.errors import Broken
from bot.core.names import CommitId, RepositoryId, ThreadNumber
from bot.core.plan import Contract, PlanDocument
from bot.core.turn import Actor, Role
from tests.rows import every_row

NOON: Final = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
LATER: Final = NOON + timedelta(hours=1)
PLAN: Final = PlanDocument(
    repository=RepositoryId(5),
    thread=ThreadNumber(8),
    plan=1,
    base=CommitId("c" * 40),
    markdown="Do it.",
    contract=Contract(),
    tier="normal",
    budget_usd=5.0,
    expires=NOON + timedelta(days=7),
)
ANA: Final = Actor(1, "ana")
YES: Final = Candidate(ANA, Way.REACTION, Opinion.APPROVE, NOON + timedelta(seconds=1), Role.ADMIN)


@pytest.mark.req("PR1")
@pytest.mark.parametrize("key", (None, object(), "key", ApprovedPlan))
def test_proof_cannot_be_made(key: object) -> None:
    """Without the key of core/approval.py no ApprovedPlan is made."""
    with pytest.raises(Broken, match=r"prove alone"):
        ApprovedPlan(key, PLAN, Verdict(VerdictOutcome.APPROVED, (ANA,)), LATER)


@pytest.mark.parametrize("name", ("document", "verdict", "at"))
def test_proof_cannot_be_changed(name: str) -> None:
    """What was proved stays what was proved."""
    _, proof = prove(PLAN, Snapshot(ShownPlan(NOON), (YES,)), Policy(), LATER)
    assert proof is not None
    with pytest.raises(AttributeError):
        setattr(proof, name, PLAN)


ROOT = Path(__file__).parents[2]
SOURCES = sorted({*ROOT.glob("bot/**/*.py"), *ROOT.glob("webhooks/**/*.py")} - {Path(approval.__file__)})


def forgeries(source: str) -> list[int]:
    """Return the lines of a source that use ApprovedPlan otherwise than as a type, or reach for the key."""
    if "ApprovedPlan" not in source and not re.search(r"\bapproval\b", source):
        return []
    tree = ast.parse(source)
    types = {id(node) for annotation in _annotations(tree) for node in ast.walk(annotation)}
    return [node.lineno for node in _nodes(tree) if _forges(node) and id(node) not in types]


def _nodes(tree: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.expr | ast.stmt))


def _annotations(tree: ast.AST) -> list[ast.AST]:
    fields = ("annotation", "returns")
    return [
        part for node in ast.walk(tree) for field in fields if isinstance(part := getattr(node, field, None), ast.AST)
    ]


def _forges(node: Any) -> bool:
    match node:
        case ast.Name(id="ApprovedPlan") | ast.Attribute(attr="ApprovedPlan"):
            return True
        case ast.Attribute(value=ast.Name(id="approval"), attr=name):
            return name.startswith("_")
        case ast.ImportFrom(module="bot.core.approval", names=names):
            return any(name.name.startswith("_") or (name.name == "ApprovedPlan" and name.asname) for name in names)
        case _:
            return False


@pytest.mark.req("PR1")
def test_nobody_else_makes_a_proof() -> None:
    """Outside of core/approval.py an ApprovedPlan is a type to write down, never one to call, pass on or rename."""
    assert SOURCES
    assert {str(path): lines for path in SOURCES if (lines := forgeries(path.read_text(encoding="utf-8")))} == {}


@every_row(
    "planted",
    (
        "ApprovedPlan(key, plan, (), now)",
        "make = ApprovedPlan",
        "approval.ApprovedPlan(key, plan, (), now)",
        "object.__new__(ApprovedPlan)",
        "class Mine(ApprovedPlan): pass",
        "from bot.core.approval import _KEY",
        "from bot.core.approval import ApprovedPlan as Plan",
        "key = approval._KEY",
    ),
)
def test_forgery_is_seen(planted: str) -> None:
    """The search is not vacuous: it sees each way of making a proof, and lets types through."""
    honest = "from bot.core.approval import ApprovedPlan\ndef f(plan: ApprovedPlan) -> ApprovedPlan | None: ...\n"
    assert forgeries(honest) == []
    assert forgeries(honest + planted) == [3]
