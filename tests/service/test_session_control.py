"""Sessions of one process wait before a step, or end there, together."""

import asyncio

import pytest

from bot.core.errors import Transient
from bot.service.slots import SessionControl


@pytest.mark.req("W2")
async def test_a_step_waits_while_sessions_are_held() -> None:
    """It goes on once they no longer are."""
    control = SessionControl(held_seconds=60)
    await control.before_step()
    control.hold_sessions(held=True)
    step = asyncio.create_task(control.before_step())
    await asyncio.sleep(0.02)
    assert not step.done()
    control.hold_sessions(held=False)
    async with asyncio.timeout(20):
        await step


@pytest.mark.req("W2")
async def test_no_step_waits_for_long() -> None:
    """Sessions go on, however long looks take every slot."""
    control = SessionControl(held_seconds=0.01)
    control.hold_sessions(held=True)
    async with asyncio.timeout(20):
        await control.before_step()


@pytest.mark.req("E3")
async def test_held_sessions_end_with_their_process() -> None:
    """A process that ends waits for no step, and holds none afterward."""
    control = SessionControl(held_seconds=60)
    control.hold_sessions(held=True)
    step = asyncio.create_task(control.before_step())
    await asyncio.sleep(0.02)
    control.end_sessions()
    control.hold_sessions(held=True)
    async with asyncio.timeout(20):
        for waiting in (step, control.before_step()):
            with pytest.raises(Transient, match="another one continues"):
                await waiting
