"""The one generator of deaths at GitHub: where the bot dies, and a bot of processes that are killed there (E3).

A point of death is a request to GitHub, just before it is carried out or just after, or a step at which the model
waits. Stories name them (`MOMENTS`), or find all by recording a whole story (`points_of_death`). Every face dies at
them: the service and the jobs of the Action as real programs, and here each check as a fork of its own, so that many
can die. The state of the next process comes from the disk and from GitHub.
"""

import asyncio
import json
import multiprocessing
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

from bot.compose.github import HostSetup
from bot.config.settings import GitHubSettings, Secret, Settings
from bot.core import marker
from bot.core.errors import Transient
from bot.core.gate import Move, Stage
from bot.core.names import ThreadAddress
from bot.core.thread.state import fold_entries
from bot.testing.github.credentials import job_token
from bot.testing.github.faults import Fault, Logged, Plan
from bot.testing.github.world import ACTIONS_BOT
from bot.testing.model.server import ScriptedModel
from tests.github.effects import BRANCH, EFFECTS, JOURNAL, MISHAPS, PUSH, named
from tests.stories.github.clocks import QuickClock
from tests.stories.github.ground import FIXED, HOME, NEVER, PATIENCE, Hub, Model, settings
from tests.stories.github.outcome import READY, exactly_one, is_ready, receipt_is_remade
from tests.stories.github.runner import journal_of
from tests.stories.ground import until

REACTIONS: Final = f"POST /repos/{HOME}/issues/1/reactions"
COMMENTS: Final = f"POST /repos/{HOME}/issues/1/comments"
PULLS: Final = f"POST /repos/{HOME}/pulls"
REVIEWERS: Final = f"POST /repos/{HOME}/pulls/*/requested_reviewers"
RECEIPTS: Final = "refs/plangate/receipts/"
CHECKS: Final = 14
"""Checks within which a story that is disturbed comes to its end."""
HEAVY: Final = (
    *("anthropic", "anthropic.resources.messages", "httpcore2", "bot.agent.model.anthropic_model"),
    *("bot.config.repository_file", "cryptography.hazmat.primitives.ciphers.aead", "git", "github.Requester"),
    *("jwt", "tree_sitter_bash"),
)
"""What checks import at first use: imported once, before the fork."""
AGAIN: Final = 75
"""The exit code of a check that failed in passing."""
BESIDE: Final = {"token", "revocation"}
"""What a check does to GitHub in any case."""


@dataclass(frozen=True, slots=True)
class Death:
    """A request, the words in it, and how many such are spared; or a step at which the model waits."""

    requests: str = ""
    containing: str = ""
    after: int = 0
    done: bool = True
    """Whether GitHub carries the request out before the bot dies."""
    step: str = ""

    def plan(self) -> Plan:
        """Have nobody answered there, so that the process can be killed."""
        return Plan(
            self.requests,
            Fault("reset", done=self.done, seconds=PATIENCE),
            containing=self.containing,
            after=self.after,
        )

    def strike(self, hub: Hub, model: Model) -> Callable[[], bool]:
        """Plan it, and return the question whether it has come."""
        if self.step:
            pause = model.pause(self.step)
            return lambda: pause.there
        before = hub.github.faults.struck
        hub.github.faults.add(self.plan())
        return lambda: hub.github.faults.struck > before


MOMENTS: Final[dict[str, Death]] = {
    "before the sign": Death(REACTIONS, done=False),
    "after the sign": Death(REACTIONS),
    "before the request is journaled": Death(PUSH, JOURNAL, done=False),
    "after the request is journaled": Death(PUSH, JOURNAL),
    "while the model plans": Death(step="p0"),
    "before the plan is journaled": Death(PUSH, JOURNAL, 1, done=False),
    "after the plan is journaled": Death(PUSH, JOURNAL, 1),
    "before the plan is shown": Death(COMMENTS, "plan mode", done=False),
    "after the plan is shown": Death(COMMENTS, "plan mode"),
    "while the plan is read back": Death(f"GET /repos/{HOME}/issues/comments/*", done=False),
    "after it is journaled that the plan is shown": Death(PUSH, JOURNAL, 2),
    "before the approval is journaled": Death(PUSH, JOURNAL, 3, done=False),
    "after the approval is journaled": Death(PUSH, JOURNAL, 3),
    "before the progress is shown": Death(COMMENTS, "Executing", done=False),
    "after the progress is shown": Death(COMMENTS, "Executing"),
    "when the model begins to work": Death(step="w0"),
    "while the model works": Death(step="w1"),
    "when the model is done": Death(step="w2"),
    "before the work is journaled": Death(PUSH, JOURNAL, 4, done=False),
    "after the work is journaled": Death(PUSH, JOURNAL, 4),
    "before the branch is pushed": Death(PUSH, BRANCH, done=False),
    "after the branch is pushed": Death(PUSH, BRANCH),
    "before the receipt is kept": Death(PUSH, RECEIPTS, done=False),
    "after the receipt is kept": Death(PUSH, RECEIPTS),
    "before the pull request is made": Death(PULLS, done=False),
    "after the pull request is made": Death(PULLS),
    "while the pull request is read back": Death(f"GET /repos/{HOME}/pulls/*", done=False),
    "before a review is asked for": Death(REVIEWERS, done=False),
    "after a review is asked for": Death(REVIEWERS),
    "after the pull request is journaled": Death(PUSH, JOURNAL, 5),
    "before it is told": Death(COMMENTS, READY, done=False),
    "after it is told": Death(COMMENTS, READY),
    "after it is journaled that it is told": Death(PUSH, JOURNAL, 6),
}
NO_PLAN_SHOWN: Final = Death(COMMENTS, "plan mode", done=False)


def points_of_death(requests: Iterable[Logged]) -> Iterator[Death]:
    """Yield both sides of every request of a recorded story that changes something.

    Of the edits, whose number is the clock's, only the first counts.
    """
    seen: Counter[tuple[str, str]] = Counter()
    for logged in requests:
        if name := named(logged):
            words = EFFECTS[name].containing or _words(logged)
            if name != "edit" or not seen[name, words]:
                for done in (False, True):
                    yield Death(EFFECTS[name].request, words, seen[name, words], done)
            seen[name, words] += 1


def _words(logged: Logged) -> str:
    """Return what tells one comment from another: the kind in its marker."""
    body = json.loads(logged.body or b"{}")
    found = marker.parse(body.get("body", "")) if isinstance(body, dict) else None
    return f"<!-- plangate:1 {found.kind} " if found and "comments" in logged.path else ""


@dataclass(slots=True)
class Mortal(Hub):
    """A hub on which each check is a process: the service's on a disk that stays, the Action's on a new one each."""

    model: Model
    api: ScriptedModel
    home: Path
    clock: QuickClock
    action: bool = False
    every: list[BaseProcess] = field(default_factory=list)

    @property
    def bot(self) -> int:
        return self.world.add_user(ACTIONS_BOT, "Bot").id if self.action else self.github.app.bot

    def settings(self, disk: str) -> Settings:
        made = settings(self.github, self.api.base_url, self.home / disk)
        if not self.action:
            return made
        at, token = made.github, job_token(self.world, self.world.repository(HOME)).value
        urls = (at.api_url, at.graphql_url, at.server_url)
        return replace(made, github=GitHubSettings(*urls, token=Secret(token), write_pause=0.0, progress_seconds=NEVER))

    def address(self, number: int) -> ThreadAddress:
        repository = self.world.repository(HOME)
        installation = None if self.action else self.installation.id
        return ThreadAddress(installation, repository.id, repository.owner_login, repository.name, number)

    def host(self, disk: str, *, run: str) -> HostSetup:
        """Return a host that checks threads in this process, on a disk, as the job of a run."""
        return HostSetup(self.settings(disk), clock=self.clock, run=run)

    def start(self, number: int, *, beside: bool = False) -> BaseProcess:
        """Start a check of a thread, `beside` another one on a disk of its own."""
        disk = f"disk-{len(self.every)}" if self.action or beside else "disk"
        run = str(self.world.start_run(HOME, "issues").id) if self.action else ""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__, *HEAVY])
        given = self.settings(disk), self.address(number), self.clock.state(), run
        process = context.Process(target=check, args=given)
        process.start()
        self.every.append(process)
        return process

    def die(self, number: int, death: Death, *, shows: Callable[[], bool]) -> None:
        """Kill -9 a check of a thread there, once GitHub shows how far it came, and end what it began with another."""
        struck = death.strike(self, self.model)
        dying = self.start(number)
        until(lambda: struck() and shows(), f"{death}")
        assert dying.is_alive()
        dying.kill()
        dying.join()
        self.start(number).join()

    def end(self) -> None:
        for process in self.every:
            if process.is_alive():
                process.kill()
            process.join()


def check(given: Settings, address: ThreadAddress, clock: tuple[datetime, float, float], run: str) -> None:
    """Check a thread, in a process of its own; one that fails in passing says so by its exit code."""

    async def check_thread() -> None:
        async with HostSetup(given, clock=QuickClock.at(*clock), run=run) as host:
            await host.check_thread(address)

    try:
        asyncio.run(check_thread())
    except Transient:
        sys.exit(AGAIN)


@dataclass(slots=True)
class Life:
    """One thread from its mention to its pull request, through deaths and mishaps; chance decides the rest."""

    hub: Mortal
    chance: random.Random = field(default_factory=lambda: random.Random(0))
    strikes: Sequence[Death | Plan] = ()
    """One after the other: each is waited for when the one before has struck."""
    number: int = 0
    approved: bool = False

    def live(self) -> None:
        """Go through it, and hold exactly one of everything at its end."""
        faults, began = self.hub.github.faults, self.hub.github.faults.struck
        chain: tuple[Plan, ...] = ()
        for strike in reversed(self.strikes):
            chain = (replace(strike.plan() if isinstance(strike, Death) else strike, then=chain),)
        for plan in chain:
            faults.add(plan)
        self.number = self.hub.opens("will", title=f"Thread {self.chance.random()}").number
        for _ in range(CHECKS):
            rested = self._check(began)
            self._approve()
            told = is_ready(self.hub, self.number)
            if rested and told and faults.struck - began >= self._sure:
                break
        faults.clear()
        self._hold()

    @property
    def _sure(self) -> int:
        """How many strikes must come: those from the first edit on may not, since their number is the clock's."""
        edit = EFFECTS["edit"].request
        edits = (n for n, each in enumerate(self.strikes) if isinstance(each, Death) and each.requests == edit)
        return next(edits, len(self.strikes))

    def live_until_dead(self) -> None:
        """Go on until its one death, and no further."""
        faults, before = self.hub.github.faults, self.hub.github.faults.struck
        (death,) = self.strikes
        assert isinstance(death, Death)
        faults.add(death.plan())
        self.number = self.hub.opens("will").number
        while faults.struck == before:
            self._check(before)
            self._approve()

    def _check(self, began: int) -> bool:
        """Check once, or by two processes at a time; at a death all are killed. Return whether all ended well."""
        faults = self.hub.github.faults
        before = faults.struck
        running = [self.hub.start(self.number, beside=n > 0) for n in range(1 + (self.chance.random() < 0.2))]
        end = time.monotonic() + PATIENCE
        while any(process.is_alive() for process in running):
            assert time.monotonic() < end, "a check never ends"
            strikes = self.strikes[before - began : faults.struck - began]
            if any(isinstance(strike, Death) for strike in strikes):
                for process in running:
                    process.kill()
                break
            time.sleep(0.002)
        for process in running:
            process.join()
            assert process.exitcode in {0, AGAIN, -9}
        return not any(process.exitcode for process in running)

    def _approve(self) -> None:
        """Approve the plan, in one way or another, once there is one."""
        if self.approved or not self.hub.plans(self.number):
            return
        self.approved = True
        if self.chance.random() < 0.5:
            self.hub.reacts("maya", "+1", self.hub.plans(self.number)[0])
        else:
            self.hub.says("maya", "@plangate approve", self.number)

    def _hold(self) -> None:
        """Hold one of everything, the fix in it, each move once, and that a further check changes nothing."""
        hub, number = self.hub, self.number
        until(lambda: not any(process.is_alive() for process in hub.every), "all processes end")
        marked = len(hub.github.requests)
        last = hub.start(number)
        last.join(PATIENCE)
        assert last.exitcode == 0
        assert {named(logged) for logged in hub.github.requests[marked:]} <= {"", *BESIDE}
        exactly_one(hub, number)
        (branch,) = (name for name in hub.branches() if name.startswith(f"plangate/{number}-"))
        assert "total >= FREE_FROM" in hub.file(branch, FIXED)
        journal = journal_of(hub, hub.settings("reading"), number)
        assert fold_entries(journal).stage is Stage.IN_REVIEW
        moves = [entry.kind for entry in journal]
        assert [moves.count(move) for move in (Move.REQUESTED, Move.PROPOSED, Move.PUBLISHED)] == [1, 1, 1]
        receipt_is_remade(hub, hub.branches()[branch], journal)


def record_life(hub: Mortal) -> list[Death]:
    """Live one life without a death, and return all points at which it could have died, in order."""
    before = len(hub.github.requests)
    Life(hub).live()
    return list(points_of_death(hub.github.requests[before:]))


def disturb(death: Death, every: Sequence[Death], chance: random.Random) -> list[Death | Plan]:
    """Return the death, and by chance another one after it, and a mishap after it."""
    strikes: list[Death | Plan] = [death]
    later = every[every.index(death) + 1 :] or every
    if chance.random() < 0.3:
        strikes.append(chance.choice(later))
    if chance.random() < 0.3:
        strikes.append(replace(chance.choice(later).plan(), fault=MISHAPS[chance.choice(sorted(MISHAPS))], after=0))
    return strikes
