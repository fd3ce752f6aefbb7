"""Sessions in a small window: a server and a client that agree on it, and policies that summarise when asked."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from bot.agent.model.specs import SPECS
from bot.ports import ToolOutput
from bot.testing.model.models import MODELS
from bot.testing.model.reply import Fault, Policy, Reply, call, say, several, think
from bot.testing.model.request_view import ModelRequest
from tests.agent.conftest import Open
from tests.agent.ground import Room, rendered

OPUS = "claude-opus-5-5"
WINDOW = 16_000
SUMMARY = "1. The request: fix the shipping.\n7. The next step: read on."

Answer = Reply | Fault
Policed = Callable[[ModelRequest], Answer]


def asked_to_summarise(request: ModelRequest) -> bool:
    """Whether a request wants a summary, by either way."""
    return request.compacting or request.last_user_text.startswith("The context is nearly full")


def summarising(policy: Policed, summary: Answer | None = None) -> Policy:
    """A policy that answers each wish for a summary with one."""
    return lambda request: (summary or say(SUMMARY)) if asked_to_summarise(request) else policy(request)


def steps(count: int, last: str = "Done.") -> Policed:
    """A policy that thinks and reads one file after another, whatever is left of its history."""
    made = [0]

    def policy(request: ModelRequest) -> Reply:
        made[0] += 1
        if made[0] > count:
            return say(last)
        return several(think(f"Step {made[0]}."), call("Read", file_path=f"src/{made[0]}.py"))

    return policy


def small(room: Open, policy: Policy, *, window: int = WINDOW, signed: bool = True, **more: Any) -> Room:
    """A room whose model holds so many tokens; `signed` says whether it makes summaries of its own."""
    models = {**MODELS, OPUS: replace(MODELS[OPUS], window=window)}
    r = room(policy, models=models, **more)
    r.model.specs[OPUS] = replace(SPECS[OPUS], window=window, summarizes=signed)
    r.host.answer = lambda operation, arguments: ToolOutput(
        f"{operation} {arguments} " + "x" * 3600, stamps={str(arguments.get("file_path", "a")): "s"}
    )
    return r


def conversation(requests: Sequence[ModelRequest]) -> list[ModelRequest]:
    """The requests of the session itself: without those for summaries."""
    return [request for request in requests if not asked_to_summarise(request)]


def breaks(requests: Sequence[ModelRequest]) -> int:
    """How often a request of the conversation does not begin with the bytes of the one before."""
    own = conversation(requests)
    return sum(not rendered(after).startswith(rendered(before)) for before, after in pairwise(own))
