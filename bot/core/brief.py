"""The brief of an execution session: everything that it knows of the work when it begins (K1). Pure.

People's words are quoted line by line, so that no heading in them passes for one of the brief.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bot.core.comment import contract, finding_list
from bot.core.markdown.elements import code
from bot.core.plan import PlanDocument

_EDITED: Final = (
    "The text of the request is left out: it was edited after it was posted, or somebody else wrote it. "
    "The approved plan says what to do."
)
_BEFORE: Final = "Said before the plan was approved. Where the plan differs from these words, the plan decides."


@dataclass(frozen=True, slots=True)
class Words:
    """What one person said, unedited."""

    login: str
    text: str
    question: str = ""
    """The planner's question that it answers; "" for none."""


@dataclass(frozen=True, slots=True)
class ExecutionBrief:
    """What crosses the gate from planning to execution."""

    plan: PlanDocument
    request: Words | None
    """None where its text is not, or may not be, that of the person who asked."""
    additions: Sequence[Words] = ()
    withheld: int = 0
    """How many additions and answers are left out for the same reason."""
    checks: Sequence[str] = ()
    """The commands that verify the work."""
    repairs: int = 0
    """How often the session gets failing checks back."""
    result: str = ""
    """What happens to the result of the work, and where people see it."""

    def render(self) -> str:
        """Return the brief as Markdown: request, additions, plan, checks, result, each under its heading."""
        parts = ["# Request", _EDITED if self.request is None else _quote(self.request, "asked")]
        parts += ["# Additions and answers", *self._additions()]
        parts += ["# Approved plan", *_plan(self.plan)]
        parts += ["# What will be verified", self._checks()]
        return "\n\n".join([*parts, "# How the result is used", self.result])

    def _additions(self) -> list[str]:
        texts = [
            _quote(words, f"answered the planner's question {code(words.question)}" if words.question else "added")
            for words in self.additions
        ]
        if self.withheld:
            count = "1 text is" if self.withheld == 1 else f"{self.withheld} texts are"
            texts.append(f"{count} left out, edited after being posted, sent by mail, or of somebody else.")
        return [_BEFORE, *texts] if texts else ["None."]

    def _checks(self) -> str:
        if not self.checks:
            return "No command is configured or planned. Check the work yourself as far as you can."
        commands = "\n".join(f"- {code(command)}" for command in self.checks)
        times = "once" if self.repairs == 1 else f"up to {self.repairs} times"
        failing = f"handed back to you {times}" if self.repairs else "said at the top of the pull request"
        return (
            f"When you end your turn, these commands run on a copy of your work. What fails is {failing}.\n\n{commands}"
        )


def _quote(words: Words, did: str) -> str:
    quoted = "\n".join(f"> {line}".rstrip() for line in words.text.splitlines())
    return f"{code('@' + words.login)} {did}:\n\n{quoted}"


def _plan(plan: PlanDocument) -> list[str]:
    """Return the approved document in full."""
    head = f"Plan {plan.plan} ({plan.short_digest}), made for commit {plan.base[:12]}. Carry out exactly this."
    notes = ["## Notes of the planner", plan.notes] if plan.notes else []
    findings = ["## Findings", finding_list(plan.findings)] if plan.findings else []
    return [head, plan.markdown, *notes, *findings, "## What you may do", contract(plan)]
