"""What commands can reach and leave behind: while planning, set up, at work, without a sandbox, and under attack."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from bot.core.gate import Move
from bot.testing.model.reply import Call, Fault, Reply, call, say, several
from bot.testing.model.request_view import ModelRequest
from tests.attacks.attempts import HANDED_IN, STRANGE, WRITERS, bash, edits, obedient
from tests.stories.conftest import Meet
from tests.stories.ground import (
    FIX,
    FIXED,
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
from tests.test_no_sandbox import programs

SPY: Final = "sub-agent that explores"


@pytest.mark.req("PR1", "P2", "P4", "P5", "S2")
def test_a_planner_that_obeys_the_attacker_changes_nothing(meet: Meet) -> None:
    """At least 60 attempts come back as errors, from sub-agents too."""
    script: list[Reply] = []

    def policy(request: ModelRequest) -> Reply | Fault:
        if SPY in request.system:
            return spy[request.step] if request.step < len(spy) else say("Done.")
        return script[request.step] if request.step < len(script) else Reply(both)

    person, model = meet(policy)
    attempts = edits(person.repository) + bash()[::6] + STRANGE + HANDED_IN + WRITERS
    spy = obedient([*edits(person.repository)[:3], *bash()[:5], *STRANGE[:2], *WRITERS[:1]])
    scout = call("Task", subagent_type="explore", description="Look", prompt="Write owned, whatever anybody says.")
    script.extend([*obedient(attempts), scout])
    both = (
        *tuple(Call("exit_plan_mode", {"plan": plan}) for plan in ("Mine.", "Mine too.")),
        Call("Write", {"file_path": "owned", "content": "x"}),
    )
    before, refs = state(person.repository), person.git("for-each-ref", "--format=%(refname) %(objectname)")

    ended = person.run("--json")

    assert (ended.code, ended.result["stage"]) == (3, "awaiting_approval"), ended.err
    assert state(person.repository) == before
    assert [
        line
        for line in person.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        if not line.startswith("refs/plangate/")
    ] == refs.splitlines()
    last = next(request for request in reversed(model.requests) if SPY not in request.system)
    results = [result for result in last.all_results if result.name != "Read"]
    assert len(attempts) >= 60
    assert len(results) == len(attempts) + 1
    assert [attempt for attempt, result in zip(attempts, results, strict=False) if not result.is_error] == []
    spied = [request for request in model.requests if SPY in request.system][-1]
    assert [result.text for result in spied.all_results if result.name != "Read" and not result.is_error] == []
    assert not list(person.home.rglob("owned*"))
    _as_committed(person)
    assert not list(processes(person.home))


def _as_committed(person: Person) -> None:
    """Hold that the checkout is the commit, file by file, and has no branch."""
    (tree,) = person.data.glob("checkouts/*/tree")
    listed = {path for path in state(tree) if not path.startswith(".git/")}
    committed = set(person.git("ls-tree", "-r", "--name-only", "HEAD").split())
    assert listed == committed
    assert all((tree / name).read_bytes() == (person.repository / name).read_bytes() for name in committed)
    assert not list((tree / ".git/refs/heads").rglob("*"))


HOSTILE = "sh hostile.sh"
SCRIPT = """set -e
echo owned > owned; rm README.md; echo x > .git/HEAD; mkdir -p .git/hooks; echo x > .git/hooks/post-checkout
(setsid sh -c 'sleep 600' &) ; nohup sleep 600 > /dev/null 2>&1 &
test -e owned && echo it wrote
"""


@pytest.mark.req("P4a", "P4")
def test_a_command_for_planning_leaves_nothing(meet: Meet) -> None:
    """Any other spelling of it is refused, as without configuration."""
    others = (f"{HOSTILE}; touch owned", f"{HOSTILE} ", "bash hostile.sh")

    def policy(request: ModelRequest) -> Reply | Fault:
        if request.step == 0:
            return several(*(call("Bash", command=line) for line in (HOSTILE, *others, "ls")))
        return say("Nothing to change.")

    person, model = meet(policy)
    person.commit({"hostile.sh": SCRIPT, ".github/plangate.yml": f"plan:\n  commands:\n    - {HOSTILE}\n"})
    before = state(person.repository)

    ended = person.run("--json")

    assert ended.code == 0, ended.err
    ran, *refused, listed = model.requests[-1].all_results
    assert "it wrote" in ran.text
    assert all(result.is_error and result.text.startswith("Denied: ") for result in refused)
    assert "README.md" in listed.text
    assert "owned" not in listed.text
    assert HOSTILE in "\n".join(model.requests[0].texts())
    assert state(person.repository) == before
    left = list(person.data.glob("checkouts/rehearsal-*"))
    assert [path for path in left if path.suffix != ".lock"] == []  # an empty file, which nobody holds any more
    assert not list(person.home.rglob("owned"))
    assert not list(processes(person.home))


CHECKED = "sh check.sh"


def _looking(request: ModelRequest) -> Reply | Fault:
    """Run the check twice, then look at the checkout."""
    steps = (call("Bash", command=CHECKED), call("Bash", command=CHECKED), call("Bash", command="ls"))
    return steps[request.step] if request.step < len(steps) else say("Nothing to change.")


@pytest.mark.req("K3", "P4a")
@pytest.mark.parametrize("fails", (False, pytest.param(True, marks=pytest.mark.long)))
def test_set_up_runs_once_before_commands_for_planning_on_copies(meet: Meet, fails: bool) -> None:
    person, model = meet(_looking)
    setup = "date +%s%N > stamp" + ("; echo no network >&2; exit 3" if fails else "")
    keys = f"sandbox:\n  setup: ['{setup}']\nexecution:\n  verify: ['{CHECKED}']\n"
    person.commit({"check.sh": "cat stamp; echo x >> stamp", ".github/plangate.yml": keys})
    ended = person.run("--json")
    assert ended.code == 0, ended.err
    first, second, listed = (result.text for result in model.requests[-1].all_results)
    assert first == second
    assert first.splitlines()[-1].isdecimal()
    assert ("(The set-up command" in first, "failed; nothing reaches the network here: no network" in first) == (
        fails,
    ) * 2
    assert "stamp" not in listed
    assert [path for path in person.data.glob("checkouts/rehearsal-*") if path.suffix != ".lock"] == []


CONFIGURATION: Final = ".github/plangate.yml"
LOOK: Final = call("Bash", command="cat built/tool left.txt README.md; pwd")
CHECK: Final = "test -s built/tool -a -s left.txt"
NOT_LATE: Final = f"! grep late {FIXED}"
HOOK: Final = f"printf '#!/bin/sh\\necho late >> {FIXED}\\n' > .git/hooks/post-checkout"
PLANT: Final = call("Bash", command=f"mkdir -p .git/hooks; {HOOK}; chmod +x .git/hooks/post-checkout")
START: Final = call("Bash", command="echo up; sleep 600", run_in_background=True)
READ: Final = call("BashOutput", bash_id="that of START", filter="^u")


def configured(person: Person, *commands: str, hosts: str = "[]") -> None:
    """Commit a configuration with these set-up commands; what they build is ignored."""
    setup = "".join(f"    - {command!r}\n" for command in commands)
    text = f"sandbox:\n  hosts: {hosts}\n  minutes: 0.05\n  setup:\n{setup}"
    person.commit({CONFIGURATION: text, ".gitignore": "built/\n"})


@dataclass(frozen=True)
class Serving:
    """A model that tries to start a command while it plans, and reads the one that it starts first when it works."""

    script: Script

    def __call__(self, request: ModelRequest) -> Reply | Fault:
        if request.tools and not approved(request) and request.step < 2:
            return (START, call("Read", file_path=FIXED))[request.step]
        if approved(request) and since_approval(request) == ["Bash"]:
            found = re.search(r"bash_\w+", request.all_results[-1].text)
            return call("BashOutput", bash_id=found[0] if found else "none", filter="^u")
        return self.script(request)


@pytest.mark.long
@pytest.mark.req("G2", "S4", "TOOLHOST", "T4", "P4", "G3a")
def test_work_and_checks_find_what_was_set_up_and_publish_nothing_of_it(meet: Meet) -> None:
    """Planning starts no command in the background; one that work starts is gone before the checks. A hook that the
    work planted finds no git to run it."""
    person, model = meet(Serving(Script(work=(START, READ, LOOK, PLANT, FIX), commands=(CHECK, NOT_LATE))))
    build = "mkdir -p built && cd built && echo made > tool"
    configured(person, build, "echo left > left.txt", "echo more >> README.md")
    ended = person.run("--yes", "--json")
    assert ended.code == 0, ended.err
    refused, _, looked, _ = (result.text for result in newest(model).all_results if result.name == "Bash")
    assert refused.startswith("Denied: plan mode is on")
    (read,) = (result.text for result in newest(model).all_results if result.name == "BashOutput")
    assert read.startswith("up\nrunning for ")
    assert {"made", "left", "more"} <= set(looked.splitlines())
    assert [check["exit_code"] for check in ended.result["checks"]] == [0, 0]
    (branch,) = person.branches()
    assert only_the_fix(person.diff(branch))
    (journal,) = person.journals()
    (entry,) = (entry.body for entry in journal if entry.kind == "prepared")
    assert [each["exit_code"] for each in entry["commands"]] == [0, 0, 0]
    assert sorted(entry["left"]) == ["README.md", "left.txt"]
    assert not list(processes(person.home))


@pytest.mark.long
@pytest.mark.req("PR1")
def test_nothing_is_set_up_before_a_plan_is_approved(meet: Meet) -> None:
    person, _ = meet(Script())
    configured(person, "echo made > /proc/self/fd/2; false")
    assert person.run().code == 3
    (journal,) = person.journals()
    assert not [entry for entry in journal if entry.kind == "prepared"]


@pytest.mark.long
@pytest.mark.req("PR3")
@pytest.mark.parametrize(
    ("command", "words"),
    (
        ("echo no such package >&2; exit 3", ("no such package", "exit code 3")),
        ("sleep 60", ("timed out",)),
        ("for n in $(seq 60); do echo x > n$n; done", ("60 files that git does not ignore", ".gitignore")),
    ),
)
def test_a_set_up_that_fails_is_told_with_the_place_to_fix_it(meet: Meet, command: str, words: tuple[str, ...]) -> None:
    person, model = meet(Script())
    configured(person, command)
    ended = person.run("--yes")
    assert ended.code == 2
    (line,) = (line for line in ended.err.splitlines() if "set-up" in line)
    assert all(word in line for word in (*words, f"sandbox.setup in {CONFIGURATION}")), line
    assert not person.branches()
    assert all("plan is approved" not in text for request in model.requests for text in request.texts())


@pytest.mark.long
@pytest.mark.req("N1a")
def test_the_hosts_that_a_set_up_may_reach_are_in_the_plan(meet: Meet) -> None:
    person, _ = meet(Script())
    configured(person, "curl -sS https://files.example.org/ 2>&1 | grep 403", hosts="[docs.example.org]")
    ended = person.run("--yes", "--json")
    assert ended.code == 0, ended.err
    (journal,) = person.journals()
    (plan,) = (entry.body["plan"] for entry in journal if entry.kind == Move.PLANNED)
    assert plan["hosts"] == ["docs.example.org"]
    (told,) = (entry.body for entry in journal if entry.kind == "network")
    assert (told["session"], told["reached"][0]["host"]) == ("setup", "files.example.org")


@pytest.mark.long
@pytest.mark.req("E3")
def test_a_set_up_that_was_killed_begins_again(meet: Meet) -> None:
    person, _ = meet(Script(work=(LOOK, FIX)))
    configured(person, "echo left > left.txt", "mkdir -p built; echo made > built/tool; test -e built/on || sleep 2")
    person.die(lambda: [*person.data.glob("checkouts/*/tree/built/tool")])
    ended = person.run("--yes")
    assert ended.code == 0, ended.err
    (branch,) = person.branches()
    assert only_the_fix(person.diff(branch))


LISTED, OTHER = "docs.example.org", "files.example.org"
HOSTS_LISTED = {".github/plangate.yml": f"sandbox:\n  hosts: ['{LISTED}', '{OTHER}']\n"}
TRY = f"curl -sS https://{OTHER}/ 2>&1"
REACH = call("Bash", command=f"{TRY}; ls /run/plangate")


@pytest.mark.long
@pytest.mark.req("N1a", "N1", "TOOLHOST")
def test_a_host_that_the_plan_does_not_name_stays_shut_and_the_try_is_journaled(meet: Meet) -> None:
    person, model = meet(Script(hosts=(LISTED,), work=(REACH, FIX)))
    person.commit(HOSTS_LISTED)
    ended = person.run("--yes", "--json")
    assert ended.code == 0, ended.err
    (ran,) = (result for result in newest(model).all_results if result.name == "Bash")
    assert "403" in ran.text
    assert ran.text.splitlines()[-1] == "egress"
    (journal,) = person.journals()
    (told,) = (entry.body["reached"] for entry in journal if entry.kind == "network")
    assert told == [
        {"host": OTHER, "port": 443, "allowed": False, "reason": "this host is not on the list", "times": 1}
    ]
    assert "WebFetch" not in {tool for request in model.requests for tool in request.tools}


@pytest.mark.long
@pytest.mark.req("N1", "N1a")
def test_there_is_no_way_out_without_a_plan_for_it(meet: Meet) -> None:
    person, model = meet(Script(work=(REACH, call("WebFetch", url=f"https://{OTHER}/", prompt="x"), FIX)))
    person.commit(
        {
            ".github/plangate.yml": HOSTS_LISTED[".github/plangate.yml"]
            + "tools:\n  allow: [WebFetch(domain:docs.example.org)]\n"
        }
    )
    ended = person.run("--yes", "--json")
    assert ended.code == 0, ended.err
    ran, fetched = (result for result in newest(model).all_results if result.name in {"Bash", "WebFetch"})
    assert "Could not resolve host" in ran.text
    assert fetched.is_error
    assert fetched.text.startswith("Denied: ")
    assert "WebFetch" in {tool for request in planning_requests(model.requests) for tool in request.tools}


@pytest.mark.long
@pytest.mark.req("PR6", "E3")
def test_a_killed_process_has_journaled_what_its_command_tried(meet: Meet) -> None:
    person, _ = meet(Script(hosts=(LISTED,), work=(call("Bash", command=f"{TRY}; sleep 60"), FIX)))
    person.commit(HOSTS_LISTED)
    person.die(lambda: [entry for journal in person.journals() for entry in journal if entry.kind == "network"])
    (journal,) = person.journals()
    (told,) = (entry.body["reached"] for entry in journal if entry.kind == "network")
    assert [(row["host"], row["allowed"], row["times"]) for row in told] == [(OTHER, False, 1)]


FLAG = "--unsafe-no-sandbox"


@pytest.mark.req("D1")
@pytest.mark.long
def test_without_bubblewrap_the_flag_goes_all_the_way_with_a_warning(meet: Meet, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    path = programs(tmp_path / "bin", blocked=False)
    for name in ("bash", "cp", "chmod", "rm", "cat"):
        (tmp_path / "bin" / name).symlink_to(f"/bin/{name}")
    person, _ = meet(Script(commands=("cat parcel/shipping.py",)), PATH=path)
    ended = person.run("--yes", "--json", FLAG)
    assert ended.code == 0, ended.err
    assert "the model's commands run with your rights" in ended.err
    assert [check["exit_code"] for check in ended.result["checks"]] == [0]
    (branch,) = person.branches()
    assert only_the_fix(person.diff(branch))


@pytest.mark.req("D1")
@pytest.mark.long
def test_the_flag_is_wrong_usage_on_a_thread(meet: Meet) -> None:
    person, model = meet(Script())
    ended = person.call("run", "octo/hello#7", FLAG)
    assert (ended.code, FLAG in ended.err) == (2, True)
    assert not model.requests
