"""SubmitReview: the answer to somebody who wants an opinion on a pull request, as findings at lines of its diff.

It changes nothing: the review stays in the transcript, and the harness posts it with the answer. Only the main agent
has it, in plan mode, on the thread of a pull request.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from pydantic import Field

from bot.agent.permissions.tool_gate import CallKind
from bot.agent.tools.tool import Tool, ToolContext, ToolInput, ToolSink, relative
from bot.core.names import CommitId
from bot.core.review import Review, ReviewFinding, Severity
from bot.core.transcript import Json
from bot.ports import ToolOutput

SUBMIT_REVIEW: Final = "SubmitReview"
_RECORDED: Final = (
    "The review is recorded and will be posted as it is. End now with one sentence, which is not posted. A further "
    "call replaces it."
)


class ReviewFindingInput(ToolInput):
    """One finding."""

    path: str = Field(min_length=1, max_length=1_000)
    line: int = Field(ge=1, le=10_000_000)
    severity: Severity
    body: str = Field(min_length=1, max_length=4_000)


class ReviewInput(ToolInput):
    """Input of SubmitReview."""

    summary: str = Field(min_length=1, max_length=10_000)
    findings: list[ReviewFindingInput] = Field(max_length=50)


async def _call(_: ReviewInput, context: ToolContext, _emit: ToolSink) -> ToolOutput:
    """Report that the review is recorded. A sub-agent never has this tool."""
    return ToolOutput(_RECORDED, is_error=context.is_subagent)


REVIEW: Final = Tool(
    name=SUBMIT_REVIEW,
    description=(
        "Answer with a review of this pull request, if people want your opinion and no change. `summary`: your verdict "
        "in Markdown. `findings`: defects that you verified, each with `path`, `line` (of the new file, in the diff), "
        "`severity`, and `body`: what is wrong, when it shows, how to fix it. No praise, no style. It replaces your "
        "answer; a plan handed in afterwards replaces it."
    ),
    input_model=ReviewInput,
    call=_call,
    kind=lambda _: CallKind.LIST,
    strict=True,
)


def submitted_review(history: Sequence[Json], folder: str, commit: CommitId) -> Review | None:
    """Return the last review that a session submitted, or None. Paths are made relative to `folder`."""
    blocks = list(_blocks(history))
    refused = {block["tool_use_id"] for block in blocks if block.get("type") == "tool_result" and block.get("is_error")}
    calls = [block for block in blocks if block.get("type") == "tool_use" and block["name"] == SUBMIT_REVIEW]
    last = next((call for call in reversed(calls) if call["id"] not in refused), None)
    if last is None:
        return None
    review = ReviewInput.model_validate(last["input"])
    findings = (
        ReviewFinding(relative(finding.path, folder), finding.line, finding.severity, finding.body)
        for finding in review.findings
    )
    return Review(review.summary, tuple(findings), commit)


def _blocks(history: Sequence[Json]) -> Iterator[Json]:
    for message in history:
        if isinstance(message["content"], list):
            yield from message["content"]
