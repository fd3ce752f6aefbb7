"""What the bot says of work that runs and work that is done: progress, pull requests."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final

import pytest

from bot.agent.session_events import End
from bot.core.actor import Actor
from bot.core.approval import Finding, Outcome, Reason, Verdict
from bot.core.comment import (
    AgentRow,
    next_plan_notice,
    planning_over,
    progress,
    superseded_notice,
    work_begun_line,
)
from bot.core.gate import Stage
from bot.core.markdown.gfm import parse
from bot.core.markdown.inert import POSTED_BYTES, POSTED_CHARACTERS, inert_markdown
from bot.core.names import CommitId, RepositoryId, ThreadNumber
from bot.core.plan import Contract, PlanDocument
from bot.core.pull import PullRequest
from bot.core.pull_text import Origin, pull_body, pull_request_ready
from bot.core.reply_text import approval_withdrawn, journal_set_back, session_queued

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
BOTH: Final = Verdict(Outcome.APPROVED, (Actor(1, "ana"), Actor(2, "ben")))
ALONE: Final = Verdict(Outcome.APPROVED, (Actor(1, "ana"),))
GOOD: Final = {"command": "ruff check", "exit_code": 0, "seconds": 1.5, "output": "fine"}
BAD: Final = {"command": "pytest -q", "exit_code": 1, "seconds": 2.0, "output": "1 failed"}


def test_progress_at_the_start() -> None:
    """Before anything is known there is the stage, and what was spent."""
    text = progress(Stage.AWAITING_APPROVAL, "plan", (), (), spent=(0, None, None))
    assert text == "**Awaiting approval** · ⏸ plan mode on\n\n0 tool calls, unknown cost."


def test_progress() -> None:
    """The todo list with its signs, one row a sub-agent, what was spent of the budget."""
    todos = (("Look", "completed"), ("Edit", "in_progress"), ("- [ ] test", "pending"))
    rows = (
        AgentRow("code", "a | b\n`<c>`", "running", 4, 12345, 6.7, 0.0123),
        AgentRow("plan", "d", "failed: a | b", 0, 0, 0, None),
    )
    assert progress(Stage.EXECUTING, "acceptEdits", todos, rows, spent=(9, 0.5, 5)) == (
        "**Executing** · ▶ mode acceptEdits\n\n"
        "- ☑ Look\n- ▶ Edit\n- ☐ - ☐ test\n\n"
        "| sub-agent | task | state | tool calls | tokens | seconds | dollars |\n"
        "| ---|---|---|---|---|---|--- |\n"
        "| code | a \\| b '‹c>' | running | 4 | 12,345 | 7 | $0.012 |\n"
        "| plan | d | failed: a \\| b | 0 | 0 | 0 | unknown |\n\n"
        "9 tool calls, $0.50 of $5.00."
    )


@pytest.mark.parametrize("end", End)
def test_progress_at_the_end(end: End) -> None:
    """Whatever a session ends with, its comment says so instead of the stage: nobody takes it for work under way."""
    text = progress(end, "acceptEdits", (), (), spent=(9, 0.5, 5))
    assert text.split("**")[1].split()[0] in {"Executed", "Waiting", "Stopped", "Refused", "Failed"}


@pytest.mark.parametrize("end", (*End, "planned"))
def test_progress_of_planning_at_the_end(end: str) -> None:
    """One line that says what it came to."""
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
    origin = Origin(("will",), BOTH, APPROVED_AT, "claude-opus-5-5", cost_usd)
    return pull_body(plan, origin, summary="Renamed it.", checks=checks)


@pytest.mark.req("PR6")
def test_pull_request() -> None:
    """What was done, who asked and who approved which plan and when, the model, the cost, the plan, and the one
    closing keyword, at the end."""
    text = body()
    assert text.startswith(
        f"Renamed it.\n\nAsked by `will`. Approved by `ana`, `ben` as plan 3 ({PLAN.short_digest}) "
        "on 2026-11-20 08:05 UTC. Model: `claude-opus-5-5`. Cost: $1.23."
    )
    assert "<details><summary>The approved plan</summary>\n\nRename it.\n\n- Files: `src/**`" in text
    assert text.endswith("</details>\n\nCloses #8\n")
    assert "Cost: unknown." in body(cost_usd=None)


@pytest.mark.req("PR6", "X2")
def test_sub_agents() -> None:
    """Each is a row of the pull request, in which nothing that the model wrote acts; the first twenty are shown."""
    rows = (
        AgentRow("code", "Ask @ana, it fixes #3", "completed", 4, 1234, 6.7, 0.01),
        *[AgentRow("look", "d", "failed", 0, 0, 0, None)] * 21,
    )
    text = pull_body(PLAN, Origin(("will",) * 22, ALONE, APPROVED_AT, agents=rows), summary="Done.", checks=())
    assert text.startswith("Done.\n\n| sub-agent | task | state | tool calls | tokens | seconds | dollars |\n")
    assert "\n| code | Ask `@ana`, it fixes `#3` | completed | 4 | 1,234 | 7 | $0.010 |\n" in text
    assert text.count("\n| look |") == 19
    assert "\n\nAnd 2 more sub-agents.\n\nAsked by `will`, " in text
    assert (
        f"`will` and 2 more. Approved by `ana` as plan 3 ({PLAN.short_digest}) on 2026-11-20 08:05 UTC. Cost:" in text
    )


@pytest.mark.req("PR6", "X2")
def test_commands_of_agents() -> None:
    """What the agents ran by themselves is folded, the last thirty, with exit codes; nothing in it acts."""
    ran = [{"agent": "main", "command": f"make {n}", "exit_code": n} for n in range(31)]
    nasty = {"agent": "code-1", "command": "echo '@ana | closes #3`\u202e", "exit_code": None}
    text = pull_body(
        PLAN, Origin(("will",), ALONE, APPROVED_AT, commands=[*ran, nasty]), summary="Done.", checks=[GOOD]
    )
    head = "<details><summary>What the agents ran by themselves</summary>\n\n| agent | command | exit code |\n"
    assert f"{head}| ---|---|--- |\n| main | `make 2` | 2 |\n" in text
    assert "| code-1 | `echo '@ana \\| closes #3'‹U+202E›` | ended |\n\nAnd 2 before them.\n\n</details>" in text
    assert text.index("`ruff check`") < text.index("`make 2`") < text.index("Asked by")


@pytest.mark.parametrize(
    ("reason", "said"),
    (
        (Reason.NOBODY_ELSE, "`ana` (nobody else may approve here, so that is enough) as plan 3"),
        (Reason.CODE_OWNER, "`ana` (a code owner of all that may change, so that is enough) as plan 3"),
        (Reason.ROLE_TOO_LOW, "`ana` as plan 3"),
    ),
)
def test_fewer_approvals_than_usual(reason: Reason, said: str) -> None:
    """Where fewer people approved than tier high needs, the pull request says why that was enough."""
    verdict = Verdict(Outcome.APPROVED, ALONE.by, (Finding(reason),))
    assert f"Approved by {said}" in pull_body(PLAN, Origin((), verdict, APPROVED_AT), summary="Done.", checks=())


def test_pull_request_with_checks() -> None:
    """Each check is a row with its exit code; where all is well there is no warning and no output."""
    text = body(GOOD)
    assert "| check | exit code | seconds |\n| ---|---|--- |\n| `ruff check` | 0 | 1.5 |" in text
    assert "⚠" not in text
    assert "fine" not in text


def test_pull_request_with_a_failing_check() -> None:
    """A failing check is said at the top and shown with its output, never hidden."""
    text = body(GOOD, BAD)
    assert text.startswith("> ⚠ 1 of 2 checks failed; see below.\n\nRenamed it.")
    assert "<details><summary><code>pytest -q</code></summary>\n\n```\n1 failed\n```\n\n</details>" in text


@pytest.mark.req("X2")
@pytest.mark.parametrize(
    ("output", "fence"), (("plain", "```"), ("``", "```"), ("```\nx\n```", "````"), ("a`````b", "``````"))
)
def test_output_stays_in_its_fence(output: str, fence: str) -> None:
    """Whatever a check printed, its fence is longer than any in it."""
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
    "astral": {"plan": replace(PLAN, markdown="🚀" * 39_000), "summary": "🚀" * 50_000},
}
LONG["all"] = (
    LONG["summary in a fence"] | LONG["outputs"] | LONG["plan"] | LONG["sub-agents"] | LONG["agents' commands"]
)


@pytest.mark.req("X2")
@pytest.mark.parametrize("case", LONG)
def test_long_pull_request(case: str) -> None:
    """However long its parts are, it fits, closes its issue at the end, and nobody is mentioned by what a cut left."""
    given: dict[str, Any] = {"summary": "Done.", "checks": [GOOD], "plan": PLAN, **LONG[case]}
    plan = replace(given["plan"], markdown=inert_markdown(given["plan"].markdown))
    origin = Origin(("w" * 39,) * 99, ALONE, APPROVED_AT, "m" * 999, 1.0, given.get("agents", ()))
    origin = replace(origin, commands=given.get("commands", ()))
    text = pull_body(plan, origin, summary=inert_markdown(given["summary"]), checks=given["checks"])
    assert (len(text) <= POSTED_CHARACTERS, len(text.encode()) <= POSTED_BYTES) == (True, True)
    assert text.endswith("</details>\n\nCloses #8\n")
    assert "Approved by `ana` as plan 3" in text
    inline = [token for token in parse(text) if token.type == "inline"]
    assert not any("@" in part.content for token in inline for part in token.children or [] if part.type == "text")
    assert [token.content for token in inline][-1] == "Closes #8"


def test_many_checks() -> None:
    """The first thirty are shown, failing ones before the others, and the rest is counted."""
    text = body(*[GOOD] * 40, BAD)
    assert text.count("`ruff check`") == 29
    assert "`pytest -q` | 1 |" in text
    assert "And 11 more checks." in text


@pytest.mark.req("A4b")
def test_begun() -> None:
    """Above a plan stands who approved it and when, to the second; of a crowd the first twenty."""
    at = datetime(2026, 11, 20, 10, 5, 7, tzinfo=timezone(timedelta(hours=2)))
    said = "**Approved** by `ana`, `ben` on 2026-11-20 08:05:07 UTC; the work has begun, and no earlier approval counts"
    assert work_begun_line(["ana", "ben"], at) == f"{said} a second time."
    assert " and 2 more on " in work_begun_line(["ana"] * 22, at)


@pytest.mark.req("A4b")
def test_rewound() -> None:
    """A journal that was set back is named, with who decides, by which word, and what comes of it."""
    said = journal_set_back("refs/plangate/threads/8", "@bot")
    assert said.startswith(
        "What I keep of this thread in `refs/plangate/threads/8` is older than what I have said here:"
    )
    assert "until somebody who may approve says, after this comment, `@bot retry`." in said


@pytest.mark.req("PR3")
def test_withdrawn() -> None:
    """Whoever took an approval back is told what stopped, what is kept, and what publishes it."""
    by_ana = Verdict(Outcome.PENDING, (), (Finding(Reason.ROLE_TOO_LOW, ALONE.by[0]), Finding(Reason.NOBODY)))
    assert approval_withdrawn(PLAN, by_ana, "@bot") == (
        f"I stopped, because plan 3 ({PLAN.short_digest}) is no longer approved: `@ana`: the role on this repository "
        "is too low to approve; no approval that counts is left. Nothing of it was published. The work so far is kept; "
        f"a new approval of this plan (👍, or `@bot approve {PLAN.short_digest}`) goes on from there and publishes it."
    )
    alone = Verdict(Outcome.PENDING, (), (Finding(Reason.NOBODY),))
    assert "is no longer approved: the approval was taken back. Nothing of it" in approval_withdrawn(
        PLAN, alone, "@bot"
    )


def test_one_sentence_each() -> None:
    """A superseded plan names what replaced it, and one that was carried out what follows."""
    assert superseded_notice(PLAN) == f"Replaced by plan 3 ({PLAN.short_digest})."
    assert next_plan_notice(PLAN) == f"Carried out; plan 3 ({PLAN.short_digest}) is about what was asked for next."


def test_a_session_that_waits() -> None:
    """It says why, that nobody has to do anything, and how to end the wait."""
    assert session_queued("@plangate") == (
        "**Waiting for a free session**: as many sessions are running as this service allows at once. "
        "Yours begins by itself. `@plangate stop` stops it."
    )


@pytest.mark.parametrize(
    ("pull", "said"),
    (
        (PullRequest(9, ""), "Pull request #9 is ready for review."),
        (PullRequest(9, "", draft=True), "Pull request #9 is there, as a draft."),
        (
            PullRequest(9, "", undone=("labels: `a`\nno", "reviewer eve: " + "@all " * 99)),
            "Pull request #9 is ready for review.\n\nIt could not be given all that the configuration names:\n\n"
            "- `` labels: `a` no ``\n- `reviewer eve: " + ("@all " * 58)[:284] + "…`",
        ),
    ),
    ids=("ready", "draft", "undone"),
)
def test_a_pull_request_is_announced(pull: PullRequest, said: str) -> None:
    """As what it is, with each label and reviewer that it did not get, in words that do nothing (X2)."""
    assert pull_request_ready(pull) == said


def test_much_that_was_not_given() -> None:
    """The first twenty are named, and the rest is counted."""
    said = pull_request_ready(PullRequest(9, "", undone=("no",) * 23))
    assert (said.count("`no`"), said.endswith("\n- and 3 more")) == (20, True)
