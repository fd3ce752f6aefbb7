"""Random journals as they are stored, and what a state says of the past, as JSON to compare with recorded values."""

import json
import random
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta

from bot.core.codec import encode
from bot.core.gate import ANSWERS, TRANSITIONS, Event, Move, Thread, step
from bot.core.moves import Entry
from bot.core.names import CommitId, RepositoryId, ThreadNumber, ToolUseId
from bot.core.plan import Contract, PlanDocument, to_json
from bot.core.question import permission
from bot.core.thread.state import ThreadState
from bot.core.transcript import Json

BEGAN = datetime(2026, 11, 20, 8, 30, tzinfo=UTC)
PLAN = PlanDocument(
    repository=RepositoryId(1),
    thread=ThreadNumber(2),
    plan=1,
    base=CommitId("a" * 40),
    markdown="Do it.",
    contract=Contract(("a.py",)),
    tier="normal",
    budget_usd=5.0,
    expires=BEGAN,
)
NOTES = ("heard", "told", "shown", "folded", "noticed", "network", "prepared", "taken", "spent", "explained")
_HAND_IN = (Move.PLANNED, Move.PROPOSED, Move.APPROVED, Move.EXECUTED)
_OWE = {Move.REJECTED, Move.DRIFTED, Move.EXPIRED, Move.FAILED, Move.LIMITED, Move.STOPPED}


class History:
    """One random journal that grows."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.thread = Thread()
        self.entries: list[Entry] = []

    def grow(self) -> None:
        """Add one entry: a move that the gate allows, or a note."""
        if self.thread.ask and self.chance.random() < 0.35:
            kind = self.chance.choice((*NOTES, "queued", "pushing", "of a newer version"))
            self._append(kind, self._note(kind))
            return
        moves = [*TRANSITIONS[self.thread.stage]]
        if self.chance.random() < 0.6:
            moves = [move for move in moves if move in _HAND_IN] or moves
        if not self.thread.approved or self.thread.approved != self.thread.digest:
            moves = [move for move in moves if move not in {Move.RESUMED, Move.INSTRUCTED}]
        move = self.chance.choice(moves)
        body = self._move(move)
        self.thread, _ = step(self.thread, Event(move, body.get("ask"), body.get("digest")))
        self._append(str(move), body)

    def _append(self, kind: str, body: Json) -> None:
        at = BEGAN + timedelta(minutes=5 * len(self.entries))
        self.entries.append(Entry(len(self.entries) + 1, at, kind, json.loads(json.dumps(body))))

    def _some(self, **facts: object) -> Json:
        """Return some of the facts: each is there or not."""
        return {key: value for key, value in facts.items() if self.chance.random() < 0.5}

    def _people(self) -> list[str]:
        return self.chance.sample(["ada", "bob"], self.chance.randint(1, 2))

    def _turn(self, key: str = "") -> Json:
        n = len(self.entries)
        who = self.chance.randint(7, 9)
        at = BEGAN + timedelta(minutes=self.chance.randint(0, 9 * n + 1))
        first = "issue" if n == 0 else f"comment-{n}"
        turn: Json = {"turn": key or first, "actor": who, "login": f"u{who}", "text": "Do.", "turn_at": at.isoformat()}
        hidden = {"count": n + 1, "shown": ["x"]}
        waits = self.chance.choice(["", BEGAN.isoformat()])
        return turn | self._some(foreign=True) | self._some(strangers=True, hands=[3], hidden=hidden, waits=waits)

    def _move(self, move: Move) -> Json:
        body = self._own(move)
        if move in {Move.PLANNED, Move.ASKED, Move.EXECUTED} and self.chance.random() < 0.7:
            body |= {"cost_usd": self.chance.randint(1, 9) / 8, "session": body.get("session", "plan-1")}
        if move in ANSWERS:
            body["ask"] = self.thread.ask
        if move in {Move.PLANNED, Move.OUTGREW}:
            body["digest"] = replace(PLAN, plan=self.thread.plan + 1).digest
        elif move in {Move.PROPOSED, Move.APPROVED, Move.INSTRUCTED, Move.EXECUTED, Move.PUBLISHED, Move.DELIVERED}:
            body["digest"] = self.thread.digest
        change = {"from": "plan", "to": self.chance.choice(["plan", "default"]), "by": self._people()}
        return body | self._some(run=f"run-{self.chance.randint(1, 3)}") | self._some(mode_change=change)

    def _own(self, move: Move) -> Json:
        n = len(self.entries)
        some = self._some
        match move:
            case Move.REQUESTED:
                beside = some(beside={"count": 2, "shown": ["y"]})
                waiting = [entry.body["turn"] for entry in self.entries if entry.body.get("kept")]
                turn = self._turn(self.chance.choice(waiting) if waiting and self.chance.random() < 0.5 else "")
                return (
                    turn
                    | beside
                    | {"base": f"{n:040x}", "title": f"T{n}"}
                    | some(onto="b", forgotten=n + 1, apart=n + 1)
                )
            case Move.NOTED:
                return (
                    self._turn() | some(beside={"count": 1, "shown": ["z"]}) | {"kept": self.thread.stage != "planning"}
                )
            case Move.PLANNED | Move.OUTGREW:
                return {"plan": to_json(replace(PLAN, plan=self.thread.plan + 1))}
            case Move.ANSWERED:
                return {"answer": f"It is {n}.", "owes": f"It is {n}."}
            case Move.ASKED:
                asking = permission(ToolUseId(f"call-{n}"), "Bash", f"make {n}", "why")
                return {"asking": asdict(asking), "session": "work-1"}
            case Move.REPLIED | Move.INSTRUCTED:
                asked = next(entry.body for entry in reversed(self.entries) if entry.kind == Move.ASKED)
                said = {"call": asked["asking"]["call"], "session": asked["session"], "by": ["ada"], "login": "ada"}
                grant = {"grant": self.chance.choice(["once", "plan", "no"]), "tool": "Bash", "subject": f"make {n}"}
                return said | {"reply": "Yes."} | some(turn=f"answer-{n}") | (grant if n % 2 else {})
            case _:
                return self._result(move, n)

    def _result(self, move: Move, n: int) -> Json:  # noqa: PLR0911 - one a kind
        made = {"branch": f"b{n}", "commit": f"{n:040x}", "paths": ["a.py"]}
        match move:
            case Move.PROPOSED:
                return {"shown": f"comment-{n}", "shown_url": f"https://x/{n}"}
            case Move.APPROVED:
                return {"reasons": "", "by": self._people(), "approved_at": BEGAN.isoformat()}
            case Move.EXECUTED:
                check = {"command": "make", "exit_code": 0, "seconds": 1.5, "output": ""}
                return {"title": f"T{n}", "summary": f"S{n}", "checks": [check]} | self._some(tree="t" * 40)
            case Move.PUBLISHED:
                url = {"pull_request": f"https://x/{n}", "pull_number": n, "owes": f"PR {n}"}
                return made | url | self._some(reviews=["review-1"])
            case Move.DELIVERED:
                return made | {"owes": f"Branch b{n}"}
            case Move.WITHDRAWN:
                return self._some(reasons=f"R{n}")
            case Move.STOPPED | Move.RETRIED | Move.RESUMED if self.chance.random() < 0.5:
                return self._turn() | ({"owes": "Stopped."} if move is Move.STOPPED else {})
            case _ if move in _OWE:
                by = {"reasons": "why", "by": self._people()} if move is Move.REJECTED else {}
                return by | (self._some(detail=f"D{n}") if move is not Move.STOPPED else {}) | {"owes": f"Over {n}."}
            case _:
                return {}

    def _note(self, kind: str) -> Json:  # noqa: PLR0911 - one a kind
        n = len(self.entries)
        match kind:
            case "heard":
                set_back: Json = {"forgotten": n + 1, "apart": n + 1}
                command: Json = self.chance.choice([{"mode": "default"}, {"budget_usd": 1.5}, set_back])
                days: list[Json] = [{"refused": "2026-11-20"}, {"quota": "2026-11-20"}, command, {}]
                return self._turn() | self.chance.choice(days) | self._some(owes=f"Answer {n}.")
            case "told":
                debts = [entry.n for entry in self.entries if entry.body.get("owes")]
                return {"answers": self.chance.choice(debts or [1])}
            case "shown":
                at = BEGAN.isoformat()
                return {"ask": self.thread.ask, "question": f"q{n}", "question_url": "", "question_at": at}
            case "folded":
                return {"folded": n % 2} | ({"shown": f"old-{n}"} if n % 2 else {})
            case "noticed":
                return {"owes": f"No {n % 3}."}
            case "network":
                return {"session": "work-1", "reached": [{"host": "x", "times": n}]}
            case "prepared":
                return {"commands": [], "left": {"a": "gone"}}
            case "taken":
                return {"run": f"run-{n}"}
            case _:
                return self._late_note(kind, n)

    def _late_note(self, kind: str, n: int) -> Json:
        match kind:
            case "spent":
                return {"session": f"plan-{n % 3}", "cost_usd": n / 8}
            case "explained":
                return {"reasons": f"Because {n}."}
            case "queued":
                return {"queued": self.chance.choice([0, self.thread.ask])}
            case "pushing":
                made = {"branch": "b", "commit": f"{n:040x}", "paths": ["a.py"]}
                return {"digest": self.thread.digest or "d" * 64, "made": made}
            case _:
                return {"what": [n], "cost_usd": 0.25}


def histories(count: int, length: int) -> Iterator[tuple[Entry, ...]]:
    """Return random journals of that length, the same ones each time."""
    for seed in range(count):
        history = History(seed)
        for _ in range(length):
            history.grow()
        yield tuple(history.entries)


def state_values(state: ThreadState) -> Json:
    asking = encode(state.question.newest)["asking"]["call"] if state.question.newest else None
    return {
        "stage": state.stage,
        "written": state.written,
        "base": state.request.base,
        "onto": state.request.onto,
        "turn": state.request.turn.key,
        "sessions": [state.request.planning_session, state.request.work_session],
        "plan": state.plan.newest and state.plan.newest.plan,
        "replaced": state.plan.to_replace and state.plan.to_replace.plan,
        "refused": list(state.plan.rejected_by),
        "lost": list(state.unconfirmed_asks),
        "void": state.has_void_plan,
        "plans": state.plan.versions,
        "pushing": state.work.pushing and state.work.pushing.commit,
        "published": state.work.published and state.work.published.pull_number,
        "begun": list(state.approval.work_begun_lines),
        "executed": state.work.was_finished,
        "steers": state.has_approved_work,
        "asking": asking,
        "question": state.question.shown and state.question.shown.question,
        "granted": sorted(map(list, state.approval.granted)),
        "mode": state.approval.mode,
        "asked_for": [each.said.key for each in state.request.newest_entries],
        "wishes": [each.said.key for each in state.request.entries],
        "requesters": sorted(state.requesters),
        "hidden": encode(state.request.hidden),
        "kept": [each.said.key for each in state.request.kept_turns],
        "debts": [unposted.n for unposted in state.turns.unposted_texts],
        "seen": sorted(state.turns.seen),
        "asked_at": state.turns.last_request_at.isoformat(),
        "heard_to": state.turns.until and state.turns.until.isoformat(),
        "explained": state.plan.posted_explanation,
        "waits_for_session": state.waits_for_session,
        "takes_kept": state.can_begin_kept_turn,
        "finished": state.is_finished,
        "cost_usd": state.costs.total_usd,
        "run": state.work.run,
        "shown": state.plan.comment,
        "pull_request": state.work.pull_request_url,
        "chosen_mode": state.approval.chosen_mode,
    }
