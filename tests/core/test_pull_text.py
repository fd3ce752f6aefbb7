"""The texts where work ends: progress, pull request, commit message, and the table of files."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final

import pytest

from bot.agent.session_events import End
from bot.core.approval import Verdict, VerdictOutcome
from bot.core.comment import AgentRow, is_at_work, planning_over, progress, work_begun_line
from bot.core.gate import Stage
from bot.core.markdown.gfm import parse
from bot.core.markdown.inert import POSTED_BYTES, POSTED_CHARACTERS, inert_markdown
from bot.core.names import CommitId, RepositoryId, ThreadNumber
from bot.core.plan import Contract, PlanDocument
from bot.core.pull_text import PullOrigin, changed_by_entry, pull_body, pull_request_ready, scope_table
from bot.core.turn import Actor
from bot.core.work import PullRequest
from tests.core.test_texts import PLAN as SHORT_PLAN

PLAN: Final = PlanDocument(
    repository=RepositoryId(5),
    thread=ThreadNumber(8),
    plan=3,
    base=CommitId("c" * 40),
    markdown="Rename it.",
    contract=Contract(scope=("src/**",)),
    tier="normal",
    budget_usd=7.5,
    expires=datetime(2026, 11, 27, 8, 30, tzinfo=UTC),
)
APPROVED_AT: Final = datetime(2026, 11, 20, 10, 5, tzinfo=timezone(timedelta(hours=2)))
BOTH: Final = Verdict(VerdictOutcome.APPROVED, (Actor(1, "ana"), Actor(2, "ben")))
ALONE: Final = Verdict(VerdictOutcome.APPROVED, (Actor(1, "ana"),))
GOOD: Final = {"command": "ruff check", "exit_code": 0, "seconds": 1.5, "output": "fine"}
BAD: Final = {"command": "pytest -q", "exit_code": 1, "seconds": 2.0, "output": "1 failed"}


def test_progress() -> None:
    """The todo list with its signs, one row a sub-agent, what was spent of the budget."""
    todos = (("Look", "completed"), ("Edit", "in_progress"), ("- [ ] test", "pending"))
    rows = (
        AgentRow("code", "a | b\n`<c>`", "running", 4, 12345, 6.7, 0.0123),
        AgentRow("plan", "d", "failed: a | b", 0, 0, 0, None),
    )
    assert progress(Stage.EXECUTING, "acceptEdits", todos, rows, spent=(9, 0.5, 5)) == (
        "**Executing** · ▶ may edit files\n\n"
        "- ☑ Look\n- ▶ Edit\n- ☐ - ☐ test\n\n"
        "| sub-agent | task | state | tool calls | tokens | seconds | dollars |\n"
        "| ---|---|---|---|---|---|--- |\n"
        "| code | a \\| b '‹c>' | running | 4 | 12,345 | 7 | $0.012 |\n"
        "| plan | d | failed: a \\| b | 0 | 0 | 0 | unknown |\n\n"
        "9 tool calls, $0.50 of $5.00."
    )


def test_progress_shows_whether_work_goes_on() -> None:
    shown = {at: progress(at, "acceptEdits", (), (), spent=(9, 0.5, 5)) for at in (*Stage, "completed", "cancelled")}
    assert [at for at, text in shown.items() if is_at_work(text)] == [Stage.EXECUTING]


@pytest.mark.parametrize("end", End)
def test_progress_at_the_end(end: End) -> None:
    """Whatever a session ends with, its comment says so instead of the stage: nobody takes it for work under way."""
    text = progress(end, "acceptEdits", (), (), spent=(9, 0.5, 5))
    assert text.split("**")[1].split()[0] in {"Executed", "Waiting", "Stopped", "Refused", "Failed"}


@pytest.mark.parametrize("end", (*End, "planned"))
def test_progress_of_planning_at_the_end(end: str) -> None:
    said = planning_over(end).removeprefix("**").removesuffix(".**")
    assert said in {
        "Planned",
        "Answered",
        "Waiting for an answer",
        "Stopped at a limit",
        "Stopped",
        "Refused",
        "Failed",
    }


def body(*checks: dict[str, Any], cost_usd: float | None = 1.234, plan: PlanDocument = PLAN) -> str:
    origin = PullOrigin(("will",), BOTH, APPROVED_AT, "claude-opus-5-5", cost_usd)
    return pull_body(plan, origin, summary="Renamed it.", checks=checks)


@pytest.mark.req("PR6", "X2")
def test_sub_agents() -> None:
    """Each is a row of the pull request, in which nothing that the model wrote acts; the first twenty are shown."""
    rows = (
        AgentRow("code", "Ask @ana, it fixes #3", "completed", 4, 1234, 6.7, 0.01),
        *[AgentRow("look", "d", "failed", 0, 0, 0, None)] * 21,
    )
    text = pull_body(PLAN, PullOrigin(("will",) * 22, ALONE, APPROVED_AT, agents=rows), summary="Done.", checks=())
    assert text.startswith("Done.\n\n| sub-agent | task | state | tool calls | tokens | seconds | dollars |\n")
    assert "\n| code | Ask `@ana`, it fixes `#3` | completed | 4 | 1,234 | 7 | $0.010 |\n" in text
    assert text.count("\n| look |") == 19
    assert "\n\nSub-agents not shown: 2.\n\n- Requested by `will`, " in text
    assert (
        f"`will` and 2 more.\n- Approved by `ana` as plan 3 ({PLAN.short_digest}) on 2026-11-20 08:05 UTC.\n- Cost:"
        in text
    )


@pytest.mark.req("PR6", "X2")
def test_commands_of_agents() -> None:
    """What the agents ran by themselves is folded, the last thirty, with exit codes; nothing in it acts."""
    ran = [{"agent": "main", "command": f"make {n}", "exit_code": n} for n in range(31)]
    nasty = {"agent": "code-1", "command": "echo '@ana | closes #3`\u202e", "exit_code": None}
    text = pull_body(
        PLAN, PullOrigin(("will",), ALONE, APPROVED_AT, commands=[*ran, nasty]), summary="Done.", checks=[GOOD]
    )
    head = "<details><summary>Commands that the agents ran</summary>\n\n| agent | command | exit code |\n"
    assert f"{head}| ---|---|--- |\n| main | `make 2` | 2 |\n" in text
    assert (
        "| code-1 | `echo '@ana \\| closes #3'‹U+202E›` | stopped |\n\nEarlier commands not shown: 2.\n\n</details>"
        in text
    )
    assert text.index("`ruff check`") < text.index("`make 2`") < text.index("Requested by")


def test_pull_request_with_checks() -> None:
    """Each check is a row with its exit code; where all is well there is no warning and no output."""
    text = body(GOOD)
    assert "| check | exit code | seconds |\n| ---|---|--- |\n| `ruff check` | 0 | 1.5 |" in text
    assert "⚠" not in text
    assert "fine" not in text


@pytest.mark.req("X2")
@pytest.mark.parametrize(
    ("output", "fence"), (("plain", "```"), ("``", "```"), ("```\nx\n```", "````"), ("a`````b", "``````"))
)
def test_output_stays_in_its_fence(output: str, fence: str) -> None:
    assert f"\n\n{fence}\n{output}\n{fence}\n\n</details>" in body({**BAD, "output": output})


@pytest.mark.req("X2")
def test_boxes_are_inert() -> None:
    """Boxes in the approved plan are signs here as well."""
    assert "- ☐ one" in body(plan=replace(PLAN, markdown="- [ ] one"))


LONG: Final[dict[str, dict[str, Any]]] = {
    "summary": {"summary": "word `@a\n@b` " * 9_000},
    "summary in a fence": {"summary": "```\n" + "@octocat closes #1\n" * 9_000},
    "outputs": {"checks": [{**BAD, "output": "`" * 2_000} for _ in range(50)]},
    "commands": {"checks": [{**BAD, "command": "|" * 9_000, "output": "x" * 9_000} for _ in range(50)]},
    "plan": {"plan": replace(PLAN, markdown="Say `@a\nand @b`.\n" * 2_300)},
    "one line": {"plan": replace(PLAN, markdown="@octocat " * 4_400)},
    "sub-agents": {"agents": [AgentRow("t" * 99, "@a " * 300, "failed: " + "closes #1 " * 99, 1, 2, 3, None)] * 40},
    "agents' commands": {"commands": [{"agent": "main", "command": "@a #1 | " * 99, "exit_code": 1}] * 50},
    "files": {"files": [f"`@a | closes #{n}\n<!--" * 20 for n in range(400)]},
    "astral": {"plan": replace(PLAN, markdown="🚀" * 39_000), "summary": "🚀" * 50_000},
}
LONG["all"] = (
    LONG["summary in a fence"]
    | LONG["outputs"]
    | LONG["plan"]
    | LONG["sub-agents"]
    | LONG["agents' commands"]
    | LONG["files"]
)


@pytest.mark.req("X2")
@pytest.mark.parametrize("case", LONG)
def test_long_pull_request(case: str) -> None:
    """However long its parts are, it fits, closes its issue at the end, and nobody is mentioned by what a cut left."""
    given: dict[str, Any] = {"summary": "Done.", "checks": [GOOD], "plan": PLAN, **LONG[case]}
    plan = replace(given["plan"], markdown=inert_markdown(given["plan"].markdown))
    origin = PullOrigin(("w" * 39,) * 99, ALONE, APPROVED_AT, "m" * 999, 1.0, given.get("agents", ()))
    origin = replace(origin, commands=given.get("commands", ()), paths=given.get("files", ()))
    text = pull_body(plan, origin, summary=inert_markdown(given["summary"]), checks=given["checks"])
    assert (len(text) <= POSTED_CHARACTERS, len(text.encode()) <= POSTED_BYTES) == (True, True)
    assert text.endswith("</details>\n\nCloses #8\n")
    assert "Approved by `ana` as plan 3" in text
    inline = [token for token in parse(text) if token.type == "inline"]
    assert not any("@" in part.content for token in inline for part in token.children or [] if part.type == "text")
    assert [token.content for token in inline][-1] == "Closes #8"


@pytest.mark.req("CL4")
def test_work_on_a_branch_of_its_own_refers_to_its_pull_request() -> None:
    origin = PullOrigin(("will",), ALONE, APPROVED_AT)
    text = pull_body(replace(PLAN, branch="plangate/8-fix-it"), origin, summary="Done.", checks=[])
    assert text.endswith("\n\nRefs #8\n")
    assert "- Branch: `plangate/8-fix-it`, a new one in this repository, made from commit" in text


def test_many_checks() -> None:
    """The first thirty are shown, failing ones before the others, and the rest is counted."""
    text = body(*[GOOD] * 40, BAD)
    assert text.count("`ruff check`") == 29
    assert "`pytest -q` | 1 |" in text
    assert "Checks not shown: 11." in text


def test_much_that_was_not_given() -> None:
    """The first twenty labels and reviewers are named, in words that do nothing (X2), and the rest is counted."""
    said = pull_request_ready(PullRequest(9, "", undone=("`a`\nno", "reviewer eve: " + "@all " * 99, *["no"] * 21)))
    assert "- `` `a` no ``\n- `reviewer eve: " + ("@all " * 58)[:284] + "…`\n" in said
    assert (said.count("`no`"), said.endswith("\n- and 3 more")) == (18, True)


@pytest.mark.req("A4b")
def test_above_a_plan_stand_the_first_twenty_approvers() -> None:
    assert " and 2 more on " in work_begun_line(["ana"] * 22, APPROVED_AT)


def test_nothing_known_of_the_cost() -> None:
    assert "Cost: unknown." in body(cost_usd=None)
    spent = replace(PullOrigin(("will",), BOTH, APPROVED_AT, cost_usd=1.234), tokens=(12_345, 2_345))
    assert "Cost: $1.23 (12,345 tokens in, 2,345 out)." in pull_body(PLAN, spent, summary="Done.", checks=())


def plan(*scope: str) -> PlanDocument:
    return replace(SHORT_PLAN, contract=replace(SHORT_PLAN.contract, scope=scope))


def rows(table: str) -> list[str]:
    return [line for line in table.splitlines() if line.startswith("| ")][2:]


@pytest.mark.req("PR6")
def test_each_file_stands_once() -> None:
    """Beside the entry that names it exactly, else beside the first that covers it; exclusions have no row."""
    scope = ("src/**", "src/a.py", "docs", "!src/gen/**", "README.md")
    changed = ("docs/x/y.md", "src/A.py", "src/b.py", "src/c/d.py", "setup.cfg")
    assert changed_by_entry(scope, changed) == {
        "src/**": ["src/b.py", "src/c/d.py"],
        "src/a.py": ["src/A.py"],
        "docs": ["docs/x/y.md"],
        "README.md": [],
        "": ["setup.cfg"],
    }


@pytest.mark.req("PR6")
def test_a_plan_that_names_no_files() -> None:
    assert rows(scope_table(plan(), ("a.py",))) == ["| any, except those of tier high | `a.py` |"]


@pytest.mark.req("PR6")
@pytest.mark.req("X2")
def test_four_hundred_files() -> None:
    """The table stays short: under one entry, in an amendment that names each file, and with longest names."""
    changed = tuple(f"src/{'very_' * 50}long_{n}.py" for n in range(400))
    assert rows(scope_table(plan("src"), ("a/b.py", *(f"src/{n}" for n in range(400))))) == [
        "| `src` | 400 files: `src/0`, `src/1`, `src/2`, … |",
        "| not named | `a/b.py` |",
    ]
    named = scope_table(plan(*changed, "left.py"), (*changed, "other.py"))
    assert rows(named)[:2] == ["| `left.py` | no change |", "| not named | `other.py` |"]
    assert "\n\nPlanned files not shown: 382.\n\n" in named
    assert len(named) < 6_000


@pytest.mark.req("PR6")
@pytest.mark.req("X2")
def test_names_that_want_to_be_more() -> None:
    """No pipe, backtick, line break, tag, invisible sign, or lookalike leaves its cell."""
    (row,) = rows(scope_table(plan("**"), ("a|b`c\n<d>\u202e@ana", "p\u0430ypal.py")))
    assert row == "| `**` | `a\\|b'c ‹d>‹U+202E›@ana`, `p‹U+0430›ypal.py` |"
