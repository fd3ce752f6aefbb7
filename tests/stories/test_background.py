"""A command in the background, from the real program to the real sandbox (T4)."""

import re
from dataclasses import dataclass, field

import pytest

from bot.testing.model.reply import Fault, Reply, call
from bot.testing.model.request_view import ModelRequest
from tests.stories.conftest import Meet
from tests.stories.ground import FIX, Script, approved, newest, only_the_fix, processes, since_approval

START = call("Bash", command="echo up; sleep 600", run_in_background=True)
READ = call("BashOutput", bash_id="that of START", filter="^u")


@dataclass(frozen=True)
class Serving:
    """A model that tries to start a command while it plans, starts it when it works, reads it, and ends with it up."""

    script: Script = field(default_factory=lambda: Script(work=(START, READ, FIX)))

    def __call__(self, request: ModelRequest) -> Reply | Fault:
        if request.tools and not approved(request) and request.step == 0:
            return START
        if approved(request) and since_approval(request)[-1:] == ["Bash"]:
            found = re.search(r"bash_\w+", request.all_results[-1].text)
            return call("BashOutput", bash_id=found[0] if found else "none", filter="^u")
        if request.step == 1 and not approved(request):
            return call("Read", file_path="parcel/shipping.py")
        return self.script(request)


@pytest.mark.req("T4", "P4", "G3a")
def test_a_command_in_the_background(meet: Meet) -> None:
    """Planning starts none; work reads what it wrote and goes on; it is gone before the checks, and nothing is left."""
    person, model = meet(Serving())
    ended = person.run("--yes", "--json")
    assert ended.code == 0, ended.err
    refused, *_ = (result.text for result in newest(model).all_results if result.name == "Bash")
    assert refused.startswith("Denied: plan mode is on")
    (read,) = (result.text for result in newest(model).all_results if result.name == "BashOutput")
    assert read.startswith("up\nrunning for ")
    (branch,) = person.branches()
    assert only_the_fix(person.diff(branch))
    assert not list(processes(person.home))
