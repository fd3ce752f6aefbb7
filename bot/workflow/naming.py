"""Naming: what a request's branch, commit and pull request are called.

The same journal always gives the same names.
"""

from bot.core.names import run_branch, thread_branch
from bot.core.thread_state import ThreadState
from bot.workflow.thread_context import ThreadContext


def thread_title(context: ThreadContext, state: ThreadState) -> str:
    """Return the redacted title of the thread as it was at the request, so that an edit makes no second branch."""
    title = state.current_request.title
    return context.redactor.redact(context.location.title if title is None else title)


def pull_title(context: ThreadContext, state: ThreadState) -> str:
    """Return the redacted title of the finished work, or the thread's title if it has none."""
    return context.redactor.redact(state.finished_work.title or "") or thread_title(context, state)


def branch_name(context: ThreadContext, state: ThreadState) -> str:
    """Return the branch of this round: the name that it has, else one made from the thread."""
    place = context.location
    if named := place.branch or state.onto:
        return named
    if context.pulls is None:
        return run_branch(thread_title(context, state), place.thread)
    name = thread_branch(thread_title(context, state), place.thread, state.thread.round)
    return f"{name}-{state.apart}" if state.apart else name  # what a journal that was set back forgot keeps its branch


def pull_number(context: ThreadContext, state: ThreadState) -> int:
    """Return the number of the pull request that the work adds to, or 0 if it gets a branch of its own."""
    if context.location.branch:
        return context.location.thread
    return state.published.pull_number if state.onto and state.published is not None else 0
