"""What threads cost: by day, repository, person, and model, added up from the journals' bookings."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date
from math import fsum

from bot.service.overview.agent_tree import session_at_work, session_models
from bot.service.overview.thread_history import JournalStep
from bot.service.overview.views import CostLine, Costs


@dataclass(frozen=True, slots=True)
class Booking:
    """What one journal entry first accounts for."""

    day: date
    """The day (UTC) on which it was journaled."""
    repository: str
    person: str
    """Login of the person who made the newest request; "" if there was none."""
    model: str
    """The main model of the session; "" if the journal does not name it."""
    cost_usd: float
    tokens_input: int
    tokens_output: int


def bookings(repository: str, steps: Sequence[JournalStep]) -> tuple[Booking, ...]:
    """Return every booking in a journal, oldest first. Their sum is what the thread has cost."""
    models = session_models(steps)
    rows = []
    for step in steps:
        event, request = step.event, step.after.request.newest
        if event.cost_usd is None and not (event.tokens_input or event.tokens_output):
            continue
        person = request.said.actor.login if request is not None else ""
        model = models.get(event.session or session_at_work(step.before), "")
        day = step.entry.at.astimezone(UTC).date()
        amounts = event.cost_usd or 0.0, event.tokens_input, event.tokens_output
        rows.append(Booking(day, repository, person, model, *amounts))
    return tuple(rows)


def add_up(bookings: Iterable[Booking], since: date | None = None) -> Costs:
    """Return the costs of all bookings since a day."""
    recent = [booking for booking in bookings if since is None or booking.day >= since]
    return Costs(
        since=since,
        total=_line("", recent),
        days=tuple(sorted(_lines(recent, lambda booking: booking.day.isoformat()), key=lambda line: line.name)),
        repositories=_by_cost(recent, lambda booking: booking.repository),
        people=_by_cost(recent, lambda booking: booking.person),
        models=_by_cost(recent, lambda booking: booking.model),
    )


def _by_cost(bookings: Iterable[Booking], name: Callable[[Booking], str]) -> tuple[CostLine, ...]:
    return tuple(sorted(_lines(bookings, name), key=lambda line: (-line.cost_usd, line.name)))


def _lines(bookings: Iterable[Booking], name: Callable[[Booking], str]) -> Iterable[CostLine]:
    groups: dict[str, list[Booking]] = defaultdict(list)
    for booking in bookings:
        groups[name(booking)].append(booking)
    return [_line(key, group) for key, group in groups.items()]


def _line(name: str, bookings: Sequence[Booking]) -> CostLine:
    return CostLine(
        name,
        cost_usd=fsum(booking.cost_usd for booking in bookings),
        tokens_input=sum(booking.tokens_input for booking in bookings),
        tokens_output=sum(booking.tokens_output for booking in bookings),
    )
