"""The approval cases as a table, and the people in them."""

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


TABLE: Final = """
--- nobody, or one person, by a reaction
| => pending: nobody
maya 👍 => approved by maya
maya 🚀 => approved by maya
ada 👍 => approved by ada
ada 🚀 => approved by ada
will 👍 => pending: will role too low, nobody
will 🚀 => pending: will role too low, nobody
tess 👍 => pending: tess role too low, nobody
rita 👍 => pending: rita role too low, nobody
rita 🚀 => pending: rita role too low, nobody
sam 👍 => pending: sam role too low, nobody
uma 👍 => pending: uma role unknown, nobody
maya 👎 => rejected by maya
ada 👎 => rejected by ada
will 👎 => pending: will role too low, nobody
tess 👎 => pending: tess role too low, nobody
rita 👎 => pending: rita role too low, nobody
sam 👎 => pending: sam role too low, nobody
uma 👎 => pending: uma role unknown, nobody
maya 😕 => pending: revision asked
ada 😕 => pending: revision asked
will 😕 => pending: will role too low, nobody
sam 😕 => pending: sam role too low, nobody
uma 😕 => pending: uma role unknown, nobody
--- the box
maya ticks => approved by maya
ada ticks => approved by ada
will ticks => pending: will role too low, nobody
tess ticks => pending: tess role too low, nobody
rita ticks => pending: rita role too low, nobody
uma ticks => pending: uma role unknown, nobody
lena ticks => approved by lena
plangate ticks => pending: plangate is the bot, nobody
ci ticks => pending: ci not a user, nobody
maya ticks at 0 => pending: maya too old, nobody
maya ticks at 1 => approved by maya
maya ticks at 60 | edited at 60 => pending: maya too old, nobody
maya ticks at 61 | edited at 60 => approved by maya
maya ticks | two plans => approved by maya
maya ticks, will 👎 => approved by maya: will role too low
maya ticks, max 👎 at 61 => rejected by max
--- a command, and the digest in it
maya approves => approved by maya
ada approves => approved by ada
will approves => pending: will role too low, nobody
tess approves => pending: tess role too low, nobody
rita approves => pending: rita role too low, nobody
sam approves => pending: sam role too low, nobody
uma approves => pending: uma role unknown, nobody
maya approves | two plans => pending: maya no digest, nobody
maya approves 12-digits => approved by maya
maya approves 12-digits | two plans => approved by maya
maya approves 64-digits | two plans => approved by maya
maya approves 12-capitals | two plans => approved by maya
maya approves 13-digits | two plans => approved by maya
maya approves 11-digits => pending: maya other plan, nobody
maya approves 65-digits => pending: maya other plan, nobody
maya approves middle-digits => pending: maya other plan, nobody
maya approves the-other-plan => pending: maya other plan, nobody
maya approves the-other-plan | two plans => pending: maya other plan, nobody
maya approves 12-digits-but-the-last => pending: maya other plan, nobody
will approves 12-digits => pending: will role too low, nobody
will approves the-other-plan => pending: will role too low, nobody
maya approves edited => pending: maya comment edited, nobody
maya approves 12-digits edited => pending: maya comment edited, nobody
maya approves the-other-plan edited => pending: maya comment edited, nobody
maya approves at 0 => pending: maya same second, nobody
maya approves at 1 => approved by maya
maya approves 12-digits at -1 => pending: maya said before, nobody
maya approves 12-digits at 59 | edited at 60 => pending: maya said before, nobody
maya approves 12-digits at 61 | edited at 60 => approved by maya
maya approves 12-digits | locked => approved by maya
will approves 12-digits | locked => pending: will role too low, thread locked
maya approves the-other-plan, maya approves 12-digits at 70 => approved by maya: maya other plan
maya approves, maya approves 12-digits at 70 | two plans => approved by maya: maya no digest
maya approves 12-digits, max approves the-other-plan => approved by maya: max other plan
maya rejects => rejected by maya
maya rejects | two plans => rejected by maya
maya rejects | locked => rejected by maya
will rejects => pending: will role too low, nobody
uma rejects => pending: uma role unknown, nobody
maya rejects edited => pending: maya comment edited, nobody
maya rejects at 0 => pending: maya same second, nobody
maya approves, max rejects edited => approved by maya: max comment edited
maya approves edited, max approves => approved by max: maya comment edited
--- a command sent by mail
maya mails yes => pending: maya sent by mail, nobody
maya mails yes 12-digits => pending: maya sent by mail, nobody
maya mails yes 12-digits | locked => pending: maya sent by mail, thread locked
maya mails yes edited => pending: maya comment edited, nobody
will mails yes => pending: will role too low, nobody
maya mails no => rejected by maya
maya mails no | two plans => rejected by maya
maya mails no edited => pending: maya comment edited, nobody
maya mails no at 0 => pending: maya same second, nobody
maya mails no at -1 => pending: maya said before, nobody
will mails no => pending: will role too low, nobody
maya 👎, maya mails yes at 61 => rejected by maya: maya sent by mail
maya 👍, maya mails no at 61 => rejected by maya
maya mails yes, max approves => approved by max: maya sent by mail
--- the dashboard and the terminal
maya clicks => approved by maya
maya clicks | two plans => approved by maya
maya clicks the-other-plan => pending: maya other plan, nobody
will clicks => pending: will role too low, nobody
ci clicks => pending: ci not a user, nobody
uma clicks => pending: uma role unknown, nobody
maya clicks at 0 => pending: maya too old, nobody
maya types yes => approved by maya
maya types yes | two plans => approved by maya
maya types no => rejected by maya
--- who may, by configuration
will 👍 | writers may => approved by will
will approves | writers may => approved by will
tess 👍 | writers may => pending: tess role too low, nobody
maya 👍 | writers may => approved by maya
will 👎 | writers may => rejected by will
maya 👍 | admins alone may => pending: maya role too low, nobody
maya 👎 | admins alone may => pending: maya role too low, nobody
ada 👍 | admins alone may => approved by ada
lena 👍 => approved by lena
lena 👎 => rejected by lena
lena 😕 => pending: revision asked
tina 👍 => pending: tina team unknown, nobody
tina 👎 => pending: tina team unknown, nobody
tina approves 12-digits => pending: tina team unknown, nobody
tina 👍 | writers may => approved by tina
maya 👍, tina 👎 => approved by maya: tina team unknown
zoe 👍 => approved by zoe
zoe 👍 | admins alone may => approved by zoe
ulf 👍 => pending: ulf role unknown, nobody
ulf 👎 => pending: ulf role unknown, nobody
--- what kind of account
ci 👍 => pending: ci not a user, nobody
ci 🚀 => pending: ci not a user, nobody
ci approves 12-digits => pending: ci not a user, nobody
ci 👎 => pending: ci not a user, nobody
ci 😕 => pending: ci not a user, nobody
dora 👍 => pending: dora not a user, nobody
mona 👍 => pending: mona not a user, nobody
mona approves => pending: mona not a user, nobody
ghost 👍 => pending: ghost not a user, nobody
ghost approves 12-digits => pending: ghost not a user, nobody
ghost 👎 => pending: ghost not a user, nobody
plangate 👍 => pending: plangate is the bot, nobody
plangate approves 12-digits => pending: plangate is the bot, nobody
plangate 👎 => pending: plangate is the bot, nobody
plangate clicks => pending: plangate is the bot, nobody
machine 👍 => pending: machine is the bot, nobody
machine approves => pending: machine is the bot, nobody
machine ticks => pending: machine is the bot, nobody
namesake 👍 => approved by plangate
maya 👍, plangate 👎 => approved by maya: plangate is the bot
maya 👍, ci 👎 => approved by maya: ci not a user
ci 👍, plangate 👍, mona 👍 => pending: ci not a user, plangate is the bot, mona not a user, nobody
maya 👍, ghost 👎, machine 😕 => approved by maya: ghost not a user, machine is the bot
--- order, and the same second
maya 👍 at -1 => pending: maya too old, nobody
maya 👍 at 0 => pending: maya too old, nobody
maya 👍 at 1 => approved by maya
maya 🚀 at 0 => pending: maya too old, nobody
maya 👎 at 0 => pending: maya too old, nobody
maya 😕 at 0 => pending: maya too old, nobody
maya 👍, max 👎 at 0 => approved by maya: max too old
maya 👍, max 😕 at 0 => approved by maya: max too old
maya 👍 at 0, maya 🚀 at 9 => approved by maya: maya too old
maya 👍 at 0, max 👍 at 9 => approved by max: maya too old
rita 👍 at 0 => pending: rita role too low, nobody
uma 👍 at 0 => pending: uma role unknown, nobody
--- the plan comment was edited and shows the plan again
maya 👍 at 59 | edited at 60 => pending: maya too old, nobody
maya 👍 at 60 | edited at 60 => pending: maya too old, nobody
maya 👍 at 61 | edited at 60 => approved by maya
maya 👎 at 59 | edited at 60 => pending: maya too old, nobody
maya 👎 at 61 | edited at 60 => rejected by maya
maya 👍 at 59, max 👍 at 61 | edited at 60 => approved by max: maya too old
maya 👍 at 61, max 👎 at 59 | edited at 60 => approved by maya: max too old
maya 👍 at 59, maya ticks at 61 | edited at 60 => approved by maya: maya too old
--- the plan comment shows something else, or cannot be seen
maya 👍 | altered => pending: plan changed
maya ticks | altered => pending: plan changed
maya approves 12-digits | altered => pending: plan changed
maya 👎 | altered => pending: plan changed
maya 👍 | hidden => pending: plan hidden
maya approves 12-digits | hidden => pending: plan hidden
maya 👎 | hidden => pending: plan hidden
maya 👍 | deleted => pending: plan hidden
maya approves 12-digits | deleted => pending: plan hidden
maya 👍 | altered, hidden => pending: plan hidden, plan changed
| altered => pending: plan changed
--- the thread
maya 👍 | closed => pending: thread closed
maya approves 12-digits | closed => pending: thread closed
maya 👎 | closed => pending: thread closed
maya 👍 | closed, hidden => pending: thread closed, plan hidden
maya 👍 | transferred => pending: thread closed, plan hidden
maya approves 12-digits | transferred => pending: thread closed, plan hidden
| locked => pending: thread locked
maya 👍 | locked => pending: maya thread locked, nobody
maya 🚀 | locked => pending: maya thread locked, nobody
maya ticks | locked => pending: maya thread locked, nobody
maya approves | locked => pending: maya thread locked, nobody
maya approves 12-digits, max 👍 | locked => approved by maya: max thread locked
maya approves 12-digits, maya 👍 at 70 | locked => approved by maya: maya thread locked
maya approves the-other-plan | locked => pending: maya other plan, thread locked
will 👍 | locked => pending: will role too low, thread locked
maya 👎 | locked => rejected by maya
maya 👎 at 1, maya 👍 at 2 | locked => pending: maya thread locked, nobody
maya approves 12-digits at 1, maya 👎 at 2, maya 👍 at 3 | locked => pending: maya thread locked, nobody
maya approves 12-digits, max 👎 at 70 | locked => rejected by max
maya 😕 | locked => pending: revision asked
maya 😕 at 1, maya 👍 at 2 | locked => pending: maya thread locked, nobody
maya 👍, max 👍 | tier high, locked => pending: maya thread locked, max thread locked, nobody
maya approves 12-digits, max 👍 | tier high, locked => pending: max thread locked, too few
maya 👍 | locked, closed => pending: thread closed
maya 👍 | locked, drifted => stale: scope drifted
--- what could not be looked up
maya 👍 | a look-up failed => pending: lookup failed
maya 👎 | a look-up failed => pending: lookup failed
maya approves 12-digits | a look-up failed => pending: lookup failed
| a look-up failed => pending: lookup failed
maya 👍 | a look-up failed, closed => pending: lookup failed, thread closed
maya 👍 | a look-up failed, closed, hidden, altered => pending: lookup failed, thread closed, plan hidden, plan changed
maya 👍, uma 👍 => approved by maya: uma role unknown
--- drift and expiry
maya 👍 | drifted => stale: scope drifted
maya 👎 | drifted => stale: scope drifted
| drifted => stale: scope drifted
maya approves 12-digits | drifted => stale: scope drifted
maya 👍 | drifted, closed => stale: scope drifted
maya 👍 | drifted, altered => stale: scope drifted
| overtaken => stale: overtaken
maya 👍 | overtaken => stale: overtaken
maya 👎 | overtaken => stale: overtaken
maya 👍 | overtaken, drifted => stale: overtaken
maya 👍 | overtaken, closed => stale: overtaken
maya 👍 | overtaken, expired to the second => expired: plan expired
maya 👍 | other files changed => approved by maya
maya 👍 | one second before it expires => approved by maya
maya 👍 | expired to the second => expired: plan expired
maya 👍 | expired long ago => expired: plan expired
maya 👎 | expired long ago => expired: plan expired
| expired to the second => expired: plan expired
maya 👍 | expired to the second, drifted => expired: plan expired
maya 👍 | expired to the second, closed => expired: plan expired
maya 👍 | expired to the second, a look-up failed => expired: plan expired
--- four eyes
olga 👍 => approved by olga
olga approves => approved by olga
olga 👍 | four eyes => pending: olga four eyes, nobody
olga 🚀 | four eyes => pending: olga four eyes, nobody
olga ticks | four eyes => pending: olga four eyes, nobody
olga approves 12-digits | four eyes => pending: olga four eyes, nobody
olga clicks | four eyes => pending: olga four eyes, nobody
olga 👍, maya 👍 | four eyes => approved by maya: olga four eyes
maya 👍 | four eyes => approved by maya
maya 👍 | four eyes, maya added to the request => pending: maya four eyes, nobody
max 👍 | four eyes, maya added to the request => approved by max
olga 👎 | four eyes => rejected by olga
maya 👍, olga rejects at 61 | four eyes => rejected by olga
maya 👍, olga 😕 | four eyes => pending: revision asked
olga 👍 at 0 | four eyes => pending: olga four eyes, nobody
will 👍 | four eyes => pending: will role too low, nobody
--- several words, and changes of mind
maya 👍, max 👍 => approved by maya max
max 👍 at 9, maya 👍 at 3 => approved by maya max
maya 👍, will 👍 => approved by maya: will role too low
maya 👍 at 1, max 👎 at 2 => rejected by max
maya 👍 at 2, max 👎 at 1 => rejected by max
maya 👍, max 👎 => rejected by max
maya 👎, max 👎 => rejected by maya max
maya 👍, will 👎 => approved by maya: will role too low
maya 👍, uma 👎 => approved by maya: uma role unknown
maya 👍 at 1, maya 👎 at 2 => rejected by maya
maya 👎 at 1, maya 👍 at 2 => approved by maya
maya 👍, maya 👎 => rejected by maya
maya 👎 at 1, maya approves at 2 => approved by maya
maya ticks at 1, maya rejects at 2 => rejected by maya
maya 👍 at 1, maya 😕 at 2 => pending: revision asked
maya 😕 at 1, maya 👍 at 2 => approved by maya
maya 👍, maya 😕 => pending: revision asked
maya 👎, maya 😕 => rejected by maya
maya 👍, max 😕 => pending: revision asked
maya 👍 at 9, max 😕 at 1 => pending: revision asked
max 😕, maya 👎 => rejected by maya
maya 👍, will 😕 => approved by maya: will role too low
rita 👍, max 👍 at 0, uma 👍 => pending: rita role too low, max too old, uma role unknown, nobody
uma 👍, olga approves edited, sam 👍 => pending: uma role unknown, olga comment edited, sam role too low, nobody
--- tiers
maya 👍 | tier low => approved by maya
will 👍 | tier low => pending: will role too low, nobody
| tier high => pending: nobody
maya 👍 | tier high => pending: too few
ada approves 12-digits | tier high => pending: too few
maya 👍, max 👍 | tier high => approved by maya max
maya 👍, ada ticks | tier high => approved by maya ada
maya approves, max clicks | tier high => approved by maya max
maya 👍 at 1, maya ticks at 2 | tier high => pending: too few
maya 👍, maya renamed 👍 at 61 | tier high => pending: too few
maya 👍, will 👍 | tier high => pending: will role too low, too few
maya 👍, lena 👍 | tier high => approved by maya lena
maya 👍, max 👍 at 0 | tier high => pending: max too old, too few
maya 👍, max approves edited | tier high => pending: max comment edited, too few
maya 👍, ci 👍 | tier high => pending: ci not a user, too few
maya 👍, uma 👍 | tier high => pending: uma role unknown, too few
maya 👍, max 👍, ada 👎 | tier high => rejected by ada
maya 👍, max 👍, ada 😕 | tier high => pending: revision asked
maya 👍, olga 👍 | tier high, four eyes => pending: olga four eyes, too few
maya 👍, max 👍, olga 👍 | tier high, four eyes => approved by maya max: olga four eyes
maya 👍 | tier high, one is needed => approved by maya
maya 👍, max 👍 | tier high, three are needed => pending: too few
maya 👍, max 👍, ada 👍 | tier high, three are needed => approved by maya max ada
--- tier high, where fewer are enough
maya 👍 | tier high, only maya may => approved by maya: nobody else
maya 👍 | tier high, only maya and the bot may => approved by maya: nobody else
maya 👍 | tier high, maya and max may => pending: too few
max 👍 | tier high, only maya may => pending: too few
maya 👍 | tier high, nobody may => pending: too few
| tier high, only maya may => pending: nobody
will 👍 | tier high, only maya may => pending: will role too low, nobody
maya 👍, max 👍 | tier high, three are needed, maya and max may => approved by maya max: nobody else
maya 👍 | tier high, maya and olga may => pending: too few
maya 👍 | tier high, maya and olga may, four eyes => approved by maya: nobody else
olga 👍 | tier high, maya and olga may, four eyes => pending: olga four eyes, nobody
maya 👍 | tier high, maya owns it => approved by maya: code owner
maya 👍 | tier high, maya owns it, three are needed => approved by maya: code owner
maya 👍, max 👍 | tier high, maya owns it => approved by maya max
max 👍 | tier high, maya owns it => pending: too few
will 👍 | tier high, will owns it => pending: will role too low, nobody
max 👍, will 👍 | tier high, will owns it => pending: will role too low, too few
olga 👍 | tier high, olga owns it, four eyes => pending: olga four eyes, nobody
max 👍, olga 👍 | tier high, olga owns it, four eyes => pending: olga four eyes, too few
maya 👍 at 0, max 👍 | tier high, maya owns it => pending: maya too old, too few
maya 👍, max 👎 | tier high, maya owns it => rejected by max
maya 👍 | maya owns it => approved by maya
maya 👍 | tier high, only maya may, closed => pending: thread closed
maya 👍, max 👍 | tier high, drifted => stale: scope drifted
maya 👍, max 👍 | tier high, expired to the second => expired: plan expired
--- a scheduled task with standing approval
| the task stands => approved: standing
| the task stands, tier low => approved: standing
| the task stands, tier high => pending: nobody
| the task stands, four eyes => pending: nobody
| the task is new => pending: nobody
| the task is elsewhere => pending: nobody
| the task stands, closed => pending: thread closed
| the task stands, altered => pending: plan changed
| the task stands, drifted => stale: scope drifted
| the task stands, a look-up failed => pending: lookup failed
| the task stands, expired long ago => expired: plan expired
maya 👍 | the task stands => approved by maya
maya 👎 | the task stands => rejected by maya
maya 😕 | the task stands => pending: revision asked
will 👎 | the task stands => approved: will role too low, standing
"""
ROWS: Final = tuple(line for line in TABLE.strip().splitlines() if not line.startswith("---"))
