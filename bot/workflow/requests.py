"""A request: the commit that it begins on, its text if it repeats an earlier one, and the names of its branch and pull
request.

The same journal always gives the same names.
"""

from dataclasses import dataclass, replace

from bot.core.entry import JournaledTurn
from bot.core.moves import Requested
from bot.core.names import CommitId
from bot.core.plan import Hidden
from bot.core.thread.request import RequestEntry
from bot.core.thread.state import ThreadState
from bot.core.turn import Turn
from bot.workflow.thread_context import ThreadContext


@dataclass(frozen=True, slots=True)
class RequestStart:
    """The commit, title, and branch that a request begins on."""

    base: CommitId
    title: str
    onto: str = ""
    """The branch of the pull request that the work adds to; "" for a branch of its own."""
    closes_round: bool = False
    """Whether the round's pull request is closed, so that a new round begins (PR2)."""

    def request(self, turn: JournaledTurn, beside: Hidden | None = None) -> Requested:
        """Return the request that a turn makes."""
        return Requested(said=turn, beside=beside, base=self.base, title=self.title, onto=self.onto)


async def find_start(context: ThreadContext, state: ThreadState) -> RequestStart:
    """Return what a request begins on: the thread's or its round's open pull request, else the base (PR2)."""
    place, published = context.location, state.work.published
    start = RequestStart(place.base, place.title, place.branch)
    if published is None:
        return start
    head = await context.pulls.head(published.pull_number)
    if head is None:
        return replace(start, closes_round=True)
    return replace(start, base=head, onto=published.branch)


def renewed_request(state: ThreadState, turn: Turn) -> JournaledTurn:
    """Return a request that repeats everything asked so far, for a turn that adds no words of its own.

    The entries of the repeated words record who may have edited them (`RequestState.entries`).
    """
    request, *additions = state.request.newest_entries
    return replace(
        JournaledTurn.of(turn),
        actor=request.said.actor,
        text="\n\n".join((request.said.text, *map(addition_text, additions))),
        foreign=any(entry.said.foreign for entry in state.request.newest_entries),
        strangers=any(entry.said.strangers for entry in state.request.newest_entries),
        editors=(),
        hidden=state.request.hidden,
    )


def addition_text(entry: RequestEntry) -> str:
    """Return an addition to a request, as the planner reads it."""
    return f"@{entry.said.actor.login} adds: {entry.said.text}"


def thread_title(context: ThreadContext, state: ThreadState) -> str:
    """Return the redacted title of the thread as it was at the request, so that an edit makes no second branch."""
    title = state.request.current.title
    return context.redactor.redact(context.location.title if title is None else title)


def pull_title(context: ThreadContext, state: ThreadState) -> str:
    """Return the redacted title of the finished work, or the thread's title if it has none."""
    return context.redactor.redact(state.work.current.title or "") or thread_title(context, state)


def branch_name(context: ThreadContext, state: ThreadState) -> str:
    """Return this round's branch: the existing one, else a name made from the thread."""
    place = context.location
    if branch := place.branch or state.request.onto:
        return branch
    name = place.new_branch(thread_title(context, state), state.gate.round)
    return (
        f"{name}-{state.work.branch_suffix}" if state.work.branch_suffix else name
    )  # a journal that was set back may have lost a branch of the plain name


def pull_number(context: ThreadContext, state: ThreadState) -> int:
    """Return the number of the pull request that the work adds to, or 0 if it gets a branch of its own."""
    if context.location.branch:
        return context.location.thread
    return state.work.published.pull_number if state.request.onto and state.work.published is not None else 0
