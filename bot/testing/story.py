"""The script of the demo: a sensible model's replies for the sample repository, chosen by each request."""

from typing import Final

from bot.testing.model.reply import Fault, Reply, call, say, several
from bot.testing.model.request_view import ModelRequest
from bot.testing.sample import CHECK

PLAN: Final = """\
Orders of exactly 50 pay for shipping: `parcel/shipping.py` compares with `>` where the README promises "50 or more".

1. In `parcel/shipping.py`, compare with `>=`.
2. In `CHANGELOG.md`, add a line under "Unreleased".

The failing test `tests/test_shipping.py` proves it; it needs no change."""
FINDING: Final = {
    "id": "tests/test_shipping.py::test_free_from_fifty",
    "title": "Orders of exactly 50 pay for shipping",
    "paths": ["parcel/shipping.py"],
}
"""The finding that the planner of a scheduled task lists."""
NAMED: Final = "Ship orders of exactly 50 free"
"""The title that a light call returns."""


def policy(request: ModelRequest) -> Reply | Fault:
    """Return the reply of the main agent or of the asking sub-agent. A request without tools asks for the title."""
    if not request.tools:
        return say(NAMED)
    if "sub-agent that explores" in request.system:
        return _explore(request)
    if "sub-agent that writes code" in request.system:
        return _code(request)
    texts = (*request.texts(), *(result.text for result in request.all_results))
    return _work(request) if any("The plan is approved. Plan mode is off" in text for text in texts) else _plan(request)


def _plan(request: ModelRequest) -> Reply:
    if request.step == 0:
        return several(
            say("I will look at the code and at the tests side by side."),
            _task("explore", "Find the shipping rule", "Find where shipping costs are decided, and what the rule is."),
            _task("explore", "Find the failing test", "Find the tests of shipping and say which one fails, and why."),
        )
    scheduled = any("Scheduled task `" in text for text in request.texts())
    findings = {"findings": [FINDING]} if scheduled else {}
    return call("exit_plan_mode", plan=PLAN, scope=["parcel/shipping.py", "CHANGELOG.md"], commands=[CHECK], **findings)


def _explore(request: ModelRequest) -> Reply:
    question = request.texts()[0]
    if "where shipping costs" in question:
        steps = (
            several(call("Grep", pattern="shipping", output_mode="content"), call("LS", path="parcel")),
            call("Read", file_path="parcel/shipping.py"),
            say("`parcel/shipping.py:10` charges unless `total > FREE_FROM` (50): an order of exactly 50 pays."),
        )
    else:
        steps = (
            call("Glob", pattern="tests/**/*.py"),
            several(call("Read", file_path="tests/test_shipping.py"), call("Read", file_path="README.md")),
            say("`tests/test_shipping.py:11` expects shipping(50) == 0.0, as `README.md:3` promises; it gets 4.9."),
        )
    return steps[request.step]


def _work(request: ModelRequest) -> Reply:
    since = [result.name for result in request.all_results]
    steps = since[since.index("exit_plan_mode") + 1 :] if "exit_plan_mode" in since else since
    if not steps:
        return call("TodoWrite", todos=_todos("in_progress", "pending"))
    if "Task" not in steps:
        return several(
            _task("code", "Fix the comparison", "In parcel/shipping.py, ship free from FREE_FROM on: compare with >=."),
            _task("code", "Note it in the changelog", "In CHANGELOG.md, add a line on free shipping from 50 on."),
        )
    if steps[-1] == "Task":
        return call("Bash", command=CHECK, description="Run the tests")
    if steps[-1] == "Bash":
        return call("TodoWrite", todos=_todos("completed", "completed"))
    return say("Orders of 50 or more ship free again, as the README promises. All three tests pass.")


def _code(request: ModelRequest) -> Reply:
    path, old, new = (
        ("parcel/shipping.py", "total > FREE_FROM", "total >= FREE_FROM")
        if "shipping.py" in request.texts()[0]
        else ("CHANGELOG.md", "- Express delivery.\n", "- Express delivery.\n- Orders of exactly 50 ship free.\n")
    )
    steps = (
        call("Read", file_path=path),
        call("Edit", file_path=path, old_string=old, new_string=new),
        say(f"Changed `{path}` as asked."),
    )
    return steps[request.step]


def _task(kind: str, description: str, prompt: str) -> Reply:
    return call("Task", subagent_type=kind, description=description, prompt=prompt)


def _todos(fix: str, test: str) -> list[dict[str, str]]:
    return [
        {"content": "Fix the comparison and note it", "status": fix},
        {"content": "Run the tests", "status": test},
    ]
