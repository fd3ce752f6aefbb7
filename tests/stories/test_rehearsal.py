"""Commands that the configuration allows for planning run on a copy that is thrown away (P4a)."""

import pytest

from bot.testing.model.reply import Fault, Reply, call, say, several
from bot.testing.model.request_view import ModelRequest
from tests.stories.conftest import Meet
from tests.stories.ground import processes, state

HOSTILE = "sh hostile.sh"
SCRIPT = """set -e
echo owned > owned; rm README.md; echo x > .git/HEAD; mkdir -p .git/hooks; echo x > .git/hooks/post-checkout
(setsid sh -c 'sleep 600' &) ; nohup sleep 600 > /dev/null 2>&1 &
test -e owned && echo it wrote
"""


@pytest.mark.req("P4a", "P4")
def test_a_command_for_planning_leaves_nothing(meet: Meet) -> None:
    """It writes, changes HEAD and leaves daemons on its copy: checkout, repository and machine are as before; any other
    spelling of it is refused, as without configuration."""
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
def test_set_up_for_planning(meet: Meet, fails: bool) -> None:
    """Commands of execution.verify may run while planning; set-up runs before them, once, on copies; where it fails
    without a network, the command runs all the same, and its result says so."""
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
