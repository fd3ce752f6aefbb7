"""Sessions of N steps (two reads of 80 lines per grep), interleaved with the floor and any other commands.

The model is simulated, over real HTTP on loopback and without latency, so that only each program's own work is
measured.
Usage: python benchmarks/agent.py [--steps 30 100 300] [--runs 5] [--repo DIR] [-- 'NAME=COMMAND' ...]
In a command, {repo} stands for the folder to work on and {prompt} for the request.

Columns: wall seconds; seconds to the first request; own milliseconds per step (from the end of an answer to the next
request); CPU seconds; peak memory of the program's process; requests; uncached, read, and written tokens; dollars.
"""

import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from bot.testing.host import host_application
from bot.testing.model.reply import call, say
from bot.testing.model.server import ScriptedModel, application

HERE = Path(__file__).parent
PROMPT = "Read around in this repository and tell what it is."
ROOM = "budget: {steps: 1000, session_usd: 1000, thread_usd: 1000, repository_day_usd: 1000}\n"
"""The repository's configuration for sessions with more steps than the default allows."""
DEFAULT_STEPS = 200
LAUNCHER = """
import json, os, sys, time
began = time.monotonic()
child = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status, used = os.wait4(child, 0)
ended = time.monotonic()
figures = began, ended, os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
os.write(int(sys.argv[1]), json.dumps(figures).encode())
"""
"""Starts a program from a small process. If this process started it, it would begin with this one's peak memory."""


@dataclass
class Timed:
    """An ASGI application that records when each request arrived and when its answer was sent."""

    app: object
    spans: list = field(default_factory=list)

    async def __call__(self, scope, receive, send):
        """Pass the request on and record its span."""
        began = time.monotonic()
        await self.app(scope, receive, send)
        if scope["type"] == "http" and scope["path"].endswith("/messages"):
            self.spans.append((began, time.monotonic()))


def policy(files, steps):
    """Return the script: every third step greps, and the others read 80 lines of one file after another."""

    def answer(request):
        step = request.step
        if step >= steps:
            return say("It is a repository of Python code.")
        if step % 3 == 2:
            return call("Grep", pattern=f"def _{'abcdefghij'[step % 10]}", output_mode="content")
        return call("Read", file_path=files[step % len(files)], offset=1 + 20 * (step % 5), limit=80)

    return answer


def measure(command, origin, steps):
    """Run one command once, on a copy of a repository and against a fresh server, and return its measurements."""
    files = sorted(str(path.relative_to(origin)) for path in origin.rglob("*.py"))
    with ScriptedModel(policy(files, steps)) as model, tempfile.TemporaryDirectory() as data:
        timed, repo = Timed(application(model)), Path(data) / "repo"
        shutil.copytree(origin, repo, symlinks=True)
        command = [part.format(repo=repo, prompt=PROMPT) for part in command]
        with host_application(timed) as address:
            env = os.environ | {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "none"}
            began, ended, code, cpu, peak, said = run_timed(command, env | {"PLANGATE_DATA_DIR": f"{data}/data"})
        if code or len(timed.spans) != steps + 1:
            sys.exit(f"{command[0]} failed ({len(timed.spans)} of {steps + 1} requests): {said[-2000:]}")
        gaps = [later[0] - earlier[1] for earlier, later in zip(timed.spans, timed.spans[1:], strict=False)]
        totals = model.usage
        return {
            "wall s": ended - began,
            "first s": timed.spans[0][0] - began,
            "own ms/step": 1000 * statistics.mean(gaps),
            "cpu s": cpu,
            "peak MB": peak,
            "requests": len(timed.spans),
            "uncached": totals.input_tokens,
            "read": totals.cache_read_input_tokens,
            "written": totals.cache_creation_input_tokens,
            "dollars": totals.cost_usd,
        }


def run_timed(command, env):
    """Run a command; return its start and end, exit code, CPU seconds, peak memory in MB, and standard error."""
    reading, writing = os.pipe()
    launcher = [sys.executable, "-I", "-S", "-c", LAUNCHER, str(writing), *command]
    with os.fdopen(reading) as figures:
        done = subprocess.run(launcher, env=env, pass_fds=[writing], capture_output=True, text=True, check=False)
        os.close(writing)
        return (*json.loads(figures.read()), done.stderr)


def main():
    """Measure all commands, interleaved, and print medians and ratios to the floor."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, nargs="+", default=[30, 100, 300])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--repo", type=Path, default=HERE.parent)
    parser.add_argument("others", nargs="*", metavar="NAME=COMMAND")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        commands = _commands(given.others)
        for steps in given.steps:
            repo = _clone(given.repo, Path(folder) / str(steps), roomy=steps >= DEFAULT_STEPS)
            figures = {name: [] for name in commands}
            for turn in range(given.runs):
                for name, command in commands.items():
                    print(f"{steps} steps, run {turn + 1} of {given.runs}: {name}", file=sys.stderr)
                    figures[name].append(measure(command, repo, steps))
            _print(figures, f"{steps} steps, medians of {given.runs} interleaved runs")


def _clone(origin, repo, *, roomy):
    """Clone a repository; if `roomy`, commit a configuration that allows a long session."""
    subprocess.run(["git", "clone", "--quiet", "--no-local", origin, repo], check=True)
    if not roomy:
        return repo
    (repo / ".github").mkdir(exist_ok=True)
    (repo / ".github" / "plangate.yml").write_text(ROOM)
    author = ["-c", "user.name=Bench", "-c", "user.email=bench@example.invalid"]
    subprocess.run(["git", "-C", repo, "add", "--all"], check=True)
    subprocess.run(["git", "-C", repo, *author, "commit", "--quiet", "--message", "Leave room"], check=True)
    return repo


def _commands(others):
    scripts = Path(sys.executable).parent
    commands = {
        "floor": [sys.executable, str(HERE / "floor.py"), "{repo}", "{prompt}"],
        "plangate": [str(scripts / "plangate"), "run", "--repo", "{repo}", "--prompt", "{prompt}", "--json"],
    }
    for other in others:
        name, _, text = other.partition("=")
        commands[name] = shlex.split(text)
    return commands


def _print(figures, title):
    medians = {
        name: {key: statistics.median(run[key] for run in runs) for key in runs[0]} for name, runs in figures.items()
    }
    print(f"\n{title}")
    print("| | " + " | ".join(medians["floor"]) + " |")
    print("|---" * (len(medians["floor"]) + 1) + "|")
    for name, row in medians.items():
        print(f"| {name} | " + " | ".join(f"{value:,.3f}".rstrip("0").rstrip(".") for value in row.values()) + " |")
    for name, row in medians.items():
        if name != "floor":
            shown = [f"{row[key] / value:.2f}" if value else "-" for key, value in medians["floor"].items()]
            print(f"| {name} ÷ floor | " + " | ".join(shown) + " |")


if __name__ == "__main__":
    main()
