"""Light calls: one small question to a small model, beside a session (M11).

A plain text as system, one user message, no thinking where it can be switched off, no cache, no streaming. Rules: who
asks has an answer of its own for None, so that the bot works with light calls switched off; what a light call says
decides nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bot.agent.limits import dearest
from bot.agent.paid import paid
from bot.agent.relay import closing
from bot.agent.session import Session
from bot.agent.turns import tokens
from bot.core.errors import PlangateError
from bot.core.transcript import Json, without_empty_text
from bot.ports import Completed, ModelRequest

PAUSES: Final = 3
"""How often an answer that the service paused is asked to go on."""


@dataclass(frozen=True, slots=True)
class Light:
    """Asks the small model on behalf of one session, which is billed for it."""

    session: Session
    model: str
    """Empty: light calls are switched off."""

    async def ask(self, system: str, text: str, tools: Sequence[Json] = ()) -> list[Json] | None:
        """Give the blocks of the answer; None where there is none, for whatever reason."""
        messages: list[Json] = [{"role": "user", "content": [{"type": "text", "text": text}]}]
        for _ in range(PAUSES + 1):
            answer = await self._answer(system, messages, tuple(tools))
            if answer is None or answer.stop_reason not in {"end_turn", "pause_turn"}:
                return None
            if (message := without_empty_text(answer.message))["content"]:
                messages.append(message)
            if answer.stop_reason == "end_turn":
                return [block for message in messages[1:] for block in message["content"]]
        return None

    async def _answer(self, system: str, messages: Sequence[Json], tools: tuple[Json, ...]) -> Completed | None:
        """Make one request and book it; None where it failed, or the budget has no room for it."""
        world = self.session.world
        if not self.model:
            return None
        told = ({"type": "text", "text": system},)
        request = ModelRequest(self.model, told, tools, messages, role="light", user_id=world.user_id)
        size = tokens([told, tools, messages])
        async with world.ledger.call(dearest(world.model.abilities(self.model), "light", size)) as may:
            return await self._made(request) if may else None

    async def _made(self, request: ModelRequest) -> Completed | None:
        """Make a request that may go out; None where it failed."""
        found = None
        try:
            async with closing(paid(self.session, request)) as events:
                async for event in events:
                    if isinstance(event, Completed):
                        found = event
                        self.session.book(event)
        except PlangateError as error:
            self.session.note("light", {"text": str(error)})
        return found
