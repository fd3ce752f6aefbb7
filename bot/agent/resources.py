"""What the sessions of one thread share, and what they touched: paths (K5), hosts, and GitHub (K8)."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bot.agent.limits import Ledger, SharedBudget
from bot.agent.permissions import tool_gate
from bot.agent.permissions.plan_mode import Rehearsal
from bot.agent.permissions.tool_gate import CallKind, PermissionGate
from bot.agent.prompts import Environment
from bot.agent.session_events import AgentEvent, Billed
from bot.core.errors import PlangateError
from bot.core.markdown.elements import code
from bot.core.names import AgentId, SessionId
from bot.core.network import NO_NETWORK, Network, NetworkDecision
from bot.core.secrets.redaction import CanaryAlarm
from bot.core.transcript import Json, Line, LineKind, notes_of, result_text, tool_calls, well_formed
from bot.core.work import Checkout
from bot.ports import (
    AnswerCompleted,
    Clock,
    Model,
    ModelRequest,
    RepositoryReader,
    Toolhost,
    Transcripts,
    Usage,
    Web,
    Workspace,
)

# --- Paths outside the approved plan (K5) -----------------------------------------------------------------------------
# Rules: if a call of approved work touches a path that the plan does not name, its result says so, once per path, and
# the session may continue. The publisher decides by the finished tree what is published. A command's paths are those
# that git reports as changed after it.

NOTE: Final = "outside"
"""Kind of the transcript note with the paths that were reported to its session."""
SHOWN: Final = 20
_STATUS: Final = "git -c core.quotePath=false status --porcelain=v1 --no-renames --untracked-files=all"
_STATUS_MS: Final = 10_000
_ENTRY: Final = re.compile(r"^[ MTADUC?]{2} (.+)$", re.MULTILINE)
"""A line of git-status(1), short format."""


@dataclass(slots=True)
class ScopeWatch:
    """The paths that a plan reaches, and the other paths that were reported to its session."""

    reaches: Callable[[str], bool]
    reported: set[str] = field(default_factory=set)

    async def new_paths(self, host: Toolhost, kind: CallKind, tool_input: Json) -> list[str]:
        """Return the paths outside the plan that a call touched and that were not returned before.

        `tool_input` names its paths relative to the checkout.
        """
        match kind:
            case CallKind.EDIT:
                paths = [tool_gate.target_path(tool_input)]
            case CallKind.COMMAND:
                paths = await _changed_paths(host)
            case _:
                return []
        return self._add(paths)

    def for_subagent(self) -> "ScopeWatch":
        """Return a watch for a sub-agent, which starts with the paths reported so far."""
        return ScopeWatch(self.reaches, set(self.reported))

    def recall(self, lines: Iterable[Line]) -> None:
        self.reported.update(path for note in notes_of(lines, NOTE) for path in note["paths"])

    def _add(self, touched: Iterable[str]) -> list[str]:
        inside = (path for path in touched if path and not path.startswith(("/", "../")))
        new = [path for path in dict.fromkeys(inside) if path not in self.reported and not self.reaches(path)]
        self.reported.update(new)
        return new


def outside_notice(paths: list[str]) -> str:
    if len(paths) == 1:
        which = f"{code(paths[0])} is outside the approved plan's files. Revert it"
    else:
        more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
        which = f"{', '.join(map(code, paths[:SHOWN]))}{more} are outside the approved plan's files. Revert them"
    return f"({which}, or go on knowing that the change needs another approval.)"


async def _changed_paths(host: Toolhost) -> list[str]:
    """List the paths that git reports as changed in the checkout, without ignored ones; none if git fails."""
    try:
        output = await host.call("Bash", {"command": _STATUS, "timeout": _STATUS_MS})
    except PlangateError:
        return []
    paths = [] if output.is_error else _ENTRY.findall(output.text)
    return [path.strip('"') for path in paths]


# --- Network hosts that a session reached or was refused --------------------------------------------------------------

MOST: Final = 50
"""Most distinct decisions that get a row. Further ones are only counted, in `beyond`."""


@dataclass(slots=True)
class NetworkLog:
    """Decisions of one session that are not recorded yet, oldest first. Equal decisions share one row."""

    rows: Counter[NetworkDecision] = field(default_factory=Counter)
    beyond: int = 0
    new: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by the first of equal decisions."""
    _kinds: set[NetworkDecision] = field(default_factory=set)

    def record(self, decision: NetworkDecision) -> None:
        if decision in self._kinds or len(self._kinds) < MOST:
            self.rows[decision] += 1
            if decision not in self._kinds:
                self._kinds.add(decision)
                self.new.set()
        else:
            self.beyond += 1

    def drop_recorded(self, rows: Counter[NetworkDecision], beyond: int) -> None:
        self.rows -= rows
        self.beyond -= beyond


def network_rows(rows: Counter[NetworkDecision], beyond: int) -> list[Json]:
    counted: list[Json] = [
        {"host": row.host, "port": row.port, "allowed": row.allowed, "reason": row.reason, "times": times}
        for row, times in rows.items()
    ]
    return counted + ([{"beyond": beyond}] if beyond else [])


# --- What a session reads of the repository on GitHub (K8) ------------------------------------------------------------

GITHUB_READ: Final = "GitHubRead"
CALLS: Final = 60
BYTES: Final = 400_000


@dataclass(slots=True)
class ReadUsage:
    """What a session and its sub-agents read so far."""

    calls: int = 0
    size: int = 0
    """In bytes."""
    strangers: bool = False
    """Whether words of people who may not ask were read. Later sub-agents that only read are restricted then (S9)."""

    @property
    def left(self) -> int:
        return max(0, BYTES - self.size)

    def admit(self) -> bool:
        """Count one call, and return whether it may run."""
        self.calls += 1
        return self.calls <= CALLS and self.left > 0

    def recount(self, messages: Iterable[Json]) -> None:
        """Count the results in a restored history."""
        calls = set[str]()
        for message in messages:
            calls |= {call["id"] for call in tool_calls(message) if call["name"] == GITHUB_READ}
            for block in message["content"] if isinstance(message["content"], list) else ():
                if block.get("type") == "tool_result" and block["tool_use_id"] in calls:
                    self.calls, self.size = self.calls + 1, self.size + len(result_text(block).encode())


@dataclass(frozen=True, slots=True)
class RepositoryReads:
    """One agent's access to the repository on GitHub."""

    reader: RepositoryReader
    strangers: bool = False
    """Whether the agent may read words of people who may not ask. Approved work may not: nobody approved them."""
    used: ReadUsage = field(default_factory=ReadUsage)
    """Shared by a session and its sub-agents."""

    def for_subagent(self, *, restricted: bool) -> "RepositoryReads":
        """Return a sub-agent's access. Only a restricted one reads words of people who may not ask (S9)."""
        return RepositoryReads(self.reader, self.strangers and restricted, self.used)


# --- Where a session works --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SessionPlace:
    workspace: Workspace
    checkout: Checkout
    host: Toolhost
    environment: Environment
    network: Network = NO_NETWORK
    """Network of the toolhost, and of sub-agents that write."""
    rehearsal: Rehearsal | None = None
    """Runs the commands that may run while planning; None if no command may."""
    scope: ScopeWatch | None = None
    """Watches the paths of approved work (K5); None while planning."""
    network_log: NetworkLog = field(default_factory=NetworkLog)
    """Network hosts that the session reaches, or is refused."""


# --- The unchanged part of every request (M1, L9) ---------------------------------------------------------------------

ASIDE = "aside"
"""Kind of the note that records the cost of an answer outside the conversation. Another model may have given it."""


@dataclass(frozen=True, slots=True)
class RequestPrefix:
    """What every request of a session sends unchanged (M1)."""

    agent_type: str
    model: str
    system: tuple[Json, ...]
    tools: tuple[Json, ...]
    role: str = "main"
    schema: Json | None = None
    """Schema that structured output holds answers to (S8)."""

    def request(self, messages: Sequence[Json], user_id: str) -> ModelRequest:
        fixed = (self.model, self.system, self.tools)
        return ModelRequest(*fixed, messages, role=self.role, schema=self.schema, user_id=user_id)


def load_request_prefix(lines: Sequence[Line], ordered: str) -> RequestPrefix | None:
    """Return a saved session's prefix as it was sent, never rendered again (L9).

    The session stays with the model that answered last. If none has answered yet, it uses `ordered`. Returns None if no
    session was saved.
    """
    if not lines or lines[0].kind is not LineKind.OPENED:
        return None
    body = lines[0].body
    bodies = (line.body for line in reversed(lines[1:]) if line.body.get("note") != ASIDE)
    model = next((str(body["model"]) for body in bodies if "model" in body), ordered)
    return RequestPrefix(body["agent_type"], model, tuple(body["system"]), tuple(body["tools"]))


# --- What all sessions of one thread share ----------------------------------------------------------------------------

MOST_OF_WINDOW: Final = 0.8
"""Share of a model's window that a conversation may take."""


@dataclass(frozen=True, slots=True)
class HumanAvailability:
    """Whether people are available to answer the model's questions and its permission requests (P7)."""

    answers: bool = False
    permits: bool = False


@dataclass(frozen=True, slots=True)
class SessionResources:
    """What all sessions of one thread share."""

    model: Model
    transcripts: Transcripts
    clock: Clock
    gate: PermissionGate
    ledger: Ledger
    user_id: str = ""
    availability: HumanAvailability = HumanAvailability()
    alarm: CanaryAlarm = field(default_factory=CanaryAlarm)
    """Checks the text of every session of the thread for canaries (X3)."""
    web: Web | None = None
    """None if no rule opens a host to WebFetch."""
    repository: RepositoryReader | None = None
    """None if the thread is not on GitHub."""
    compact_at: int = 250_000
    """Size of a context, in tokens, at which older history is summarized; less in a small window (C1)."""
    emit: Callable[[AgentEvent], None] = lambda _: None
    """Receives the events that no session yields."""
    eager: bool = True
    """Whether calls that only read start while the answer still streams (M7)."""
    light: str = ""
    """Model for light calls (M11), or "" if they are switched off."""
    shared_budget: SharedBudget = SharedBudget()
    """The budget that other threads spend from as well."""

    def most_context(self, window: int) -> float:
        """Return the context size, in tokens, at which older history is summarized for a model with this window."""
        return min(MOST_OF_WINDOW * window, self.compact_at)


# --- The log of one session -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SessionLog:
    """Records what a session did and what it cost: in its transcript, the thread's ledger, and the thread's `emit`."""

    id: SessionId
    agent: AgentId
    resources: SessionResources

    def line(self, kind: LineKind, body: Json) -> Line:
        return Line(kind, self.resources.clock.now(), body)

    def append(self, lines: Sequence[Line]) -> None:
        """Append lines to the transcript, all of them or none."""
        self.resources.transcripts.append(self.id, lines)

    def note(self, name: str, facts: Mapping[str, object]) -> None:
        """Save a fact that is never sent to the model."""
        self.append([self.line(LineKind.NOTE, well_formed({"note": name, **facts}))])

    def book_answer(self, completed: AnswerCompleted, seconds: float | None = None) -> None:
        """Add the cost of an answer to the ledger and report it."""
        price = (self.agent, completed.model, completed.usage, completed.cost_usd)
        self.resources.ledger.add(*price)
        self.resources.emit(Billed(*price, seconds))

    def book(self, completed: AnswerCompleted, seconds: float) -> None:
        """Book an answer that is not part of the conversation, note its cost, and check it for canaries (X3)."""
        self.book_answer(completed, seconds)
        self.note(ASIDE, answer_facts(completed))
        self.resources.alarm.check_text(json.dumps(completed.message, ensure_ascii=False))


def answer_facts(completed: AnswerCompleted) -> Json:
    usage = {name: value for name in Usage.__slots__ if (value := getattr(completed.usage, name))}
    facts: Json = {"model": completed.model, "usage": usage, "cost_usd": completed.cost_usd}
    return {**facts, "stop_reason": completed.stop_reason}
