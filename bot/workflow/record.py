"""A thread as its journal tells it: the gate's state, and the facts that came with its events.

Everything here is computed from the entries. Beside the gate's moves a journal holds
``heard``  a turn that is no move: a command, or somebody who may not ask
``network``  what a session reached of the network, and what it was refused; such entries add up
``prepared`` what the set-up commands came to, and which files they left that git does not ignore: path -> blob
``told``   what an entry owed the people was said (`answers` names the entry)
``shown``  the question of an ask is shown on the thread
``folded`` the comment of a plan that lost its force was folded
``noticed`` somebody approved what cannot be approved, and is owed an answer
``taken``  a job took over what another had begun
``explained`` it was said why a plan waits
``queued`` people were told that the session of an ask waits for a free slot; of ask 0, that the wait is over
``pushing`` a commit is about to be pushed to a pull request's branch (E3); ``spent`` what a session has cost since then

A journal that was set back names in `forgotten` the bot's last comment that it does not know of, and in `apart` what
tells its branches from those (A4b). `mode_change` is a change of the permission mode, and who caused it (P8). `owes` is
a text that the entry owes the people; until it is told, it is a debt (PR3).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from bot.core.actor import Actor
from bot.core.comment import work_begun_line
from bot.core.errors import Broken
from bot.core.gate import ON_ENTER, PLAN_MAY_BE_SHOWN, TRANSITIONS, WAITS_FOR_PEOPLE, Event, Move, Stage, Thread, step
from bot.core.names import CommitId, Digest, SessionId
from bot.core.plan import Hidden, PlanDocument, from_json
from bot.core.question import Asking, Grant
from bot.core.question import from_json as asking_from_json
from bot.core.transcript import Json
from bot.core.turn import Turn
from bot.core.work import PushedWork
from bot.ports import Entry

HEARD: Final = "heard"
TOLD: Final = "told"
SHOWN: Final = "shown"
FOLDED: Final = "folded"
NOTICED: Final = "noticed"
NETWORK: Final = "network"
PREPARED: Final = "prepared"
TAKEN: Final = "taken"
SPENT: Final = "spent"
EXPLAINED: Final = "explained"
PUSHING: Final = "pushing"
QUEUED: Final = "queued"

LEFT_BEHIND: Final = timedelta(minutes=2)
"""A reply that is owed for longer was left by a process that died."""

_MOVES: Final = frozenset(Move)
_MADE: Final = frozenset({Move.PLANNED, Move.OUTGREW})


@dataclass(frozen=True, slots=True)
class Record:
    """A thread's state with the facts of its journal."""

    thread: Thread = Thread()
    position: int = 0
    entries: tuple[Entry, ...] = field(default=())
    voided: int = 0
    """The request that took the force of a plan that may be shown, until another plan is shown; 0 for none."""
    deferred: int = 0
    """How many of the newest entries the journal does not have yet: they go with the next one that is written."""

    @property
    def written(self) -> int:
        """How many of the entries the journal has."""
        return self.position - self.deferred

    @property
    def stage(self) -> Stage:
        """Where the thread stands."""
        return self.thread.stage

    @property
    def turn(self) -> Turn:
        """The newest turn that is worked on."""
        return turn_of(self.last(Move.REQUESTED).body)

    @property
    def base(self) -> CommitId:
        """The commit that the newest turn is planned and worked on."""
        return CommitId(self.last(Move.REQUESTED).body["base"])

    @property
    def onto(self) -> str:
        """The branch of the pull request that the newest turn adds to; "" for a branch of its own."""
        return str(self.last(Move.REQUESTED).body.get("onto", ""))

    @property
    def published(self) -> Entry | None:
        """The newest pull request of this round."""
        over = max((entry.n for entry in self.entries if entry.kind == Move.CLOSED), default=0)
        made = (entry for entry in reversed(self.entries[over:]) if entry.kind == Move.PUBLISHED)
        return next(made, None)

    @property
    def plan(self) -> PlanDocument:
        """The newest plan document."""
        made = self.last(Move.PLANNED, Move.OUTGREW).body
        return replace(from_json(made["plan"]), estimate=made.get("estimate", ""))

    @property
    def replaced(self) -> PlanDocument | None:
        """The plan that a new one takes the place of: the newest, unless it was carried out or its round is over."""
        after = {Move.EXECUTED, Move.DELIVERED, Move.CLOSED}
        newest = next((entry for entry in reversed(self.entries) if entry.kind in {*_MADE, *after}), None)
        return from_json(newest.body["plan"]) if newest is not None and newest.kind in _MADE else None

    @property
    def refused(self) -> tuple[str, ...]:
        """Who rejected the newest plan, as logins; nobody where it was not rejected."""
        newest = next((entry for entry in reversed(self.entries) if entry.kind in {*_MADE, Move.REJECTED}), None)
        return tuple(newest.body["by"]) if newest is not None and newest.kind == Move.REJECTED else ()

    @property
    def lost(self) -> tuple[int, ...]:
        """The asks of earlier plans that may be shown, and no entry says so: the thread moved while one was posted."""
        told = max((entry.body["ask"] for entry in self.entries if entry.kind == Move.PROPOSED), default=0)
        made = (entry.body["ask"] + 1 for entry in self.entries if entry.kind in _MADE)
        return tuple(ask for ask in made if told < ask < self.thread.ask)

    @property
    def void(self) -> bool:
        """Whether the thread rests while a plan that lost its force may still be shown, since no other replaced it."""
        return bool(self.voided) and self.stage not in ON_ENTER

    @property
    def noticed(self) -> bool:
        """Whether somebody who approved the plan that lost its force was answered."""
        return any(entry.kind == NOTICED for entry in self.entries[self.voided :])

    @property
    def plans(self) -> int:
        """How many plan versions this round's request has had: an approval without a digest needs exactly one."""
        made = [entry for entry in self.entries if entry.kind in _MADE]
        over = [entry.n for entry in self.entries if entry.kind in {Move.DELIVERED, Move.CLOSED}]
        return sum(entry.n > max(over, default=0) for entry in made)

    @property
    def pushing(self) -> PushedWork | None:
        """What of the newest plan's work was about to be pushed last to a pull request's branch, and may be there."""
        mine = (entry.body for entry in reversed(self.entries) if entry.kind == PUSHING)
        made = next((body["made"] for body in mine if body["digest"] == self.thread.digest), None)
        return made and PushedWork(made["branch"], CommitId(made["commit"]), tuple(made["paths"]))

    @property
    def begun(self) -> tuple[str, ...]:
        """What stands above the newest plan since its work began, for each of its approvals, oldest first (A4b)."""
        approvals = (entry.body for entry in self.entries if entry.kind == Move.APPROVED)
        mine = (body for body in approvals if body.get("digest") == self.thread.digest)
        return tuple(work_begun_line(body["by"], datetime.fromisoformat(body["approved_at"])) for body in mine)

    @property
    def executed(self) -> bool:
        """Whether the work of the newest plan was done once: then its pull request may be there."""
        return any(entry.kind == Move.EXECUTED and entry.body["digest"] == self.thread.digest for entry in self.entries)

    @property
    def planning_session(self) -> SessionId:
        """The session that plans for the newest turn; a retry goes on in the same one."""
        return SessionId(f"plan-{self.last(Move.REQUESTED).n}")

    @property
    def work_session(self) -> SessionId:
        """The session that works on the newest turn's plan, where that is another one than planned."""
        return SessionId(f"work-{self.last(Move.REQUESTED).n}")

    @property
    def steers(self) -> bool:
        """Whether approved work is under way or waits for people: what is said now would steer it."""
        return self.thread.approved is not None and self.thread.approved == self.thread.digest

    @property
    def asking(self) -> Asking:
        """What people were asked last."""
        return asking_from_json(self.last(Move.ASKED).body["asking"])

    @property
    def question(self) -> Entry | None:
        """Where the open question is shown; None before it is."""
        mine = (entry for entry in reversed(self.entries) if entry.kind == SHOWN)
        return next((entry for entry in mine if entry.body["ask"] == self.thread.ask), None)

    @property
    def granted(self) -> frozenset[tuple[str, str]]:
        """The calls that people allowed for the plan in force: (tool, command or path)."""
        given = (entry.body for entry in self.entries if entry.kind == Move.INSTRUCTED)
        return frozenset(
            (body["tool"], body["subject"])
            for body in given
            if body.get("grant") == Grant.PLAN and body["digest"] == self.thread.digest
        )

    @property
    def mode(self) -> str:
        """The permission mode that the thread is in (P8); every thread starts in plan mode (P2)."""
        changed = (entry.body["mode_change"]["to"] for entry in reversed(self.entries) if "mode_change" in entry.body)
        return str(next(changed, "plan"))

    @property
    def mode_by(self) -> list[str]:
        """Who brought approved work into its mode: whoever approved it, or chose another mode since (P8)."""
        approved = self.last(Move.APPROVED)
        chosen = (entry.body["login"] for entry in self.entries[approved.n :] if "mode" in entry.body)
        return list(chosen)[-1:] or list(approved.body["by"])

    def reply(self, session: str, call: str) -> Json | None:
        """Return what people answered to a session's pending call, or None."""
        said = (entry.body for entry in reversed(self.entries) if entry.kind in {Move.REPLIED, Move.INSTRUCTED})
        return next((body for body in said if (body["session"], body["call"]) == (session, call)), None)

    @property
    def asked_for(self) -> tuple[Entry, ...]:
        """The entries of all that is planned for: the newest request, and what was added while it was planned."""
        request = self.last(Move.REQUESTED)
        added = (entry for entry in self.entries[request.n :] if entry.kind == Move.NOTED)
        return (request, *(entry for entry in added if not entry.body.get("kept")))

    @property
    def asked_at(self) -> datetime:
        """When people last asked for what is planned, added to it, or had it tried again."""
        kinds = {Move.REQUESTED, Move.NOTED, Move.RETRIED}
        return max(
            datetime.fromisoformat(entry.body["turn_at"])
            for entry in self.entries
            if entry.kind in kinds and "turn_at" in entry.body
        )

    @property
    def explained(self) -> str:
        """Why the newest plan waits, as it was said last; "" where nothing was said."""
        said = (entry for entry in reversed(self.entries) if entry.kind in {EXPLAINED, Move.PROPOSED, Move.WITHDRAWN})
        return str(next((entry.body.get("reasons", "") for entry in said), ""))

    @property
    def waits_for_session(self) -> bool:
        """Whether people were told that the session of the open ask waits for a free slot, and nothing since."""
        return self.fact("queued") == str(self.thread.ask)

    @property
    def wishes(self) -> tuple[Entry, ...]:
        """The entries of all whose words are in what is planned: each plan builds on the one before, until one is
        carried out or its round is over."""
        over = {Move.PUBLISHED, Move.DELIVERED, Move.CLOSED}
        found, built_on = self.asked_for, False
        for entry in reversed(self.entries[: found[0].n - 1]):
            if entry.kind in over:
                break
            built_on = built_on or entry.kind in _MADE
            if built_on and (entry.kind == Move.REQUESTED or (entry.kind == Move.NOTED and not entry.body.get("kept"))):
                found = (entry, *found)
            built_on = built_on and entry.kind != Move.REQUESTED
        return found

    @property
    def requesters(self) -> frozenset[int]:
        """Whose words are planned for, as numeric ids: with four eyes none of them approves the plan."""
        return frozenset(who for entry in self.wishes for who in (entry.body["actor"], *entry.body.get("hands", ())))

    @property
    def hidden(self) -> Hidden:
        """What was removed from what is planned for, and from what else of the thread was read, as nobody sees it."""
        newest = self.asked_for[-1].body
        if "beside" in newest:  # which holds what is hidden in all others
            own = [Hidden.from_json(newest["hidden"])] if "hidden" in newest else []
            return sum(own, start=Hidden()) + Hidden.from_json(newest["beside"])
        found = (Hidden.from_json(entry.body["hidden"]) for entry in self.asked_for if "hidden" in entry.body)
        return sum(found, start=Hidden())

    @property
    def seen(self) -> frozenset[str]:
        """The keys of all turns that were taken in or set aside."""
        return frozenset(entry.body["turn"] for entry in self.entries if "turn" in entry.body)

    @property
    def heard_to(self) -> datetime | None:
        """The time to which all that was said was heard: the newest turn's, or that of the oldest that waits."""
        entries = [entry.body for entry in self.entries if "turn_at" in entry.body]
        waits = self.fact("waits")
        times = [waits] if waits else [entry["turn_at"] for entry in entries]
        return max(map(datetime.fromisoformat, times), default=None)

    @property
    def kept(self) -> tuple[Entry, ...]:
        """The turns that came while approved work ran and that nobody has worked on yet."""
        done = {entry.body["turn"] for entry in self.entries if entry.kind == Move.REQUESTED}
        noted = (entry for entry in self.entries if entry.kind == Move.NOTED and entry.body.get("kept"))
        return tuple(entry for entry in noted if entry.body["turn"] not in done)

    @property
    def debts(self) -> tuple[Entry, ...]:
        """The entries that owe the people a text which was not told yet."""
        told = {entry.body["answers"] for entry in self.entries if entry.kind == TOLD}
        return tuple(entry for entry in self.entries if entry.body.get("owes") and entry.n not in told)

    def owed(self, at: datetime) -> tuple[Entry, ...]:
        """List the debts that a look at that time tells: what moves owe, and replies that were left behind."""
        return tuple(entry for entry in self.debts if entry.kind != HEARD or entry.at < at - LEFT_BEHIND)

    @property
    def takes_kept(self) -> bool:
        """Whether a kept turn can begin now: approved work is over, one way or another."""
        over = Move.REQUESTED in TRANSITIONS[self.stage] and self.stage not in WAITS_FOR_PEOPLE
        return over and bool(self.kept)

    @property
    def cost_usd(self) -> float | None:
        """What all that is journaled has cost, in dollars; None where nothing was priced."""
        costs = [float(entry.body["cost_usd"]) for entry in self.entries if entry.body.get("cost_usd") is not None]
        return sum(costs) if costs else None

    @property
    def finished(self) -> bool:
        """Whether the round is over, the people know, and the same request would mean a new one."""
        return self.stage in {Stage.DONE, Stage.ANSWERED, Stage.REJECTED} and not self.debts

    @property
    def run(self) -> str:
        """The GitHub Actions run that works on this thread, or did; "" for none."""
        return self.fact("run")

    def fact(self, name: str, default: str = "") -> str:
        """Return the newest value of that name that any entry carries."""
        return next((str(entry.body[name]) for entry in reversed(self.entries) if name in entry.body), default)

    def last(self, *kinds: str) -> Entry:
        """Return the newest entry of one of these kinds. Raises Broken if there is none."""
        found = next((entry for entry in reversed(self.entries) if entry.kind in kinds), None)
        if found is None:
            raise Broken(f"the journal has no entry that is {' or '.join(kinds)}")
        return found

    def has(self, *moves: Move) -> bool:
        """Return whether there is an entry of one of these kinds."""
        return any(entry.kind in moves for entry in self.entries)


def fold_entries(entries: Sequence[Entry]) -> Record:
    """Replay a journal; raises IllegalEvent when it holds a move that the gate's table has not."""
    thread, voided = Thread(), 0
    for entry in entries:
        if entry.kind not in _MOVES:
            continue
        if thread.stage in PLAN_MAY_BE_SHOWN and entry.kind in {Move.REQUESTED, Move.CLOSED}:
            voided = entry.n
        elif entry.kind == Move.PROPOSED:
            voided = 0
        thread, _ = step(thread, event(entry))
    return Record(thread, len(entries), tuple(entries), voided)


def event(entry: Entry) -> Event:
    """Read an entry as the gate's event."""
    digest = entry.body.get("digest")
    return Event(Move(entry.kind), entry.body.get("ask"), Digest(digest) if digest else None)


def turn_facts(turn: Turn) -> Json:
    """Return the facts that an entry keeps of a turn."""
    return {
        "turn": turn.key,
        "actor": turn.actor.id,
        "login": turn.actor.login,
        "text": turn.text,
        "turn_at": turn.at.isoformat(),
        **({"foreign": True} if turn.foreign else {}),
        **({"strangers": True} if turn.strangers else {}),
        **({"hands": list(turn.hands)} if turn.hands else {}),
        **({"hidden": Hidden.of(turn.hidden).to_json()} if turn.hidden else {}),
        **({"waits": turn.waits} if turn.waits is not None else {}),
    }


def addition_text(entry: Entry) -> str:
    """Return what somebody added to a request, as the planner reads it."""
    return f"@{entry.body['login']} adds: {entry.body['text']}"


def renewed_request(record: Record, turn: Turn) -> Json:
    """Return the facts of a request that repeats everything asked so far, made by a turn that adds no words."""
    request, *additions = record.asked_for
    text = "\n\n".join((request.body["text"], *map(addition_text, additions)))
    foreign, strangers = (any(entry.body.get(flag) for entry in record.asked_for) for flag in ("foreign", "strangers"))
    again = replace(
        turn, actor=record.turn.actor, text=text, foreign=foreign, strangers=strangers, hands=(), hidden=()
    )  # whose hands were in it is journaled with the words (`wishes`)
    return turn_facts(again) | ({"hidden": record.hidden.to_json()} if record.hidden.count else {})


def turn_of(facts: Json) -> Turn:
    """Read back what `taken` gave."""
    actor = Actor(facts["actor"], facts["login"])
    return Turn(facts["turn"], actor, facts["text"], datetime.fromisoformat(facts["turn_at"]))
