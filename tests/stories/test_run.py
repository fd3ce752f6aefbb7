"""`plangate run` from request to branch: what happens when everything goes well, and what is said when it does not."""

import shutil
import subprocess
from pathlib import Path

import pytest

from bot.testing.model.reply import Fault, Policy, Reply, call, say, several
from bot.testing.model.request_view import ModelRequest
from bot.testing.model.server import ScriptedModel
from bot.testing.sample import CHECK
from tests.stories.conftest import Meet
from tests.stories.ground import (
    FIX,
    FIXED,
    PLAN,
    Person,
    Script,
    approved,
    only_the_fix,
    planning_requests,
    processes,
    since_approval,
    state,
)

RESULT = {
    "stage": str,
    "answer": str,
    "plan": str,
    "plan_digest": str,
    "branch": str,
    "commit": str,
    "steps": int,
    "subagents": list,
    "usage": dict,
    "cost_usd": float,
    "seconds": float,
}
"""The fields of --json with their types where the work was done."""

SUBAGENT = {
    "id": str,
    "type": str,
    "description": str,
    "state": str,
    "steps": int,
    "tokens": int,
    "cost_usd": float,
    "seconds": float,
}


def with_a_scout(request: ModelRequest) -> Reply | Fault:
    """Send somebody to look first, then do as the plain script does."""
    if "sub-agent that explores" in request.system:
        return call("Read", file_path=FIXED) if request.step == 0 else say("parcel/shipping.py:10 is wrong.")
    if request.step == 0 and request.tools:
        asked = "Find where shipping costs are decided."
        return several(
            call("Task", subagent_type="explore", description="Find the rule", prompt=asked),
            call("Read", file_path=FIXED),
        )
    return Script(commands=(CHECK,))(request)


@pytest.mark.req("PR1", "PR6", "S12", "L9")
def test_a_plan_that_is_approved_becomes_a_branch(meet: Meet) -> None:
    """Request, plan, approval, work, check, branch: nothing else of the person's changes, and --json tells it all.

    Where the repository was cloned anew since, the same request begins anew.
    """
    person, model = meet(with_a_scout)
    person.commit({"notes.txt": "one\n"})
    upstream = share(person)
    (person.repository / "notes.txt").write_text("two\n")
    (person.repository / "draft.txt").write_text("new\n")
    person.git("add", "draft.txt")
    before = state(person.repository)

    ended = person.run("--yes", "--json", repo=person.repository / "parcel")

    assert ended.code == 0, ended.err
    result = ended.result
    assert {name: type(result.get(name)) for name in RESULT} == RESULT
    assert set(result) - set(RESULT) <= {"checks", "detail"}
    assert (result["stage"], result["answer"]) == ("done", "Orders of 50 ship free.")
    assert f"\n\n{PLAN}\n\n### What it may do\n\n" in result["plan"]
    assert person.branches() == [result["branch"]]
    assert only_the_fix(person.diff(result["branch"]))
    assert person.git("rev-parse", result["branch"]).strip() == result["commit"]
    assert [(row["type"], row["state"]) for row in result["subagents"]] == [("explore", "completed")]
    assert {name: type(result["subagents"][0][name]) for name in SUBAGENT} == SUBAGENT
    assert {type(result["usage"][name]) for name in ("input", "output", "cache_read", "cache_write")} == {int}
    assert result["cost_usd"] == pytest.approx(model.usage.cost_usd, abs=1e-5)
    assert [(check["command"], check["exit_code"]) for check in result["checks"]] == [(CHECK, 0)]
    assert "2 uncommitted changes" in ended.err
    assert state(person.repository) == before
    assert not list(processes(person.home))
    begins_anew_in_a_new_clone(person, model, upstream)


@pytest.mark.long
def test_a_question_is_answered_and_no_branch_is_made(meet: Meet) -> None:
    """An answer without a plan ends the request with 0, stage answered."""
    person, model = meet(lambda request: say("Orders above 50 ship free."))
    first = person.run("--json", prompt="From which total on is shipping free?")
    assert (first.code, first.result["stage"], first.result["answer"]) == (0, "answered", "Orders above 50 ship free.")
    assert (first.result["plan"], first.result["plan_digest"], first.result["branch"]) == (None, None, None)
    assert (person.branches(), len(model.requests)) == ([], 1)


@pytest.mark.soak
def test_the_same_request_after_it_was_done_begins_anew(meet: Meet) -> None:
    """What is done is done: the same command makes another plan and another branch."""
    person, _ = meet(Script())
    first, second = person.run("--yes", "--json"), person.run("--yes", "--json")
    assert (first.code, second.code) == (0, 0)
    assert len({first.result["branch"], second.result["branch"]}) == 2
    assert sorted(person.branches()) == sorted([first.result["branch"], second.result["branch"]])


def left_work(script: Script) -> Policy:
    """Do more than the plan says in the first repository, and then fail for good."""
    failed: list[bool] = []

    def policy(request: ModelRequest) -> Reply | Fault:
        if failed or not approved(request):
            return script(request)
        if since_approval(request):
            failed.append(True)
            return Fault.status(401)
        return call("Write", file_path="LEFT.txt", content="Left behind.\n")

    return policy


def share(person: Person) -> Path:
    """Return a new repository that the person's can be cloned from again."""
    upstream = person.home / "upstream.git"
    person.git("clone", "--quiet", "--bare", ".", str(upstream))
    return upstream


def begins_anew_in_a_new_clone(person: Person, model: ScriptedModel, upstream: Path) -> None:
    """Hold that the journal went with the first clone: its session, and what it left in the work tree, are not gone on
    with.

    The same request on the same commit at the same path has the same ids. The old transcript is kept aside.
    """
    shutil.rmtree(person.repository)
    subprocess.run(["git", "clone", "--quiet", str(upstream), str(person.repository)], check=True)
    asked = len(model.requests)
    again = person.run("--yes", "--json")

    assert (again.code, again.result["stage"]) == (0, "done"), again.err
    assert model.requests[asked].step == 0, "nothing of the old session is sent"
    assert only_the_fix(person.diff(again.result["branch"]))
    assert len(person.branches()) == 1
    assert model.refusals == ()
    assert len(list(person.data.glob("transcripts/*/*.aside-1/plan-1"))) == 1


@pytest.mark.long
@pytest.mark.req("L9", "PR1")
def test_failed_work_in_a_repository_that_was_cloned_anew(meet: Meet) -> None:
    """Work that failed, and left a file, is not gone on with either."""
    person, model = meet(left_work(Script(scope=(FIXED, "LEFT.txt"))))
    upstream = share(person)
    assert person.run("--yes", "--json").result["stage"] == "failed"
    begins_anew_in_a_new_clone(person, model, upstream)


@pytest.mark.long
@pytest.mark.req("PR6")
def test_a_check_that_fails_is_not_hidden(meet: Meet) -> None:
    """A failing check of the plan is named in the story and in --json, with its exit code and output."""
    person, _ = meet(Script(commands=("echo broken; exit 7", "true")))
    ended = person.run("--yes", "--json")
    assert ended.code == 0
    checks = [(check["command"], check["exit_code"]) for check in ended.result["checks"]]
    assert checks == [("echo broken; exit 7", 7), ("true", 0)]
    assert ended.result["checks"][0]["output"].startswith("broken")
    assert "✗ FAILED, as before the work, echo broken; exit 7" in ended.err


@pytest.mark.long
def test_checks_change_nothing_that_is_published(meet: Meet) -> None:
    """A check works on a copy: what it writes, edits and leaves behind is neither in the branch nor in its way."""
    lines = ("echo cache > cache.txt; mkdir -p .cache/x; rm README.md", f"echo evil >> {FIXED}; test -f cache.txt")
    person, _ = meet(Script(commands=lines))
    ended = person.run("--yes", "--json")
    assert ended.code == 0, ended.err
    assert [check["exit_code"] for check in ended.result["checks"]] == [0, 0]
    assert only_the_fix(person.diff(ended.result["branch"]))


BEYOND = (FIX, call("Write", file_path="CHANGES.txt", content="More.\n"))


@pytest.mark.long
@pytest.mark.req("PR1", "PR5")
def test_work_beyond_the_plan_becomes_an_amendment(meet: Meet) -> None:
    """Work that outgrew its plan is not published: it waits as plan 2, and is published when that is approved."""
    person, model = meet(Script(work=BEYOND))
    ended = person.run("--yes", "--json")
    assert ended.code == 0, ended.err
    assert "plan mode: plan 2" in ended.err
    assert "`CHANGES.txt`" in ended.err
    diff = person.diff(ended.result["branch"])
    assert ("CHANGES.txt" in diff, FIXED in diff) == (True, True)
    assert len(planning_requests(model.requests)) == 2


@pytest.mark.long
@pytest.mark.req("L5")
def test_a_budget_ends_the_work_with_one_call_of_overshoot_at_most(meet: Meet) -> None:
    """--max-cost-usd is a limit: exit code 4, one model call beyond it at most; with more money it goes on."""
    person, model = meet(Script())
    ended = person.run("--yes", "--json", "--max-cost-usd", "0.0001")
    assert (ended.code, ended.result["stage"], ended.result["branch"]) == (4, "limit", None)
    assert "budget of $0.00" in ended.result["detail"]
    assert len(model.requests) == 1
    again = person.run("--yes", "--json", "--max-cost-usd", "2")
    assert (again.code, again.result["stage"]) == (0, "done")
    assert only_the_fix(person.diff(again.result["branch"]))


@pytest.mark.long
@pytest.mark.parametrize(
    ("status", "said"), ((401, "check ANTHROPIC_API_KEY"), pytest.param(400, "scripted 400", marks=pytest.mark.soak))
)
def test_a_model_that_refuses_is_a_failure_that_names_the_cure(meet: Meet, status: int, said: str) -> None:
    """Exit code 5 and what the service said; the same command goes on once the service answers."""
    down = [True]
    script = Script()
    person, _ = meet(lambda request: Fault.status(status) if down[0] else script(request))
    ended = person.run("--yes", "--json")
    assert (ended.code, ended.result["stage"]) == (5, "failed")
    assert said in ended.result["detail"]
    down.clear()
    down.append(False)
    assert person.run("--yes", "--json").result["stage"] == "done"


@pytest.mark.req("L4")
@pytest.mark.soak
def test_a_model_that_nobody_knows_is_named_and_another_goes_on(meet: Meet) -> None:
    """The service does not have the id: whoever waits is told, and the configured fallback does all of the work."""
    person, model = meet(Script())
    ended = person.run("--yes", "--json", "--model", "claude-nonsense-9")
    assert (ended.code, ended.result["stage"]) == (0, "done")
    assert "claude-nonsense-9 is unavailable; going on with claude-opus-5" in ended.err
    agents = {request.model for request in model.requests if request.tools}
    assert agents - {"claude-nonsense-9"} == {"claude-opus-5"}


@pytest.mark.soak
def test_a_model_that_nobody_knows_does_not_stick(meet: Meet) -> None:
    """With no other to go on with it is exit code 5 and the cure; the same request with a better model goes on."""
    person, model = meet(Script())
    person.commit({".github/plangate.yml": "models:\n  fallback: null\n"})
    ended = person.run("--yes", "--json", "--model", "claude-nonsense-9")
    assert (ended.code, ended.result["stage"]) == (5, "failed")
    assert "claude-nonsense-9" in ended.result["detail"]
    assert "check the model's id" in ended.result["detail"]
    assert person.run("--yes", "--model", "sonnet").code == 0
    assert {request.model for request in model.requests[1:] if request.tools} == {"claude-sonnet-5-5"}


@pytest.mark.soak
def test_a_model_without_prices_has_a_cost_that_is_unknown(meet: Meet) -> None:
    """cost_usd is null and a warning is shown: unknown is not nothing."""
    person, _ = meet(lambda request: say("It is."))
    ended = person.run("--json", "--model", "claude-mythos-5-2", prompt="Is it?")
    assert (ended.code, ended.result["cost_usd"]) == (0, None)
    assert "cost unknown" in ended.err
