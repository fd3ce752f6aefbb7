"""Rooms for the tests of the agent: a scripted Messages API, the real client, a session's world."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any, TypeAlias

import pytest

from bot.agent.limits import Ledger
from bot.agent.model.anthropic_model import AnthropicModel, RetryPolicy
from bot.agent.model.request import ConfiguredModel
from bot.agent.permissions.tool_gate import PermissionGate
from bot.agent.resources import SessionResources
from bot.testing.model.reply import Policy
from bot.testing.model.server import ScriptedModel
from tests.agent.ground import HandClock, Room
from tests.memory_store import MemoryTranscripts

Open: TypeAlias = Callable[..., Room]


@pytest.fixture
async def room() -> AsyncIterator[Open]:
    """Opens rooms on a policy; servers and clients are closed afterwards."""
    async with AsyncExitStack() as stack:

        def open_(
            policy: Policy,
            *,
            fallback: str = "",
            patience: RetryPolicy | None = None,
            budget_usd: float | None = None,
            **server: Any,
        ) -> Room:
            api = stack.enter_context(ScriptedModel(policy, **server))
            clock = HandClock()
            model = AnthropicModel(clock, "key", api.base_url, patience=patience or RetryPolicy())
            stack.push_async_callback(model.close)
            world = SessionResources(
                ConfiguredModel(model, fallback),
                MemoryTranscripts(),
                clock,
                PermissionGate(),
                Ledger(budget_usd),
                user_id="0badcafe",
            )
            return Room(api, model, clock, world)

        yield open_
