"""Which jobs each event starts: only those that have something to do."""

import copy
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from bot.cli.workflow_variant import Variant, workflow_text
from tests.action.expressions import evaluate
from tests.action.ground import ACT
from tests.action.jobs import BOT, MACHINE, MAIN, MARKER, OPEN, PERSON, SWEEP, comment, loaded, pull, review, started
from tests.rows import every_row

PLAN = f"The plan. `@plangate approve 0123abcd`\n\n- [x] Approve this plan\n\n{MARKER}"
OF_BOT = {"id": 5, "body": PLAN, "user": BOT}
OF_MACHINE = OF_BOT | {"user": MACHINE}
MAINTENANCE = {"name": "plangate: maintenance"}
OWN_ACCOUNT = YAML(typ="safe", pure=True).load(workflow_text(Variant(account=MACHINE["login"])))
"""The workflow of a bot that speaks with a token of its own account."""
OURS: dict[str, Any] = {"head": "plangate/3-fix", "user": BOT}


def issue(action: str, *labels: dict[str, str], **more: Any) -> dict[str, Any]:
    made = {"number": 3, "title": "t", "body": "b", "user": PERSON, "labels": [*labels]}
    return {"action": action, "issue": made | more.pop("issue", {})} | more


Case = tuple[str, dict[str, Any], list[str]]
HEARD: dict[str, Case] = {
    "a request in an issue": ("issues", issue("opened", issue={"body": "Hi @Plangate, fix it"}), ["work"]),
    "a request in a title": ("issues", issue("opened", issue={"title": "@plangate", "body": None}), ["work"]),
    "the label that calls it": ("issues", issue("labeled", label={"name": "plangate"}), ["work"]),
    "its assignment": ("issues", issue("assigned", assignee={"login": "Plangate"}), ["work"]),
    "a request in a comment": ("issue_comment", comment("please\r\n\r\n@plangate fix it"), ["work"]),
    "stop before the label is there": ("issue_comment", comment("@plangate stop"), ["listen", "work"]),
    "stop with a greeting": ("issue_comment", comment("Hi @plangate, please stop!"), ["listen", "work"]),
    "a command": ("issue_comment", comment("Wait.\n /Plangate stop", labels=[OPEN]), ["listen", "work"]),
    "an answer to its question": ("issue_comment", comment("The second.", labels=[OPEN]), ["work"]),
    "a tick": ("issue_comment", comment("", action="edited", comment=OF_BOT), ["work"]),
    "a tick where it has an account": ("issue_comment", comment("", action="edited", comment=OF_MACHINE), ["work"]),
    "closing what it works on": ("issues", issue("closed", OPEN), ["listen"]),
    "a tick in a tracking issue": ("issues", issue("edited", MAINTENANCE, issue={"user": BOT}), ["work"]),
    "a request in a pull request": ("pull_request", {"action": "opened", "pull_request": pull(body="/plangate a")},
                                    ["hand_on"]),
    "closing a pull request it works on": ("pull_request", {"action": "closed", "pull_request": pull(labels=[OPEN])},
                                           ["hand_on"]),
    "a request in a review": ("pull_request_review", review(pull(), "@plangate tidy up"), ["hand_on"]),
    "a review where it works": ("pull_request_review", review(pull(labels=[OPEN])), ["hand_on"]),
    "a review of its pull request": ("pull_request_review", review(pull(**OURS)), ["hand_on"]),
    "what was handed on": ("workflow_dispatch", {"inputs": {"thread": "4", "listen": "false"}, "sender": BOT},
                           ["work"]),
    "what was handed on beside work": ("workflow_dispatch", {"inputs": {"thread": "4", "listen": "true"},
                                       "sender": BOT}, ["listen", "work"]),
    "a start by hand": ("workflow_dispatch", {"inputs": None}, ["work"]),
    "the daily run": ("schedule", {"schedule": "23 4 * * *", "sender": None}, ["work"]),
    "the daily run of a workflow that a bot merged": ("schedule", {"schedule": "23 4 * * *", "sender": BOT}, ["work"]),
}  # fmt: skip
SILENT: dict[str, tuple[str, dict[str, Any]]] = {
    "a comment on another thread": ("issue_comment", comment("Looks good")),
    "a comment of a bot": ("issue_comment", comment("@plangate", labels=[OPEN], sender=BOT)),
    "its own comment": ("issue_comment", comment("", sender=BOT, comment=OF_BOT)),
    "its own comment, by its own account": ("issue_comment", comment("", labels=[OPEN], sender=MACHINE,
                                            comment=OF_MACHINE)),
    "its own edit, by its own account": ("issue_comment", comment("", action="edited", sender=MACHINE,
                                         comment=OF_MACHINE)),
    "an edit by its author": ("issue_comment", comment("@plangate", labels=[OPEN], action="edited")),
    "an edit of a comment": ("issue_comment", comment("", action="edited", comment={"user": BOT, "body": "@plangate"})),
    "a deletion": ("issue_comment", comment(PLAN, action="deleted", labels=[OPEN])),
    "an issue": ("issues", issue("opened")),
    "an issue of its own account": ("issues", issue("opened", sender=MACHINE, issue={"body": PLAN, "user": MACHINE})),
    "another label": ("issues", issue("labeled", label={"name": "bug"})),
    "its own label": ("issues", issue("labeled", label=OPEN, sender=MACHINE)),
    "the assignment of a person": ("issues", issue("assigned", OPEN, assignee={"login": "ada"})),
    "an edit of an issue": ("issues", issue("edited", OPEN)),
    "its own edit of a tracking issue": ("issues", issue("edited", MAINTENANCE, sender=MACHINE,
                                         issue={"user": MACHINE})),
    "closing another issue": ("issues", issue("closed")),
    "a pull request": ("pull_request", {"action": "opened", "pull_request": pull()}),
    "a pull request without a text": ("pull_request", {"action": "opened", "pull_request": pull(body=None)}),
    "its own pull request": ("pull_request", {"action": "opened", "sender": MACHINE, "pull_request":
                             pull(head="plangate/3-fix", body="@plangate", user=MACHINE)}),
    "closing another pull request": ("pull_request", {"action": "closed", "pull_request": pull()}),
    "merging its pull request": ("pull_request", {"action": "closed", "pull_request": pull(**OURS)}),
    "a push": ("pull_request", {"action": "synchronize", "pull_request": pull(labels=[OPEN])}),
    "a review of another pull request": ("pull_request_review", review(pull(), "Nice")),
    "a review by a bot": ("pull_request_review", review(pull(**OURS), "@plangate", sender=BOT)),
    "its own reply in a review": ("pull_request_review", review(pull(head="plangate/3-fix", user=MACHINE),
                                  sender=MACHINE)),
    "a comment in a review": ("pull_request_review_comment", {"action": "created", "pull_request": pull(**OURS)}),
    "a review in a fork": ("pull_request_review", review(pull() | {"head": {"ref": "x", "repo": {"full_name": "f/r"}}},
                           "@plangate")),
    "a request in a pull request of a fork": ("pull_request", {"action": "opened", "pull_request":
        pull(labels=[OPEN], body="@plangate") | {"head": {"ref": "plangate/3-fix", "repo": {"full_name": "f/r"}}}}),
    "a pull request of a fork that is gone": ("pull_request", {"action": "closed", "pull_request":
        pull(labels=[OPEN]) | {"head": {"ref": "plangate/3-fix", "repo": None}}}),
}  # fmt: skip


@pytest.mark.parametrize("name", HEARD)
def test_what_may_concern_the_bot_starts_a_job(name: str) -> None:
    """Requests, decisions, answers and closings are heard at once; beside work by a job that waits for no other."""
    event, payload, jobs = HEARD[name]
    assert started(loaded(MAIN), event, payload) == jobs
    own = payload | ({"assignee": MACHINE} if "assignee" in payload else {})
    assert started(OWN_ACCOUNT, event, own) == jobs


@pytest.mark.parametrize("name", SILENT)
def test_everything_else_starts_none(name: str) -> None:
    """What does not concern the bot costs nothing, and it never wakes itself, whichever account it has."""
    event, payload = SILENT[name]
    workflows = [OWN_ACCOUNT] if payload.get("sender") == MACHINE else [OWN_ACCOUNT, loaded(MAIN)]
    assert [started(workflow, event, payload) for workflow in workflows] == [[]] * len(workflows)


QUOTES = (
    "{body}\n\n{marker}",
    "{marker}\n\n{body}",
    "> {marker}\n\n{body}",
    "{body} <!-- plangate:1 -->",
    "{body} -->",
)


@every_row("quote", QUOTES)
@every_row("workflow", (loaded(MAIN), OWN_ACCOUNT))
def test_quoting_the_bot_silences_nobody(quote: str, workflow: Any) -> None:
    """Whatever hidden line a person's words hold or end with, copied or slipped to them, they start the same jobs.

    Who wrote a comment decides whether it is the bot's, and never what it says.
    """
    words = [(name, case) for name, case in HEARD.items() if case[1].get("action") in {"created", "opened"}]
    assert len(words) >= 7
    for name, (event, payload, jobs) in words:
        part = event.removeprefix("issue_") if event != "issues" else "issue"
        said = payload[part]
        body = quote.format(body=said["body"] or "", marker=MARKER)
        assert started(workflow, event, payload | {part: said | {"body": body}}) == jobs, name


def test_the_sweep_runs_where_it_costs_nothing_or_seldom() -> None:
    """Every 10 minutes in public repositories, every 3 hours elsewhere: also where the payload does not say which."""
    often, seldom = (each["cron"] for each in loaded(SWEEP)["on"]["schedule"])
    for visibility, both in (("public", True), ("private", False), ("internal", False), (None, False)):
        payload = {"repository": {"visibility": visibility}, "sender": None}
        found = [bool(started(loaded(SWEEP), "schedule", payload | {"schedule": cron})) for cron in (often, seldom)]
        assert found == [both, True], visibility
    assert started(loaded(SWEEP), "workflow_dispatch", {"inputs": None}) == ["sweep"]


def test_an_expression_that_is_not_understood_is_refused() -> None:
    """The evaluator of these tests guesses nothing."""
    for wrong in ("secrets.KEY", "hashFiles('a')", "github.event_name = 'a'", "(true", "true true", "github['a']"):
        with pytest.raises(ValueError, match=r"not understood|unknown function|missing"):
            evaluate(wrong, {"github": {}})


@pytest.mark.parametrize("name", ("a command", "a tick", "a review where it works", "a review of another pull request"))
def test_act_agrees(tmp_path: Path, name: str) -> None:
    """`act`, with an evaluator of its own, starts the same jobs."""
    event, payload, jobs = HEARD[name] if name in HEARD else (*SILENT[name], [])
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", str(tmp_path))
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "remote", "add", "origin", "https://github.com/o/r.git"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "begin"], check=True)
    workflow = copy.deepcopy(loaded(MAIN))
    for job in workflow["jobs"].values():
        job["steps"] = [{"run": "true"}]
        job.pop("environment", None)  # act knows neither `deployment` nor `queue` yet
        del job["concurrency"]
    (tmp_path / "workflow.yml").write_text(json.dumps(workflow))
    runners = [part for name in ("24.04", "slim") for part in ("-P", f"ubuntu-{name}=-self-hosted")]
    repository = {"full_name": "o/r", "default_branch": "main"}
    (tmp_path / "event.json").write_text(json.dumps({"repository": repository, "sender": PERSON} | payload))
    done = subprocess.run(
        [ACT, event, "-n", "--json", "-W", "workflow.yml", "-e", "event.json", *runners],
        cwd=tmp_path,
        env=os.environ | {"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert sorted(line["jobID"] for line in lines if line.get("jobResult") == "success") == sorted(jobs)
