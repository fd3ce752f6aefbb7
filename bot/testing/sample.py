"""The sample repository of the demo, and the script of a sensible model that repairs it."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from bot.testing.model.reply import Fault, Reply, call, say, several
from bot.testing.model.request_view import ModelRequest

TITLE: Final = "Orders of exactly 50 pay for shipping"
REQUEST: Final = (
    "Orders of exactly 50 are charged for shipping, but the README promises free shipping from 50 on, and "
    "tests/test_shipping.py fails. Please fix it and note it in the changelog."
)
CHECK: Final = "python3 -m unittest -q"

FILES: Final = MappingProxyType(
    {
        "README.md": "# Parcel\n\nShipping costs 4.90. Orders of 50 or more ship free, express costs 5.00 on top.\n",
        "CHANGELOG.md": "# Changelog\n\n## Unreleased\n\n- Express delivery.\n",
        "parcel/__init__.py": '"""Parcel: what an order costs."""\n',
        "parcel/shipping.py": (
            '"""Shipping costs of an order."""\n\n'
            "FREE_FROM = 50\nSTANDARD = 4.90\nEXPRESS = 5.00\n\n\n"
            "def shipping(total, express=False):\n"
            '    """Give the cost of shipping an order of that total."""\n'
            "    cost = 0.0 if total > FREE_FROM else STANDARD\n"
            "    return cost + (EXPRESS if express else 0.0)\n"
        ),
        "parcel/order.py": (
            '"""An order and what it costs in all."""\n\n'
            "from parcel.shipping import shipping\n\n\n"
            "def total(prices, express=False):\n"
            '    """Give the price of some goods with shipping."""\n'
            "    goods = sum(prices)\n"
            "    return goods + shipping(goods, express)\n"
        ),
        "tests/__init__.py": "",
        "tests/test_shipping.py": (
            "import unittest\n\nfrom parcel.order import total\nfrom parcel.shipping import shipping\n\n\n"
            "class Shipping(unittest.TestCase):\n"
            "    def test_small_orders_pay(self):\n        self.assertEqual(shipping(20), 4.90)\n\n"
            "    def test_free_from_fifty(self):\n        self.assertEqual(shipping(50), 0.0)\n\n"
            "    def test_express_is_extra(self):\n        self.assertEqual(total([60], express=True), 65.0)\n"
        ),
    }
)


def make(folder: Path, files: Mapping[str, str] = FILES) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    _git(folder, "init", "--quiet", "--initial-branch=main")
    _git(folder, "add", "--all")
    _git(folder, "commit", "--quiet", "--message=Ship orders")
    return folder


def _git(folder: Path, *arguments: str) -> None:
    person = ("-c", "user.name=Sample", "-c", "user.email=sample@localhost", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *person, *arguments], check=True, capture_output=True)


PLAN: Final = """\
Orders of exactly 50 pay for shipping: `parcel/shipping.py` compares with `>` where the README promises "50 or more".

1. In `parcel/shipping.py`, compare with `>=`.
2. In `CHANGELOG.md`, add a line under "Unreleased".

The failing test `tests/test_shipping.py` proves it; it needs no change."""
FINDING: Final = {
    "id": "tests/test_shipping.py::test_free_from_fifty", "title": "Orders of exactly 50 pay for shipping",
    "paths": ["parcel/shipping.py"],
}  # the finding that the planner of a scheduled task lists  # fmt: skip
NAMED: Final = "Ship orders of exactly 50 free"  # the title that a light call returns


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
        call("Read", file_path=path), call("Edit", file_path=path, old_string=old, new_string=new),
        say(f"Changed `{path}` as asked."),
    )  # fmt: skip
    return steps[request.step]


def _task(kind: str, description: str, prompt: str) -> Reply:
    return call("Task", subagent_type=kind, description=description, prompt=prompt)


def _todos(fix: str, test: str) -> list[dict[str, str]]:
    return [{"content": "Fix the comparison and note it", "status": fix}, {"content": "Run the tests", "status": test}]
