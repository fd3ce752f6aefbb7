"""A session's transcript as it is stored: an answer with an edit, a failing command, and a sub-agent."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from bot.core.transcript import Line, LineKind

BRIEF = "Carry out the approved plan.\n\nOrders of exactly 50 pay for shipping."
OLD = "def shipping(total: Decimal) -> Decimal:\n    if total > FREE_FROM:\n        return Decimal(0)\n    return FEE\n"
NEW = OLD.replace(">", ">=", 2).replace("->=", "->")
FAILED = (
    "F..\nAssertionError: Decimal('4.90') != Decimal('0')\nRan 3 tests in 0.002s\n\nFAILED (failures=1)\nexit code 1"
)


def call(name: str, ident: str, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": ident, "name": name, "input": given}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def result(ident: str, content: object, *, failed: bool = False) -> dict[str, Any]:
    found = {"type": "tool_result", "tool_use_id": ident, "content": content}
    return {**found, "is_error": True} if failed else found


class Recorded:
    """Lines of a transcript, ten seconds apart."""

    def __init__(self, session: str, at: datetime, kind: str = "work") -> None:
        self.at, self.lines = at, list[Line]()
        opened = {"session": session, "agent_type": kind, "model": "claude-opus-5-5", "mode": "acceptEdits"}
        self.add(LineKind.OPENED, {**opened, "system": ["You work on a checkout."], "tools": []})

    def add(self, kind: LineKind, body: dict[str, Any]) -> None:
        self.lines.append(Line(kind, self.at, body))
        self.at += timedelta(seconds=10)

    def given(self, *content: dict[str, Any]) -> None:
        self.add(LineKind.MESSAGE, {"message": {"role": "user", "content": [*content]}})

    def answer(self, *content: dict[str, Any], cost: float | None = 0.02, tokens: int = 4_000) -> None:
        usage = {"input": tokens - 300, "output": 300}
        message = {"role": "assistant", "content": [*content]}
        self.add(LineKind.MESSAGE, {"message": message, "usage": usage, "cost_usd": cost, "model": "claude-opus-5-5"})

    def note(self, what: str, **facts: Any) -> None:
        self.add(LineKind.NOTE, {"note": what, **facts})


def work_session(at: datetime) -> Sequence[Line]:
    """Return the transcript of a session that works."""
    made = Recorded("work-1", at)
    made.given(text(BRIEF))
    made.answer(
        {"type": "thinking", "thinking": "The comparison is wrong at the boundary.", "signature": "x"},
        text("I look at the rule first, and at the test that fails."),
        call("Read", "c1", file_path="parcel/shipping.py"),
        call("Bash", "c2", command="python -m unittest"),
    )
    made.given(result("c1", "1\tFREE_FROM = Decimal(50)\n2\t\n3\t" + OLD), result("c2", FAILED, failed=True))
    made.answer(
        text("The README promises **50 or more**, so the comparison has to include 50."),
        call("Edit", "c3", file_path="parcel/shipping.py", old_string=OLD, new_string=NEW),
        call("Write", "c4", file_path="docs/shipping.md", content="# Shipping\n\nOrders of 50 or more ship free.\n"),
        tokens=5_200,
    )
    made.given(result("c3", "Edited."), result("c4", "Written."))
    made.note("subagent", agent="a-1", session="work-1-a1", type="code", description="Note it in the changelog")
    made.answer(call("Task", "c5", description="Note it in the changelog", prompt="Add a line.", subagent_type="code"))
    made.given(result("c5", [text("Added one line under Unreleased.")]))
    made.note("subagent_ended", agent="a-1", state="completed")
    made.answer(text("Done: orders of exactly 50 ship free, and a test holds it."), cost=None, tokens=6_100)
    return made.lines


def long_session(at: datetime, steps: int = 45) -> Sequence[Line]:
    """Return a transcript of several pages."""
    made = Recorded("plan-1", at, "plan")
    made.given(text(BRIEF))
    for number in range(1, steps + 1):
        made.answer(text(f"Answer {number}."), call("Grep", f"g{number}", pattern=f"needle-{number}"))
        made.given(result(f"g{number}", "parcel/shipping.py:3"))
    return made.lines
