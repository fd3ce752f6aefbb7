"""The bot as processes that are killed: each look is a process of its own, made by a fork, so that many can die.

What changes GitHub is found by recording a whole story at the door of the simulated GitHub; just before and just after
each of those requests is a moment to die at (E3). The state of the next process comes from the disk and from GitHub.
"""

import asyncio
import json
import multiprocessing
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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
from tests.github.effects import EFFECTS, MISHAPS, named
from tests.stories.github.clocks import QuickClock
from tests.stories.github.ground import FIXED, HOME, NEVER, PATIENCE, Hub, Model, settings
from tests.stories.github.moments import READY, exactly_one, receipt_is_remade
from tests.stories.github.runner import journal_of
from tests.stories.ground import until

LOOKS: Final = 14
"""Looks within which a story that is disturbed comes to its end."""
HEAVY: Final = (
    *(
        "anthropic",
        "anthropic.resources.messages",
        "httpcore2",
        "bot.agent.model.anthropic_model",
        "bot.config.repository_file",
    ),
    *("cryptography.hazmat.primitives.ciphers.aead", "git", "github.Requester", "jwt", "tree_sitter_bash"),
)
"""What looks import at first use: imported once, before the fork."""
AGAIN: Final = 75
"""The exit code of a look that failed in passing."""
BESIDE: Final = {"token", "revocation"}
"""What a look does to GitHub in any case."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """A request that changes something: the effect, words in it, and how many such come before it in a story."""

    effect: str
    words: str
    nth: int

    def __str__(self) -> str:
        return f"{self.effect} {self.words} {self.nth}".replace("  ", " ")

    def plan(self, fault: Fault) -> Plan:
        """Plan what happens there."""
        return Plan(EFFECTS[self.effect].request, fault, containing=self.words, after=self.nth)


@dataclass(frozen=True, slots=True)
class Death:
    """A process dies just before a request is carried out, or just after (`done`)."""

    at: Boundary
    done: bool

    def __str__(self) -> str:
        return f"{'after' if self.done else 'before'} {self.at}"

    def plan(self) -> Plan:
        """Have nobody answered there, so that the process can be killed."""
        return self.at.plan(Fault("reset", done=self.done, seconds=PATIENCE))


def boundaries(requests: Iterable[Logged]) -> Iterator[Boundary]:
    """Yield every boundary of a story that was recorded; of the edits, whose number is the clock's, the first."""
    seen: Counter[tuple[str, str]] = Counter()
    for logged in requests:
        if name := named(logged):
            words = EFFECTS[name].containing or _words(logged)
            if name != "edit" or not seen[name, words]:
                yield Boundary(name, words, seen[name, words])
            seen[name, words] += 1


def _words(logged: Logged) -> str:
    """Return what tells one comment from another: the kind in its marker."""
    body = json.loads(logged.body or b"{}")
    found = marker.parse(body.get("body", "")) if isinstance(body, dict) else None
    return f"<!-- plangate:1 {found.kind} " if found and "comments" in logged.path else ""


@dataclass(slots=True)
class Mortal(Hub):
    """A hub on which each look is a process: the service's on a disk that stays, the Action's on a new one each."""

    model: Model
    base_url: str
    home: Path
    clock: QuickClock
    action: bool = False
    every: list[BaseProcess] = field(default_factory=list)

    @property
    def bot(self) -> int:
        return self.world.add_user(ACTIONS_BOT, "Bot").id if self.action else self.github.app.bot

    def settings(self, disk: str) -> Settings:
        """Return the settings of a look that has that disk."""
        made = settings(self.github, self.base_url, self.home / disk)
        if not self.action:
            return made
        at, token = made.github, job_token(self.world, self.world.repository(HOME)).value
        urls = (at.api_url, at.graphql_url, at.server_url)
        return replace(made, github=GitHubSettings(*urls, token=Secret(token), write_pause=0.0, progress_seconds=NEVER))

    def address(self, number: int) -> ThreadAddress:
        """Return where a thread is."""
        repository = self.world.repository(HOME)
        installation = None if self.action else self.installation.id
        return ThreadAddress(installation, repository.id, repository.owner_login, repository.name, number)

    def host(self, disk: str, *, run: str) -> HostSetup:
        """Return a host that looks at threads in this process, on a disk, as the job of a run."""
        return HostSetup(self.settings(disk), clock=self.clock, run=run)

    def start(self, number: int, *, beside: bool = False) -> BaseProcess:
        """Start a look at a thread, `beside` another one on a disk of its own."""
        disk = f"disk-{len(self.every)}" if self.action or beside else "disk"
        run = str(self.world.start_run(HOME, "issues").id) if self.action else ""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__, *HEAVY])
        process = context.Process(
            target=looked, args=(self.settings(disk), self.address(number), self.clock.state(), run)
        )
        process.start()
        self.every.append(process)
        return process

    def end(self) -> None:
        """End what still runs."""
        for process in self.every:
            if process.is_alive():
                process.kill()
            process.join()


def looked(given: Settings, address: ThreadAddress, clock: tuple[datetime, float, float], run: str) -> None:
    """Look at a thread, in a process of its own; one that fails in passing says so by its exit code."""

    async def look() -> None:
        async with HostSetup(given, clock=QuickClock.at(*clock), run=run) as host:
            await host.check_thread(address)

    try:
        asyncio.run(look())
    except Transient:
        sys.exit(AGAIN)


@dataclass(slots=True)
class Life:
    """One thread from its mention to its pull request, through deaths and mishaps; chance decides the rest."""

    hub: Mortal
    chance: random.Random
    strikes: Sequence[Death | Plan] = ()
    """One after the other: each is waited for when the one before has struck."""
    number: int = 0
    approved: bool = False

    def lived(self) -> None:
        """Go through it, and hold exactly one of everything at its end."""
        faults, began = self.hub.github.faults, self.hub.github.faults.struck
        chain: tuple[Plan, ...] = ()
        for strike in reversed(self.strikes):
            chain = (replace(strike.plan() if isinstance(strike, Death) else strike, then=chain),)
        for plan in chain:
            faults.add(plan)
        self.number = self.hub.opens("will", title=f"Thread {self.chance.random()}").number
        for _ in range(LOOKS):
            rested = self._look(began)
            self._people()
            told = any(READY in text for text in self.hub.said("tell", self.number))
            if rested and told and faults.struck - began >= self._sure:
                break
        faults.clear()
        self._over()

    @property
    def _sure(self) -> int:
        """How many strikes must come: those from the first edit on may not, since their number is the clock's."""
        edits = (n for n, strike in enumerate(self.strikes) if isinstance(strike, Death) and strike.at.effect == "edit")
        return next(edits, len(self.strikes))

    def until_dead(self) -> None:
        """Go on until its death, and no further."""
        faults = self.hub.github.faults
        before = faults.struck
        (death,) = self.strikes
        assert isinstance(death, Death)
        faults.add(death.plan())
        self.number = self.hub.opens("will").number
        while faults.struck == before:
            self._look(before)
            self._people()

    def _look(self, began: int) -> bool:
        """Look once, or by two processes at a time; at a death all of them are killed. Tell whether all ended well."""
        faults = self.hub.github.faults
        before = faults.struck
        running = [self.hub.start(self.number, beside=n > 0) for n in range(1 + (self.chance.random() < 0.2))]
        end = time.monotonic() + PATIENCE
        while any(process.is_alive() for process in running):
            assert time.monotonic() < end, "a look never ends"
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

    def _people(self) -> None:
        """Approve the plan, in one way or another, once there is one."""
        if self.approved or not self.hub.plans(self.number):
            return
        self.approved = True
        if self.chance.random() < 0.5:
            self.hub.reacts("maya", "+1", self.hub.plans(self.number)[0])
        else:
            self.hub.says("maya", "@plangate approve", self.number)

    def _over(self) -> None:
        """Hold one of everything, the fix in it, each move once, and that a further look changes nothing."""
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


def recorded(hub: Mortal) -> list[Boundary]:
    """Live one life without a death, and give its boundaries in order."""
    before = len(hub.github.requests)
    Life(hub, random.Random(0)).lived()
    return list(boundaries(hub.github.requests[before:]))


def disturbed(death: Death, every: Sequence[Boundary], chance: random.Random) -> list[Death | Plan]:
    """Return the death, and by chance another one after it, and a mishap before or after them."""
    strikes: list[Death | Plan] = [death]
    if chance.random() < 0.3:
        strikes.append(Death(chance.choice(every[every.index(death.at) + 1 :] or every), chance.random() < 0.5))
    if chance.random() < 0.3:
        mishap = chance.choice(every[every.index(death.at) :]).plan(MISHAPS[chance.choice(sorted(MISHAPS))])
        strikes.append(replace(mishap, after=0))
    return strikes
