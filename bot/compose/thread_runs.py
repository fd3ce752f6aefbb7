"""Creates the context of one thread on GitHub from live facts."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.metadata import version
from typing import TYPE_CHECKING

from bot.agent.limits import Ledger
from bot.agent.resources import HumanAvailability, SessionResources
from bot.compose.job_environment import (
    JobEnvironment,
    fetch_image_block,
    job_of,
    picture_fetcher_of,
    place_on_github,
    plant_canary,
)
from bot.compose.parts import (
    agents_of,
    collector_of,
    committer_of,
    configured_model,
    egress_route_of,
    gate_of,
    sandbox_limits_of,
    server_host,
    web_of,
)
from bot.compose.receipts import CheckedReceipts, receipt_key
from bot.config.environment import configuration
from bot.config.settings import RECEIPTS, Settings
from bot.core.checks import PublishingFacts
from bot.core.configuration import Configuration, MaintenanceTask
from bot.core.errors import Refused
from bot.core.names import CommitId, RepositoryId, ThreadAddress, ThreadNumber
from bot.core.secrets.redaction import CanaryAlarm, Redactor
from bot.core.turn import Actor
from bot.core.work import ThreadLocation
from bot.github import repository
from bot.github.attached_pictures import AttachedPictures
from bot.github.checks import PullCheckReader, PullChecksGateway
from bot.github.deliveries import KnownBot
from bot.github.dialogue import GitHubDialogue
from bot.github.permissions import Roles
from bot.github.publishing_facts import PublishingReader
from bot.github.pulls import ApprovalChecks, GitHubPulls
from bot.github.repository import repository_by_name
from bot.github.repository_reader import GitHubReader
from bot.github.tasks import IssueOperations, TaskGateway
from bot.github.thread_quotes import Attribution
from bot.github.turns import BotIdentity, ParsedTextCache
from bot.ports import Clock, RepositoryRules
from bot.receipts.envelope import is_receipt_of, sign_statement, with_current_key_file
from bot.service.configurations import Configurations
from bot.service.connections import WRITING_CHECKS, Connections, RepositoryAccess, key_of, speaks_as_job
from bot.service.overview.recorder import RecordingJournal
from bot.store.git_journal import GitJournal
from bot.store.receipt_refs import Issuer, ReceiptRefs
from bot.store.sealing import marker_key
from bot.store.transcripts import SpooledTranscripts
from bot.telemetry import Counters, Telemetry
from bot.workflow.thread_run import StateCache, ThreadJournal, ThreadRun, WorkConditions
from bot.workspace.mirror import Mirror, mirrors
from bot.workspace.publish import Publishing, Screen
from bot.workspace.remote import RemoteRepository
from bot.workspace.workspace import GitWorkspace

if TYPE_CHECKING:
    from bot.agent.model.anthropic_model import AnthropicModel
    from bot.service.overview.recorder import Recorder


@dataclass(frozen=True, slots=True)
class ThreadRuns:
    """Creates the runs of threads. Caches only parsed texts and folded journals, so nothing can be stale."""

    settings: Settings
    clock: Clock
    run: str
    """The GitHub Actions run that this process is a job of, or a name of its own (E4)."""
    redactor: Redactor
    counters: Counters
    connections: Connections
    configurations: Configurations
    model: "AnthropicModel"
    recorder: "Recorder | None"
    parsed_texts: ParsedTextCache = field(default_factory=ParsedTextCache, init=False)
    states: StateCache = field(default_factory=StateCache, init=False)
    """The states of all threads as of the last reading of their journals."""
    known_bots: dict[RepositoryId, KnownBot] = field(default_factory=dict, init=False)
    """The bot's account and mention in each repository, as the last check there read them."""

    @asynccontextmanager
    async def open(self, address: ThreadAddress) -> AsyncIterator[ThreadRun]:
        """Yield a run of one thread, built from live facts."""
        at, access = repository.Address.of_thread(address), await self.connections.reach_thread(address)
        facts = await repository.repository(access.client, at)
        if facts.id != address.repository:
            raise Refused("the delivery names another repository", where=at.path, fix="check the webhook's sender")
        if facts.address != at:  # the repository was renamed since, and git follows no redirect
            access = await self.connections.reach(address.installation, address.repository, facts.address)
        newest = await self.configurations.newest(access.client, facts)
        keys, mistake, blob = await self.configurations.pin_people(access, facts.id, newest)
        bot = await self.connections.bot(access.client)
        self.known_bots[facts.id] = KnownBot(bot.id, keys.mention)
        rules = Publishing(Screen(self.redactor, tuple(keys.secrets.examples)), committer_of(self.settings, bot))
        source, route = await self._source(access), egress_route_of(self.settings)
        workspace = GitWorkspace.on(source, self.settings.data_dir, sandbox_limits_of(keys), rules, route=route)
        try:
            with plant_canary(self.settings.data_dir) as alarm:
                for value, kind in alarm.named_values:
                    self.redactor.learn(value, kind)
                parts = _Parts(self, access, facts, keys, bot, address, alarm, blob, workspace.mirror)
                async with access.kept_fresh(), parts.dialogue.hold_progress():
                    yield await parts.thread_run(workspace, mistake)
        finally:
            await workspace.close()

    async def _source(self, access: RepositoryAccess) -> RemoteRepository:
        """Return the remote that git fetches from. The first fetch of a large repository omits old contents."""
        if Mirror.of(access.remote, mirrors(self.settings.data_dir)).path.exists():
            return access.remote
        try:
            size = (await repository_by_name(access.client, access.at)).kilobytes
        except Refused:  # an unknown size does not prevent work
            return access.remote
        return replace(access.remote, partial=size > self.settings.partial_clone_mb * 1024)


@dataclass(slots=True)
class _Parts(RepositoryRules):
    """The parts of one thread's run. Each part is made from earlier ones."""

    shared: ThreadRuns
    access: RepositoryAccess
    facts: repository.Repository
    keys: Configuration
    bot: Actor
    address: ThreadAddress
    alarm: CanaryAlarm
    configuration_blob: str
    mirror: Mirror
    journal: ThreadJournal = field(init=False)
    dialogue: GitHubDialogue = field(init=False)
    reader: GitHubReader = field(init=False)
    resources: SessionResources = field(init=False)

    def __post_init__(self) -> None:
        shared, number, thread = self.shared, self.facts.id, ThreadNumber(self.address.number)
        key, refs = key_of(shared.settings), self.access.refs
        spool = shared.settings.data_dir / "transcripts"
        transcripts = SpooledTranscripts(refs, number, thread, key=key, spool=spool)
        journal = GitJournal(refs, number, key=key, clock=shared.clock, beside=transcripts.unsaved_files)
        address = replace(self.address, owner=self.facts.address.owner, name=self.facts.address.name)
        recorded = RecordingJournal(journal, address, shared.recorder)
        self.journal = ThreadJournal(recorded, number, thread, shared.states)
        self.dialogue = self._dialogue(thread)
        self.reader = self._reader()
        self.resources = self._session_resources(transcripts)

    async def thread_run(self, workspace: GitWorkspace, mistake: str) -> ThreadRun:
        """Return a run of the thread, as GitHub shows it now. `mistake` is that of the configuration; "" for none."""
        shared, access, facts, thread = self.shared, self.access, self.facts, self.dialogue.thread
        subject = await self.dialogue.subject()
        base = subject.head or facts.head or CommitId("")
        name, folder = access.at.full_name, workspace.checkouts.shown_as
        job = job_of(self.keys, folder=folder, repository=name, clock=shared.clock)
        spans = Telemetry(f"{facts.id}#{thread}", shared.clock, shared.counters, collector_of(shared.settings))
        place = ThreadLocation(facts.id, thread, subject.title, base, facts.default_branch, subject.head_branch)
        location = replace(place, host=server_host(shared.settings), name=name, pull=subject.pull)
        checks = PullCheckReader(access.client, access.at, self.bot, self.reader.results)
        return ThreadRun(
            location=location,
            environment=JobEnvironment(place_on_github(job, location), workspace, facts.head).at,
            journal=self.journal,
            dialogue=self.dialogue,
            workspace=workspace,
            resources=self.resources,
            pulls=GitHubPulls(access.client, access.at, self.bot),
            receipts=self._receipts(),
            tasks=self._task_gateway(),
            checks=PullChecksGateway(checks, self.reader.attribution),
            rules=self,
            configuration=self.keys,
            conditions=await self._conditions(mistake),
            policy=self.keys.approve.policy(self.bot.id),
            listener=spans.receive,
            redactor=shared.redactor,
        )

    async def agent_types(self) -> Mapping[str, str]:
        return await agents_of(self.mirror, self.facts.head) if self.facts.head else {}

    async def read_task(self, name: str) -> MaintenanceTask | None:
        return await self.shared.configurations.read_task(self.access.client, self.access.at, name)

    async def publishing_facts(self, branch: str) -> PublishingFacts:
        settings = self.shared.settings
        signs, tries_pulls = settings.signing_key is not None, not settings.github.as_app or bool(self.access.lacks)
        return await PublishingReader(self.access.client, self.access.at, signs, tries_pulls).read(branch)

    def _receipts(self) -> CheckedReceipts:
        """Return where receipts are kept: in the repository, in a file here, and as check runs that name them."""
        settings = self.shared.settings
        key = receipt_key(settings)
        issuer = Issuer(
            partial(sign_statement, key=key),
            partial(is_receipt_of, key=key.public),
            partial(with_current_key_file, current=key.public),
        )
        refs = ReceiptRefs(self.access.refs, issuer, self.shared.clock, settings.data_dir / RECEIPTS)
        writer = self.shared.connections.client_with(WRITING_CHECKS, self.address.installation, self.address.repository)
        return CheckedReceipts(refs, ApprovalChecks(writer, self.access.at))

    async def have_rules_changed(self) -> bool:
        configurations = self.shared.configurations
        current = await configurations.read(self.access.client, self.access.at)
        keys, mistake, _ = await configurations.pin_people(self.access, self.facts.id, current)
        return bool(mistake) or keys.approve != self.keys.approve

    def _session_resources(self, transcripts: SpooledTranscripts) -> SessionResources:
        keys, shared = self.keys, self.shared
        return SessionResources(
            model=configured_model(keys, shared.model),
            transcripts=transcripts,
            clock=shared.clock,
            gate=gate_of(keys, sandboxed=True),
            ledger=Ledger(keys.budget.session_usd),
            user_id=f"{self.facts.id:x}",
            availability=HumanAvailability(answers=True, permits=keys.tools.requests == "comment"),
            alarm=self.alarm,
            web=web_of(keys, shared.settings),
            compact_at=keys.compaction.at_tokens,
            repository=self.reader,
        )

    def _reader(self) -> GitHubReader:
        shared, client, at = self.shared, self.access.client, self.access.at
        roles, may_ask = Roles(client, at), self.keys.ask.may_ask
        attribution = Attribution(client, self.dialogue.identity, roles, shared.parsed_texts, may_ask)
        checks = shared.connections.check_results(self.address.installation, self.address.repository, at)
        show = partial(fetch_image_block, picture_fetcher_of(shared.settings))
        attached = AttachedPictures(client, at, self.dialogue.thread_as_read, attribution, show)
        branch, quotes = self.facts.default_branch, self.keys.ask.untrusted_context
        return GitHubReader(client, at, branch, attribution, checks, attached, quotes)

    def _task_gateway(self) -> TaskGateway:
        """Return access to GitHub for scheduled tasks. This thread's fence guards its comments."""
        client, at = self.access.client, self.access.at
        key = marker_key(key_of(self.shared.settings), self.facts.id)
        operations = IssueOperations(client, at, self.bot, key, self.journal)
        configuration = self.shared.settings.overrides.path
        return TaskGateway(client, at, self.reader.results, self.reader.attribution, operations, configuration)

    def _dialogue(self, thread: ThreadNumber) -> GitHubDialogue:
        shared, keys, github = self.shared, self.keys, self.shared.settings.github
        return GitHubDialogue(
            self.access.client,
            self.access.at,
            thread,
            BotIdentity(self.bot, keys.mention, frozenset(keys.ask.bots)),
            marker_key(key_of(shared.settings), self.facts.id),
            self.facts.default_branch,
            shared.parsed_texts,
            self.journal,
            keys,
            github.server_url,
            github.label_threads,
            shared.connections.members(self.address.installation),
            self.address.told,
        )

    async def _conditions(self, mistake: str) -> WorkConditions:
        connections, settings = self.shared.connections, self.shared.settings
        return WorkConditions(
            refusal=mistake,
            configuration_blob=self.configuration_blob,
            progress_seconds=settings.github.progress_seconds,
            workflows=await connections.may_push_workflows(self.access.client, self.bot),
            workflows_wait=speaks_as_job(self.bot),
            run=self.shared.run,
            version=_installed_version(),
        )


@cache
def _default_configuration() -> Configuration:
    return configuration("")


def checked_configuration(text: str, path: str) -> Configuration:
    """Return the configuration in the text of a file. Raises Misconfigured also for rules that cannot be parsed."""
    if not text:
        return _default_configuration()
    keys = configuration(text, path)
    gate_of(keys, sandboxed=True)
    return keys


@cache
def _installed_version() -> str:
    """Return the version of this program, read once, because parsing the metadata takes longer than most of a check."""
    return version("plangate")
