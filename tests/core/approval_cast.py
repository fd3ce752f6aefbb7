"""Who is who in the table of decisions, and how its sentences are read: as a plan, a snapshot, a policy and a time."""

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from bot.core.approval import Candidate, Opinion, Policy, ShownPlan, Snapshot, Standing, Verdict, Way
from bot.core.names import CommitId, RepositoryId, ThreadNumber
from bot.core.plan import Contract, PlanDocument
from bot.core.turn import Actor, ActorKind, Role

NOON: Final = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
"""When the plan was shown."""
BOT: Final = 99
PLAN: Final = PlanDocument(
    repository=RepositoryId(5),
    thread=ThreadNumber(8),
    plan=2,
    base=CommitId("c" * 40),
    markdown="Do it.",
    contract=Contract(scope=("src/**",)),
    tier="normal",
    budget_usd=5.0,
    expires=NOON + timedelta(days=7),
)
OTHER: Final = replace(PLAN, plan=1)
STANDING: Final = Standing("task", ("src/**",), asked_before=True)


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody of the table, with what is looked up about them."""

    actor: Actor
    role: Role | None
    listed: bool | None = False


CAST: Final = {
    "ada": Person(Actor(1, "ada"), Role.ADMIN),
    "maya": Person(Actor(2, "maya"), Role.MAINTAIN),
    "max": Person(Actor(3, "max"), Role.MAINTAIN),
    "olga": Person(Actor(4, "olga"), Role.MAINTAIN),  # asked for the plan
    "will": Person(Actor(6, "will"), Role.WRITE),
    "tess": Person(Actor(7, "tess"), Role.TRIAGE),
    "rita": Person(Actor(8, "rita"), Role.READ),
    "sam": Person(Actor(9, "sam"), Role.NONE),
    "uma": Person(Actor(10, "uma"), None),  # could not be looked up
    "lena": Person(Actor(11, "lena"), Role.WRITE, listed=True),
    "tina": Person(Actor(19, "tina"), Role.WRITE, listed=None),  # GitHub does not tell who is in a team
    "zoe": Person(Actor(12, "zoe"), Role.NONE, listed=True),
    "ulf": Person(Actor(13, "ulf"), None, listed=True),
    "ci": Person(Actor(14, "ci", ActorKind.BOT), Role.ADMIN),
    "dora": Person(Actor(15, "dora", ActorKind.BOT), Role.ADMIN, listed=True),
    "mona": Person(Actor(16, "mona", ActorKind.MANNEQUIN), Role.ADMIN),
    "ghost": Person(Actor(17, "ghost", ActorKind.GONE), Role.ADMIN),
    "plangate": Person(Actor(BOT, "plangate", ActorKind.BOT), Role.ADMIN),
    "machine": Person(Actor(BOT, "machine"), Role.ADMIN),  # the bot as a machine account
    "namesake": Person(Actor(18, "plangate"), Role.MAINTAIN),
    "maya renamed": Person(Actor(2, "maya-2"), Role.MAINTAIN),
}
_IDS: Final = {name: person.actor.id for name, person in CAST.items()}
_SAYS: Final = {
    "👍": (Way.REACTION, Opinion.APPROVE),
    "🚀": (Way.REACTION, Opinion.APPROVE),
    "👎": (Way.REACTION, Opinion.REJECT),
    "😕": (Way.REACTION, Opinion.REVISE),
    "ticks": (Way.TICK, Opinion.APPROVE),
    "approves": (Way.COMMAND, Opinion.APPROVE),
    "rejects": (Way.COMMAND, Opinion.REJECT),
    "mails yes": (Way.MAIL, Opinion.APPROVE),
    "mails no": (Way.MAIL, Opinion.REJECT),
    "clicks": (Way.DASHBOARD, Opinion.APPROVE),
    "types yes": (Way.TERMINAL, Opinion.APPROVE),
    "types no": (Way.TERMINAL, Opinion.REJECT),
}
_DIGITS: Final = {
    "11-digits": PLAN.digest[:11],
    "12-digits": PLAN.digest[:12],
    "12-capitals": PLAN.digest[:12].upper(),
    "12-digits-but-the-last": PLAN.digest[:11] + ("0" if PLAN.digest[11] != "0" else "1"),
    "13-digits": PLAN.digest[:13],
    "64-digits": PLAN.digest,
    "65-digits": PLAN.digest + "0",
    "middle-digits": PLAN.digest[12:24],
    "the-other-plan": OTHER.digest[:12],
}
_WORD: Final = re.compile(
    rf"(?P<who>{'|'.join(sorted(CAST, key=len, reverse=True))}) (?P<says>{'|'.join(_SAYS)})"
    rf"(?: (?P<digits>{'|'.join(sorted(_DIGITS, key=len, reverse=True))}))?(?P<edited> edited)?(?: at (?P<at>-?\d+))?"
)
_LOOKS: Final[dict[str, dict[str, Any]]] = {
    "two plans": {"plans": 2},
    "edited at 60": {"shown": ShownPlan(NOON + timedelta(seconds=60))},
    "closed": {"open": False},
    "transferred": {"open": False, "shown": ShownPlan(NOON, hidden=True)},
    "locked": {"locked": True},  # nobody can react any more; who may write still comments
    "a look-up failed": {"complete": False},
    "overtaken": {"overtaken": True},
    "drifted": {"drifted": ("src/a.py",)},
    "other files changed": {},
    "maya added to the request": {"requesters": frozenset({_IDS["olga"], _IDS["maya"]})},
    "the task stands": {"standing": STANDING},
    "the task is new": {"standing": replace(STANDING, asked_before=False)},
    "the task is elsewhere": {"standing": replace(STANDING, paths=("docs/**",))},
    "nobody may": {"approvers": frozenset()},
    "only maya may": {"approvers": frozenset({_IDS["maya"]})},
    "only maya and the bot may": {"approvers": frozenset({_IDS["maya"], BOT})},
    "maya owns it": {"owners": frozenset({_IDS["maya"]})},
    "will owns it": {"owners": frozenset({_IDS["will"]})},
    "olga owns it": {"owners": frozenset({_IDS["olga"]})},
    "maya and max may": {"approvers": frozenset({_IDS["maya"], _IDS["max"]})},
    "maya and olga may": {"approvers": frozenset({_IDS["maya"], _IDS["olga"]})},
}
_SHOWS: Final[dict[str, dict[str, Any]]] = {
    "altered": {"intact": False},
    "hidden": {"hidden": True},
    "deleted": {"hidden": True},
}
_POLICIES: Final[dict[str, dict[str, Any]]] = {
    "four eyes": {"four_eyes": True},
    "writers may": {"role": Role.WRITE},
    "admins alone may": {"role": Role.ADMIN},
    "one is needed": {"high_needs": 1},
    "three are needed": {"high_needs": 3},
}
_TIERS: Final = {"tier low": "low", "tier high": "high"}
_TIMES: Final = {
    "one second before it expires": timedelta(days=7, seconds=-1),
    "expired to the second": timedelta(days=7),
    "expired long ago": timedelta(days=14),
}


@dataclass(frozen=True, slots=True)
class Case:
    """One row as what `evaluate` is given, and what the row says of it: outcome, by whom, why."""

    plan: PlanDocument
    snapshot: Snapshot
    policy: Policy
    now: datetime
    outcome: str
    by: str
    why: str


def case(row: str) -> Case:
    given, _, expected = row.partition(" => ")
    said, _, under = (part.strip() for part in given.partition("|"))
    circumstances = [each.strip() for each in under.split(",") if each.strip()]
    plan, now = PLAN, NOON + timedelta(hours=1)
    look: dict[str, Any] = {}
    shows: dict[str, Any] = {}
    policy: dict[str, Any] = {}
    for each in circumstances:
        plan = replace(plan, tier=_TIERS[each]) if each in _TIERS else plan
        now = NOON + _TIMES.get(each, now - NOON)
        look |= _LOOKS.get(each, {})
        shows |= _SHOWS.get(each, {})
        policy |= _POLICIES.get(each, {})
        assert any(each in known for known in (_TIERS, _TIMES, _LOOKS, _SHOWS, _POLICIES)), each
    words = tuple(_word(each.strip(), plan) for each in said.split(",") if each.strip())
    olga = frozenset({_IDS["olga"]})
    snapshot = replace(Snapshot(ShownPlan(NOON), words, requesters=olga), **look)
    snapshot = replace(snapshot, shown=replace(snapshot.shown, **shows))
    head, _, why = expected.partition(":")
    outcome, _, by = head.strip().partition(" by ")
    return Case(plan, snapshot, replace(Policy(bot=BOT), **policy), now, outcome, by, why.strip())


def _word(text: str, plan: PlanDocument) -> Candidate:
    found = _WORD.fullmatch(text)
    assert found, text
    person = CAST[found["who"]]
    way, opinion = _SAYS[found["says"]]
    digest = _DIGITS[found["digits"]] if found["digits"] else ""
    if digest and plan is not PLAN:  # the digits of this row's plan
        digest = digest.lower().replace(PLAN.digest[:12], plan.digest[:12])
    if way in {Way.DASHBOARD, Way.TERMINAL} and not digest:
        digest = plan.digest
    at = NOON + timedelta(seconds=int(found["at"] or 60))
    return Candidate(person.actor, way, opinion, at, person.role, person.listed, digest, edited=bool(found["edited"]))


def told(verdict: Verdict) -> tuple[str, str, str]:
    """Return a verdict in the words of the table: outcome, by whom, why."""
    why = (
        f"{reason.actor.login if reason.actor else ''} {str(reason.reason).replace('_', ' ')}".strip()
        for reason in verdict.reasons
    )
    return str(verdict.outcome), " ".join(actor.login for actor in verdict.by), ", ".join(why)
