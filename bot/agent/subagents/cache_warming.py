"""Writes the prefix that sub-agents of a type share to the model's cache, before the first of them starts (M4)."""

from dataclasses import replace

from bot.agent.booking import stream_and_book
from bot.agent.forwarding import forward
from bot.agent.history.cutting import tokens
from bot.agent.history.request_prefix import RequestPrefix
from bot.agent.session_log import SessionLog
from bot.core.errors import PlangateError
from bot.core.transcript import Json
from bot.ports import AnswerCompleted, Notice


async def write_prefix(log: SessionLog, prefix: RequestPrefix, first_block: Json) -> bool:
    """Write a prefix, up to the first block of the first message, and return whether the cache holds it now.

    One request without an answer is made, and booked to the session of `log`. It is not repeated if it fails, or if
    the budget has no room for it: then the first sub-agent writes the prefix.
    """
    resources = log.resources
    messages = [{"role": "user", "content": [first_block]}]
    request = replace(prefix.request(messages, resources.user_id), only_caches=True)
    size = tokens([prefix.system, prefix.tools, messages])
    event = None
    highest_cost = size * resources.model.abilities(prefix.model).prompt_usd
    async with resources.ledger.call(highest_cost, resources.shared_budget) as ticket:
        if ticket is None:
            return False
        try:
            async with forward(stream_and_book(log, request, ticket, size=size, aside=True)) as events:
                async for event in events:
                    if isinstance(event, Notice):
                        break
        except PlangateError as error:
            log.note("uncached", {"text": str(error)})
    return isinstance(event, AnswerCompleted)
