"""Set-up commands of the configuration: they make a checkout ready for approved work, and for nothing else."""

import re
import signal
from dataclasses import dataclass
from typing import Final

import pytest

from bot.core.gate import Move
from bot.testing.model.reply import Fault, Reply, call
from bot.testing.model.request_view import ModelRequest
from tests.stories.conftest import Meet
from tests.stories.ground import (
    FIX,
    FIXED,
    Person,
    Script,
    approved,
    newest,
    only_the_fix,
    processes,
    since_approval,
    until,
)

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


@pytest.mark.req("G2", "S4", "TOOLHOST", "T4", "P4", "G3a")
def test_what_work_finds_and_leaves_behind(meet: Meet) -> None:
    """Session and checks find what was set up, each command began at the top; nothing of it is published.

    Planning starts no command in the background. Work reads what one wrote and goes on; it is gone before the checks,
    and nothing is left. A hook that the work planted finds no git to run it once the checks are over: what they saw is
    published.
    """
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
    """A plan that nobody approved starts no command."""
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
def test_failing(meet: Meet, command: str, words: tuple[str, ...]) -> None:
    """What failed is said in one line with the place to fix it; no work begins, and fixed, it goes on."""
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
def test_what_it_may_reach_is_in_the_plan(meet: Meet) -> None:
    """The plan names the configuration's hosts by itself; no other is open, and the journal tells what was tried."""
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
def test_killed_while_it_is_set_up(meet: Meet) -> None:
    """A run that was killed in the middle of a command begins the set-up again, and the work is what it would be."""
    person, _ = meet(Script(work=(LOOK, FIX)))
    configured(person, "echo left > left.txt", "mkdir -p built; echo made > built/tool; test -e built/on || sleep 2")
    with person.start("--yes") as running:
        until(lambda: [*(person.data / "checkouts").glob("*/tree/built/tool")], "the second command")
        running.send_signal(signal.SIGKILL)
    ended = person.run("--yes")
    assert ended.code == 0, ended.err
    (branch,) = person.branches()
    assert only_the_fix(person.diff(branch))
