"""Builds the brief with which an execution session starts (K1).

Rules: the session gets only words of people who may ask, if nobody edited them since. It does not get the planner's
session, what the planner read, or other people's words.
"""

from collections.abc import Iterator

from bot.core.brief import ExecutionBrief, Words
from bot.core.markdown.elements import code
from bot.core.moves import Requested
from bot.core.thread.state import ThreadState
from bot.workflow.execution.verification import check_commands
from bot.workflow.requests import addition_text, pull_number
from bot.workflow.thread_context import ThreadContext


def execution_brief(context: ThreadContext, state: ThreadState) -> ExecutionBrief:
    """Return the brief of a new session of approved work."""
    request, *added = _unedited_requests(state)
    others = [*added, *_answers(state)]
    additions = [words for words in others if words is not None]
    return ExecutionBrief(
        state.plan.current,
        request,
        additions,
        withheld=len(others) - len(additions),
        checks=check_commands(context, state),
        repairs=context.settings.repairs,
        result=_result(context, state),
    )


def _unedited_requests(state: ThreadState) -> Iterator[Words | None]:
    """Yield the request and the additions made before the plan, in order; None for each that the session may not get.

    A request that only repeats those before it, as `retry` makes it, is left out.
    """
    repeated = ""
    for entry in state.request.entries:
        turn, is_request = entry.said, isinstance(entry, Requested)
        if is_request and turn.text == repeated:
            continue
        repeated = turn.text if is_request else f"{repeated}\n\n{addition_text(entry)}"
        yield None if turn.foreign else Words(turn.actor.login, turn.text)


def _answers(state: ThreadState) -> Iterator[Words | None]:
    """Yield the answers to the questions of these requests' planners; None for each that the session may not get."""
    requests = {entry.said.key for entry in state.request.entries if isinstance(entry, Requested)}
    for answer in state.question.planner_answers:
        if answer.request in requests:
            yield None if answer.edited else Words(answer.login, answer.text, answer.question)


def _result(context: ThreadContext, state: ThreadState) -> str:
    """Return what happens to the result of the work, and where people see it."""
    thread, number = context.location.thread, pull_number(context, state)
    new = (
        f"a commit on a new branch, and a pull request to {code(context.location.default_branch)} that closes #{thread}"
    )
    where = f"a commit on the branch of pull request #{number}" if number else new
    return (
        f"What you leave in the checkout becomes {where}; the harness makes them. Your last message is shown there as "
        "the summary: what was done, how it was checked, what differs from the plan."
    )
