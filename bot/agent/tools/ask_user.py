"""AskUserQuestion: asks people, who choose or answer in words (T4). It suspends the main agent's session (L8)."""

from typing import Final, Self

from pydantic import Field, model_validator

from bot.agent.permissions.tool_gate import CallKind
from bot.agent.tools.tool import Tool, ToolContext, ToolInput, ToolSink
from bot.core.names import ToolUseId
from bot.core.question import Asking, AskKind, Option, Question
from bot.ports import ToolOutput

ASK_USER_QUESTION: Final = "AskUserQuestion"
TO_PARENT: Final = "Nobody can be asked from here: put the question into your report, and end with it."
NOBODY: Final = (
    "Nobody is at hand to answer. Decide by yourself what is most sensible, say at the end what you decided, and go on."
)


class OptionInput(ToolInput):
    """One choice."""

    label: str = Field(min_length=1, max_length=120)
    description: str = Field(max_length=600)


class QuestionInput(ToolInput):
    """One question."""

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
    """Input of AskUserQuestion."""

    questions: list[QuestionInput] = Field(min_length=1, max_length=4)


def asking(call: ToolUseId, tool_input: AskInput) -> Asking:
    """Return the question for people."""
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


async def _call(_: AskInput, context: ToolContext, _emit: ToolSink) -> ToolOutput:
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
    call=_call,
    kind=lambda _: CallKind.ASK_PEOPLE,
    strict=True,
)
