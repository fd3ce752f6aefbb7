"""Random timelines of one thread: what people do to a plan, in whole seconds; each is made from its seed alone.

An event is a sentence: ``at 61 maya reacts 👍``. What GitHub does not let happen (a reaction in a locked conversation)
is left out by `possible`; what changes nothing (taking back what nobody said) is no matter to anybody.
"""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
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
    (22, "looks", ("",), ("",)),
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
            events.append(Event(now + dice.choice((0, 1)), "looks"))
            now = events[-1].at
    chances = (dice.random() < 0.25, dice.random() < 0.2, dice.random() < 0.25)
    return Timeline(seed, tuple(possible((*events, Event(now + 1, "looks")))), *chances)


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
