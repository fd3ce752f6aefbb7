"""The Dialogue port on a GitHub thread. Joins the reading and writing parts of this package, and decides nothing."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import urlsplit

from bot.core import comment, marker
from bot.core.approval import Snapshot, Verdict
from bot.core.configuration import Configuration
from bot.core.errors import PlangateError
from bot.core.markdown.inert import inert_markdown
from bot.core.marker import Key, Marker
from bot.core.names import ThreadNumber, is_branch
from bot.core.plan import PlanDocument
from bot.core.question import AnswerSnapshot, Asking, Author
from bot.core.reply_text import question_text
from bot.core.turn import Acknowledgment, Turn
from bot.core.work import Review
from bot.github.activity import asked_before
from bot.github.answers import AnswerReader
from bot.github.client import GitHubClient
from bot.github.comments import BOX, Comments, Progress
from bot.github.permissions import Roles
from bot.github.pull_facts import PullReader, pull_text
from bot.github.repository import Address
from bot.github.reviews import Replies, Reviews
from bot.github.snapshot import SnapshotReader
from bot.github.tasks import OPEN_LABEL, label_as_open, unlabel_as_open
from bot.github.thread_quotes import ThreadQuotes, with_older_comments
from bot.github.threads import GitHubThread, Threads
from bot.github.turns import MARKS, BotIdentity, ParsedTextCache, TurnReader, has_strangers
from bot.ports import Dialogue, PostedComment, ThreadFence

FRESH_AGE: Final = timedelta(minutes=1)
"""Maximum age of a post that is acknowledged before its turns are read. An earlier check may have seen an older one."""
_log: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class GitHubDialogue(Dialogue):
    """The conversation on one thread. `base` is the branch that plans for an issue are made for."""

    client: GitHubClient
    address: Address
    thread: ThreadNumber
    identity: BotIdentity
    key: Key
    base: str
    parsed_texts: ParsedTextCache
    fence: ThreadFence
    """Checked just before anything is posted (E4)."""
    configuration: Configuration = Configuration()
    server_url: str = ""
    """The server of GITHUB_SERVER_URL. Links to it may stay in what is posted."""
    label_threads: bool = False
    """Whether open threads that the bot works on carry a label, for the conditions of the Action's workflow."""
    members: GitHubClient | None = None
    """Client that looks up team membership. None: the same as `client`."""
    told: str = ""
    """Key of the post that the delivery reported, or ""."""
    comments: Comments = field(init=False)
    _threads: Threads = field(init=False)
    _progress: Progress = field(init=False)
    _read: GitHubThread | None = None
    _fresh_thread: tuple[GitHubThread, Roles] | None = field(default=None, init=False)
    """The thread as `subject` read it, with the roles looked up since, until `turns` uses it."""
    _signed: set[tuple[str, Acknowledgment]] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self.comments = Comments(self.client, self.address, self.thread, self.identity.bot, self.key, self.fence)
        self._threads = Threads(self.client, self.address)
        self._progress = Progress(self.comments)

    async def subject(self) -> GitHubThread:
        """Return the thread as it is now, once it shows what the delivery reported. Raises Missing.

        A pull request whose head is the default branch is returned without its head, because work never goes onto the
        default branch. So is one whose head has a name that git refuses to create, such as ``-x``.
        """
        self._read = await self._threads.read(self.thread, self.told)
        self._fresh_thread = self._read, self._roles()
        if self._read.head_branch == self.base or not is_branch(self._read.head_branch):
            return replace(self._read, head=None, head_branch="")
        return self._read

    async def turns(
        self, seen: Collection[str], heard_until: datetime | None = None, *, may_act: Callable[[Turn], bool]
    ) -> Sequence[Turn]:
        """Return the unseen turns, oldest first. Uses one query for the thread and one role look-up for each author.

        The first time, these are the turns of the thread as `subject` read it.
        """
        thread, roles = self._fresh_thread or (await self._threads.read(self.thread), self._roles())
        self._fresh_thread = None
        self._read = await self._threads.back_to(thread, seen, heard_until)
        if self._read.closed and OPEN_LABEL in self._read.labels and self.label_threads:
            await unlabel_as_open(self.client, self.address, self.thread)
        turns = await TurnReader(self.identity, roles, self.parsed_texts, may_act).turns(self._read, seen)
        if not self.configuration.ask.untrusted_context or all(turn.aside for turn in turns):
            return turns
        others_speak = await has_strangers(self._read, self.identity, roles)
        return [replace(turn, strangers=(turn.strangers or others_speak) and not turn.aside) for turn in turns]

    async def thread_as_read(self) -> GitHubThread:
        """Return the thread as it was when its turns were read."""
        self._read = self._read or await self._threads.read(self.thread)
        return self._read

    async def context(self, requested: Collection[str] = (), planned: Collection[str] = ()) -> str:
        """Return the pull request, if it is one, and a quotation of the thread as it was when its turns were read."""
        if not self.configuration.ask.untrusted_context:
            return ""
        quotes = self._quotes(await self._thread_to_quote(), requested)
        quoted = await asyncio.to_thread(quotes.text)  # Markdown that anybody may have written
        pull = await self._pull(planned) if quotes.thread.pull else ""
        return await asyncio.to_thread(self.client.redactor.redact, "\n\n".join(filter(None, (pull, quoted))))

    async def hidden_fragments(self, turn: Turn) -> Sequence[str]:
        """Return the invisible fragments of the quoted thread, except those of the turn itself."""
        if not self.configuration.ask.untrusted_context:
            return ()
        quotes = self._quotes(await self._thread_to_quote(), ["issue" if turn.mark else turn.key])
        return await asyncio.to_thread(quotes.hidden_fragments)

    async def closed_since(self, moment: datetime) -> bool:
        """Return whether the thread was closed after a moment, as of when its turns were read."""
        thread = await self.thread_as_read()
        return thread.closed_at is not None and thread.closed_at > moment

    async def asked_before(self, turn: Turn) -> Collection[str]:
        """Return the requests that the turn's author made earlier on the same day, on all threads of the repository."""
        try:
            requests = asked_before(self.client, self.address, self.identity, turn, parsed_texts=self.parsed_texts)
            return {f"{thread}/{key}" async for thread, key in requests}
        except PlangateError as error:
            _log.warning("a person's requests of this day cannot be counted: %s", error)
            return ()

    async def acknowledge(self, turn: Turn, sign: Acknowledgment) -> None:
        """Add a reaction to a turn, and label its thread if the turn was accepted. Doing it twice changes nothing."""
        await self._sign(turn.key, sign)
        if sign is Acknowledgment.SEEN and self.label_threads and self._read and not self._read.closed:
            if OPEN_LABEL not in self._read.labels:
                await label_as_open(self.client, self.address, self.thread)
            self._read = replace(self._read, labels=self._read.labels | {OPEN_LABEL})

    async def acknowledge_reported(self, *, may_ask: Callable[[Turn], bool]) -> None:
        """Add 👀 to the post that a delivery has just reported, if it is a turn of somebody who may ask.

        This needs only the thread and the author's role, so it comes before everything that takes longer (PR3). `turns`
        then returns the same turn. Skips a post older than FRESH_AGE, because an earlier check may have seen it.
        """
        if self._fresh_thread is None:
            return
        thread, roles = self._fresh_thread
        reported = next((post for post in thread.everything() if self.told in {post.key, *post.aliases}), None)
        if reported is None or self.client.clock.now() - reported.at > FRESH_AGE:
            return
        alone = replace(thread, labels=frozenset(), assignees=frozenset(), moved=False)
        others = {post.key for post in thread.everything()} - {reported.key}
        for turn in await TurnReader(self.identity, roles, self.parsed_texts, may_ask).turns(alone, others):
            if turn.key == reported.key and may_ask(turn):
                await self._sign(turn.key, Acknowledgment.SEEN)

    async def _sign(self, key: str, sign: Acknowledgment) -> None:
        """Add a reaction, once in this check."""
        if (key, sign) not in self._signed:
            await self.comments.sign(key, sign)
            self._signed.add((key, sign))

    async def propose(self, plan: PlanDocument, ask: int) -> PostedComment:
        """Post the plan as one comment, and return the comment's node id and page."""
        posted = await self.comments.put("plan", ask, self._plan(plan), digest=plan.digest)
        return PostedComment(posted.node, posted.url)

    async def find_plan_comment(self, ask: int) -> str:
        """Return the node id of the comment that shows the plan of an ask, found by its marker, or ""."""
        posted = await self.comments.find("plan", ask)
        return posted.node if posted else ""

    async def supersede(self, shown: str, why: str) -> None:
        """Write above the plan comment what replaced it, and fold it as outdated."""
        await self.comments.supersede(shown, why)

    async def show_work_begun(self, plan: PlanDocument, shown: str, line: str) -> None:
        """Show above the plan that its work has begun, so that older approvals cannot pass for new ones.

        This edit is newer than those approvals. An edit that the journal does not account for voids them (A2, A4b).
        """
        await self.comments.rewrite(shown, self._text_with_work_begun(plan, line))

    async def snapshot(
        self, plan: PlanDocument, shown: str, *, onto: str = "", pushed: str = "", begun: Sequence[str] = ()
    ) -> Snapshot:
        """Return a live snapshot of everything that decides about this plan; an incomplete one on failure (A1, A3)."""
        reader = SnapshotReader(
            threads=self._threads,
            identity=self.identity,
            branch=self.base,
            roles=self._roles,
            posted=self._plan,
            parsed_texts=self.parsed_texts,
            approve=self.configuration.approve.role,
            onto=onto,
            pushed=pushed,
            begun=tuple(self._text_with_work_begun(plan, line) for line in begun),
        )
        return await reader.read(plan, shown)

    async def explain(self, plan: PlanDocument, verdict: Verdict) -> None:
        """Post, in one comment per plan, why the plan is not approved (A5)."""
        text = f"Plan {plan.plan} ({plan.short_digest}) waits: {comment.reasons(verdict)}."
        await self.comments.put("waits", plan.plan, text, digest=plan.digest)

    async def find_unrecorded_comment(self, position: int, ask: int) -> int:
        """Return the id of the bot's newest comment that is newer than the journal, or 0 (A4b)."""
        own_comments = self._own_comments(await self.thread_as_read())
        return max((number for number, _, mark in own_comments if mark.is_ahead(position, ask)), default=0)

    async def warn_of_rewind(self, number: int, text: str) -> datetime:
        """Post once per comment that the journal is older than that comment. Return when the warning was posted."""
        return (await self.comments.put("ahead", 0, self._inert(text), digest=marker.digest_of(str(number)))).at

    def ignore_comments_until(self, number: int) -> None:
        """Ignore the bot's comments up to that id in later searches."""
        self.comments.after = number

    async def ask(self, asking: Asking, ask: int, *, who: str) -> PostedComment:
        """Post a question as one comment, and return the comment's node id, page, and time."""
        await self._progress.finish()
        posted = await self.comments.put("question", ask, self._question(asking, who))
        return PostedComment(posted.node, posted.url, posted.at)

    async def answers(self, asking: Asking, shown: str, *, who: str, may: Callable[[Author], bool]) -> AnswerSnapshot:
        """Return a live snapshot of the question's boxes, their edits, and later comments; incomplete on failure."""
        reader = AnswerReader(self._threads, self.identity, self._roles(), self.parsed_texts, may)
        return await reader.read(self.thread, shown, self._question(asking, who), asking.boxes)

    async def explain_ignored_answers(self, text: str, ask: int) -> None:
        """Post once per question why no answer counts yet."""
        await self.comments.put("unsettled", ask, text)

    async def fold_question(self, shown: str) -> None:
        """Fold the comment of a question. Does nothing if the comment is gone."""
        await self.comments.fold(shown)

    async def progress(self, text: str, ask: int) -> None:
        """Show how far the work is. Best effort: never raises."""
        await self._progress.show(self._inert(text), ask)

    async def end_progress(self, text: str, ask: int) -> None:
        """Replace the progress of an ask by its last state, if this process or one that died has shown any."""
        was_shown = any((mark.kind, mark.ask) == ("progress", ask) for *_, mark in self._own_comments(self._read))
        if self._progress.shows(ask) or was_shown:
            await self.progress(text, ask)

    async def end_abandoned_progress(self, text: str) -> None:
        """Replace each progress comment that still shows work of a process that died. Never raises."""
        for _, body, mark in self._own_comments(self._read):
            is_left = mark.kind == "progress" and not self._progress.has_shown(mark.ask)
            if is_left and comment.is_at_work(marker.without(body)):
                await self.progress(text, mark.ask)

    async def post(self, text: str, ask: int) -> None:
        """Post a text on the thread, once for each ask, after the last progress update."""
        await self._progress.finish()
        await self.comments.put("tell", ask, self._inert(text))

    async def review(self, review: Review, ask: int) -> None:
        """Post a review of the pull request, once for each ask, after the last progress update."""
        await self._progress.finish()
        await Reviews(self.comments, self._inert).put(review, ask)

    async def reply(self, turns: Collection[str], text: str, ask: int) -> None:
        """Reply in each review thread that contains a comment of these turns, once for each ask."""
        await Replies(self.comments).put(turns, self._inert(text), ask)

    @asynccontextmanager
    async def hold_progress(self) -> AsyncIterator[None]:
        """Show the final progress when the block ends normally.

        If the block raises, show nothing more: another process may have taken over the thread and posted newer progress
        (E4).
        """
        try:
            yield
            await self._progress.finish()
        finally:
            await self._progress.drop()

    def _own_comments(self, thread: GitHubThread | None) -> Iterator[tuple[int, str, Marker]]:
        """Yield id, text, and marker of each comment that the bot made on a thread, without those to be ignored."""
        for post in thread.comments if thread else ():
            number, mark = int(post.key.removeprefix("comment-")), marker.parse(post.body)
            if mark is None or post.actor.id != self.identity.bot.id or number <= self.comments.after:
                continue
            if mark.thread == self.thread and mark.holds(self.key.mac):
                yield number, post.body, mark

    def _plan(self, plan: PlanDocument) -> str:
        """Return the comment of a plan exactly as it is posted, so that the two can be compared."""
        return self.client.redactor.redact(plan_comment(plan, self.identity.mention))

    def _text_with_work_begun(self, plan: PlanDocument, line: str) -> str:
        return self.client.redactor.redact(f"{line}\n\n{plan_comment(plan, self.identity.mention)}")

    def _question(self, asking: Asking, who: str) -> str:
        return self.client.redactor.redact(question_text(asking, who))

    def _inert(self, text: str) -> str:
        """Return a text made inert, without secrets.

        Redacts secrets before and after, because making a text inert can join a split secret.
        """
        clean = self.client.redactor.redact
        return clean(inert_markdown(clean(text), {urlsplit(self.server_url).netloc} - {""}))

    async def _thread_to_quote(self) -> GitHubThread:
        """Return the thread as its turns were read, with as many older comments as are quoted."""
        self._read = await with_older_comments(self._threads, await self.thread_as_read())
        return self._read

    def _quotes(self, thread: GitHubThread, requested: Collection[str]) -> ThreadQuotes:
        own = frozenset("issue" if key.startswith(MARKS) else key for key in requested)
        return ThreadQuotes(thread, self.parsed_texts, self.identity, own)

    async def _pull(self, planned: Collection[str]) -> str:
        """Return the pull request as text, with the lines that the newest review among these turns is about."""
        reviews = self._read.reviews if self._read else ()
        requested = next((review.node for review in reversed(reviews) if review.key in planned), "")
        return pull_text(await PullReader(self.client, self.address).read(self.thread, requested))

    def _roles(self) -> Roles:
        approvers = self.configuration.approve.users, self.configuration.approve.teams
        return Roles(self.client, self.address, *approvers, self.members)


def plan_comment(plan: PlanDocument, mention: str) -> str:
    """Return the comment of a plan without its marker. The same document gives the same text (PR5)."""
    return comment.plan_text(plan, how_to_decide(plan, mention))


def how_to_decide(plan: PlanDocument, mention: str) -> str:
    """Return how to approve, reject, and revise exactly this plan, with the one box."""
    return (
        "### Decide\n\n"
        f"{BOX}\n\n"
        "Or react to this comment: 👍 or 🚀 approves, 👎 rejects, 😕 asks for a revision. "
        f"Or comment `{mention} approve {plan.short_digest}`, `{mention} reject` or `{mention} revise HOW`."
    )
