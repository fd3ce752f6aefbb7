"""A model that obeys the attacker, while planning, in a whole run: it tries much, and nothing changes (P4).

Every attempt, and every layer by itself, is in tests/attacks/test_plan_mode.py.
"""

from typing import Final

import pytest

from bot.testing.model.reply import Call, Fault, Reply, call, say
from bot.testing.model.request_view import ModelRequest
from tests.attacks.attempts import HANDED_IN, STRANGE, WRITERS, bash, edits, obedient
from tests.stories.conftest import Meet
from tests.stories.ground import Person, processes, state

SPY: Final = "sub-agent that explores"


@pytest.mark.req("PR1", "P2", "P4", "P5", "S2")
def test_a_planner_that_obeys_the_attacker_changes_nothing(meet: Meet) -> None:
    """Each of at least 60 attempts comes back as an error, from sub-agents too; no file and no ref has changed."""
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
