"""Standing approval: what the configuration approves by itself, and what it cannot be made to approve."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.approval import Standing, is_glob_inside, standing_objection
from bot.core.maintenance import Operation, OperationKind
from bot.core.moves import Approved, MoveEvent, Noted, Outgrew, Planned, Requested
from bot.core.names import CommitId, RepositoryId, ThreadNumber
from bot.core.notes import TaskChanged
from bot.core.paths import in_scope
from bot.core.plan import Contract, PlanDocument
from bot.core.thread.task import add_move, add_task_note
from tests.core.test_task_history import ANSWER, APPROVED, BEGAN, DUE, KEY, REQUEST, WILL, known
from tests.rows import every_row

STANDING = Standing("deps", ("docs/**", "*.txt", "/setup.cfg"), ("pypi.org",), asked_before=True)
PLAN = PlanDocument(
    repository=RepositoryId(1),
    thread=ThreadNumber(2),
    plan=1,
    base=CommitId("c" * 40),
    markdown="Update.",
    contract=Contract(scope=("docs/a.md", "requirements.txt"), hosts=("pypi.org",), dependencies=("x",)),
    tier="normal",
    budget_usd=1.0,
    expires=datetime(2027, 1, 1, tzinfo=UTC),
)


@pytest.mark.req("MT6")
@every_row(
    ("plan", "standing", "said"),
    (
        (PLAN, STANDING, ""),
        (replace(PLAN, tier="low"), STANDING, ""),
        (PLAN, replace(STANDING, asked_before=False), "first plan of this task"),
        (replace(PLAN, tier="high"), STANDING, "its tier is high"),
        (replace(PLAN, tier="unheard of"), STANDING, "its tier is unheard of"),
        (replace(PLAN, contract=Contract()), STANDING, "it names no files"),
        (replace(PLAN, contract=Contract(scope=("!x",))), STANDING, "it names no files"),
        (replace(PLAN, contract=Contract(scope=("!docs/**", "!src/**"))), STANDING, "it names no files"),
        (replace(PLAN, contract=Contract(scope=("docs/a.md", "!src/**"))), STANDING, ""),  # it only takes away
        (replace(PLAN, contract=Contract(scope=("docs/a.md", "src/a.py"))), STANDING, "(src/a.py)"),
        (replace(PLAN, contract=replace(PLAN.contract, hosts=("evil.example",))), STANDING, "(evil.example)"),
    ),
)
def test_objections(plan: PlanDocument, standing: Standing, said: str) -> None:
    """Anything more than the task allows asks people, with the reason."""
    found = standing_objection(plan, standing, four_eyes=False)
    assert (said in found) if said else not found
    assert "second person" in standing_objection(plan, standing, four_eyes=True)


@pytest.mark.req("MT6")
@every_row(
    ("glob", "inside"),
    (
        ("docs/a.md", True),
        ("docs/api/**", True),
        ("docs/**", True),
        ("docs/*.md", True),
        ("requirements.txt", True),
        ("pip/requirements.txt", True),
        ("/setup.cfg", True),
        ("!src/**", False),  # it only takes away
        ("setup.cfg", False),  # in every folder
        ("docs", False),  # a folder of that name, in every folder
        ("*", False),
        ("**", False),
        ("*.md", False),
        ("docs/../src/a.py", False),
        ("docs/..", False),
        ("doc*/a.md", False),
        ("**/a.txt", False),  # cannot be told for sure
        ("do[c]s/a.md", False),
        ("{docs,src}/a.md", False),
        ("DOCS/A.md", True),  # one folder where names are compared without case
        ("docs\\..\\src", False),
    ),
)
def test_a_plans_glob_counts_as_inside_only_if_all_that_it_reaches_is_inside(glob: str, inside: bool) -> None:
    assert is_glob_inside(glob, STANDING.paths) is inside


STEPS = st.sampled_from(["docs", "src", "a.txt", "a.md", "*", "**", "*.txt", "d*", "?", "..", "[a]", "{a,b}"])
GLOBS = st.builds(
    lambda root, steps: root + "/".join(steps), st.sampled_from(["", "/"]), st.lists(STEPS, min_size=1, max_size=4)
)
PATHS = st.lists(st.sampled_from(["docs", "src", "a.txt", "a.md", "d", "b"]), min_size=1, max_size=4).map("/".join)


@pytest.mark.req("MT6")
@given(GLOBS, st.lists(GLOBS, min_size=1, max_size=3), PATHS)
def test_what_is_inside_reaches_nothing_else(glob: str, paths: list[str], path: str) -> None:
    if not glob.startswith("!") and is_glob_inside(glob, paths) and in_scope(path, [glob], ("x",)):
        assert in_scope(path, paths, ("x",))


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
    assert standing_objection(plan_of(Contract(scope=scope)), STANDING, four_eyes=False)


@pytest.mark.req("MT6")
@every_row("plan", MORE.values())
def test_plans_that_ask_for_more(plan: PlanDocument) -> None:
    assert standing_objection(plan, STANDING, four_eyes=False)
    assert not standing_objection(PLAN, STANDING, four_eyes=False)


@pytest.mark.req("MT6")
@every_row("path", WORK.values())
def test_work_that_leaves_its_plan(path: str) -> None:
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
