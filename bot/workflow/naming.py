"""Naming: what work begins on, and what its branch, commit and pull request are called.

The same journal always gives the same names.
"""

from bot.core.gate import Move
from bot.core.names import run_branch, thread_branch
from bot.core.transcript import Json
from bot.workflow.record import Record
from bot.workflow.thread_context import ThreadContext


async def beginning(context: ThreadContext, record: Record) -> tuple[Json, bool]:
    """Return what a request begins on: the thread's or its round's open pull request, else the base (PR2).

    The second value is whether the round has a pull request that is closed.
    """
    start: Json = {"base": context.location.base, "title": context.location.title}
    if context.location.branch:
        start["onto"] = context.location.branch
    published = record.published
    if context.pulls is None or published is None:
        return start, False
    head = await context.pulls.head(published.body["pull_number"])
    return (start, True) if head is None else (start | {"base": head, "onto": published.body["branch"]}, False)


def thread_title(context: ThreadContext, record: Record) -> str:
    """Return the redacted title of the thread as it was at the request, so that an edit makes no second branch."""
    return context.redactor.redact(str(record.last(Move.REQUESTED).body.get("title", context.location.title)))


def pull_title(context: ThreadContext, record: Record) -> str:
    """Return the redacted title of the finished work, or the thread's title if it has none."""
    return context.redactor.redact(str(record.last(Move.EXECUTED).body.get("title", ""))) or thread_title(
        context, record
    )


def branch_name(context: ThreadContext, record: Record) -> str:
    """Return the branch of this round: the name that it has, else one made from the thread."""
    place = context.location
    if named := place.branch or record.onto:
        return named
    if context.pulls is None:
        return run_branch(thread_title(context, record), place.thread)
    name, apart = thread_branch(thread_title(context, record), place.thread, record.thread.round), record.fact("apart")
    return f"{name}-{apart}" if apart else name  # what a journal that was set back has forgotten keeps its branch


def pull_number(context: ThreadContext, record: Record) -> int:
    """Return the number of the pull request that the work adds to, or 0 if it gets a branch of its own."""
    if context.location.branch:
        return context.location.thread
    return int(record.published.body["pull_number"]) if record.onto and record.published is not None else 0
