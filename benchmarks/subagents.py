"""Eight sub-agents with two reads and a report each, one second to the first token: time and dollars next to the ideal.

The model is simulated in its own process, over real HTTP on loopback, with a prompt cache that works as the service's
does. The workspace is the sandbox of this machine. The ideal consists only of successive answers: the parent sends all
sub-agents, then three rounds for each group that works at once, then the end.

Then the same with answers that stream at 80 tokens a second and briefs of 150 tokens, three sub-agents at once (the
default) and all at once: with calls that start while the parent's answer streams, and with calls that wait for its end.
Usage: python benchmarks/subagents.py [--agents 8] [--latency 1.0] [--at-once 8] [--rate 80]
"""

import argparse
import asyncio
import json
import multiprocessing
import tempfile
import time
from contextlib import aclosing, contextmanager
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path

from bot.agent.assembly import Place, SessionSettings, SubagentSettings, assemble_session
from bot.agent.limits import Ledger
from bot.agent.loop import run
from bot.agent.model.anthropic_model import AnthropicModel
from bot.agent.network_log import NetworkLog
from bot.agent.permissions.tool_gate import PermissionGate
from bot.agent.prompts import Environment, first_message
from bot.agent.resources import SessionResources
from bot.agent.session_events import RequestStarted
from bot.agent.subagents.policy import SubagentCounts
from bot.agent.subagents.scheduler import merge_generators
from bot.agent.subagents.types import TYPES
from bot.clock import SystemClock
from bot.core.names import SessionId
from bot.ports import Access
from bot.testing import sample
from bot.testing.model.reply import call, say, several
from bot.testing.model.server import ScriptedModel
from bot.workspace.local_repository import LocalRepository
from bot.workspace.workspace import GitWorkspace
from tests.memory_store import MemoryTranscripts

ROUNDS = 3
"""Successive answers of one sub-agent."""
BRIEF_TOKENS = 150
CHARACTERS = 4
"""Characters of a token, about."""
EVENTS = 6
"""Events of a streamed block: its start, four deltas, its end."""
MEMORY = "Every change comes with a test. " * 40


def brief(request):
    """Return the task of a sub-agent, or an empty text for the parent."""
    return request.texts()[0].partition("Brief ")[2].partition(".")[0]


def policy(agents, rate):
    """Return the script: a parent that sends all sub-agents twice (warm the second time); they read and report."""
    words = "Look at parcel. " * (BRIEF_TOKENS * CHARACTERS // 16 if rate else 1)
    sent = [
        call("Task", description=f"part {n}", prompt=f"Brief {n}. {words}", subagent_type="explore")
        for n in range(agents)
    ]

    def answer(request):
        if not brief(request):
            reply = several(*sent) if request.step < 2 else say("Done.")
        else:
            reply = call("Read", file_path="parcel/shipping.py") if request.step < 2 else say("It is all there. " * 20)
        return replace(reply, pace=pace(reply, rate)) if rate else reply

    return answer


def pace(reply, rate):
    """Return the seconds between the events of an answer that streams `rate` tokens a second."""
    characters = sum(len(json.dumps(asdict(block))) for block in reply.blocks)
    return characters / CHARACTERS / rate / (EVENTS * len(reply.blocks))


def serve(agents, latency, rate, pipe):
    """Serve the model until the other side closes the pipe."""
    with ScriptedModel(policy(agents, rate), latency=latency) as api:
        pipe.send(api.base_url)
        pipe.poll(None)


@contextmanager
def serve_model(given, rate):
    """Yield the address of a model that runs in its own process."""
    pipe, inner = multiprocessing.Pipe()
    arguments = (given.agents, given.latency, rate, inner)
    server = multiprocessing.get_context("spawn").Process(target=serve, args=arguments)
    server.start()
    inner.close()
    try:
        yield pipe.recv()
    finally:
        pipe.close()
        server.join()


async def measure(given, *, at_once, rate=0, eager=True):
    """Run the fan-out cold, then warm, in one session, and return the (seconds, dollars) of each.

    With a rate, it runs only once.
    """
    with serve_model(given, rate) as address, tempfile.TemporaryDirectory() as data:
        clock = SystemClock()
        model = AnthropicModel(clock, "none", address)
        source = await LocalRepository.open(sample.make(Path(data) / "shop"))
        workspace = GitWorkspace.on(source, Path(data) / "data")
        tree = await workspace.checkout("main", source.head)
        world = SessionResources(model, MemoryTranscripts(), clock, PermissionGate(), Ledger(), eager=eager)
        environment = Environment(tree.shown_as, "Linux", "2026-11-21", "shop", source.head[:12], MEMORY)
        host = await workspace.open(tree, Access.READ)
        crew = SubagentSettings("claude-sonnet-5-5", TYPES, SubagentCounts(at_once, 2 * given.agents))
        assembled = assemble_session(
            SessionSettings(SessionId("bench"), "claude-opus-5-5", crew),
            world,
            place=Place(workspace, tree, host, environment),
            reached=NetworkLog(),
        )
        session = assembled.session
        session.begin(first_message(environment, "Look around."))
        await asyncio.to_thread(model.warm)
        marks = [(time.monotonic(), 0.0)]
        async with assembled.subagents.warm_cache(), aclosing(run(session)) as events:
            async for event in events:
                if isinstance(event, RequestStarted) and event.agent == "main" and event.step > 1:
                    marks += [(time.monotonic(), world.ledger.cost_usd)]
                    if rate:
                        break
        await workspace.discard(tree)
        await model.close()
    return [(later[0] - earlier[0], later[1] - earlier[1]) for earlier, later in pairwise(marks)]


async def time_scheduler(agents, at_once):
    """Return the scheduler's time for agents of one second each, relative to the ideal schedule."""

    async def one():
        await asyncio.sleep(1.0)
        yield 1

    began = time.monotonic()
    async for _ in merge_generators([one() for _ in range(agents)], at_once=at_once):
        pass
    return (time.monotonic() - began) / -(-agents // at_once)


def main():
    """Measure and print ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=8)
    parser.add_argument("--latency", type=float, default=1.0)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--rate", type=float, default=80)
    given = parser.parse_args()
    spans = asyncio.run(measure(given, at_once=given.at_once))
    ideal = given.latency * (2 + ROUNDS * -(-given.agents // given.at_once))
    print(f"{given.agents} agents, {given.at_once} at once, {given.latency:g} s to the first token")
    for name, (seconds, dollars) in zip(("cold", "warm"), spans, strict=False):
        whole = seconds + given.latency  # a span ends before the parent's last answer
        print(f"{name}: {whole:.2f} s of {ideal:.1f} s ({whole / ideal:.2f}), ${dollars:.3f}")
    for at_once in (SubagentCounts().at_once, given.at_once):
        early, late = (
            asyncio.run(measure(given, at_once=at_once, rate=given.rate, eager=eager))[0] for eager in (True, False)
        )
        walls = early[0] + given.latency, late[0] + given.latency
        told = f"{walls[0]:.2f} s with calls that start early, {walls[1]:.2f} s without ({walls[0] / walls[1]:.2f})"
        print(f"{given.rate:g} tokens a second, {at_once} at once, cold: {told}, ${early[1]:.3f} and ${late[1]:.3f}")
    for at_once in (given.agents, 3):
        print(f"scheduler at {at_once}: {asyncio.run(time_scheduler(given.agents, at_once)):.3f} of the ideal")


if __name__ == "__main__":
    main()
