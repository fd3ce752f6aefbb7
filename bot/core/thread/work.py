"""The parts of a thread's state about approved work (its results, its pull request, who does it), and about costs.

An `Executed` ends work, a `Published` says where it is, and a plan that is no longer in force ends what was under way.
Every entry may carry costs and tokens, which add up by session. Verbs ask for the newest work, and what sessions used.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from bot.core import moves, notes
from bot.core.gate import Move
from bot.core.moves import Executed, Published
from bot.core.notes import Operated, OtherTurn
from bot.core.thread import NEVER, EntryStep, require_entry
from bot.core.work import Consumption, PushedWork


@dataclass(frozen=True, slots=True)
class WorkState:
    newest: Executed | None = None
    was_finished: bool = False
    """Whether the work of the plan in force was finished once, so that its pull request may exist."""
    pushing: PushedWork | None = None
    """The commit that was about to be pushed to a pull request's branch for the plan in force. It may be there."""
    finished_operations: tuple[Operated, ...] = ()
    """The finished operations on issues of the plan in force, in the order of the plan."""
    published: Published | None = None
    """The newest pull request of this round."""
    pull_request_url: str = ""
    """URL of the thread's newest pull request; "" for none."""
    failed_at: datetime = NEVER
    finishing_ask: int = 0
    """The ask whose work the newest `finish` command finishes early, as far as it is done; 0 for none."""
    queued_ask: int = 0
    """The ask for which the thread shows that its session waits for a free slot; 0 for none."""
    branch_suffix: int = 0
    """A suffix of new branch names, so that they differ from branches that the journal forgot when it was set back;
    0 for none (A4b)."""
    run: str = ""
    """Who last journaled that they work on the thread: the id of a run of GitHub Actions, or the name that a process
    made up; "" if nobody did."""

    def apply(self, step: EntryStep) -> "WorkState":  # noqa: PLR0911 - one for each kind of entry
        event, part = step.event, self
        if step.ends_plan:
            part = replace(part, was_finished=False, pushing=None, finished_operations=())
        if event.run and event.run != part.run:
            part = replace(part, run=event.run)
        match event:
            case Executed():
                return replace(part, newest=event, was_finished=True)
            case Published(pull_request=url):
                return replace(part, published=event, pull_request_url=url)
            case moves.Closed():
                return replace(part, published=None)
            case moves.Failed():
                return replace(part, failed_at=step.at)
            case (
                moves.Requested(branch_suffix=suffix)
                | moves.PlanEnd(branch_suffix=suffix)
                | OtherTurn(branch_suffix=suffix)
            ) if suffix:
                return replace(part, branch_suffix=suffix)
            case OtherTurn(finish=ask) if ask:
                return replace(part, finishing_ask=ask)
            case notes.Queued(queued=ask):
                return replace(part, queued_ask=ask)
            case notes.Pushing(digest=digest, made=made) if digest == step.gate.digest:
                return replace(part, pushing=made)
            case Operated(digest=digest) if digest == step.gate.digest:
                return replace(part, finished_operations=(*part.finished_operations, event))
            case _:
                return part

    @property
    def current(self) -> Executed:
        """The newest finished work. Raises Broken if there is none."""
        return require_entry(self.newest, Move.EXECUTED)


@dataclass(frozen=True, slots=True)
class CostState:
    """What the sessions of a thread used, and what they may use."""

    total_usd: float | None = None
    """The journaled cost of the thread in US dollars; None if no cost was journaled."""
    by_session: Mapping[str, float] = field(default_factory=dict)
    """The journaled cost by session, in US dollars; under "" the cost that belongs to no session."""
    tokens_by_session: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """The journaled tokens by session: of prompts, and of answers."""
    budget_usd: float = 0.0
    """The budget that the newest `budget` command set; 0 for none."""

    def apply(self, step: EntryStep) -> "CostState":
        event, part = step.event, self
        if event.cost_usd is not None:
            by_session = {**part.by_session, event.session: part.by_session.get(event.session, 0.0) + event.cost_usd}
            part = replace(part, total_usd=(part.total_usd or 0.0) + event.cost_usd, by_session=by_session)
        if event.tokens_input or event.tokens_output:
            prompts, answers = part.tokens_by_session.get(event.session, (0, 0))
            tokens = {event.session: (prompts + event.tokens_input, answers + event.tokens_output)}
            part = replace(part, tokens_by_session={**part.tokens_by_session, **tokens})
        if isinstance(event, OtherTurn) and event.budget_usd is not None:
            part = replace(part, budget_usd=event.budget_usd)
        return part

    @property
    def tokens(self) -> tuple[int, int]:
        """The journaled tokens of all sessions: of prompts, and of answers."""
        counts = self.tokens_by_session.values()
        return sum(prompts for prompts, _ in counts), sum(answers for _, answers in counts)

    def consumption(self, session: str) -> Consumption:
        return Consumption(self.by_session.get(session, 0.0), *self.tokens_by_session.get(session, (0, 0)))
