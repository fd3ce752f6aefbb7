"""The journal's typed entries, and the one codec between them and JSON.

`decode_event` reads the body of a stored entry, and `encode_event` writes one. A key that this version does not know is
kept in `unknown`, and an entry of an unknown kind is an `Unknown`: nothing that a newer version wrote is lost.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, asdict, fields
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, TypeAlias, get_args

from bot.core import plan as plans
from bot.core import question
from bot.core.decision_evidence import DecisionEvidence
from bot.core.errors import Broken, Refused
from bot.core.moves import Entry, JournaledTurn, ModeChange, MoveEvent
from bot.core.names import CommitId
from bot.core.notes import Note, Unknown
from bot.core.plan import Hidden, PlanDocument
from bot.core.question import Asking, Grant
from bot.core.transcript import Json
from bot.core.turn import Actor
from bot.core.work import PushedWork, Review

JournalEvent: TypeAlias = MoveEvent | Note
"""Every kind of journal entry; `kind` names it."""

_CLASSES: Final = {cls.kind: cls for cls in get_args(JournalEvent) if cls is not Unknown}
_TURN_KEYS: Final = ("turn", "actor", "login", "text", "turn_at", "foreign", "strangers", "hands", "hidden", "waits")
_READERS: Final[Mapping[str, Callable[[Any], Any]]] = MappingProxyType(
    {
        "plan": plans.from_json,
        "asking": question.from_json,
        "beside": Hidden.from_json,
        "review": Review.from_json,
        "grant": Grant,
        "evidence": DecisionEvidence.from_json,
        "approved_at": datetime.fromisoformat,
        "question_at": datetime.fromisoformat,
        "due": datetime.fromisoformat,
    }
)


def _key_defaults(cls: type[Any]) -> dict[str, Any]:
    """Return the keys of a kind, in the order in which they are written, each with its default."""
    defaults = {field.name: field.default for field in fields(cls) if field.name not in {"kind", "unknown"}}
    declared = (name for base in cls.__mro__ for name in getattr(base, "__annotations__", ()))
    return {name: defaults[name] for name in declared if name in defaults}


_LAYOUTS: Final = {cls: _key_defaults(cls) for cls in get_args(JournalEvent)}


def decode_event(kind: str, body: Json) -> JournalEvent:
    """Return the typed entry of a stored body; `Unknown` if its kind, or the format of its plan, is newer.

    Raises Broken if a key is missing that every version wrote, or has a value that no version wrote.
    """
    try:
        return _decode(_CLASSES.get(kind, Unknown), kind, body)
    except Refused:  # a plan of another format: its entry still tells what it cost
        return _decode(Unknown, kind, body)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Broken(f"a journal entry that is {kind} has a value that this version cannot read") from error


def encode_event(event: JournalEvent) -> Json:
    """Return the body that is stored of an entry; its keys are always in the same order."""
    body: Json = {}
    for name, default in _LAYOUTS[type(event)].items():
        value = getattr(event, name)
        if isinstance(value, JournaledTurn):
            body |= _encode_turn(value)
        elif default is MISSING or value != default:
            body[name] = _write(value)
    return body | event.unknown


def decode_entries(entries: Iterable[Entry]) -> Iterator[tuple[datetime, JournalEvent]]:
    """Return the typed entries of a stored journal, each with the time when it was journaled."""
    return ((entry.at, decode_event(entry.kind, entry.body)) for entry in entries)


def _decode(cls: type[Any], kind: str, body: Json) -> JournalEvent:
    layout, remaining = _LAYOUTS[cls], dict(body)
    extra: dict[str, Any] = {"kind": kind} if cls is Unknown else {}
    if "said" in layout and "turn_at" in body:
        extra["said"] = _decode_turn(body)
        remaining = {key: value for key, value in remaining.items() if key not in _TURN_KEYS}
    extra |= {name: _read(name, remaining.pop(name)) for name in layout if name in remaining and name != "said"}
    if missing := [name for name, default in layout.items() if default is MISSING and name not in extra]:
        raise Broken(f"a journal entry that is {kind} lacks {', '.join(missing)}")
    event: JournalEvent = cls(**extra, unknown=remaining)
    return event


def _read(key: str, value: Any) -> Any:
    """Return the value of a key."""
    match key:
        case _ if key in _READERS:
            return _READERS[key](value)
        case "made":
            return PushedWork(value["branch"], CommitId(value["commit"]), tuple(value["paths"]), value.get("tree", ""))
        case "mode_change":
            return ModeChange(value["from"], value["to"], tuple(value["by"]))
        case _:
            return tuple(value) if isinstance(value, list) else value


def _write(value: Any) -> Any:
    """Return a value as JSON holds it."""
    match value:
        case PlanDocument():
            return plans.to_json(value)
        case Asking():
            return asdict(value)
        case datetime():
            return value.isoformat()
        case Hidden() | Review() | DecisionEvidence():
            return value.to_json()
        case PushedWork():
            tree = {"tree": value.tree} if value.tree else {}
            return {"branch": value.branch, "commit": value.commit, "paths": list(value.paths), **tree}
        case ModeChange():
            return {"from": value.before, "to": value.after, "by": list(value.by)}
        case tuple():
            return list(value)
        case _:
            return value


def _decode_turn(body: Json) -> JournaledTurn:
    return JournaledTurn(
        body["turn"],
        Actor(body["actor"], body["login"]),
        body["text"],
        datetime.fromisoformat(body["turn_at"]),
        foreign=body.get("foreign", False),
        strangers=body.get("strangers", False),
        editors=tuple(body.get("hands", ())),
        hidden=Hidden.from_json(body["hidden"]) if "hidden" in body else Hidden(),
        waits=body.get("waits"),
    )


def _encode_turn(turn: JournaledTurn) -> Json:
    return {
        "turn": turn.key,
        "actor": turn.actor.id,
        "login": turn.actor.login,
        "text": turn.text,
        "turn_at": turn.at.isoformat(),
        **({"foreign": True} if turn.foreign else {}),
        **({"strangers": True} if turn.strangers else {}),
        **({"hands": list(turn.editors)} if turn.editors else {}),
        **({"hidden": turn.hidden.to_json()} if turn.hidden.count else {}),
        **({"waits": turn.waits} if turn.waits is not None else {}),
    }
