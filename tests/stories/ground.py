"""What the stories stand on: a person with a repository and a terminal, a scripted model, and the real console script.

Nothing of the program is replaced: it runs as a process of its own (most often a fork), on real git, sandbox and HTTP.
"""

import asyncio
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bot.clock import SystemClock
from bot.core.names import ThreadNumber, local_repository
from bot.ports import Entry
from bot.store.git_journal import GitJournal
from bot.store.sealing import key_file
from bot.store.thread_refs import Remote, ThreadRefs
from bot.testing.model.reply import Fault, Policy, Reply, call, say
from bot.testing.model.request_view import ModelRequest
from bot.testing.model.server import ScriptedModel
from bot.testing.sample import NAMED, make
from tests import forks

PROGRAM: Final = Path(sys.executable).with_name("plangate")
PROMPT: Final = "Ship orders of exactly 50 for free."
PLAN: Final = "In `parcel/shipping.py`, compare with `>=`."
FIXED: Final = "parcel/shipping.py"
PATIENCE: Final = 40.0
"""Seconds until something that must happen counts as never happening."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How one command ended."""

    code: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        """The object of --json: the last line of standard output."""
        value = json.loads(self.out.splitlines()[-1])
        assert isinstance(value, dict)
        return value


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody with a repository, a home and a key, at a terminal or not."""

    home: Path
    base_url: str
    repository: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def data(self) -> Path:
        return self.home / "data"

    def environment(self) -> dict[str, str]:
        return {
            **bare(self.home),
            "ANTHROPIC_API_KEY": "test",
            "ANTHROPIC_BASE_URL": self.base_url,
            "PLANGATE_DATA_DIR": str(self.data),
            **self.variables,
        }

    def command(self, *options: str, prompt: str = PROMPT, repo: Path | None = None) -> list[str]:
        return [str(PROGRAM), "run", "--repo", str(repo or self.repository), "--prompt", prompt, *options]

    @property
    def screen(self) -> str:
        """What the program that was started last has printed."""
        return (self.home / "screen").read_text()

    def start(self, *options: str) -> forks.Fork:
        """Start `plangate run` and leave it running, with its screen in a file; nobody is at its standard input."""
        with (self.home / "screen").open("wb") as screen:
            command, out = self.command(*options)[1:], screen.fileno()
            return forks.plangate().start(*command, env=self.environment(), cwd=self.home, stdout=out, stderr=out)

    def die(self, there: Callable[[], object], kind: signal.Signals = signal.SIGKILL) -> int:
        """Start `plangate run --yes`, send it a signal once it is there, and return its exit code."""
        process = self.start("--yes")
        until(lambda: there() or process.poll() is not None, "its point of death")
        assert process.poll() is None, f"it ended before: {self.screen}"
        process.send_signal(kind)
        return process.wait(PATIENCE)

    def run(self, *options: str, prompt: str = PROMPT, repo: Path | None = None) -> Ended:
        """Run `plangate run` to its end; nobody is at the terminal."""
        return self.call(*self.command(*options, prompt=prompt, repo=repo)[1:])

    def call(self, *arguments: str) -> Ended:
        """Run any command of the console script to its end."""
        done = forks.plangate().run(*arguments, env=self.environment(), cwd=self.home, timeout=PATIENCE)
        return Ended(done.returncode, done.stdout, done.stderr)

    def git(self, *arguments: str) -> str:
        person = ("-c", "user.name=P", "-c", "user.email=p@example.org", "-c", "commit.gpgsign=false")
        command = ["git", "-C", str(self.repository), *person, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def commit(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            target = self.repository / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=more")

    def branches(self) -> list[str]:
        return self.git("for-each-ref", "--format=%(refname:short)", "refs/heads/plangate/").split()

    def diff(self, branch: str) -> str:
        """Return what a branch changes, without context."""
        return self.git("diff", "--unified=0", "--no-color", "HEAD", branch)

    def journals(self) -> list[tuple[Entry, ...]]:
        """Read and verify every thread's journal out of the repository, with the key of the data directory."""
        location = str((self.repository / ".git").resolve())
        number, clock = local_repository(location), SystemClock()
        refs = ThreadRefs(Remote(location), self.home / "reading" / "scratch.git", clock)
        journal = GitJournal(refs, number, key=key_file(self.data / "state.key"), clock=clock)

        async def read() -> list[tuple[Entry, ...]]:
            return [await journal.read(ThreadNumber(thread)) for thread in await journal.threads()]

        return asyncio.run(read())


def bare(home: Path) -> dict[str, str]:
    """Return the environment that every program has, of somebody who lives there and has set nothing up."""
    return {
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "HOME": str(home),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
    }


def person(home: Path, base_url: str, **variables: str) -> Person:
    """Return a new person with the sample repository and nothing else."""
    home.mkdir(parents=True, exist_ok=True)
    return Person(home, base_url, make(home / "shop"), variables)


def state(repository: Path) -> dict[str, str]:
    """Return every file of a repository and its content: work tree, index, HEAD, settings, refs that are not ours.

    Objects are left out: they are what branches are made of.
    """
    found = {}
    for path in sorted(repository.rglob("*")):
        name = str(path.relative_to(repository))
        if not _ours(name) and (path.is_symlink() or path.is_file()):
            content = os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
            found[name] = f"{path.lstat().st_mode:o} {hashlib.sha256(content).hexdigest()}"
    return found


def _ours(name: str) -> bool:
    places = ("objects/", "refs/plangate/", "refs/heads/plangate/", "logs/refs/heads/plangate/")
    return name.startswith(tuple(f".git/{place}" for place in places))


def trees(data: Path) -> dict[str, str]:
    """Return every file of all checkouts with its content; what open sandboxes have as /tmp is none of them."""
    found = state(data / "checkouts") if (data / "checkouts").exists() else {}
    return {name: content for name, content in found.items() if not re.match(r"[^/]+/tmp-", name)}


def until(true: Callable[[], object], what: str, *, seconds: float = PATIENCE) -> None:
    """Wait until something is so; a story in which it never is fails here."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"this never happened: {what}"
        time.sleep(0.005)


def processes(place: Path) -> Iterator[str]:
    """List the processes that were started for a place, or hold any of it mounted: sandboxes and all inside of them."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            mounts = (entry / "mountinfo").read_text()
        except OSError:
            continue
        if f"{place}/" in line or any(
            f"{place}/".endswith(f"{root}/") or f"{place}/" in root for root in _roots(mounts)
        ):
            yield f"{entry.name} {line}"


def _roots(mountinfo: str) -> Iterator[str]:
    """List what is mounted from where (proc(5): the fourth field is the root within the file system)."""
    for line in mountinfo.splitlines():
        root = line.split(" ")[3]
        if root.count("/") > 2:
            yield f"{root}/"


def approved(request: ModelRequest) -> bool:
    """Return whether the conversation holds an approval."""
    return any(result.name == "exit_plan_mode" and "plan is approved" in result.text for result in request.all_results)


def since_approval(request: ModelRequest) -> list[str]:
    """List the tools that were called since the newest approval."""
    names = [result.name for result in request.all_results]
    return names[len(names) - names[::-1].index("exit_plan_mode") :]


@dataclass(slots=True)
class Held:
    """A model that lets the first request of some kind wait until it is released."""

    wanted: Callable[[int, ModelRequest], bool]
    policy: Policy
    fault: Fault | None = None
    """What it answers that request instead of waiting."""
    arrived: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    seen: int = 0

    def __call__(self, request: ModelRequest) -> Reply | Fault:
        self.seen += 1
        if self.arrived.is_set() or not self.wanted(self.seen, request):
            return self.policy(request)
        self.arrived.set()
        if self.fault is not None:
            return self.fault
        self.released.wait(2 * PATIENCE)
        return self.policy(request)


@dataclass(frozen=True, slots=True)
class Script:
    """What the model does: looks, hands in a plan, works in steps, says that it is done."""

    scope: tuple[str, ...] = (FIXED,)
    commands: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    work: tuple[Reply, ...] = ()
    plan: str = PLAN
    last: str = "Orders of 50 ship free."

    def __call__(self, request: ModelRequest) -> Reply | Fault:
        if not request.tools:
            return say(NAMED)
        if not approved(request):
            return self._planning(request)
        done = len(since_approval(request))
        steps = self.work or (FIX,)
        calls = [len(step.blocks) for step in steps]
        index = next((n for n in range(len(steps)) if sum(calls[: n + 1]) > done), None)
        return say(self.last) if index is None else steps[index]

    def _planning(self, request: ModelRequest) -> Reply:
        if request.step == 0:
            return call("Read", file_path=FIXED)
        handed: dict[str, object] = {"plan": self.plan, "scope": list(self.scope), "commands": list(self.commands)}
        if self.hosts:
            handed["hosts"] = list(self.hosts)
        return call("exit_plan_mode", **handed)


FIX: Final = call("Edit", file_path=FIXED, old_string="total > FREE_FROM", new_string="total >= FREE_FROM")
FIX_DIFF: Final = (
    "-    cost = 0.0 if total > FREE_FROM else STANDARD",
    "+    cost = 0.0 if total >= FREE_FROM else STANDARD",
)


def only_the_fix(diff: str) -> bool:
    lines = [line for line in diff.splitlines() if line[:1] in "+-" and not line.startswith(("+++", "---"))]
    return tuple(lines) == FIX_DIFF and diff.count("diff --git") == 1


def newest(model: ScriptedModel) -> ModelRequest:
    """Return the newest request of an agent: not one of a small question, which has no tools."""
    return next(request for request in reversed(model.requests) if request.tools)


def planning_requests(requests: tuple[ModelRequest, ...]) -> list[ModelRequest]:
    """Keep the requests that agents made before any approval."""
    return [request for request in requests if request.tools and not approved(request)]
