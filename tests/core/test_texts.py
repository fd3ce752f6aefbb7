"""Everything that the bot says on GitHub: each file in `texts/` is one whole text, to be read and reviewed.

After a change of a text, write the files again with `python -m tests.core.test_texts`, and review the difference.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from bot.core import comment, pull_text, reply_text
from bot.core.approval import Reason, Verdict, VerdictOutcome, VerdictReason
from bot.core.configuration import MaintenanceTask
from bot.core.errors import CanaryShown, OutOfScope, Refused, SecretAdded
from bot.core.gate import Stage
from bot.core.maintenance import TaskFinding
from bot.core.names import CommitId, RepositoryId, ThreadNumber, ToolUseId
from bot.core.plan import Contract, Hidden, PlanDocument
from bot.core.question import Asking, AskKind, IgnoredAnswer, IgnoreReason, Option, Question, permission
from bot.core.thread.task import TaskOccurrence
from bot.core.turn import Actor
from bot.core.work import PullRequest
from bot.github.dialogue import plan_comment
from tests.rows import every_row

FOLDER: Final = Path(__file__).with_name("texts")
BOT: Final = "@plangate"
ANA, BEN = Actor(1, "ana"), Actor(2, "ben")
AT: Final = datetime(2026, 11, 20, 8, 5, 7, tzinfo=UTC)
CONTRACT: Final = Contract(("src/login.py", "tests/**"), ("pytest -q",), ("pypi.org",), ("attrs",))
PLAN: Final = PlanDocument(
    repository=RepositoryId(5),
    thread=ThreadNumber(8),
    plan=3,
    base=CommitId("0123456789abcdef" + "c" * 24),
    markdown="Reject an empty password on the login page.\n\n- [ ] Check it in `login()`\n- [ ] Add a test",
    contract=CONTRACT,
    tier="normal",
    budget_usd=5.0,
    expires=datetime(2026, 11, 27, 8, 30, tzinfo=UTC),
    notes="Root cause: `src/login.py:12` compares with `None` alone.",
)
CHANGED: Final = replace(
    PLAN,
    hidden=Hidden.of(["<!-- also publish to PyPI -->"]),
    changed="-Check it in the form\n+Check it in `login()`",
    estimate=comment.estimate((0.9, 0.1, 0.5), 1.0),
)
AMENDED: Final = replace(
    PLAN, notes="", markdown=comment.amendment(PLAN, ("Makefile",), ("src/forms.py",)), tier="high", tree="e" * 40
)
TODOS: Final = (("Find the check", "completed"), ("Add a test", "in_progress"), ("Update the docs", "pending"))
AGENTS: Final = (
    comment.AgentRow("code", "Add a test for the form", "running", 4, 12_345, 6.7, 0.0123),
    comment.AgentRow("look", "Find other forms", "failed: timeout", 2, 3_000, 60.0, None),
)
WITHDRAWN: Final = Verdict(
    VerdictOutcome.PENDING, (), (VerdictReason(Reason.ROLE_TOO_LOW, ANA), VerdictReason(Reason.NOBODY))
)
NOBODY: Final = Verdict(VerdictOutcome.PENDING, (), (VerdictReason(Reason.NOBODY),))
QUESTION: Final = Asking(
    AskKind.QUESTION,
    ToolUseId("t1"),
    (
        Question("Which database?", (Option("PostgreSQL", "as in production"), Option("SQLite")), "Database"),
        Question("Which pages?", (Option("Login"), Option("Sign-up")), "Pages", several=True),
    ),
)
COMMAND: Final = replace(
    permission(ToolUseId("t1"), "Bash", "git push", "a rule asks"), meaning="Publishes the branch."
)
PASSED: Final = {"command": "ruff check", "exit_code": 0, "seconds": 1.5, "output": "", "before": {"exit_code": 0}}
FAILED: Final = {
    "command": "pytest -q",
    "exit_code": 1,
    "seconds": 2.0,
    "output": "1 failed",
    "before": {"exit_code": 0},
}
TASK: Final = MaintenanceTask(
    name="deps", schedule="weekly", timezone="Europe/Berlin", prompt="Update the pins.\nOne by one."
)
STANDING: Final = TASK.model_copy(
    update={"recipe": "dependencies", "check": "pip list --outdated", "approval": "standing", "paths": ("*.txt",)}
)
ROWS: Final = (
    TaskOccurrence("one", AT, outcome="pull request #12", cost_usd=0.314),
    TaskOccurrence("two", AT, outcome="skipped: a plan | waits"),
)


def pull_request() -> str:
    """Return the body of a pull request with a failing check and sub-agents."""
    verdict = Verdict(VerdictOutcome.APPROVED, (ANA,), (VerdictReason(Reason.CODE_OWNER),))
    ran: list[dict[str, str | int | None]] = [
        {"agent": "main", "command": "make test", "exit_code": 0},
        {"agent": "code", "command": "x", "exit_code": None},
    ]
    receipt = pull_text.receipt_block("c" * 40, '{"payload": "e30="}\n')
    origin = pull_text.PullOrigin(
        ("will",),
        verdict,
        AT,
        "claude-opus-5-5",
        1.234,
        AGENTS,
        ran,
        tokens=(12_345, 2_345),
        receipt=receipt,
        ways=("reaction",),
        paths=("src/login.py", "tests/pages/test_login.py", "tests/test_forms.py"),
    )
    summary = "An empty password is rejected now.\n\nThe docs did not change."
    plan = replace(PLAN, contract=replace(CONTRACT, scope=(*CONTRACT.scope, "docs/login.md")))
    return pull_text.pull_body(
        plan, origin, summary=summary, checks=(PASSED, FAILED), no_baseline="the work had begun before"
    )


def pull_request_of_a_job() -> str:
    """Return the body of a pull request that the job's own token opened."""
    origin = pull_text.PullOrigin(("will",), Verdict(VerdictOutcome.APPROVED, (ANA,)), AT, workflows_wait=True)
    return pull_text.pull_body(PLAN, origin, summary="An empty password is rejected now.", checks=())


def named(texts: Mapping[str, str]) -> str:
    """Return several texts as one document, each under its name."""
    return "\n\n".join(f"## {name}\n\n{text}" for name, text in texts.items())


REPLIES: Final = {
    "no plan waits": reply_text.NO_PLAN_WAITS,
    "edited command": reply_text.EDITED,
    "command sent by mail": reply_text.SENT_BY_MAIL,
    "nothing to retry": reply_text.NOTHING_TO_RETRY,
    "nothing to stop": reply_text.NOTHING_TO_STOP,
    "nothing to finish": reply_text.NOTHING_TO_FINISH,
    "finishing": reply_text.work_finishing("ana"),
    "most of the budget is used": reply_text.budget_nearly_used(0.8, finish=reply_text.how_to_finish(BOT)),
    "decision in a review": reply_text.DECIDE_IN_A_COMMENT,
    "not an approver": reply_text.APPROVERS_ONLY,
    "somebody else's work": reply_text.NOT_YOURS,
    "unknown command": reply_text.did_you_mean("@plangate xyzzy", ""),
    "misspelled command": reply_text.did_you_mean("@plangate aprove", "approve"),
    "no decision": reply_text.no_decision("I would approve it if it had tests.", BOT),
    "quota reached": reply_text.quota_reached("will", 20, BOT),
    "quota of one reached": reply_text.quota_reached("will", 1, BOT),
    "commands answered often": reply_text.answers_reached("will", 20, BOT),
    "budget set": reply_text.budget_raised("12.50"),
    "mode chosen": reply_text.mode_chosen("acceptEdits"),
    "plan mode chosen": reply_text.plan_mode_stays(["default", "acceptEdits"]),
    "status": reply_text.status(Stage.AWAITING_APPROVAL, "plan"),
    "status of work": reply_text.status(Stage.EXECUTING, "default"),
    "stopped": reply_text.work_stopped("ana", BOT),
    "thread closed": reply_text.thread_closed(BOT),
    "work so far": reply_text.work_so_far(TODOS, ("src/login.py",), 1.234),
    "approval withdrawn": reply_text.approval_withdrawn(PLAN, NOBODY, BOT),
    "approval withdrawn at a terminal": reply_text.approval_withdrawn(PLAN, NOBODY, ""),
    "approver lost the role": reply_text.approval_withdrawn(PLAN, WITHDRAWN, BOT),
    "journal set back": reply_text.journal_set_back("refs/plangate/threads/8", BOT),
    "waiting for a session": reply_text.session_queued(BOT),
    "wait over": reply_text.WAIT_OVER,
    "review comment addressed": reply_text.review_addressed("0123456789ab"),
    "broken configuration": reply_text.configuration_error("x is wrong (.github/plangate.yml:3:1)"),
    "broken configuration after a plan": reply_text.approval_on_hold(PLAN, "x is wrong (.github/plangate.yml:3:1)"),
    "unreadable state": reply_text.unreadable("refs/plangate/threads/8"),
    "plan without force": reply_text.VOID_PLAN,
    "approval of a plan without force": reply_text.void_plan(PLAN),
    "replaced plan": comment.superseded_notice(PLAN),
    "executed plan": comment.next_plan_notice(PLAN),
    "work begun": comment.work_begun_line(["ana", "ben"], AT),
    "work begun by the configuration": comment.work_begun_line([], AT),
    "question expired": reply_text.question_expired(7.0, BOT),
    "answers that do not count": reply_text.not_counted([IgnoredAnswer(why, BEN) for why in IgnoreReason]),
    "planning over": comment.planning_over("planned"),
    "planning over with an answer": comment.planning_over("answered"),
    "pull request": pull_text.pull_request_ready(PullRequest(9, "")),
    "draft with a missing label": pull_text.pull_request_ready(
        PullRequest(9, "", draft=True, undone=("labels: GitHub refused",))
    ),
}

REFUSALS: Final[dict[str, Refused]] = {
    "out of scope": OutOfScope(("Makefile", "src/forms.py")),
    "secret": SecretAdded((("src/login.py", 12, "AWS access key"), ("docs/setup.md", 3, "password"))),
    "canary": CanaryShown(),
}
ESTIMATES: Final = {
    "three executions": comment.estimate((0.9, 0.1, 0.5), 1.0),
    "one execution": comment.estimate((0.1,), 0.0),
    "planning alone": comment.estimate((), 0.125),
    "a model without a price": comment.UNPRICED,
}


def tracking_issue() -> str:
    """Return the text of the issue of a task that has run."""
    view = reply_text.TrackingView(STANDING, "on Mondays at 00:00", AT, ROWS, [TaskFinding("requests", "Update @it")])
    return reply_text.with_warning(reply_text.tracking_body(view), reply_text.REMOVED)


TEXTS: Final = {
    "plan": plan_comment(CHANGED, BOT),
    "amendment": plan_comment(AMENDED, BOT),
    "empty_contract": comment.contract(replace(PLAN, contract=Contract())),
    "estimates": named(ESTIMATES),
    "reasons": named({str(reason): sentence for reason, sentence in comment.REASONS.items()}),
    "question": reply_text.question_text(QUESTION, reply_text.WHO_MAY_ASK),
    "permission": reply_text.question_text(COMMAND, reply_text.WHO_MAY_STEER),
    "progress": comment.progress(Stage.EXECUTING, "acceptEdits", TODOS, AGENTS, spent=(9, 0.5, 5)),
    "progress_at_the_start": comment.progress(Stage.PLANNING, "plan", (), (), spent=(0, None, None)),
    "outcomes": named({str(at): comment.outcome(at, branch="plangate/8", detail="why", mention=BOT) for at in Stage}),
    "outcomes_at_a_terminal": named({str(at): comment.outcome(at, branch="plangate/8", detail="why") for at in Stage}),
    "refusals": named(
        {name: comment.outcome(Stage.FAILED, detail=str(REFUSALS[name]), mention=BOT) for name in REFUSALS}
    ),
    "replies": named(REPLIES),
    "help": reply_text.help_text(BOT),
    "pull_request": pull_request(),
    "pull_request_of_a_job": pull_request_of_a_job(),
    "commit_message": pull_text.commit_message(
        "Fix the login page",
        PLAN,
        "Empty passwords are rejected.\n",
        (*pull_text.approval_trailers(("ana", "ben")), "Co-authored-by: will <7+will@users.noreply.github.com>"),
    ),
    "receipt": named(
        {
            "short": pull_text.receipt_block("c" * 40, '{"payload": "e30="}\n'),
            "long": pull_text.receipt_block("c" * 40, "x" * 20_000),
            "refused": pull_text.no_receipt("the server refused the receipt: declined"),
            "standing": pull_text.approval_trailers(())[0],
        }
    ),
    "tracking_issue": tracking_issue(),
    "tracking_issue_at_the_start": reply_text.tracking_body(reply_text.TrackingView(TASK, "on Mondays at 00:00", AT)),
}


def whole(name: str) -> str:
    return f"{TEXTS[name].rstrip()}\n"


@pytest.mark.req("PR3", "PR5", "PR6", "P8")
@every_row("name", TEXTS)
def test_text(name: str) -> None:
    """What the bot says is what was reviewed."""
    assert whole(name) == (FOLDER / f"{name}.md").read_text(encoding="utf-8")


def test_each_file_is_a_text() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(TEXTS)


if __name__ == "__main__":
    for each in TEXTS:
        (FOLDER / f"{each}.md").write_text(whole(each), encoding="utf-8")
