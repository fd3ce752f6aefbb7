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
    """Give the thread's title, without secrets, as it was when this was asked: an edit makes no second branch."""
    return context.redactor.redact(str(record.last(Move.REQUESTED).body.get("title", context.location.title)))


def pull_title(context: ThreadContext, record: Record) -> str:
    """Give the title of what was done, without secrets: as it was named when that ended, else the thread's."""
    return context.redactor.redact(str(record.last(Move.EXECUTED).body.get("title", ""))) or thread_title(
        context, record
    )


def branch_name(context: ThreadContext, record: Record) -> str:
    """Name the branch: as it was named before in this round, else by the thread (interfaces.md, Repository)."""
    place = context.location
    if named := place.branch or record.onto:
        return named
    if context.pulls is None:
        return run_branch(thread_title(context, record), place.thread)
    name, apart = thread_branch(thread_title(context, record), place.thread, record.thread.round), record.fact("apart")
    return f"{name}-{apart}" if apart else name  # what a journal that was set back has forgotten keeps its branch


def pull_number(context: ThreadContext, record: Record) -> int:
    """Give the number of the pull request that the work adds to; 0 where it gets a branch of its own."""
    if context.location.branch:
        return context.location.thread
    return int(record.published.body["pull_number"]) if record.onto and record.published is not None else 0
