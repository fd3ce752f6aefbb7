"""Sixty-three ways to get more than a task with standing approval allows, and what stops each (MT6).

Each is tested where it is stopped first: at the plan, which waits for people; at the work, which becomes a plan of its
own; or at the journal, which no longer says that only the task asked.
"""

from dataclasses import replace
from typing import Final

import pytest

from bot.core.approval import standing_objection
from bot.core.maintenance import Operation, OperationKind
from bot.core.moves import Approved, MoveEvent, Noted, Outgrew, Planned, Requested
from bot.core.notes import TaskChanged
from bot.core.plan import Contract, PlanDocument
from bot.core.thread.task import add_move, add_task_note
from tests.core.test_standing import PLAN, STANDING
from tests.core.test_task_history import ANSWER, APPROVED, BEGAN, DUE, KEY, REQUEST, WILL, known
from tests.rows import every_row

SCOPES: Final = {
    "no files at all": (),
    "only what it leaves out": ("!x",),
    "everything": ("**",),
    "every name": ("*",),
    "every file of a kind": ("**/*.md",),
    "a name in every folder": ("a.md",),
    "its own file name in every folder": ("setup.cfg",),
    "its own folder's name in every folder": ("docs",),
    "a file elsewhere": ("src/a.py",),
    "a file elsewhere behind a good one": ("docs/a.md", "src/a.py"),
    "two dots": ("docs/../src/a.py",),
    "two dots at the end": ("docs/..",),
    "two dots above the repository": ("docs/../../outside.md",),
    "two dots behind two slashes": ("docs//..//src/a.py",),
    "two dots behind a single one": ("docs/./../src/a.py",),
    "two dots after backslashes": ("docs\\..\\src\\a.py",),
    "two dots of one character each": ("docs/\u2024\u2024/src/a.py",),
    "two dots between wide slashes": ("docs\uff0f..\uff0fsrc/a.py",),
    "two dots around what nobody sees": ("docs/.\u200b./src/a.py",),
    "a folder that begins like its own": ("docs-internal/a.md",),
    "a star in the folder": ("doc*/a.md",),
    "a question mark in the folder": ("doc?/a.md",),
    "two stars before the name": ("**/a.txt",),
    "braces": ("{docs,src}/a.md",),
    "braces with two dots": ("docs/{a,../src/b}.md",),
    "square brackets": ("do[cr]s/a.md",),
    "wide letters of another folder": ("\uff53\uff52\uff43/a.py",),
    "an absolute path": ("/etc/passwd",),
    "a workflow": (".github/workflows/ci.yml",),
    "a workflow, in capitals": (".GITHUB/WORKFLOWS/CI.YML",),
    "the configuration itself": (".github/plangate.yml",),
    "a recipe of its own": (".plangate/recipes/more.md",),
    "instructions to agents, inside": ("docs/CLAUDE.md",),
    "code owners, inside": ("docs/CODEOWNERS",),
    "a build file, inside": ("docs/Makefile",),
    "attributes of git, inside": ("docs/.gitattributes",),
    "submodules": (".gitmodules",),
    "dependencies that it does not name": ("requirements.txt",),
}
MORE: Final = {
    "a further host": replace(PLAN, contract=replace(PLAN.contract, hosts=("pypi.org", "evil.example"))),
    "a host that ends like its own": replace(PLAN, contract=replace(PLAN.contract, hosts=("not-pypi.org",))),
    "a host that begins like its own": replace(PLAN, contract=replace(PLAN.contract, hosts=("pypi.org.evil.example",))),
    "all hosts": replace(PLAN, contract=replace(PLAN.contract, hosts=("*",))),
    "a label": replace(PLAN, operations=(Operation(OperationKind.ADD_LABEL, 3, "bug"),)),
    "a comment": replace(PLAN, operations=(Operation(OperationKind.COMMENT, 3, "Thanks."),)),
    "closing an issue": replace(PLAN, operations=(Operation(OperationKind.CLOSE, 3),)),
    "tier high": replace(PLAN, tier="high"),
    "a tier that nobody knows": replace(PLAN, tier="none"),
}
WORK: Final = {
    "another file": "src/a.py",
    "another file of an own kind": "docs/b.txt",
    "a file beside a folder of its name": "docs/a.md.py",
    "a file by two dots": "docs/../src/a.py",
    "a workflow that nobody named": ".github/workflows/ci.yml",
    "a submodule's list": ".gitmodules",
    "the configuration": ".github/plangate.yml",
    "a file that leaves the repository": "../outside.md",
    "instructions to agents": "docs/AGENTS.md",
}


def plan_of(contract: Contract) -> PlanDocument:
    """Return a plan with the tier that the harness finds for its contract."""
    return replace(PLAN, contract=contract, tier=str(contract.tier(contract.scope)))


@pytest.mark.req("MT6")
@every_row("scope", SCOPES.values())
def test_plans_that_name_other_files(scope: tuple[str, ...]) -> None:
    """They wait for people."""
    assert standing_objection(plan_of(Contract(scope=scope)), STANDING, four_eyes=False)


@pytest.mark.req("MT6")
@every_row("plan", MORE.values())
def test_plans_that_ask_for_more(plan: PlanDocument) -> None:
    """They wait for people."""
    assert standing_objection(plan, STANDING, four_eyes=False)
    assert not standing_objection(PLAN, STANDING, four_eyes=False)


@pytest.mark.req("MT6")
@every_row("path", WORK.values())
def test_work_that_leaves_its_plan(path: str) -> None:
    """The plan's files do not reach it, so that it becomes a plan of its own."""
    contract = Contract(scope=("docs/a.md",))
    assert standing_objection(plan_of(contract), STANDING, four_eyes=False) == ""
    assert not contract.reaches(path)


CHANGED: Final = TaskChanged(task="deps", task_digest="e")
JOURNALS: Final[dict[str, tuple[MoveEvent | TaskChanged, ...]]] = {
    "more that a person wants": (REQUEST, Noted(said=WILL)),
    "a person's answer to its question": (REQUEST, ANSWER),
    "words of strangers": (REQUEST, Planned(plan=PLAN, strangers=True)),
    "an amendment": (REQUEST, Planned(plan=PLAN), Outgrew(plan=PLAN)),
    "a person's own request": (Requested(said=WILL, base=REQUEST.base),),
    "a task that changed since people approved it": (CHANGED, REQUEST),
    "a changed task that the configuration approved": (
        CHANGED,
        REQUEST,
        Approved(by=(), approved_at=BEGAN, digest=PLAN.digest),
        REQUEST,
    ),
}


@pytest.mark.req("MT6")
@pytest.mark.parametrize("events", JOURNALS.values(), ids=JOURNALS)
def test_journals_in_which_more_than_the_task_asks(events: tuple[MoveEvent | TaskChanged, ...]) -> None:
    """People approved its first plan; what came since is no longer what they approved."""
    history = add_move(add_move(known(DUE), REQUEST, KEY, findings=(), at=BEGAN), APPROVED, KEY, findings=(), at=BEGAN)
    again = add_move(history, REQUEST, KEY, findings=(), at=BEGAN)
    assert again.planned == again.approved != ""
    for event in events:
        if isinstance(event, TaskChanged):
            history = add_task_note(history, event, BEGAN) or history
        else:
            key = event.said.key if isinstance(event, Requested) else KEY
            history = add_move(history, event, key, findings=(), at=BEGAN)
    assert history.planned != history.approved
