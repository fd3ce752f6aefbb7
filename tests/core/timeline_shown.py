"""A timeline as GitHub shows it, and the bot's own pure parts on it: what a check sees, what comes of it, the gate."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from bot.core.approval import Candidate, Policy, ShownPlan, Snapshot, Verdict, VerdictOutcome, Way, prove, rejecters
from bot.core.comment import work_begun_line
from bot.core.gate import TRANSITIONS, Event, Move, Stage, Thread, step
from bot.core.markdown.visible import command_lines
from bot.core.names import Digest
from bot.core.plan import PlanDocument
from bot.core.turn import Actor, ActorKind, Role
from bot.github.dialogue import plan_comment
from bot.github.edit_history import history
from bot.github.snapshot import VOTES, decisions, standing_tick
from bot.github.threads import ThreadPost
from tests.core import timeline as happened
from tests.core.approval_table import NOON, PLAN
from tests.core.timeline import BOTS, DAY, PEOPLE, Timeline

MENTION: Final = "@plangate"
BOT: Final = 99
_ACTORS: Final = {name: Actor(number, name) for number, name in enumerate(PEOPLE, 1)} | {
    "ci": Actor(50, "ci", ActorKind.BOT),
    "plangate": Actor(BOT, "plangate", ActorKind.BOT),
}
_ROLES: Final = {
    "admin": Role.ADMIN,
    "maintain": Role.MAINTAIN,
    "write": Role.WRITE,
    "none": Role.NONE,
    "unknown": None,
}
_CONTENT: Final = {"👍": "THUMBS_UP", "🚀": "ROCKET", "👎": "THUMBS_DOWN", "😕": "CONFUSED", "❤️": "HEART"}
_ENDS: Final = {
    VerdictOutcome.APPROVED: Move.APPROVED,
    VerdictOutcome.REJECTED: Move.REJECTED,
    VerdictOutcome.STALE: Move.DRIFTED,
    VerdictOutcome.EXPIRED: Move.EXPIRED,
}
_BOX: Final = ("- [ ] Approve", "- [x] Approve")
_INTERRUPTED: Final = {Stage.STOPPED, Stage.STALE, Stage.EXPIRED}


def _stamp(at: int) -> str:
    return f"{_time(at):%Y-%m-%dT%H:%M:%SZ}"


def _time(at: int) -> datetime:
    return NOON + timedelta(seconds=at)


def _node(who: str) -> dict[str, Any]:
    actor = _ACTORS[who]
    return {"__typename": "User" if actor.kind is ActorKind.USER else "Bot", "login": who, "databaseId": actor.id}


@dataclass(slots=True)
class Comment:
    """A plan comment as GitHub keeps it: each version with who made it and when, the posting first."""

    plan: PlanDocument
    versions: list[tuple[int, str, str]]
    reactions: dict[tuple[str, str], int] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)
    """What it showed, the box aside, each time that work began; the journal accounts for that."""
    folded: bool = False
    deleted: bool = False
    drifted: bool = False

    @property
    def body(self) -> str:
        """What it shows now."""
        return self.versions[-1][2]

    def edit(self, at: int, who: str, body: str) -> None:
        """Change it; an edit that changes nothing is none."""
        if body != self.body:
            self.versions.append((at, who, body))

    def node(self) -> dict[str, Any]:
        """Return it as GraphQL does: newest edit first, the posting among them once there is an edit."""
        edits = [
            {"editedAt": _stamp(at), "deletedAt": None, "diff": text, "editor": _node(who)}
            for at, who, text in reversed(self.versions)
        ]
        edits = edits if len(edits) > 1 else []
        at, who, body = self.versions[-1]
        return {
            "createdAt": _stamp(self.versions[0][0]),
            "lastEditedAt": _stamp(at) if edits else None,
            "editor": _node(who) if edits else None,
            "author": _node("plangate"),
            "body": body,
            "userContentEdits": {"totalCount": len(edits), "nodes": edits},
        }


class Bot:
    """A thread with the bot on it: `take` lets one thing happen; the gate's thread says what came of it."""

    def __init__(self, timeline: Timeline) -> None:
        role = Role.WRITE if timeline.writers_may else Role.MAINTAIN
        self.policy = Policy(role, timeline.four_eyes, bot=BOT)
        self.tier = "high" if timeline.high else "normal"
        self.thread = Thread()
        self.roles = dict(PEOPLE)
        self.said: list[ThreadPost] = []
        self.comment: Comment
        self.requester = ""
        self.plans = 0
        self.closed = self.locked = self.fails = False
        self.now = 0

    def take(self, event: happened.Event) -> None:
        """Let one thing happen."""
        self.now = event.at
        match event.what:
            case "asks":
                self._asked(event.who)
            case "checks":
                self._checked()
            case "work ends" if self.thread.stage is Stage.EXECUTING:
                self._move(Move.EXECUTED)
                self._move(Move.PUBLISHED if self._approved() else Move.WITHDRAWN)
            case "work outgrows" if self.thread.stage is Stage.EXECUTING:
                self._move(Move.EXECUTED)
                self._proposed(Move.OUTGREW)
            case "stops":
                self._move(Move.STOPPED)
            case "retries":
                self._retried()
            case "merges" if Move.CLOSED in TRANSITIONS[self.thread.stage]:
                self._move(Move.CLOSED)
                self.plans = 0
            case _:
                self._done_to_it(event)

    def _done_to_it(self, event: happened.Event) -> None:
        match event.what:
            case "becomes":
                self.roles[event.who] = event.how
            case "closes" | "reopens":
                self.closed = event.what == "closes"
            case "locks" | "unlocks":
                self.locked = event.what == "locks"
            case "GitHub fails" | "GitHub works":
                self.fails = event.what == "GitHub fails"
            case "says":
                self.said.append(
                    ThreadPost(str(len(self.said)), _ACTORS[event.who], self._text(event.how), _time(event.at))
                )
            case "rewrites" if self.said:
                self.said[-1] = replace(self.said[-1], body=self._text(event.how), edited_at=_time(event.at))
            case "deletes what was said" if self.said:
                self.said.pop()
            case _:
                self._done_to_the_plan(event, self.comment)

    def _done_to_the_plan(self, event: happened.Event, plan: Comment) -> None:
        off, on = _BOX
        match event.what:
            case "reacts":
                plan.reactions.setdefault((event.who, event.how), event.at)
            case "takes back":
                plan.reactions.pop((event.who, event.how), None)
            case "ticks":
                plan.edit(event.at, event.who, plan.body.replace(off, on))
            case "unticks":
                plan.edit(event.at, event.who, plan.body.replace(on, off))
            case "alters":
                plan.edit(event.at, event.who, self._altered(plan.body))
            case "alters and ticks":
                plan.edit(event.at, event.who, self._altered(plan.body).replace(off, on))
            case "restores":
                plan.edit(event.at, event.who, plan.body.partition("\nAltered")[0])
            case "deletes the plan":
                plan.deleted = True
            case "folds the plan" | "unfolds the plan":
                plan.folded = event.what == "folds the plan"
            case "pushes into the scope":
                plan.drifted = True
            case _:
                pass

    def _altered(self, body: str) -> str:
        return f"{body.partition(chr(10) + 'Altered')[0]}\nAltered at {self.now}, {len(self.comment.versions)}."

    def _text(self, saying: str) -> str:
        """Write what somebody says; THIS is the newest plan's digest."""
        digest = self.comment.plan.digest
        last = replace(self.comment.plan, plan=self.comment.plan.plan - 1).digest[:12]
        texts = {
            "approve": f"{MENTION} approve",
            "approve THIS": f"{MENTION} approve {digest[:12]}",
            "approve the last one": f"{MENTION} approve {last}",
            "slash approve THIS": f"Fine.\n\n/plangate approve `{digest}`",
            "reject": f"{MENTION} reject too big",
            "quotes approve THIS": f"> {MENTION} approve {digest[:12]}\n\nReally?",
            "code approve THIS": f"`{MENTION} approve {digest[:12]}`",
            "approve 11 digits": f"{MENTION} approve {digest[:11]}",
        }
        return texts.get(saying, saying)

    # --- the gate ------------------------------------------------------------------------------------------------

    def _move(self, move: Move, digest: Digest | None = None) -> None:
        self.thread, _ = step(self.thread, Event(move, self.thread.ask, digest or self.thread.digest))

    def _asked(self, who: str) -> None:
        if Move.REQUESTED not in TRANSITIONS[self.thread.stage]:
            self._move(Move.NOTED)
            return
        self._move(Move.REQUESTED)
        self.requester = who
        self._proposed(Move.PLANNED)

    def _proposed(self, move: Move) -> None:
        """Show the next version."""
        number = self.thread.plan + 1
        expires = _time(self.now) + timedelta(seconds=7 * DAY)
        plan = replace(PLAN, plan=number, tier=self.tier, expires=expires)
        self.plans += 1
        self.comment = Comment(plan, [(self.now, "plangate", plan_comment(plan, MENTION))])
        self._move(move, plan.digest)
        self._move(Move.PROPOSED)

    def _retried(self) -> None:
        if self.thread.stage not in _INTERRUPTED:
            return
        if self.thread.stage is Stage.STOPPED and self.thread.approved:
            self._move(Move.RESUMED)
            if not self._approved():
                self._move(Move.WITHDRAWN)
            return
        self._move(Move.RETRIED)
        self._proposed(Move.PLANNED)

    def _checked(self) -> None:
        snapshot = self.snapshot()
        if self.thread.stage is Stage.AWAITING_APPROVAL:
            verdict, _ = prove(self.comment.plan, snapshot, self.policy, _time(self.now))
            if verdict.outcome in _ENDS:
                self._move(_ENDS[verdict.outcome])
            if verdict.outcome is VerdictOutcome.APPROVED:
                self._begun(verdict)
        elif self.thread.stage is Stage.EXECUTING and (
            not snapshot.open or rejecters(self.comment.plan, snapshot, self.policy)
        ):
            self._move(Move.STOPPED)

    def _begun(self, verdict: Verdict) -> None:
        """Work begins: its plan's comment says so, whatever it showed, with the box as it is."""
        plan, (off, on) = self.comment, _BOX
        line = work_begun_line([actor.login for actor in verdict.by], _time(self.now))
        plan.begun.append(f"{line}\n\n{plan.versions[0][2]}")
        plan.edit(self.now, "plangate", plan.begun[-1].replace(off, on) if on in plan.body else plan.begun[-1])

    def _approved(self) -> bool:
        _, proof = prove(self.comment.plan, self.snapshot(), self.policy, _time(self.now))
        return proof is not None

    # --- the check ------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """See what a check sees."""
        plan, requesters = self.comment, frozenset({_ACTORS[self.requester].id})
        if self.fails:
            return Snapshot(ShownPlan(plan.plan.expires), complete=False, requesters=requesters, plans=self.plans)
        if plan.deleted:
            gone = ShownPlan(plan.plan.expires, hidden=True)
            return Snapshot(gone, open=not self.closed, requesters=requesters, plans=self.plans)
        past = history(plan.node(), plan.versions[0][2], plan.begun)
        votes = [
            Candidate(_ACTORS[who], Way.REACTION, VOTES[_CONTENT[emoji]], _time(at), None)
            for (who, emoji), at in plan.reactions.items()
            if who not in BOTS and _CONTENT[emoji] in VOTES  # GitHub names no user of a bot's reaction
        ]
        posted = _time(plan.versions[0][0])
        said = [said for said in self.said if said.at >= posted and said.actor.id != BOT]
        words = [
            *standing_tick(past),
            *votes,
            *(word for each in said for word in decisions(each, command_lines(each.body), MENTION)),
        ]
        roles = {word.actor.login: _ROLES[self.roles.get(word.actor.login, "none")] for word in words}
        return Snapshot(
            ShownPlan(past.since, past.intact, plan.folded),
            tuple(replace(word, role=roles[word.actor.login]) for word in words),
            open=not self.closed,
            locked=self.locked,
            drifted=("src/a.py",) if plan.drifted else (),
            complete=None not in roles.values(),
            requesters=requesters,
            plans=self.plans,
            approvers=self._who_may(),
        )

    def _who_may(self) -> frozenset[int] | None:
        roles = {who: _ROLES[self.roles[who]] for who in PEOPLE}
        if None in roles.values():
            return None
        return frozenset(
            _ACTORS[who].id for who, role in roles.items() if role is not None and role >= self.policy.role
        )
