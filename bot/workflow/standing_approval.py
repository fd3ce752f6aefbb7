"""Standing approval on a thread: what the configuration approves of its scheduled task by itself (MT6).

Rules
- It holds for an occurrence of the task alone: what people ask for on the tracking issue, or add to an occurrence, and
  what was planned after reading the words of people who may not ask, is approved by people.
- The task that is planned, the one whose plan people approved before, and the one on the default branch at the time of
  the verdict are the same. So whoever takes the approval out of the file, or changes the task, stops the next push.
"""

from bot.core.standing import Standing
from bot.core.thread_state import ThreadState
from bot.workflow.thread_context import ThreadContext


def may_stand(context: ThreadContext, state: ThreadState) -> bool:
    """Return whether the thread's newest request may be approved by the configuration, as it was at the look's start.

    Then its planner is shown nothing that was said on the thread.
    """
    history = state.task
    task = context.settings.tasks.get(history.task) if history is not None else None
    if history is None or task is None or not task.standing:
        return False
    return bool(history.planned) and history.planned == history.approved


async def standing_approval(context: ThreadContext, state: ThreadState) -> Standing | None:
    """Return what the default branch approves now of the thread's task by itself; None for nothing."""
    history = state.task
    if history is None or not may_stand(context, state):
        return None
    task = await context.read_task(history.task)
    if task is None or not task.standing:
        return None
    return Standing(task.name, task.paths, context.settings.hosts, asked_before=task.digest == history.approved)
