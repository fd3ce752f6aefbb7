"""The tools that need no sandbox: questions, plans, todo lists, and reviews (T4)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, Literal, Self

from pydantic import Field, model_validator

from bot.agent.limits import Resource
from bot.agent.permissions.plan_mode import EXIT_PLAN_MODE, HANDED_TO_PARENT
from bot.agent.permissions.tool_gate import CallKind
from bot.agent.tools.tool import Tool, ToolContext, ToolInput, ToolSink, relative
from bot.core.comment import BOXES
from bot.core.maintenance import OperationKind
from bot.core.names import CommitId, ToolUseId
from bot.core.question import Asking, AskKind, Option, Question
from bot.core.transcript import Json
from bot.core.work import Review, ReviewFinding, Severity
from bot.ports import ToolOutput

# --- AskUserQuestion: asks people (T4, L8) ----------------------------------------------------------------------------
# People choose an option or answer in their own words. The question suspends the main agent's session.

ASK_USER_QUESTION: Final = "AskUserQuestion"
TO_PARENT: Final = "Nobody can be asked from here: put the question into your report, and end with it."
NOBODY: Final = (
    "Nobody is at hand to answer. Decide by yourself what is most sensible, say at the end what you decided, and go on."
)


class OptionInput(ToolInput):
    label: str = Field(min_length=1, max_length=120)
    description: str = Field(max_length=600)


class QuestionInput(ToolInput):
    question: str = Field(min_length=1, max_length=1_000)
    header: str = Field(min_length=1, max_length=12)
    options: list[OptionInput] = Field(min_length=2, max_length=4)
    multiSelect: bool = False  # noqa: N815 - the field's name in the field

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if len({option.label.strip() for option in self.options}) < len(self.options):
            raise ValueError("two options have the same label")
        return self


class AskInput(ToolInput):
    questions: list[QuestionInput] = Field(min_length=1, max_length=4)


def asking(call: ToolUseId, tool_input: AskInput) -> Asking:
    questions = tuple(
        Question(
            question.question,
            tuple(Option(option.label, option.description) for option in question.options),
            question.header,
            question.multiSelect,
        )
        for question in tool_input.questions
    )
    return Asking(AskKind.QUESTION, call, questions)


async def _ask(_: AskInput, context: ToolContext, _emit: ToolSink) -> ToolOutput:
    """Answer a sub-agent. The main agent's call never gets here, because it suspends the session."""
    return ToolOutput(TO_PARENT if context.is_subagent else "Nobody was asked.", is_error=True)


ASK = Tool(
    name=ASK_USER_QUESTION,
    description=(
        "Ask the people 1-4 questions that only they can decide and that change the work; they may take days, so find "
        "out yourself what you can. `header`: at most 12 characters. 2-4 options each; they can always answer in their "
        "own words. `multiSelect`: several options may be chosen. Never to ask for approval of a plan. Call it alone."
    ),
    input_model=AskInput,
    call=_ask,
    kind=lambda _: CallKind.ASK_PEOPLE,
    strict=True,
)


# --- exit_plan_mode: submits the plan (P5) ----------------------------------------------------------------------------
# If the main agent calls it, the session is suspended. Nothing here approves.


class PlanInput(ToolInput):
    """Input of exit_plan_mode; what is left out is derived from the plan's text."""

    plan: str = Field(min_length=1)
    scope: list[str] | None = None
    commands: list[str] | None = None
    hosts: list[str] | None = None
    dependencies: list[str] | None = None
    notes: str | None = None


class PlanFindingInput(ToolInput):
    id: str = Field(min_length=1)
    title: str = Field(min_length=1)
    paths: list[str] | None = None


class OperationInput(ToolInput):
    kind: OperationKind
    number: int
    text: str | None = None


class TaskPlanInput(PlanInput):
    findings: list[PlanFindingInput] | None = None
    operations: list[OperationInput] | None = None


async def _submit_plan(_: PlanInput, context: ToolContext, _emit: ToolSink) -> ToolOutput:
    """Answer a sub-agent. The main agent's call never gets here, because it suspends the session."""
    return ToolOutput(HANDED_TO_PARENT, is_error=not context.is_subagent)


PLAN = Tool(
    name=EXIT_PLAN_MODE,
    description=(
        "Hand in your plan for approval, for tasks that change the repository (never for questions). `plan`: concise "
        "Markdown. `scope`: globs of every path that will change. `commands`: commands that prove the work. `hosts`, "
        "`dependencies`: network hosts and new dependencies that are needed. `notes` (optional, at most 6,000 "
        "characters): for the session that carries the plan out and knows nothing of this one: root cause as "
        "`path:line`, what was ruled out, how to run one test. Call it alone."
    ),
    input_model=PlanInput,
    call=_submit_plan,
    kind=lambda _: CallKind.PROPOSE,
    strict=True,
)

TASK_PLAN = replace(
    PLAN,
    description=(
        f"{PLAN.description} `findings`: each thing that this plan of a scheduled task changes, so that people decide "
        "on it once. `id`: what it is called, such as a package, a test, or a rule: the same at each run, without "
        "versions, dates, and line numbers. `title`: one line for people. `operations`: what is to be done to issues "
        "and pull requests of this repository, in order, at most 50; carried out exactly so once the plan is approved, "
        "without a session. `text`: the label, or the comment. For a plan of operations alone, leave out `scope`."
    ),
    input_model=TaskPlanInput,
)
"""Takes the place of PLAN where a scheduled task asks for the plan (MT5)."""


# --- TodoWrite and TodoRead: the todo list that people see ------------------------------------------------------------


class Todo(ToolInput):
    content: str = Field(min_length=1)
    status: Literal["pending", "in_progress", "completed"]
    activeForm: str | None = None  # noqa: N815 - the field's name in the field


class TodoWriteInput(ToolInput):
    todos: list[Todo]


class TodoReadInput(ToolInput):
    """Input of TodoRead: nothing."""


async def _write(tool_input: TodoWriteInput, context: ToolContext, _emit: ToolSink) -> ToolOutput:
    context.todos[:] = [(todo.content, todo.status) for todo in tool_input.todos]
    active = [todo.activeForm or "" for todo in tool_input.todos if todo.status == "in_progress"]
    context.doing = active[0] if len(active) == 1 else ""
    return ToolOutput(f"Todo list of {len(context.todos)} items saved. Go on with the item in progress.")


async def _read(_: TodoReadInput, context: ToolContext, _emit: ToolSink) -> ToolOutput:
    lines = [f"{BOXES[status]} {content}" for content, status in context.todos]
    return ToolOutput("\n".join(lines) or "The todo list is empty.")


TODO_WRITE = Tool(
    name="TodoWrite",
    description=(
        "Replace the todo list that people watch. One item in progress at a time; `activeForm` is what it is called "
        "meanwhile (Running the tests). Tick items as you go."
    ),
    input_model=TodoWriteInput,
    call=_write,
    kind=lambda _: CallKind.LIST,
    strict=True,
)

TODO_READ = Tool(
    name="TodoRead",
    description="Read the todo list.",
    input_model=TodoReadInput,
    call=_read,
    kind=lambda _: CallKind.LIST,
    concurrent=lambda _: True,
)


# --- SubmitReview: answers with a review of a pull request ------------------------------------------------------------
# A review is a list of findings at lines of the diff. The tool changes nothing: the review stays in the transcript, and
# the harness posts it with the answer. Only the main agent has the tool, in plan mode, on the thread of a pull request.

SUBMIT_REVIEW: Final = "SubmitReview"
_RECORDED: Final = (
    "The review is recorded and will be posted as it is. End now with one sentence, which is not posted. A further "
    "call replaces it."
)


class ReviewFindingInput(ToolInput):
    path: str = Field(min_length=1, max_length=1_000)
    line: int = Field(ge=1, le=10_000_000)
    severity: Severity
    body: str = Field(min_length=1, max_length=4_000)


class ReviewInput(ToolInput):
    summary: str = Field(min_length=1, max_length=10_000)
    findings: list[ReviewFindingInput] = Field(max_length=50)


async def _submit_review(_: ReviewInput, context: ToolContext, _emit: ToolSink) -> ToolOutput:
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
    call=_submit_review,
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


# --- resource_request: asks the parent to raise a limit (S11) ---------------------------------------------------------

NO_MORE: Final = "There is no more. Report what you have, and say what is left."


class RequestInput(ToolInput):
    resource: Literal["tool_calls", "context_tokens", "file_operations", "file_reads", "file_writes"]
    reason: str = Field(min_length=1, max_length=500)


async def _request_resource(tool_input: RequestInput, context: ToolContext, _emit: ToolSink) -> ToolOutput:
    resource = Resource(tool_input.resource)
    if context.raise_limit is not None and context.raise_limit(resource):
        return ToolOutput(f"You have half as much again of {resource.label}.")
    return ToolOutput(NO_MORE, is_error=True)


RESOURCE_REQUEST = Tool(
    name="resource_request",
    description="Ask for more of a limit when you need it to finish; it is given at most twice.",
    input_model=RequestInput,
    call=_request_resource,
    kind=lambda _: CallKind.LIST,
)
