"""Progress: what the work is at, as one text that the thread shows while it runs (S12, product.md, Execution)."""

import asyncio

from bot.agent.events import AgentChanged, AgentEvent, Answered, Ended, TodosChanged, ToolStarted
from bot.core.comment import AgentRow, progress
from bot.core.gate import Stage
from bot.core.reply_text import how_to_stop
from bot.core.thread_state import ThreadState
from bot.workflow.thread_context import ThreadContext, working_mode


def row_of(agent: AgentChanged) -> AgentRow:
    """Return a sub-agent's row as people see it."""
    used = (agent.tool_calls, agent.tokens, agent.seconds, agent.cost_usd)
    return AgentRow(
        agent.type, agent.description, f"{agent.state}: {agent.why}" if agent.why else str(agent.state), *used
    )


class ProgressReporter:
    """Collects events and shows them; the dialogue decides how often a comment is really edited."""

    def __init__(self, context: ThreadContext, state: ThreadState) -> None:
        self._context = context
        self._stage = state.stage
        self._ask = state.thread.ask
        self._mode = str(working_mode(context, state))
        self._todos: tuple[tuple[str, str], ...] = ()
        self._rows: dict[str, AgentRow] = {}
        self._calls = 0
        self._end = ""
        self._changed = asyncio.Event()

    def take(self, event: AgentEvent) -> None:
        """Take one event in."""
        match event:
            case TodosChanged() if event.agent == "main":
                self._todos = event.shown
            case AgentChanged():
                self._rows[event.agent] = row_of(event)
            case ToolStarted():
                self._calls += 1
            case Answered():
                pass
            case Ended():
                self._end = str(event.end)
            case _:
                return
        self._changed.set()

    async def show_until_cancelled(self) -> None:
        """Show each change of approved work, until cancelled; while it plans, the bot has nothing to say yet."""
        while self._stage is Stage.EXECUTING:
            await self._changed.wait()
            self._changed.clear()
            await self._show()
            await self._context.resources.clock.sleep(1.0)

    async def finish(self) -> None:
        """Show the last state."""
        if self._stage is Stage.EXECUTING and self._changed.is_set():
            await self._show()

    async def _show(self) -> None:
        ledger = self._context.resources.ledger
        cost = ledger.cost_usd if ledger.is_priced else None
        rows = tuple(self._rows.values())
        spent = (self._calls, cost, ledger.budget_usd)
        text = progress(self._end or self._stage, self._mode, self._todos, rows, spent=spent)
        hint = "" if self._end else f" {how_to_stop(self._context.settings.mention)}"
        await self._context.dialogue.progress(text + hint, self._ask)
