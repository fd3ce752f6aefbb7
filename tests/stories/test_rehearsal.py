"""Commands that the configuration allows for planning run on a copy that is thrown away (P4a)."""

import pytest

from bot.testing.model.reply import Fault, Reply, call, say, several
from bot.testing.model.request import ModelRequest
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
