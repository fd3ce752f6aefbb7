"""Standing approval: whether the configuration alone approves a plan of the thread's scheduled task (MT6).

Rules
- It covers only an occurrence of the task. Only people approve a plan for what people ask on the tracking issue or add
  to an occurrence, and a plan whose planner read the words of people who may not ask.
- The planned task must equal the task whose plan people approved before, and the task on the default branch at the time
  of the verdict. So removing the approval from the file, or changing the task, stops the next push.
"""

from bot.core.standing import Standing
from bot.core.thread_state import ThreadState
from bot.workflow.thread_context import ThreadContext


def may_stand(context: ThreadContext, state: ThreadState) -> bool:
    """Return whether the configuration at the start of the look may approve the thread's newest request.

    The planner is then shown nothing that people said on the thread.
    """
    history = state.task
    task = context.settings.tasks.get(history.task) if history is not None else None
    if history is None or task is None or not task.standing:
        return False
    return bool(history.planned) and history.planned == history.approved


async def standing_approval(context: ThreadContext, state: ThreadState) -> Standing | None:
    """Return the standing approval of the thread's task on the default branch now; None if there is none."""
    history = state.task
    if history is None or not may_stand(context, state):
        return None
    task = await context.read_task(history.task)
    if task is None or not task.standing:
        return None
    return Standing(task.name, task.paths, context.settings.hosts, asked_before=task.digest == history.approved)
