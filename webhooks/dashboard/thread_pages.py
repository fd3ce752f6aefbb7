"""The pages of threads, and the buttons on them."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlencode

from fastapi import Request

from bot.core.codepoints import with_visible_codepoints
from bot.core.errors import PlangateError, Refused
from bot.core.gate import Stage
from bot.core.markdown.elements import shorten_line
from bot.core.names import ThreadAddress
from bot.core.turn import Verb
from bot.service.overview.overview import Overview
from bot.service.overview.thread_index import MOST_ROWS, USUAL_ROWS, ThreadPage, ThreadQuery
from bot.service.overview.views import AgentNode, PlanVersion, ThreadDetail, ThreadSummary, WaitsFor
from webhooks.dashboard.pages import Answer, NotAllowed, NotFound, Page, Pages, Visit
from webhooks.dashboard.render import dollars

# --- The agents of a thread as a picture ------------------------------------------------------------------------------
# Sessions stand side by side, each as wide as its cost, above their sub-agents.

GAP: Final = 0.3
"""Percent of the width between two blocks."""
COLORS: Final = {"plan": "active", "work": "done", "code": "open"}
"""The color of each type of agent, a class of style.css. Others are gray."""


@dataclass(frozen=True, slots=True)
class Block:
    """One agent. `x` and `width` are percentages of the width of the chart."""

    x: float
    width: float
    row: int
    color: str
    label: str
    amount: str


def agent_blocks(agents: Sequence[AgentNode]) -> list[Block]:
    """Return a block for each agent, a session before its sub-agents. No blocks if one agent did everything."""
    total = sum(map(_size, agents))
    if not total or sum(1 + len(agent.children) for agent in agents) < 2:
        return []
    return list(_blocks(agents, at=0.0, whole=total, width=100.0))


def _blocks(agents: Sequence[AgentNode], *, at: float, whole: float, width: float, row: int = 0) -> Iterator[Block]:
    """Yield the blocks of agents that share a width. A session's cost includes that of its sub-agents."""
    whole = max(whole, sum(map(_size, agents)))
    for agent in agents:
        share = width * _size(agent) / whole
        color = COLORS.get(agent.type, "quiet")
        yield Block(round(at, 3), round(max(share - GAP, 0.1), 3), row, color, agent.name, dollars(agent.cost_usd))
        yield from _blocks(agent.children, at=at, whole=_size(agent), width=share, row=row + 1)
        at += share


def _size(agent: AgentNode) -> float:
    return agent.cost_usd or 0.0


# --- Pages ------------------------------------------------------------------------------------------------------------
# They are: what waits for the viewer, all threads with search, one thread in detail, and transcripts.

FOR_PEOPLE: Final[Mapping[str, WaitsFor]] = {
    "Plans to decide on": WaitsFor.APPROVER,
    "Questions to answer": WaitsFor.ANSWER,
    "Pull requests to review": WaitsFor.REVIEWER,
}
STAGED: Final = frozenset({WaitsFor.APPROVER, WaitsFor.ANSWER})
NEWEST: Final = 10
"""Number of newest threads that a page compares to notice that any thread has moved."""
MOST_READ: Final = 300
"""Maximum number of threads that ended early that are searched for a person's own."""
WORKING: Final = frozenset({WaitsFor.PLANGATE, WaitsFor.SLOT})
ENDED: Final = frozenset({WaitsFor.REQUESTER})
LONGEST_QUERY: Final = 200
_WAITING: Final = frozenset({Stage.AWAITING_APPROVAL, Stage.ASKED})
_ACTIVE: Final = frozenset({Stage.LISTENING, Stage.PLANNING, Stage.PROPOSING, Stage.EXECUTING, Stage.PUBLISHING})
_REVIEW: Final = frozenset({Stage.IN_REVIEW})
GROUPS: Final[Mapping[str, tuple[str, frozenset[Stage]]]] = {
    "waiting": ("Waiting for people", _WAITING),
    "active": ("In progress", _ACTIVE),
    "review": ("In review", _REVIEW),
    "ended": ("Ended", frozenset(Stage) - _WAITING - _ACTIVE - _REVIEW),
}
"""The groups of stages in the list: their titles, and their stages. Each stage is in one group."""
POSTED: Final[Mapping[str, str]] = {
    "approve": "Your approval was posted on the thread. Plangate checks it like any other comment, within seconds.",
    "reject": "Your rejection was posted on the thread.",
    "stop": "Your stop was posted on the thread. The work ends within seconds.",
    "retry": "Your retry was posted on the thread.",
}
"""What a page says after a command, by its verb."""


@dataclass(frozen=True, slots=True)
class WaitingGroup:
    """The newest threads that wait for one thing, and the number of all."""

    title: str
    page: ThreadPage
    stage: str
    """The group of stages under which the list shows all of them."""
    is_counted: bool = True
    """Whether the number counts all; if not, there may be more."""


def add_thread_pages(pages: Pages) -> None:
    """Add the pages of threads."""

    async def waiting(visit: Visit, _: Request) -> Answer:
        newest = await newest_threads(pages.reading, visit)
        working = ThreadQuery(waiting_for=WORKING, visible=visit.visible, limit=USUAL_ROWS)
        active = WaitingGroup("Plangate is working", await pages.reading.page(working), "active")
        values = {
            "groups": await waiting_groups(pages.reading, visit),
            "active": active,
            "state": threads_state(newest),
        }
        return Page("waiting.html", "Waiting for you", values)

    async def threads(visit: Visit, request: Request) -> Answer:
        values = await search(pages.reading, visit, request.query_params)
        values["state"] = threads_state(await newest_threads(pages.reading, visit))
        return Page("threads.html", "Threads", values)

    async def thread(visit: Visit, request: Request) -> Answer:
        address = await pages.address(visit, request)
        detail = await pages.reading.detail(address)
        values = thread_values(visit, address, detail, request.query_params)
        with suppress(PlangateError):  # the thread can be shown without links to its transcripts
            values["transcripts"] = frozenset(await pages.reading.transcripts(address))
        return Page("thread.html", _title(detail), values)

    pages.show("/", waiting)
    pages.show("/threads", threads)
    pages.show("/threads/{owner}/{name}/{number}", thread)
    _add_transcripts(pages)


def _add_transcripts(pages: Pages) -> None:

    async def transcript(visit: Visit, request: Request) -> Answer:
        address = await pages.address(visit, request)  # first: nothing may be read that is not theirs to see
        page = request.query_params.get("page", "")
        number = int(page) if page.isdecimal() and page.isascii() and len(page) < 9 else 1
        view = await pages.reading.transcript(address, request.path_params["session"], number)
        if view is None:
            raise NotFound
        state = await transcript_state(pages.reading, address, view.session)
        summary = (await pages.reading.detail(address)).summary
        title = f"{view.session} · {summary.repository}#{summary.number}"
        return Page("transcript.html", title, {"transcript": view, "summary": summary, "state": state})

    pages.show("/threads/{owner}/{name}/{number}/transcripts/{session}", transcript)


async def newest_threads(reading: Overview, visit: Visit) -> Sequence[ThreadSummary]:
    """Return the threads of the person that moved last. A thread that moves becomes one of them."""
    return (await reading.page(ThreadQuery(visible=visit.visible, limit=NEWEST))).threads


async def waiting_groups(reading: Overview, visit: Visit) -> list[WaitingGroup]:
    """Return what waits for this person, most urgent first."""
    groups = []
    for title, waits in FOR_PEOPLE.items():
        query = ThreadQuery(waiting_for=frozenset({waits}), visible=visit.actionable, limit=USUAL_ROWS)
        groups.append(WaitingGroup(title, await reading.page(query), "waiting" if waits in STAGED else "review"))
    own = await _own_ended_requests(reading, visit)
    return [group for group in (*groups, own) if group.page.total]


async def _own_ended_requests(reading: Overview, visit: Visit) -> WaitingGroup:
    """Return the person's requests that ended early. Filters the index's results: a login may occur in a title, too."""
    threads: list[ThreadSummary] = []
    query = ThreadQuery(waiting_for=ENDED, search=visit.login, visible=visit.visible, limit=MOST_ROWS)
    cursor: str | None = "" if visit.login else None
    while cursor is not None and len(threads) < MOST_READ:
        page = await reading.page(replace(query, after=cursor))
        threads, cursor = [*threads, *page.threads], page.next
    own = [thread for thread in threads if thread.requester.lower() == visit.login.lower()]
    page = ThreadPage(tuple(own[:USUAL_ROWS]), len(own), "" if len(own) > USUAL_ROWS else None)
    return WaitingGroup("Your requests that ended early", page, "ended", is_counted=cursor is None)


async def search(reading: Overview, visit: Visit, parameters: Mapping[str, str]) -> dict[str, object]:
    """Return the values of the list of threads for a query: words, a group of stages, and the cursor of a page."""
    words, group = parameters.get("q", "").strip()[:LONGEST_QUERY], parameters.get("stage", "")
    every = ThreadQuery(search=words, visible=visit.visible, limit=USUAL_ROWS)
    chosen = replace(every, stages=GROUPS[group][1]) if group in GROUPS else every
    try:
        page = await reading.page(replace(chosen, after=parameters.get("after", "")))
    except Refused:  # a cursor that somebody typed
        page = await reading.page(chosen)
    totals = {
        name: (await reading.page(replace(every, stages=stages, limit=1))).total for name, (_, stages) in GROUPS.items()
    }
    query = {"q": words} if words else {}
    return {
        "rows": page.threads,
        "words": words,
        "group": group if group in GROUPS else "",
        "groups": [
            (name, title, totals[name], urlencode({**query, "stage": name})) for name, (title, _) in GROUPS.items()
        ],
        "everything": urlencode(query),
        "total": sum(totals.values()),
        "first": urlencode({**query, "stage": group}) if "after" in parameters else "",
        "next": urlencode({**query, "stage": group, "after": page.next}) if page.next else "",
    }


def thread_values(
    visit: Visit, address: ThreadAddress, detail: ThreadDetail, parameters: Mapping[str, str]
) -> dict[str, object]:
    """Return the values of the page of one thread."""
    summary = detail.summary
    chosen = chosen_version(detail.plans, parameters.get("plan", ""))
    return {
        "detail": detail,
        "transcripts": frozenset[str](),
        "state": threads_state([summary]),
        "summary": summary,
        "plan": chosen,
        "before": next((version for version in detail.plans if chosen and version.version == chosen.version - 1), None),
        "may_act": visit.may_act(address.repository),
        "decides": summary.waiting_for is WaitsFor.APPROVER
        and chosen is not None
        and chosen.digest == summary.plan_digest,
        "runs": summary.waiting_for in {WaitsFor.PLANGATE, WaitsFor.SLOT, WaitsFor.APPROVER, WaitsFor.ANSWER},
        "retries": summary.waiting_for is WaitsFor.REQUESTER,
        "notice": POSTED.get(parameters.get("posted", ""), ""),
        "blocks": agent_blocks(detail.agents),
        "most": max([agent.cost_usd or 0 for agent in detail.agents], default=0) or 1,
    }


def chosen_version(plans: Sequence[PlanVersion], number: str) -> PlanVersion | None:
    """Return the plan version of that number, else the newest one, or None if there is none."""
    return next((version for version in plans if str(version.version) == number), plans[-1] if plans else None)


def _title(detail: ThreadDetail) -> str:
    summary = detail.summary
    return f"{summary.title or 'Thread'} · {summary.repository}#{summary.number}"


def threads_state(threads: Iterable[ThreadSummary]) -> str:
    """Return a text that changes whenever one of these threads moves."""
    rows = [(thread.repository, thread.number, thread.position) for thread in threads]
    return _state_of(repr(rows))


async def transcript_state(reading: Overview, address: ThreadAddress, session: str) -> str:
    """Return a text that changes whenever a transcript grows."""
    return _state_of(f"{session} {await reading.transcript_extent(address, session)}")


def _state_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# --- Buttons ----------------------------------------------------------------------------------------------------------
# Each button posts a command as a comment, in the person's name, with the person's own token. Nothing here approves
# anything. The gate reads the comment on GitHub like any other, looks up its author's role, and compares the digest
# (bot/core/approval.py). The form carries the digest that the page showed, so that a person who looks at an older plan
# is shown the difference instead of deciding on a plan that they have not seen (PR5).

COMMANDS: Final = frozenset({Verb.APPROVE, Verb.REJECT, Verb.STOP, Verb.RETRY})
REASON_LENGTH: Final = 500


def add_commands(pages: Pages) -> None:
    """Add the address that the buttons post to."""

    async def command(visit: Visit, request: Request, form: Mapping[str, str]) -> Answer:
        address = await pages.address(visit, request)
        detail = await pages.reading.detail(address)
        verb = form.get("verb", "")
        if verb not in COMMANDS or visit.session is None:
            raise NotFound
        if not visit.may_act(address.repository):
            raise NotAllowed
        if is_stale(detail, Verb(verb), form.get("digest", "")):
            return stale_page(visit, address, detail, form.get("digest", ""))
        session = visit.session
        command_key = (str(address.repository), str(address.number), verb, form.get("position", ""))
        async with session.command_lock:
            if command_key not in session.posted:
                mention = await pages.reading.mention(address)
                text = comment_text(mention, Verb(verb), form.get("digest", ""), form.get("reason", ""))
                session.remember(command_key, await session.viewer.comment(address, text))
        return f"{request.scope['path']}?posted={verb}"

    pages.accept("/threads/{owner}/{name}/{number}", command)


def is_stale(detail: ThreadDetail, verb: Verb, digest: str) -> bool:
    """Return whether a command is about a plan that was superseded, or a decision about one that no longer waits."""
    decides = verb in {Verb.APPROVE, Verb.REJECT}
    waits = detail.summary.stage is Stage.AWAITING_APPROVAL and bool(digest)
    return digest != (detail.summary.plan_digest or "") or (decides and not waits)


def stale_page(visit: Visit, address: ThreadAddress, detail: ThreadDetail, digest: str) -> Page:
    """Return the page for a command that came too late: the plan that the person saw beside the present one."""
    seen = next((version for version in detail.plans if version.digest == digest), None)
    values = thread_values(visit, address, detail, {}) | {"seen": seen}
    return Page("stale.html", "This page was out of date", values, 409)


def comment_text(mention: str, verb: Verb, digest: str, reason: str) -> str:
    """Return the comment of a command. Its first line is the command; a reason is one line that can hold no other."""
    match verb:
        case Verb.APPROVE:
            line = f"{mention} approve {digest}"
        case Verb.REJECT:
            why = shorten_line(with_visible_codepoints(" ".join(reason.split())), REASON_LENGTH)
            line = f"{mention} reject {why}".rstrip()
        case _:
            line = f"{mention} {verb}"
    return f"{line}\n\nSent from the Plangate dashboard."
