"""Runs the session of one sub-agent, and recovers it as the recovery table says (S9, S11).

Rules: a session recovers by continuing, so that nothing is read twice. Only a task that is split starts over, with
notes on what was done so far. In every case the status holds the end of the last session.
"""

import asyncio
import math
from dataclasses import dataclass
from typing import Final

from bot.agent.limits import Resource
from bot.agent.loop import drive
from bot.agent.monitor import OverLimit
from bot.agent.session import Session
from bot.agent.session_events import AgentEvent, End, Ended, Info, Lifecycle, Recovery, RecoveryOutcome
from bot.agent.subagents.parent_context import ParentContext, Subagent
from bot.agent.subagents.recovery import PARTS, RAISE, Remedy, Trouble, remedy, trouble_of
from bot.agent.subagents.scheduler import Prefixes
from bot.agent.subagents.status import SubagentStatus
from bot.agent.tools.tool import ToolSink
from bot.core.transcript import text_of
from bot.ports import AnswerStarted

SMALLER: Final = (
    "Your time was up before you were done. You have more time, once. Do only the part that matters most, with what "
    "you know already, then report it, and say what is left."
)
PART: Final = (
    "{brief}\n\nThis is part {number} of {parts} of that task; whoever worked on it before ran out of what it had. "
    "Done so far:\n{notes}\n\n{what}"
)
FIRST_PART: Final = "Do the more important half of what is left, then report it, and name what is left."
LAST_PART: Final = "Do what is left, then report all of it."


@dataclass(slots=True)
class SubagentRun:
    """One sub-agent at work."""

    subagent: Subagent
    parent: ParentContext
    prefixes: Prefixes
    emit: ToolSink
    earlier: Session | None = None
    """Session that an earlier process left, to resume."""

    @property
    def status(self) -> SubagentStatus:
        """Status of the sub-agent."""
        return self.subagent.status

    async def run(self) -> None:
        """Work until there is a report or no remedy helps. The status records which."""
        session = self.earlier or self.parent.begin(self.subagent, self.subagent.assignment.brief)
        while not self._has_answer(session):
            await self._run(session)
            if self.status.is_success:
                continue
            trouble = trouble_of(self.status.end)
            cure = remedy(trouble, self.status.troubles[trouble])
            self.status.troubles[trouble] += 1
            if cure is Remedy.PARENT:
                self.status.note(session)
                await self.emit(self._outcome(trouble))
                return
            await self.emit(Info(self.status.row.agent, "recovery", f"{self.status.end.text}: {cure}"))
            if cure is Remedy.SPLIT:
                await self._run_in_parts(session)
                await self.emit(self._outcome(trouble))
                return
            self._apply_remedy(session, cure)
        for trouble in self.status.troubles:
            await self.emit(self._outcome(trouble))

    def _has_answer(self, session: Session) -> bool:
        """Return whether the session succeeded. A session left by an earlier process may already have its answer."""
        last = session.history[-1]
        if session is self.earlier and self.status.ended is None and last["role"] == "assistant":
            self.status.ended = Ended(session.agent, End.ANSWERED, text_of(last))
        return self.status.is_success

    async def _run(self, session: Session) -> None:
        """Run a session within its time limits, after waiting for its shared prefix."""
        limits, now = session.monitor.limits, asyncio.get_running_loop().time
        idle_seconds = limits.idle_seconds or math.inf
        quiet = asyncio.timeout(None)

        async def receive(event: AgentEvent | AnswerStarted) -> None:
            quiet.reschedule(None)  # the time that others take with an event is not this session's
            if isinstance(event, AnswerStarted):
                turn.response_began.set()
            else:
                for outgoing in self.status.update(event, session):
                    await self.emit(outgoing)
            quiet.reschedule(now() + idle_seconds)

        with self.prefixes.join(session.prefix) as turn:
            await turn.wait()
            await self.emit(self.status.updated_row(Lifecycle.RUNNING))
            try:
                async with asyncio.timeout(limits.seconds), quiet:
                    quiet.reschedule(now() + idle_seconds)
                    await receive(await drive(session, receive))
            except TimeoutError:
                self.status.ended = _timeout(session, Resource.IDLE if quiet.expired() else Resource.SECONDS)

    def _apply_remedy(self, session: Session, cure: Remedy) -> None:
        """Raise the limit that a session reached, so that it can continue.

        With Remedy.SMALLER, also restart its clock and ask the model to do less.
        """
        resource = self.status.end.limit or Resource.SECONDS
        session.monitor.raise_limit(resource, RAISE)
        session.monitor.over = None
        if cure is Remedy.SMALLER:
            session.monitor.restart()
            session.add({"role": "user", "content": [{"type": "text", "text": SMALLER}]})

    async def _run_in_parts(self, session: Session) -> None:
        """Do the rest of the work in separate sessions, one after the other. The first failure ends it."""
        reports: list[str] = []
        for number in range(1, PARTS + 1):
            self.status.note(session)
            notes = "\n".join([*reports, self.status.so_far])
            instruction = LAST_PART if number == PARTS else FIRST_PART
            brief = PART.format(
                brief=self.subagent.assignment.brief, number=number, parts=PARTS, notes=notes, what=instruction
            )
            session = self.parent.begin(self.subagent, brief)
            await self._run(session)
            if not self.status.is_success:
                self.status.note(session)
                return
            reports.append(f"Report on part {number}: {self.status.end.text}")

    def _outcome(self, trouble: Trouble) -> Recovery:
        if self.status.is_success:
            return self.status.record_recovery(
                trouble, RecoveryOutcome.RECOVERED, f"{trouble}: {RecoveryOutcome.RECOVERED}"
            )
        return self.status.record_recovery(trouble, RecoveryOutcome.UNRECOVERABLE, f"gave up: {self.status.end.text}")


def _timeout(session: Session, resource: Resource) -> Ended:
    """Return Ended for a session whose time ran out during its work."""
    allowed = getattr(session.monitor.limits, resource)
    used = allowed if resource is Resource.IDLE else session.monitor.seconds
    return Ended(session.agent, End.LIMIT, OverLimit(resource, max(used, allowed), allowed).what, resource)
