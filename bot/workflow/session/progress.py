"""Shows on the thread, as one text, what a session does while it runs (S12).

The progress of approved work is shown from its first event on. That of planning is shown only if it takes long, and is
replaced by one line at the end, so a quick plan posts nothing but the plan.
"""

import asyncio

from bot.agent.limits import WARN_AT
from bot.agent.permissions.modes import Mode
from bot.agent.session_events import AgentChanged, AgentEvent, AnswerArrived, Ended, TodosChanged, ToolStarted
from bot.core.comment import AgentRow, planning_over, progress
from bot.core.gate import Move, Stage
from bot.core.reply_text import budget_nearly_used, how_to_finish, how_to_stop
from bot.core.thread.state import ThreadState
from bot.workflow.thread_context import ThreadContext, working_mode

_EXECUTING_PACE = 1.0
"""Seconds between two texts; the dialogue decides how often a comment is really edited."""


def row_of(agent: AgentChanged) -> AgentRow:
    """Return a sub-agent's row as people see it."""
    used = (agent.tool_calls, agent.tokens, agent.seconds, agent.cost_usd)
    return AgentRow(
        agent.type, agent.description, f"{agent.state}: {agent.why}" if agent.why else str(agent.state), *used
    )


def progress_ask(state: ThreadState) -> int:
    """Return the ask whose progress comment shows the current session. All planning of a request shares one."""
    return state.gate.ask if state.gate.approved is not None else state.request.planning_ask


async def end_stopped_planning(context: ThreadContext, state: ThreadState) -> None:
    """If the progress of planning is shown and there is no plan yet, show that planning was stopped."""
    if state.request.planning_ask and not state.request.is_planned:
        await context.dialogue.end_progress(planning_over("cancelled"), state.request.planning_ask)


class ProgressReporter:
    """Collects events and shows them; the dialogue decides how often a comment is really edited."""

    def __init__(self, context: ThreadContext, state: ThreadState) -> None:
        self._context = context
        self._stage = state.stage
        self._ask = progress_ask(state)
        self._is_planning = state.stage is not Stage.EXECUTING
        self._mode = str(Mode.PLAN if self._is_planning else working_mode(context, state))
        self._todos: tuple[tuple[str, str], ...] = ()
        self._rows: dict[str, AgentRow] = {}
        self._calls = 0
        self._end = ""
        self._changed = asyncio.Event()

    def receive(self, event: AgentEvent) -> None:
        """Update what is shown by one event."""
        match event:
            case TodosChanged() if event.agent == "main":
                self._todos = event.shown
            case AgentChanged():
                self._rows[event.agent] = row_of(event)
            case ToolStarted():
                self._calls += 1
            case AnswerArrived():
                pass
            case Ended():
                self._end = str(event.end)
            case _:
                return
        self._changed.set()

    async def show_until_cancelled(self) -> None:
        """Show each change until cancelled. Planning is shown after a delay, and less often."""
        clock, pace = self._context.resources.clock, _EXECUTING_PACE
        if self._is_planning:
            pace = self._context.settings.progress_seconds
            await clock.sleep(pace)
            self._changed.set()
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._show()
            await clock.sleep(pace)

    async def finish(self, *, has_plan: bool) -> None:
        """Show the last state. `has_plan` says whether the session submitted a plan."""
        if self._is_planning and self._end:
            over = planning_over(Move.PLANNED if has_plan else self._end)
            await self._context.dialogue.end_progress(over, self._ask)
        elif not self._is_planning and self._changed.is_set():
            await self._show()

    async def _show(self) -> None:
        ledger = self._context.resources.ledger
        cost = ledger.cost_usd if ledger.is_priced else None
        rows = tuple(self._rows.values())
        spent = (self._calls, cost, ledger.budget_usd)
        text = progress(self._end or self._stage, self._mode, self._todos, rows, spent=spent)
        hint = "" if self._end else f" {how_to_stop(self._context.settings.mention)}"
        await self._context.dialogue.progress(text + hint + self._budget_warning(), self._ask)

    def _budget_warning(self) -> str:
        """Return the line that most of the budget is used, or "". Approved work can be ended with what is there."""
        mention = self._context.settings.mention
        if not self._context.resources.ledger.is_nearly_used_up:
            return ""
        finish = how_to_finish(mention) if mention and not (self._is_planning or self._end) else ""
        return f"\n\n{budget_nearly_used(WARN_AT, finish=finish)}"
