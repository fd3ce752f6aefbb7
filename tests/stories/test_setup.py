"""Set-up commands of the configuration: they make a checkout ready for approved work, and for nothing else."""

import signal
from typing import Final

import pytest

from bot.core.gate import Move
from bot.testing.model.reply import call
from tests.stories.conftest import Meet
from tests.stories.ground import FIX, Person, Script, newest, only_the_fix, until

CONFIGURATION: Final = ".github/plangate.yml"
LOOK: Final = call("Bash", command="cat built/tool left.txt README.md; pwd")
CHECK: Final = "test -s built/tool -a -s left.txt"


def configured(person: Person, *commands: str, hosts: str = "[]") -> None:
    """Commit a configuration with these set-up commands; what they build is ignored."""
    setup = "".join(f"    - {command!r}\n" for command in commands)
    text = f"sandbox:\n  hosts: {hosts}\n  minutes: 0.05\n  setup:\n{setup}"
    person.commit({CONFIGURATION: text, ".gitignore": "built/\n"})


@pytest.mark.req("G2", "S4", "TOOLHOST")
def test_work_finds_what_was_set_up(meet: Meet) -> None:
    """Session and checks find it, each command began at the top; nothing of it is published, ignored or not."""
    person, model = meet(Script(work=(LOOK, FIX), commands=(CHECK,)))
    build = "mkdir -p built && cd built && echo made > tool"
    configured(person, build, "echo left > left.txt", "echo more >> README.md")
    ended = person.run("--yes", "--json")
    assert ended.code == 0, ended.err
    (ran,) = (result for result in newest(model).all_results if result.name == "Bash")
    assert {"made", "left", "more"} <= set(ran.text.splitlines())
    assert [check["exit_code"] for check in ended.result["checks"]] == [0]
    (branch,) = person.branches()
    assert only_the_fix(person.diff(branch))
    (journal,) = person.journals()
    (entry,) = (entry.body for entry in journal if entry.kind == "prepared")
    assert [each["exit_code"] for each in entry["commands"]] == [0, 0, 0]
    assert sorted(entry["left"]) == ["README.md", "left.txt"]


@pytest.mark.req("G3a")
def test_nothing_runs_after_the_checks(meet: Meet) -> None:
    """A hook that the work planted finds no git to run it once the checks are over: what they saw is published."""
    hook = "printf '#!/bin/sh\\necho late >> parcel/shipping.py\\n' > .git/hooks/post-checkout"
    plant = call("Bash", command=f"mkdir -p .git/hooks; {hook}; chmod +x .git/hooks/post-checkout")
    person, _ = meet(Script(work=(plant, FIX), commands=("! grep late parcel/shipping.py",)))
    configured(person, "echo more >> README.md")
    ended = person.run("--yes", "--json")
    assert (ended.code, [check["exit_code"] for check in ended.result["checks"]]) == (0, [0]), ended.err
    (branch,) = person.branches()
    assert only_the_fix(person.diff(branch))


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
