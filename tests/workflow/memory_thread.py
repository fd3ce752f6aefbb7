"""The Dialogue port in memory: people talk, react, and answer."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from bot.core.approval import Candidate, Opinion, ShownPlan, Snapshot, Verdict, Way
from bot.core.comment import is_at_work, reasons
from bot.core.plan import PlanDocument
from bot.core.question import AnswerComment, AnswerSnapshot, Asking, Author
from bot.core.turn import Acknowledgment, Actor, Command, Role, Turn, Verb, parse, version_key
from bot.core.work import Review
from bot.ports import Clock, Dialogue, PostedComment
from tests.workflow.memory_ports import Life


@dataclass(slots=True)
class MemoryThread(Dialogue):
    """The Dialogue port. Each post is stored under its kind and ask, so that it is there once."""

    clock: Clock
    life: Life
    said: list[Turn] = field(default_factory=list)
    opinions: list[Candidate] = field(default_factory=list)
    replies: list[AnswerComment] = field(default_factory=list)
    posts: dict[tuple[str, int], str] = field(default_factory=dict)
    times: list[tuple[str, int]] = field(default_factory=list)
    """Each time that something was posted, also again."""
    posted_at: dict[str, datetime] = field(default_factory=dict)
    superseded: dict[str, str] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)
    signs: list[tuple[str, Acknowledgment]] = field(default_factory=list)
    shown_progress: dict[int, str] = field(default_factory=dict)
    closed_at: datetime | None = None
    deleted: set[str] = field(default_factory=set)
    """The plan comments that somebody deleted."""
    drifted: tuple[str, ...] = ()
    complete: bool = True
    """Whether everything that decides can be looked up."""
    newest: int = 0
    """The bot's newest comment that the journal does not know of."""

    # --- what people do

    def say(
        self, who: Actor, text: str, *, role: Role | None = Role.ADMIN, edited: bool = False, by_mail: bool = False
    ) -> Turn:
        """Somebody posts a comment, or sends it by mail."""
        key = f"comment-{len(self.said) + 1}"
        turn = Turn(key, who, text, self.clock.now(), role, edited=edited, version=version_key(key))
        turn = replace(turn, foreign=by_mail, strangers=by_mail, by_mail=by_mail)
        self.said.append(turn)
        return turn

    def edit(self, turn: Turn, text: str) -> None:
        at = self.clock.now()
        version = version_key(turn.key, at)
        self.said[self.said.index(turn)] = replace(turn, text=text, edited=True, foreign=True, version=version)

    def decide(self, who: Actor, opinion: Opinion = Opinion.APPROVE, *, role: Role = Role.ADMIN) -> None:
        self.opinions.append(Candidate(who, Way.REACTION, opinion, self.clock.now(), role))

    def answer(self, who: Actor, text: str, *, role: Role = Role.ADMIN) -> None:
        turn = self.say(who, text, role=role)
        self.replies.append(AnswerComment(turn.key, Author(who, role), turn.at, text))

    def texts(self, kind: str) -> list[str]:
        return [text for (each, _), text in self.posts.items() if each == kind]

    # --- the port

    async def turns(
        self,
        seen: Collection[str],
        heard_until: datetime | None = None,  # noqa: ARG002 - the port's
        *,
        may_act: Callable[[Turn], bool],
    ) -> Sequence[Turn]:
        new = (turn for turn in self.said if {turn.key, turn.version}.isdisjoint(seen))
        return [turn if turn.role is not None and may_act(turn) else replace(turn, text="") for turn in new]

    async def closed_since(self, moment: datetime) -> bool:
        return self.closed_at is not None and self.closed_at > moment

    async def acknowledge(self, turn: Turn, sign: Acknowledgment) -> None:
        if (turn.key, sign) not in self.signs:
            self.life.write(f"sign {sign}")
            self.signs.append((turn.key, sign))

    async def propose(self, plan: PlanDocument, ask: int) -> PostedComment:
        return self._post("plan", ask, plan.markdown)

    async def find_plan_comment(self, ask: int) -> str:
        return f"plan-{ask}" if ("plan", ask) in self.posts else ""

    async def supersede(self, shown: str, why: str) -> None:
        if self.superseded.get(shown) != why:
            self.life.write("supersede")
            self.superseded[shown] = why

    async def show_work_begun(self, plan: PlanDocument, shown: str, line: str) -> None:  # noqa: ARG002
        if line not in self.begun:
            self.life.write("begin")
            self.begun.append(line)

    async def snapshot(
        self,
        plan: PlanDocument,  # noqa: ARG002
        shown: str,
        *,
        onto: str = "",  # noqa: ARG002
        pushed: str = "",  # noqa: ARG002
        begun: Sequence[str] = (),  # noqa: ARG002
    ) -> Snapshot:
        since, words = self.posted_at[shown], filter(None, map(_candidate, self.said))
        opinions = tuple(each for each in (*self.opinions, *words) if each.at > since)
        is_open = self.closed_at is None
        live = Snapshot(
            ShownPlan(since, hidden=shown in self.deleted), opinions, open=is_open, closed_at=self.closed_at
        )
        return replace(live, drifted=self.drifted, complete=self.complete)

    async def explain(self, plan: PlanDocument, verdict: Verdict) -> None:
        self._post("explanation", plan.plan, reasons(verdict))

    async def find_unrecorded_comment(self, position: int, ask: int) -> int:  # noqa: ARG002
        return self.newest

    async def warn_of_rewind(self, number: int, text: str) -> datetime:
        at = self._post("warning", number, text).at
        assert at is not None
        return at

    def ignore_comments_until(self, number: int) -> None:
        self.newest = 0 if self.newest <= number else self.newest

    async def ask(self, asking: Asking, ask: int, *, who: str) -> PostedComment:  # noqa: ARG002
        return self._post("question", ask, asking.questions[0].text)

    async def answers(self, asking: Asking, shown: str, *, who: str, may: Callable[[Author], bool]) -> AnswerSnapshot:  # noqa: ARG002
        words = tuple(each for each in self.replies if each.at > self.posted_at[shown] and may(each.by))
        return AnswerSnapshot(words=words, open=self.closed_at is None, complete=self.complete)

    async def explain_ignored_answers(self, text: str, ask: int) -> None:
        self._post("ignored answers", ask, text)

    async def fold_question(self, shown: str) -> None:
        self.superseded[shown] = "answered"

    async def progress(self, text: str, ask: int) -> None:
        self.shown_progress[ask] = text

    async def end_progress(self, text: str, ask: int) -> None:
        if ask in self.shown_progress:
            self.shown_progress[ask] = text

    async def end_abandoned_progress(self, text: str) -> None:
        self.shown_progress |= {ask: text for ask, shown in self.shown_progress.items() if is_at_work(shown)}

    async def post(self, text: str, ask: int) -> None:
        self._post("text", ask, text)

    async def review(self, review: Review, ask: int) -> None:
        self._post("review", ask, review.text)

    async def reply(self, turns: Collection[str], text: str, ask: int) -> None:  # noqa: ARG002
        self._post("reply", ask, text)

    def _post(self, kind: str, ask: int, text: str) -> PostedComment:
        name = f"{kind}-{ask}"
        if self.posts.get((kind, ask)) != text:
            self.life.write(f"post {kind}")
            self.posts[kind, ask] = text
            self.times.append((kind, ask))
            self.posted_at.setdefault(name, self.clock.now())
        return PostedComment(name, at=self.posted_at[name])


def _candidate(turn: Turn) -> Candidate | None:
    """Return the opinion that a comment gives as a command, or None. A review gives none."""
    said = None if turn.key.startswith("review") else parse(turn.text)
    if not isinstance(said, Command) or said.verb not in {Verb.APPROVE, Verb.REJECT}:
        return None
    opinion = Opinion.APPROVE if said.verb is Verb.APPROVE else Opinion.REJECT
    digest = said.argument if said.verb is Verb.APPROVE else ""
    way = Way.MAIL if turn.by_mail else Way.COMMAND
    return Candidate(turn.actor, way, opinion, turn.at, turn.role, digest=digest, edited=turn.edited)
