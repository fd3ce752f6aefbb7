"""Eight sub-agents at a time: wall time, CPU seconds, and dollars, next to the ideal and to the arithmetic.

The model is simulated in its own process, over real HTTP on loopback, with a prompt cache that works as the service's
does. The workspace is the sandbox of this machine.

1. Fan-out, one second to the first token: a parent that sends all sub-agents, each with two reads and a report. The
   ideal consists only of successive answers: the parent's, three rounds for each group that works at once, the
   parent's last one. Measured from outside, from the start of `plangate run` to its end, with a cold cache; and within
   a session, cold and warm.
2. The same with answers that stream at 80 tokens a second and briefs of 150 tokens: with calls that start while the
   parent's answer streams, and with calls that wait for its end. The arithmetic beside it: a call can start when its
   block is complete, block after block, and the last block is complete when the answer is. So if all work at once and
   are alike, nothing is to be won; the gain comes from a bound on how many work at once, and from sub-agents that
   take longer than the last one.

Usage: python benchmarks/subagents.py [--agents 8] [--latency 1.0] [--at-once 8] [--rate 80] [--runs 3] [--only fan-out]
"""

import argparse
import asyncio
import heapq
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import aclosing, contextmanager
from dataclasses import asdict, replace
from functools import partial
from itertools import pairwise
from pathlib import Path

from agent import run_timed

from bot.agent.assembly import SessionSettings, assemble_session
from bot.agent.dispatch import run_together
from bot.agent.limits import Ledger
from bot.agent.loop import run
from bot.agent.model.anthropic_model import AnthropicModel
from bot.agent.permissions.tool_gate import PermissionGate
from bot.agent.prompts import Environment, first_message
from bot.agent.resources import SessionPlace, SessionResources
from bot.agent.session_events import RequestStarted
from bot.agent.subagents.types import AT_ONCE, TYPES
from bot.clock import SystemClock
from bot.core.configuration import Configuration, Execution, Subagents
from bot.core.names import SessionId
from bot.ports import Access
from bot.testing import sample
from bot.testing.model.reply import call, say, several
from bot.testing.model.server import ScriptedModel
from bot.workspace.local_repository import LocalRepository
from bot.workspace.workspace import GitWorkspace
from tests.memory_store import MemoryTranscripts

ROUNDS = 3
"""Successive answers of one sub-agent of the fan-out."""
UNALIKE = (4, 12, 3, 6, 2, 8, 3, 4)
"""Successive answers of each sub-agent where they differ, in no order."""
BRIEF_TOKENS = 150
CHARACTERS = 4
"""Characters of a token, about."""
EVENTS = 6
"""Events of a streamed block: its start, four deltas, its end."""
THOUGHT = "The answer must be in one of these files, so I look at the next one. " * 2
REPORT = "It is all there, and it does what its name says. " * 12
MEMORY = "Every change comes with a test. " * 40
PROMPT = "Look around."


def brief(request):
    """Return the number of a sub-agent's task, or an empty text for the parent."""
    return request.texts()[0].partition("Brief ")[2].partition(".")[0]


def task(number, tokens):
    """Return the call that sends one sub-agent, in about `tokens` tokens."""
    text = f"Brief {number}. Look at parcel."
    made = call("Task", description=f"part {number}", prompt=text, subagent_type="explore")
    missing = max(tokens * CHARACTERS - len(json.dumps(asdict(made.blocks[0]))), 0)
    words = f"{text} {'Look at parcel. ' * missing}"[: len(text) + missing]
    return call("Task", description=f"part {number}", prompt=words, subagent_type="explore")


def child_reply(step, rounds, rate):
    """Return one answer of a sub-agent: it reads, in all but the last of its rounds, and then reports."""
    if step >= rounds - 1:
        return say(REPORT)
    reads = call("Read", file_path="parcel/shipping.py")
    return several(say(THOUGHT), reads) if rate else reads


def policy(rounds, sends, rate):
    """Return the script: a parent that sends all sub-agents `sends` times, and sub-agents with so many rounds each."""
    sent = several(*(task(number, BRIEF_TOKENS if rate else 0) for number in range(len(rounds))))

    def answer(request):
        if number := brief(request):
            reply = child_reply(request.step, rounds[int(number)], rate)
        else:
            reply = sent if request.step < sends else say("Done.")
        return replace(reply, pace=pace(reply, rate)) if rate else reply

    return answer


def seconds_of(reply, rate):
    """Return how long an answer streams at `rate` tokens a second."""
    return sum(len(json.dumps(asdict(block))) for block in reply.blocks) / CHARACTERS / rate


def pace(reply, rate):
    """Return the seconds between the events of an answer."""
    return seconds_of(reply, rate) / (EVENTS * len(reply.blocks))


def compute_walls(rounds, at_once, given):
    """Return the seconds that the arithmetic allows: with calls that start early, and without."""
    whole = seconds_of(several(*(task(number, BRIEF_TOKENS) for number in range(len(rounds)))), given.rate)
    ends = [whole * (number + 1) / len(rounds) for number in range(len(rounds))]
    lasts = [
        sum(given.latency + seconds_of(child_reply(step, many, given.rate), given.rate) for step in range(many))
        for many in rounds
    ]
    early, late = (schedule(starts, lasts, at_once) for starts in (ends, [whole] * len(rounds)))
    return 2 * given.latency + early, 2 * given.latency + late


def schedule(starts, lasts, at_once):
    """Return when the last of some tasks ends that may start at given times, in order, so many at once."""
    places = [0.0] * at_once
    for start, last in zip(starts, lasts, strict=True):
        heapq.heappush(places, max(start, heapq.heappop(places)) + last)
    return max(places)


def serve(script, latency, pipe):
    """Serve the model until the other side closes the pipe, which then gets the dollars that it cost."""
    with ScriptedModel(policy(*script), latency=latency) as api:
        pipe.send(api.base_url)
        pipe.poll(None)
        pipe.send(api.usage.cost_usd)


@contextmanager
def serve_model(script, latency):
    """Yield the address of a model that runs in its own process, and a function that ends it and returns its cost."""
    pipe, inner = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(script, latency, inner))
    server.start()
    address = pipe.recv()

    def end():
        pipe.send(None)
        return pipe.recv()

    try:
        yield address, end
    finally:
        server.terminate()
        server.join()


def measure_process(given):
    """Run `plangate run` on a fresh repository, and return its wall and CPU seconds and its dollars."""
    script = [ROUNDS] * given.agents, 1, 0
    with serve_model(script, given.latency) as (address, end), tempfile.TemporaryDirectory() as data:
        repo = sample.make(Path(data) / "shop")
        (repo / ".github").mkdir(exist_ok=True)
        (repo / ".github" / "plangate.yml").write_text(f"execution: {{subagents: {{at_once: {given.at_once}}}}}\n")
        author = ["-c", "user.name=Bench", "-c", "user.email=bench@example.invalid"]
        subprocess.run(["git", "-C", repo, "add", "--all"], check=True)
        subprocess.run(["git", "-C", repo, *author, "commit", "--quiet", "--message", "Let many work"], check=True)
        command = [str(Path(sys.executable).parent / "plangate"), "run", "--repo", str(repo), "--prompt", PROMPT]
        env = os.environ | {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "none"}
        began, ended, code, cpu, _, said = run_timed([*command, "--json"], env | {"PLANGATE_DATA_DIR": f"{data}/data"})
        dollars = end()
    if code:
        sys.exit(f"plangate run failed: {said[-2000:]}")
    return ended - began, cpu, dollars


async def measure(given, rounds, *, at_once, rate=0, eager=True):
    """Run a fan-out cold, then warm, in one session, and return the (seconds, dollars) of each.

    With a rate, it runs only once.
    """
    script = rounds, 1 if rate else 2, rate
    with serve_model(script, given.latency) as (address, _), tempfile.TemporaryDirectory() as data:
        clock = SystemClock()
        model = AnthropicModel(clock, "none", address)
        source = await LocalRepository.open(sample.make(Path(data) / "shop"))
        workspace = GitWorkspace.on(source, Path(data) / "data")
        tree = await workspace.checkout("main", source.head)
        world = SessionResources(model, MemoryTranscripts(), clock, PermissionGate(), Ledger(), eager=eager)
        environment = Environment(tree.shown_as, "Linux", "2026-11-21", "shop", source.head[:12], MEMORY)
        host = await workspace.open(tree, Access.READ)
        subagents = Subagents(at_once=at_once, in_all=2 * given.agents)
        configuration = Configuration(execution=Execution(subagents=subagents))
        session, pool = assemble_session(
            SessionSettings(SessionId("bench"), TYPES, configuration),
            world,
            place=SessionPlace(workspace, tree, host, environment),
        )
        session.begin(first_message(environment, PROMPT))
        await asyncio.to_thread(model.warm)
        marks = [(time.monotonic(), 0.0)]
        async with pool.warm_cache(), aclosing(run(session)) as events:
            async for event in events:
                if isinstance(event, RequestStarted) and event.agent == "main" and event.step > 1:
                    marks += [(time.monotonic(), world.ledger.cost_usd)]
                    if rate:
                        break
        await workspace.discard(tree)
        await model.close()
    # A span ends before the parent's last answer.
    return [(later[0] - earlier[0] + given.latency, later[1] - earlier[1]) for earlier, later in pairwise(marks)]


async def time_scheduler(agents, at_once):
    """Return the scheduler's time for agents of one second each, relative to the ideal schedule."""

    began = time.monotonic()
    await run_together([partial(asyncio.sleep, 1.0)] * agents, at_once=at_once)
    return (time.monotonic() - began) / -(-agents // at_once)


def compare_fan_outs(given):
    """Measure the fan-out from outside and from inside, and print both."""
    ideal = given.latency * (2 + ROUNDS * -(-given.agents // given.at_once))
    print(f"{given.agents} agents, {given.at_once} at once, {given.latency:g} s to the first token: ideal {ideal:g} s")
    runs = [measure_process(given) for _ in range(given.runs)]
    wall, cpu, dollars = (statistics.median(figures) for figures in zip(*runs, strict=True))
    every = ", ".join(f"{run[0]:.2f}" for run in runs)
    print(f"process, cold: {wall:.2f} s ({wall / ideal:.2f}), {cpu:.2f} s of CPU, ${dollars:.3f}; walls {every}")
    spans = asyncio.run(measure(given, [ROUNDS] * given.agents, at_once=given.at_once))
    for name, (seconds, spent) in zip(("cold", "warm"), spans, strict=False):
        print(f"session, {name}: {seconds:.2f} s ({seconds / ideal:.2f}), ${spent:.3f}")
    for at_once in (given.agents, AT_ONCE):
        print(f"scheduler at {at_once}: {asyncio.run(time_scheduler(given.agents, at_once)):.3f} of the ideal")


def compare_streams(given):
    """Measure streamed fan-outs with and without calls that start early, and print both beside the arithmetic."""
    shapes = {"alike": [ROUNDS] * given.agents, "unalike": [UNALIKE[n % len(UNALIKE)] for n in range(given.agents)]}
    print(f"{given.rate:g} tokens a second, briefs of {BRIEF_TOKENS} tokens, cold cache")
    for at_once in (AT_ONCE, given.at_once):
        for name, rounds in shapes.items():
            (early, spent), (late, _) = (
                asyncio.run(measure(given, rounds, at_once=at_once, rate=given.rate, eager=eager))[0]
                for eager in (True, False)
            )
            least = compute_walls(rounds, at_once, given)
            told = f"{early:.1f} s with calls that start early, {late:.1f} s without ({early / late:.2f})"
            print(f"{name}, {at_once} at once: {told}, arithmetic {least[0] / least[1]:.2f}, ${spent:.3f}")


def main():
    """Measure and print ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=8)
    parser.add_argument("--latency", type=float, default=1.0)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--rate", type=float, default=80)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", choices=("fan-out", "streams"))
    given = parser.parse_args()
    if given.only != "streams":
        compare_fan_outs(given)
    if given.only != "fan-out":
        compare_streams(given)


if __name__ == "__main__":
    main()
