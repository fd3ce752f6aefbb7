"""The journaled costs of a thread."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from bot.core.notes import Heard
from bot.core.thread.entry_step import EntryStep
from bot.core.work import Consumption


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
        """Return the part after one more entry."""
        event, part = step.event, self
        if event.cost_usd is not None:
            by_session = {**part.by_session, event.session: part.by_session.get(event.session, 0.0) + event.cost_usd}
            part = replace(part, total_usd=(part.total_usd or 0.0) + event.cost_usd, by_session=by_session)
        if event.tokens_input or event.tokens_output:
            prompts, answers = part.tokens_by_session.get(event.session, (0, 0))
            tokens = {event.session: (prompts + event.tokens_input, answers + event.tokens_output)}
            part = replace(part, tokens_by_session={**part.tokens_by_session, **tokens})
        if isinstance(event, Heard) and event.budget_usd is not None:
            part = replace(part, budget_usd=event.budget_usd)
        return part

    @property
    def tokens(self) -> tuple[int, int]:
        """What all that is journaled has used, in tokens of prompts and of answers."""
        counts = self.tokens_by_session.values()
        return sum(prompts for prompts, _ in counts), sum(answers for _, answers in counts)

    def consumption(self, session: str) -> Consumption:
        """Return what is journaled that a session has used."""
        return Consumption(self.by_session.get(session, 0.0), *self.tokens_by_session.get(session, (0, 0)))
