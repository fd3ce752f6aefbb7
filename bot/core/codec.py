"""The one codec between frozen dataclasses and JSON objects; the hints of their fields drive it.

The key of a field is its name, and a field is left out while it has its default. Where the stored form differs, a mark
in the hint says so: `editors: Annotated[tuple[int, ...], StoredAs("hands")] = ()`. A tuple is an array, a record an
object, and a moment a text in ISO 8601. Numbers, texts, and JSON objects are not checked: they stay what was stored.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache, partial
from types import NoneType, UnionType
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

_R = TypeVar("_R")

# --- Marks in the hint of a field ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoredAs:
    """The field's key, where that is not its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Form:
    """How the field's value is read and written, where its type does not say it."""

    read: Callable[[Any], Any]
    write: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Inline:
    """The field is a record whose keys stand in the object itself."""

    keys: tuple[tuple[str, str], ...] = ()
    """The fields of the record that are stored, each with its key; () for all of them."""
    present: str = ""
    """The key without which the record is absent; "" if it never is."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark without a value."""

    name: str


ALWAYS: Final = Mark("always")
"""The field is also written while it has its default, so that its key is never missing."""
WRITTEN: Final = Mark("written")
"""The field is also written while it has its default; older versions did not have its key."""
UNSTORED: Final = Mark("unstored")
"""The field is not stored."""
REST: Final = Mark("rest")
"""The field holds the keys that no other field has, and they are written again."""


class MissingKeys(KeyError):
    """An object lacks keys that its record needs."""

    def __init__(self, record: type, keys: tuple[str, ...]) -> None:
        super().__init__(*keys)
        self.record = record
        self.keys = keys


# --- Reading and writing ---------------------------------------------------------------------------------------------


def decode(record: Callable[..., _R], body: Mapping[str, Any], **unstored: Any) -> _R:
    """Return the record in a JSON object. `unstored` are its fields that are not in there.

    Raises MissingKeys, or AttributeError, KeyError, TypeError or ValueError for a value of the wrong type. Keys that
    the record does not know are ignored, unless a field holds them.
    """
    made: _R = _decode(_layout(record, ()), body, unstored)
    return made


def encode(record: Any) -> dict[str, Any]:
    """Return a record as a JSON object: its own keys as they are declared, then those of its base classes."""
    return _encode(_layout(record.__class__, ()), record)


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    key: str
    read: Callable[[Any], Any] | None
    write: Callable[[Any], Any] | None
    omitted: Any
    """The value at which the field is left out; MISSING for none."""
    inline: "_Layout | None" = None
    present: str = ""


@dataclass(frozen=True, slots=True)
class _Layout:
    """What the codec knows of a record: made once, from the hints."""

    record: type[Any]
    fields: tuple[_Field, ...]
    by_key: Mapping[str, _Field]
    inlined: tuple[tuple[_Field, "_Layout"], ...]
    keys: frozenset[str]
    """All keys, those of inlined records included."""
    required: Mapping[str, str]
    """Name -> key of the fields without a default."""
    rest: str
    """The field of the keys that no other field has; "" for none."""


def _decode(layout: _Layout, body: Mapping[str, Any], values: dict[str, Any]) -> Any:
    inlined_keys: frozenset[str] = frozenset()
    for inlined, inline in layout.inlined:
        if not inlined.present or inlined.present in body:
            values[inlined.name] = _decode(inline, body, {})
            inlined_keys |= inline.keys
    for key, field in layout.by_key.items():
        if key in body:
            values[field.name] = body[key] if field.read is None else field.read(body[key])
    if layout.rest:
        known = layout.by_key.keys() | inlined_keys
        values[layout.rest] = {key: body[key] for key in body if key not in known}
    if not layout.required.keys() <= values.keys():
        missing = tuple(key for name, key in layout.required.items() if name not in values)
        raise MissingKeys(layout.record, missing)
    return layout.record(**values)


def _encode(layout: _Layout, record: Any) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for field in layout.fields:
        value = getattr(record, field.name)
        if field.omitted is not MISSING and value == field.omitted:
            continue
        if field.inline is not None:
            body |= _encode(field.inline, value)
        else:
            body[field.key] = value if field.write is None else field.write(value)
    return body | getattr(record, layout.rest) if layout.rest else body


# --- The layout of a record ------------------------------------------------------------------------------------------


@cache
def _layout(record: Any, keys: tuple[tuple[str, str], ...]) -> _Layout:
    hints = get_type_hints(record, include_extras=True)
    defaults = {field.name: field.default for field in fields(record)}
    declared = dict.fromkeys(name for base in record.__mro__ for name in getattr(base, "__annotations__", ()))
    marks = {name: getattr(hints[name], "__metadata__", ()) for name in declared if name in defaults}
    chosen = dict(keys) or {name: name for name in marks if UNSTORED not in marks[name] and REST not in marks[name]}
    made = tuple(_field(name, key, hints[name], defaults[name]) for name, key in chosen.items())
    inlined = tuple((field, field.inline) for field in made if field.inline is not None)
    own = {field.key: field for field in made if field.inline is None}
    return _Layout(
        record=record,
        fields=made,
        by_key=own,
        inlined=inlined,
        keys=frozenset(own).union(*(inline.keys for _, inline in inlined)),
        required={
            field.name: field.key for field in made if defaults[field.name] is MISSING or ALWAYS in marks[field.name]
        },
        rest=next((name for name in marks if REST in marks[name]), ""),
    )


def _field(name: str, key: str, hint: Any, default: Any) -> _Field:
    inner, marks = (hint.__origin__, hint.__metadata__) if get_origin(hint) is Annotated else (hint, ())
    read, write = _forms(inner)
    omitted, inline, present = default, None, ""
    for mark in marks:
        match mark:
            case StoredAs():
                key = mark.name
            case Form():
                read, write = mark.read, mark.write
            case Inline():
                inline, present = _layout(_plain_type(inner), mark.keys), mark.present
            case _:  # UNSTORED and REST have no key of their own
                omitted = MISSING
    return _Field(name, key, read, write, omitted, inline, present)


def _plain_type(hint: Any) -> Any:
    """Return the type of a hint without `| None` and NewType."""
    while get_origin(hint) in {Union, UnionType}:
        (hint,) = (choice for choice in get_args(hint) if choice is not NoneType)
    return _plain_type(hint.__supertype__) if hasattr(hint, "__supertype__") else hint


def _forms(hint: Any) -> tuple[Callable[[Any], Any] | None, Callable[[Any], Any] | None]:
    """Return how values of a type are read and written; None for as they are."""
    plain = _plain_type(hint)
    if get_origin(plain) is tuple:
        item, *others = get_args(plain)
        read, write = _forms(item) if others == [...] else (None, None)
        return partial(_read_items, read, is_optional=plain is not hint), partial(_write_items, write)
    if isinstance(plain, type) and is_dataclass(plain):
        return partial(decode, plain), encode
    if plain is datetime:
        return datetime.fromisoformat, datetime.isoformat
    return (plain, str) if isinstance(plain, type) and issubclass(plain, StrEnum) else (None, None)


def _read_items(read: Callable[[Any], Any] | None, value: Any, *, is_optional: bool) -> tuple[Any, ...] | None:
    if value is None and is_optional:
        return None
    if not isinstance(value, list):
        raise TypeError("it is not an array")
    return tuple(value) if read is None else tuple(map(read, value))


def _write_items(write: Callable[[Any], Any] | None, value: Any) -> list[Any]:
    return list(value) if write is None else list(map(write, value))
