"""Timelines of a thread, what is shown at each time, and the oracle for them."""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

PEOPLE: Final = {
    "ada": "admin",
    "maya": "maintain",
    "max": "maintain",
    "olga": "maintain",
    "will": "write",
    "sam": "none",
}
BOTS: Final = ("ci", "plangate")
EVERYBODY: Final = (*PEOPLE, *BOTS)
WRITERS: Final = ("ada", "maya", "max", "olga", "will")
ROLES: Final = ("admin", "maintain", "write", "none", "unknown")
EMOJI: Final = ("👍", "👍", "👍", "🚀", "👎", "😕", "❤️")
SAYINGS: Final = (
    "approve",
    "approve THIS",
    "approve THIS",
    "approve the last one",
    "slash approve THIS",
    "reject",
    "quotes approve THIS",
    "code approve THIS",
    "approve 11 digits",
    "looks good",
)
DAY: Final = 86_400
_PASSES: Final = (*(0, 1) * 8, 2, 5, 60, 3_600, 3 * DAY, 7 * DAY)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens on a thread."""

    at: int
    what: str
    who: str = ""
    how: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (f"at {self.at}", self.who, self.what, self.how)))


@dataclass(frozen=True, slots=True)
class Timeline:
    """What happens on one thread, and what its configuration and plans are like."""

    seed: int
    events: tuple[Event, ...]
    four_eyes: bool = False
    writers_may: bool = False
    high: bool = False

    def __str__(self) -> str:
        flags = [name for name in ("four_eyes", "writers_may", "high") if getattr(self, name)]
        return "\n".join((f"seed {self.seed} {' '.join(flags)}".strip(), *map(str, self.events)))


# How often each thing is done, who does it, and how.
_DEEDS: Final[tuple[tuple[int, str, tuple[str, ...], tuple[str, ...]], ...]] = (
    (22, "checks", ("",), ("",)),
    (16, "reacts", EVERYBODY, EMOJI),
    (3, "takes back", EVERYBODY, EMOJI),
    (7, "ticks", EVERYBODY, ("",)),
    (2, "unticks", WRITERS, ("",)),
    (3, "alters", WRITERS, ("",)),
    (1, "alters and ticks", WRITERS, ("",)),
    (4, "restores", WRITERS, ("",)),
    (10, "says", EVERYBODY, SAYINGS),
    (2, "rewrites", WRITERS, SAYINGS),
    (1, "deletes what was said", WRITERS, ("",)),
    (1, "deletes the plan", WRITERS, ("",)),
    (1, "folds the plan", WRITERS, ("",)),
    (1, "unfolds the plan", WRITERS, ("",)),
    (1, "closes", WRITERS, ("",)),
    (2, "reopens", WRITERS, ("",)),
    (1, "locks", WRITERS, ("",)),
    (2, "unlocks", WRITERS, ("",)),
    (1, "pushes into the scope", WRITERS, ("",)),
    (1, "pushes beside the scope", WRITERS, ("",)),
    (3, "becomes", tuple(PEOPLE), ROLES),
    (1, "GitHub fails", ("",), ("",)),
    (2, "GitHub works", ("",), ("",)),
    (4, "asks", WRITERS, ("",)),
    (8, "work ends", ("",), ("",)),
    (1, "work outgrows", ("",), ("",)),
    (1, "stops", WRITERS, ("",)),
    (2, "retries", WRITERS, ("",)),
    (1, "merges", WRITERS, ("",)),
)


def timeline(seed: int) -> Timeline:
    dice = random.Random(seed)
    weights = [weight for weight, *_ in _DEEDS]
    now, events = 0, [Event(0, "asks", "olga")]
    for _, what, people, ways in dice.choices(_DEEDS, weights, k=dice.randint(3, 28)):
        now += dice.choice(_PASSES)
        events.append(Event(now, what, dice.choice(people), dice.choice(ways)))
        if dice.random() < 0.3:
            events.append(Event(now + dice.choice((0, 1)), "checks"))
            now = events[-1].at
    chances = (dice.random() < 0.25, dice.random() < 0.2, dice.random() < 0.25)
    return Timeline(seed, tuple(possible((*events, Event(now + 1, "checks")))), *chances)


def possible(events: Iterable[Event]) -> Iterator[Event]:
    """Leave out what GitHub refuses: reactions while the thread is locked, and comments of who may not write then."""
    locked, roles = False, dict(PEOPLE)
    for event in events:
        if event.what in {"locks", "unlocks"}:
            locked = event.what == "locks"
        if event.what == "becomes":
            roles[event.who] = event.how
        refused = event.what in {"reacts", "takes back"} or (
            event.what == "says" and roles.get(event.who, "write") == "none"
        )
        if not (locked and refused):
            yield event


ORDER = ("none", "write", "maintain", "admin")


class Oracle:
    """Computes where the thread stands after each event, by the text of the specification."""

    def __init__(self, timeline: Timeline) -> None:
        self.rules = timeline
        self.past: list[Event] = []
        self.stage = "listening"
        self.shown = 0  # the place in the past where the newest plan was shown
        self.requester = ""
        self.version = 0
        self.versions_of_round = 0
        self.approved = False  # the newest plan was approved, and nothing has taken that back

    def take(self, event: Event) -> None:
        """Let one thing happen; who says THIS means the plan that is shown then."""
        meant = f"{event.how} of plan {self.version}" if "THIS" in event.how else event.how
        self.past.append(replace(event, how=meant))
        match event.what:
            case "asks":
                self.asked(event)
            case "checks":
                self.checked()
            case "work ends" if self.stage == "executing":
                # The approval must still stand at the first push.
                self.approved = self.verdict() == "approved"
                self.stage = "in_review" if self.approved else "awaiting_approval"
            case "work outgrows" if self.stage == "executing":
                self.new_plan()
            case "stops" if self.stage not in {"listening", "in_review", "done"}:
                self.stage = "stopped"
            case "retries":
                self.retried()
            case "merges" if self.stage in {
                "awaiting_approval",
                "in_review",
                "rejected",
                "stale",
                "expired",
                "stopped",
            }:
                self.stage = "done"

    def asked(self, event: Event) -> None:
        """A turn supersedes a plan that waits; while approved work runs it is kept for afterwards."""
        if self.stage == "executing":
            return
        if self.stage == "done":
            self.versions_of_round = 0
        self.requester = event.who
        self.new_plan()

    def new_plan(self) -> None:
        self.version += 1
        self.versions_of_round += 1
        self.shown = len(self.past)
        self.approved = False
        self.stage = "awaiting_approval"

    def checked(self) -> None:
        if self.stage == "awaiting_approval":
            verdict = self.verdict()
            self.approved = verdict == "approved"
            self.stage = {"approved": "executing", "pending": "awaiting_approval"}.get(verdict, verdict)
        elif self.stage == "executing" and self.stopped():
            self.stage = "stopped"

    def stopped(self) -> bool:
        """Closing the issue, or an approver's no to this plan, ends the work, whatever else happened; where it can be
        read."""
        if self.github_fails():
            return False
        refused = any(self.last_word(who, self.posted - 1) == "no" for who in PEOPLE)
        return self.closed() or (refused and not self.deleted())

    def retried(self) -> None:
        if self.stage == "stopped" and self.approved:
            self.approved = self.verdict() == "approved"
            self.stage = "executing" if self.approved else "awaiting_approval"
        elif self.stage in {"stopped", "stale", "expired"}:
            self.new_plan()

    def verdict(self) -> str:
        """Product.md, Approval."""
        if self.now - self.posted >= 7 * DAY:
            return "expired"
        if self.github_fails() or self.deleted():
            return "pending"
        if self.drifted():
            return "stale"
        if self.closed() or self.folded() or self.shows_something_else() or self.somebody_is_unknown():
            return "pending"
        return self.decided()

    def decided(self) -> str:
        """What the words that count come to; two are needed for tier high, where there are two who may."""
        counting = [(who, what) for who in PEOPLE if (what := self.last_word(who, self.newest_content()))]
        if any(what == "no" for _, what in counting):
            return "rejected"
        approvers = [who for who in PEOPLE if self.last_word(who, self.newest_content(), self.locked()) == "yes"]
        if not approvers or any(what == "revise" for _, what in counting):
            return "pending"
        enough = not self.rules.high or len(approvers) >= 2 or set(self.accounts_with_role()) <= set(approvers)
        return "approved" if enough else "pending"

    # --- who, and what they said of the plan that is shown -----------------------------------------------------

    def last_word(self, who: str, after: int, in_writing: bool = False) -> str:
        """The newest thing that this person said of the plan after a second and that counts; in one second no before
        revise before yes. In writing a yes is only what names the digest."""
        if not self.has_the_role(who):
            return ""
        said = [(at, what) for at, what in self.said(who, in_writing) if at > after]
        if self.rules.four_eyes and who == self.requester:
            said = [(at, what) for at, what in said if what != "yes"]
        if not said:
            return ""
        newest = max(at for at, _ in said)
        words = {what for at, what in said if at == newest}
        return next(what for what in ("no", "revise", "yes") if what in words)

    def said(self, who: str, in_writing: bool) -> Iterator[tuple[int, str]]:
        for emoji, what in (("👍", "yes"), ("🚀", "yes"), ("👎", "no"), ("😕", "revise")):
            if (at := self.reacted(who, emoji)) is not None and not (in_writing and what == "yes"):
                yield at, what
        if not in_writing and (tick := self.tick()) is not None and tick.who == who:
            yield tick.at, "yes"
        for comment in self.comments(who):
            if self.is_approval(comment.how) and not (in_writing and comment.how == "approve"):
                yield comment.at, "yes"
            elif comment.how == "reject":
                yield comment.at, "no"

    def reacted(self, who: str, emoji: str) -> int | None:
        """Since when this person's reaction stands under the plan; made twice it stays as it was."""
        since = None
        for event in self.since_shown():
            if (event.who, event.how) == (who, emoji):
                if event.what == "reacts" and since is None:
                    since = event.at
                elif event.what == "takes back":
                    since = None
        return since

    def tick(self) -> Event | None:
        """Who turned the box on, while it is on."""
        on = None
        for event in self.since_shown():
            if event.what in {"ticks", "alters and ticks"} and on is None:
                on = event
            elif event.what == "unticks":
                on = None
        return on

    def comments(self, who: str) -> list[Event]:
        """What this person said, is still there, and was never edited by anybody."""
        there: list[tuple[Event, bool]] = []
        for event in self.past:
            if event.what == "says":
                there.append((event, True))
            elif event.what == "deletes what was said" and there:
                there.pop()
            elif event.what == "rewrites" and there:
                there[-1] = (there[-1][0], False)
        return [event for event, as_said in there if as_said and event.who == who]

    def is_approval(self, saying: str) -> bool:
        """A command in visible prose that names this plan; without a digest only while there was one plan."""
        words, _, version = saying.partition(" of plan ")
        if words in {"approve THIS", "slash approve THIS"}:
            return int(version) == self.version
        return words == "approve" and self.versions_of_round == 1

    def has_the_role(self, who: str) -> bool:
        needed, role = "write" if self.rules.writers_may else "maintain", self.role(who)
        return role != "unknown" and ORDER.index(role) >= ORDER.index(needed)

    def role(self, who: str) -> str:
        """The role now: a live look-up."""
        became = [event.how for event in self.past if (event.what, event.who) == ("becomes", who)]
        return became[-1] if became else PEOPLE[who]

    def accounts_with_role(self) -> list[str]:
        """All who may approve this plan at all."""
        roles = {who: self.role(who) for who in PEOPLE}
        if "unknown" in roles.values():
            return ["nobody knows"]
        may = [who for who in roles if self.has_the_role(who)]
        return [who for who in may if not (self.rules.four_eyes and who == self.requester)]

    def somebody_is_unknown(self) -> bool:
        """A failed look-up is pending, never approved."""
        spoke = [who for who in PEOPLE if any(True for _ in self.said_anything(who))]
        return any(self.role(who) == "unknown" for who in spoke)

    def said_anything(self, who: str) -> Iterator[int]:
        """When this person said anything that is looked at, whether or not it counts."""
        for emoji in ("👍", "🚀", "👎", "😕"):
            if (at := self.reacted(who, emoji)) is not None:
                yield at
        if (tick := self.tick()) is not None and tick.who == who:
            yield tick.at
        commands = {"approve", "approve THIS", "slash approve THIS", "approve the last one", "reject"}
        for there in self.texts():
            if there.who == who and there.at >= self.posted and there.how.partition(" of plan ")[0] in commands:
                yield there.at

    def texts(self) -> list[Event]:
        """All comments that are there, as they read now."""
        made: list[Event] = []
        for event in self.past:
            if event.what == "says":
                made.append(event)
            elif event.what == "rewrites" and made:
                made[-1] = Event(made[-1].at, "says", made[-1].who, event.how)
            elif event.what == "deletes what was said" and made:
                made.pop()
        return made

    # --- the plan, its comment, the thread -------------------------------------------------------------------------

    @property
    def now(self) -> int:
        return self.past[-1].at

    @property
    def posted(self) -> int:
        return self.past[self.shown - 1].at

    def since_shown(self) -> Sequence[Event]:
        return self.past[self.shown :]

    def newest_content(self) -> int:
        """The posting, or the last edit of content: what counts is strictly newer."""
        edits = [event.at for event in self.since_shown() if event.what in {"alters", "alters and ticks"}]
        return max([self.posted, *edits, *self.restored()])

    def restored(self) -> Iterator[int]:
        altered = False
        for event in self.since_shown():
            if event.what == "restores" and altered:
                yield event.at
            altered = event.what in {"alters", "alters and ticks"} or (altered and event.what != "restores")

    def shows_something_else(self) -> bool:
        edits = [event.what for event in self.since_shown() if event.what in {"alters", "alters and ticks", "restores"}]
        return bool(edits) and edits[-1] != "restores"

    def deleted(self) -> bool:
        return any(event.what == "deletes the plan" for event in self.since_shown())

    def folded(self) -> bool:
        return self.last_of(self.since_shown(), "folds the plan", "unfolds the plan") == "folds the plan"

    def closed(self) -> bool:
        return self.last_of(self.past, "closes", "reopens") == "closes"

    def locked(self) -> bool:
        """The only way to say yes in a locked thread is a comment that names the digest."""
        return self.last_of(self.past, "locks", "unlocks") == "locks"

    def github_fails(self) -> bool:
        return self.last_of(self.past, "GitHub fails", "GitHub works") == "GitHub fails"

    def drifted(self) -> bool:
        """A file of the scope changed on the base branch since the plan was made."""
        return any(event.what == "pushes into the scope" for event in self.since_shown())

    def last_of(self, events: Sequence[Event], *names: str) -> str:
        found = [event.what for event in events if event.what in names]
        return found[-1] if found else ""
