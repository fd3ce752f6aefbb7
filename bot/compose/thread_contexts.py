"""Creates the context of one thread on GitHub from live facts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from bot.agent.limits import Ledger
from bot.agent.resources import HumanAvailability, SessionResources
from bot.compose.decoys import lay_decoy
from bot.compose.environment import JobEnvironment, job_of, place_on_github
from bot.compose.parts import (
    agents_of,
    chosen_of,
    collector_of,
    committer_of,
    gate_of,
    host_of,
    key_of,
    orders_of,
    passage_of,
    policy_of,
    sandbox_limits_of,
    web_of,
)
from bot.compose.pictures import picture_source
from bot.config.environment import configuration
from bot.config.settings import Settings
from bot.core.errors import Misconfigured, Refused
from bot.core.names import CommitId, RepositoryId, ThreadAddress, ThreadNumber
from bot.core.secrets.canary import CanaryAlarm
from bot.core.secrets.redaction import Redactor
from bot.core.work import ThreadLocation
from bot.github import repository
from bot.github.attribution import Attribution
from bot.github.check_results import CheckResults
from bot.github.client import GitHubClient
from bot.github.dialogue import DialogueSettings, GitHubDialogue
from bot.github.permissions import Roles
from bot.github.pictures import AttachedPictures
from bot.github.pulls import GitHubPulls
from bot.github.readings import Readings
from bot.github.repository_reader import GitHubReader
from bot.ports import Clock
from bot.service.connections import Connections, RepositoryAccess
from bot.store.git_journal import GitJournal
from bot.store.keys import MarkerSigner
from bot.store.thread_refs import Change
from bot.store.transcripts import SpooledTranscripts
from bot.telemetry import Counters, Telemetry
from bot.workflow.ledger import fence
from bot.workflow.state_cache import StateCache
from bot.workflow.thread_context import ThreadContext, WorkSettings
from bot.workspace.mirror import Mirror, mirrors
from bot.workspace.publish import Publishing
from bot.workspace.remote import RemoteRepository
from bot.workspace.screening import Screen
from bot.workspace.workspace import GitWorkspace

if TYPE_CHECKING:
    from bot.agent.model.client import AnthropicModel
    from bot.config.repository_file import Configuration


@dataclass(frozen=True, slots=True)
class ThreadContexts:
    """Creates thread contexts. Only what was parsed or folded is cached between them, so nothing can be stale."""

    settings: Settings
    clock: Clock
    run: str
    """The GitHub Actions run that this process is a job of, or a name of its own (E4)."""
    redactor: Redactor
    counters: Counters
    connections: Connections
    model: "AnthropicModel"
    readings: Readings = field(default_factory=Readings, init=False)
    states: StateCache = field(default_factory=StateCache, init=False)
    """What the journals of all threads led to when they were read last."""

    @asynccontextmanager
    async def open(self, address: ThreadAddress) -> AsyncIterator[ThreadContext]:
        """Yield the context of one thread, built from live facts."""
        at = repository.Address(address.owner, address.name)
        reached = await self.connections.reach(address.installation, address.repository, at)
        facts = await repository.repository(reached.door, at)
        if facts.id != address.repository:
            raise Refused("the delivery names another repository", where=at.path, mend="check the webhook's sender")
        if facts.address != at:  # it was renamed since, and git follows no redirect
            reached = await self.connections.reach(address.installation, address.repository, facts.address)
        keys, mistake = await self.configuration(reached.door, reached.at, facts.default_branch)
        if facts.head is None:
            mistake = "the repository has no commit yet (push one)"
        committer = committer_of(self.settings, await self.connections.bot(reached.door))
        rules = Publishing(Screen(self.redactor, tuple(keys.secrets.examples)), committer)
        source, passage = await self._source(reached), passage_of(self.settings)
        workspace = GitWorkspace.on(source, self.settings.data_dir, sandbox_limits_of(keys), rules, passage=passage)
        try:
            with lay_decoy(self.settings.data_dir) as alarm:
                for value, kind in alarm.named_values:
                    self.redactor.learn(value, kind)
                dialogue = await self._dialogue(reached, facts, address, keys)
                place = address.installation, address.repository
                reader = self._reader(reached, facts, place, keys=keys, dialogue=dialogue)
                rooms = (dialogue, workspace, alarm, reader)
                async with reached.kept_fresh(), dialogue.hold_progress():
                    yield await self._join(reached, facts, keys=keys, rooms=rooms, mistake=mistake)
        finally:
            await workspace.close()

    async def _source(self, reached: RepositoryAccess) -> RemoteRepository:
        """Return the remote that git fetches from. The first fetch of a large repository omits old contents."""
        if Mirror.of(reached.remote, mirrors(self.settings.data_dir)).path.exists():
            return reached.remote
        try:
            size = await repository.kilobytes(reached.door, reached.at)
        except Refused:  # an unknown size does not prevent work
            return reached.remote
        return replace(reached.remote, partial=size > self.settings.partial_clone_mb * 1024)

    async def _dialogue(
        self, reached: RepositoryAccess, facts: repository.Repository, address: ThreadAddress, keys: "Configuration"
    ) -> GitHubDialogue:
        made = GitHubDialogue.on(
            reached.door,
            reached.at,
            ThreadNumber(address.number),
            bot=await self.connections.bot(reached.door),
            signer=MarkerSigner(key_of(self.settings), facts.id),
            keys=self._manners(keys),
            base=facts.default_branch,
            readings=self.readings,
        )
        made.told, made.members = address.told, self.connections.members(address.installation)
        return made

    def _reader(
        self,
        reached: RepositoryAccess,
        facts: repository.Repository,
        place: tuple[int | None, int],
        *,
        keys: "Configuration",
        dialogue: GitHubDialogue,
    ) -> GitHubReader:
        """Return the reader of the thread's repository. Check runs and logs take tokens of their own (W4)."""
        roles, may_ask = Roles(reached.door, reached.at), self._orders(keys).may_ask
        attribution = Attribution(reached.door, dialogue.listener, roles, self.readings, may_ask)
        checks = CheckResults(self.connections.checker(*place), self.connections.watcher(*place), reached.at)
        branch, context = facts.default_branch, keys.ask.untrusted_context
        source = picture_source(self.settings)
        attached = AttachedPictures(reached.door, reached.at, dialogue.thread_as_read, attribution, source.show)
        return GitHubReader(reached.door, reached.at, branch, attribution, checks, attached, context)

    async def _join(
        self,
        reached: RepositoryAccess,
        facts: repository.Repository,
        *,
        keys: "Configuration",
        rooms: tuple[GitHubDialogue, GitWorkspace, CanaryAlarm, GitHubReader],
        mistake: str,
    ) -> ThreadContext:
        dialogue, workspace, alarm, reader = rooms
        subject = await dialogue.subject()
        base = subject.head or facts.head or CommitId("")
        bot = await self.connections.bot(reached.door)
        workflows = self.connections.may_push_workflows(bot)
        orders = replace(self._orders(keys), refusal=mistake, workflows=workflows, run=self.run)
        orders = replace(orders, progress_seconds=self.settings.github.progress_seconds)
        world, beside = self._world(reached, facts.id, dialogue.thread, keys=keys, alarm=alarm)
        place = ThreadLocation(facts.id, dialogue.thread, subject.title, base, facts.default_branch, subject.branch)
        location = replace(place, host=host_of(self.settings), pull=subject.pull)
        name, folder = f"{reached.at.owner}/{reached.at.name}", workspace.checkouts.shown_as
        job = job_of(keys, folder=folder, repository=name, clock=self.clock)
        context = ThreadContext(
            location,
            JobEnvironment(place_on_github(job, location), workspace, facts.head).at,
            GitJournal(reached.refs, facts.id, key=key_of(self.settings), clock=self.clock, beside=beside),
            dialogue,
            workspace,
            replace(world, repository=reader),
            orders,
            policy_of(keys, bot.id),
            GitHubPulls(reached.door, reached.at, bot),
            Telemetry(f"{facts.id}#{dialogue.thread}", self.clock, self.counters, collector_of(self.settings)).take,
            redactor=self.redactor,
            agents=partial(agents_of, workspace.mirror, facts.head) if facts.head else None,
            states=self.states,
        )
        dialogue.fence = partial(fence, context)
        return context

    def _world(
        self,
        reached: RepositoryAccess,
        number: RepositoryId,
        thread: ThreadNumber,
        *,
        keys: "Configuration",
        alarm: CanaryAlarm,
    ) -> tuple[SessionResources, Change]:
        spool = self.settings.data_dir / "transcripts"
        transcripts = SpooledTranscripts(reached.refs, number, thread, key=key_of(self.settings), spool=spool)
        ledger = Ledger(self._orders(keys).budget_usd)
        at_hand = HumanAvailability(answers=True, permits=keys.tools.requests == "comment")
        gate, web, model = gate_of(keys, sandboxed=True), web_of(keys, self.settings), chosen_of(keys, self.model)
        parts = (model, transcripts, self.clock, gate, ledger, f"{number:x}", at_hand, alarm, web)
        world = SessionResources(*parts, compact_at=keys.compaction.at_tokens)
        return world, transcripts.unsaved_files

    def _orders(self, keys: "Configuration") -> WorkSettings:
        given = self.settings.overrides
        return orders_of(keys, model=given.model, max_cost_usd=given.max_cost_usd)

    async def configuration(
        self, door: GitHubClient, at: repository.Address, branch: str
    ) -> tuple["Configuration", str]:
        """Return the configuration of the default branch, and what is wrong with it ("" for nothing).

        If it is wrong, no thread is carried on, and people who address the bot are told (PR3).
        """
        given = self.settings.overrides
        mistake = ""
        try:
            keys = configuration(await _read(door, at, branch, given.path) or "", given.path)
            gate_of(keys, sandboxed=True)  # also checks that its rules can be parsed
        except Misconfigured as error:
            keys, mistake = configuration(""), str(error)
        return keys.model_copy(update={"mention": given.mention}) if given.mention else keys, mistake

    def _manners(self, keys: "Configuration") -> DialogueSettings:
        approve = keys.approve
        return DialogueSettings(
            keys.mention,
            frozenset(keys.ask.bots),
            keys.ask.untrusted_context,
            policy_of(keys, 0).role,
            approve.users,
            approve.teams,
            self.settings.github.server_url,
        )


async def _read(door: GitHubClient, at: repository.Address, branch: str, path: str) -> str | None:
    """Return a text file of the default branch, or None. A pull request's author controls its branch (M2)."""
    content = await repository.file(door, at, path, branch)
    return None if content is None else content.decode(errors="replace")
