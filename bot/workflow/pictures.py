"""The pictures that a session's first message shows (K9)."""

from bot.core.picture import Picture
from bot.core.thread_state import ThreadState
from bot.workflow.thread_context import ThreadContext


async def attached_pictures(context: ThreadContext, state: ThreadState, *, planning: bool) -> tuple[Picture, ...]:
    """Return the pictures attached to what is planned for.

    Planning also sees those of the opening post. Approved work sees only those of people who may ask, and only where
    the request's own words cross the gate (product.md, Approval).
    """
    reader = context.resources.repository
    if reader is None or not (planning or not state.turn.foreign):
        return ()
    turns = dict.fromkeys(wish.said.key for wish in state.wishes)
    sees = context.resources.model.abilities(context.settings.model).sees
    return await reader.pictures(tuple(turns), strangers=planning, sees=sees)
