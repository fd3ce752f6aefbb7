"""What plangate run does from request to branch: what it says, and how the project configures it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks.real_project import main
from bot.testing.model.cache import tokens
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
    newest,
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
    """Nothing else of the person's changes, and --json tells it all."""
    person, model = meet(with_a_scout)
    person.commit({"notes.txt": "one\n"})
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


@pytest.mark.long
def test_a_question_is_answered_and_no_branch_is_made(meet: Meet) -> None:
    person, model = meet(lambda request: say("Orders above 50 ship free."))
    first = person.run("--json", prompt="From which total on is shipping free?")
    assert (first.code, first.result["stage"], first.result["answer"]) == (0, "answered", "Orders above 50 ship free.")
    assert (first.result["plan"], first.result["plan_digest"], first.result["branch"]) == (None, None, None)
    assert (person.branches(), len(model.requests)) == ([], 1)


@pytest.mark.soak
def test_the_same_request_after_it_was_done_begins_anew(meet: Meet) -> None:
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
def test_failed_work_of_a_repository_that_was_cloned_anew_is_not_gone_on_with(meet: Meet) -> None:
    person, model = meet(left_work(Script(scope=(FIXED, "LEFT.txt"))))
    upstream = share(person)
    assert person.run("--yes", "--json").result["stage"] == "failed"
    begins_anew_in_a_new_clone(person, model, upstream)


@pytest.mark.long
@pytest.mark.req("PR6")
def test_a_check_that_fails_is_not_hidden(meet: Meet) -> None:
    person, _ = meet(Script(commands=("echo broken; exit 7", "true")))
    ended = person.run("--yes", "--json")
    assert ended.code == 0
    checks = [(check["command"], check["exit_code"]) for check in ended.result["checks"]]
    assert checks == [("echo broken; exit 7", 7), ("true", 0)]
    assert ended.result["checks"][0]["output"].startswith("broken")
    assert "✗ FAILED, as before the work, echo broken; exit 7" in ended.err


@pytest.mark.long
def test_checks_change_nothing_that_is_published(meet: Meet) -> None:
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
    person, model = meet(Script())
    ended = person.run("--yes", "--json", "--max-cost-usd", "0.0001")
    assert (ended.code, ended.result["stage"], ended.result["branch"]) == (4, "limit", None)
    assert "budget of $0.00" in ended.result["detail"]
    assert len(model.requests) == 1
    again = person.run("--yes", "--json", "--max-cost-usd", "2")
    assert (again.code, again.result["stage"]) == (0, "done")
    assert only_the_fix(person.diff(again.result["branch"]))


@pytest.mark.long
def test_a_model_that_refuses_is_a_failure_that_names_the_cure(meet: Meet) -> None:
    """The same command goes on once the service answers."""
    down, script = [True], Script()
    person, _ = meet(lambda request: Fault.status(401) if down else script(request))
    ended = person.run("--yes", "--json")
    assert (ended.code, ended.result["stage"]) == (5, "failed")
    assert "check ANTHROPIC_API_KEY" in ended.result["detail"]
    down.clear()
    assert person.run("--yes", "--json").result["stage"] == "done"


@pytest.mark.req("L4")
@pytest.mark.soak
def test_a_model_that_nobody_knows_is_named_and_another_goes_on(meet: Meet) -> None:
    person, model = meet(Script())
    ended = person.run("--yes", "--json", "--model", "claude-nonsense-9")
    assert (ended.code, ended.result["stage"]) == (0, "done")
    assert "claude-nonsense-9 is unavailable; going on with claude-opus-5" in ended.err
    agents = {request.model for request in model.requests if request.tools}
    assert agents - {"claude-nonsense-9"} == {"claude-opus-5"}


@pytest.mark.long
@pytest.mark.req("P7")
def test_the_project_decides_on_models_checks_denials_and_mounts(meet: Meet, tmp_path: Path) -> None:
    """By the file at HEAD, and not by that of the work tree; a flag outranks it. What is mounted can only be read."""
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "data").write_text("there\n")
    echo = call("Bash", command="echo done it > /dev/null")
    person, model = meet(Script(commands=(f"cat {shared}/data", f"echo x > {shared}/data"), work=(FIX, echo)))
    text = (
        "models:\n  main: claude-sonnet-5-5\nexecution:\n  verify: ['test -e README.md']\n"
        f"tools:\n  deny: ['Bash(echo:*)', 'Bash(echo done it > /dev/null)']\nsandbox:\n  mounts: ['{shared}']\n"
    )
    person.commit({".github/plangate.yml": text})
    (person.repository / ".github/plangate.yml").write_text("models:\n  nonsense: true\n")
    ended = person.run("--yes", "--json")
    assert ended.code == 0, ended.err
    assert {request.model for request in model.requests if request.tools} == {"claude-sonnet-5-5"}
    (refused,) = (result for result in newest(model).all_results if result.name == "Bash")
    assert refused.is_error
    assert "the project's configuration denies" in refused.text
    first, second, third = ended.result["checks"]
    assert (first["exit_code"], first["output"].strip(), third["exit_code"]) == (0, "there", 0)
    assert (second["exit_code"] != 0, (shared / "data").read_text()) == (True, "there\n")
    assert only_the_fix(person.diff(ended.result["branch"]))
    person.run("--dry-run", "--model", "opus", prompt="Once more.")
    assert newest(model).model == "claude-opus-5-5"


MEMORY = {
    "CLAUDE.md": "House rules: @docs/house.md\n<!-- a note to ourselves -->",
    "docs/house.md": "Use tabs.",
    "parcel/AGENTS.md": "Prices are in cents.",
}


def look(request: ModelRequest) -> Reply | Fault:
    """Read one file, and answer."""
    return call("Read", file_path=FIXED) if request.step == 0 else say("Because of the comparison.")


@pytest.mark.long
@pytest.mark.req("K10", "K11", "M1", "M2", "M4")
def test_a_session_is_told_its_place_and_memory_and_shares_the_rest_with_other_repositories(meet: Meet) -> None:
    person, model = meet(look)
    assert person.run("--dry-run", "--json", prompt="Why?").code == 0
    person.commit(MEMORY)
    (person.repository / "CLAUDE.md").write_text("Nobody has committed this.")
    other = person.repository.rename(person.home / "other")
    ended = person.run("--dry-run", "--json", prompt="Why?", repo=other)
    assert ended.code == 0, ended.err
    bare, _, first, second = model.requests
    for part in ("system", "tools"):
        assert bare.body[part] == first.body[part]
    shared = tokens(first.body["system"]) + tokens(first.body["tools"])
    assert ended.result["usage"]["cache_read"] >= 2 * 0.9 * shared  # by its first request, and by its second
    place, *_ = first.texts()
    for said in ("\nBranch: main\n", "\nTools in the sandbox: git ", "\nTop level: ", "45 minutes, 200 steps, $5.00\n"):
        assert said in place, place
    assert "more\n" in place.partition("Newest commits")[2]
    memory = "## CLAUDE.md\nHouse rules: @docs/house.md\n\n## docs/house.md\nUse tabs.\n</system-reminder>"
    assert memory in place
    assert "# Project memory" not in bare.texts()[0]
    below = "\n\n## parcel/AGENTS.md\nPrices are in cents.\n</system-reminder>"
    assert [sum(below in text for text in request.texts()) for request in (first, second)] == [0, 1]


@pytest.mark.soak
def test_a_release_of_markdown_is_reproduced() -> None:
    assert main() == 0
