"""JSON as spans of bytes: a value can be replaced while everything else stays the same, byte for byte.

Rules: only requested values are decoded, so a huge value costs no memory; nesting is limited; parsing takes one pass in
linear time. Inside a skipped value, only brackets and strings are checked.
"""

import json
import re
from typing import Any, NamedTuple

from bot.toolhost.protocol import Failure

DEPTH = 100
_MOST_PARTS = 200_000
_MOST_BRACKETS = 1_000_000
_SPACE = re.compile(rb"[ \t\r\n]*+")
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_PLAIN = re.compile(rb"[-+.0-9A-Za-z]++")
_TO_BRACKET = re.compile(rb'[^"\[\]{}]*+(?:"(?:[^"\\]++|\\.)*+"[^"\[\]{}]*+)*+([\[\]{}])', re.DOTALL)
_CLOSING = {ord("{"): ord("}"), ord("["): ord("]")}


class JsonSpan(NamedTuple):
    """One member of an object or element of an array: its bytes, with the white space and key before its value."""

    lead: bytes
    key: bytes
    """The key with its colon, as written; empty in an array."""
    value: bytes
    trail: bytes = b""

    def name(self) -> str:
        """Return the key's name."""
        return str(decode_value(_STRING.match(self.key)[0])) if _STRING.match(self.key) else ""  # type: ignore[index]

    def raw(self) -> bytes:
        """Return the bytes as they were read."""
        return self.lead + self.key + self.value + self.trail


class Composite(NamedTuple):
    """An object or array, split into its parts."""

    opening: bytes
    parts: tuple[JsonSpan, ...]
    closing: bytes
    """The closing bracket; in an empty object or array, with the white space before it."""

    def raw(self) -> bytes:
        """Return the bytes; the same that were read if no part was changed."""
        return self.opening + b",".join(part.raw() for part in self.parts) + self.closing

    def find(self, name: str) -> JsonSpan | None:
        """Return a member or None; raises Failure for a duplicate name, since parsers differ on which one counts."""
        matches = [part for part in self.parts if part.name() == name]
        if len(matches) > 1:
            raise Failure(f"the key {name!r} is there {len(matches)} times in one object")
        return matches[0] if matches else None

    def put(self, name: str, value: bytes) -> "Composite":
        """Return a copy with another value for a member. A new member comes last, in the format of the first one."""
        parts = tuple(part._replace(value=value) if part.name() == name else part for part in self.parts)
        copy = self._replace(parts=parts)
        if copy.find(name) or not parts:
            return copy
        colon = parts[0].key[len(_STRING.match(parts[0].key)[0]) :]  # type: ignore[index]
        return copy.insert(len(parts), JsonSpan(parts[0].lead, json.dumps(name).encode() + colon, value))

    def insert(self, index: int, part: JsonSpan) -> "Composite":
        """Return a copy with one more part; the white space before the closing bracket stays there."""
        parts = [*self.parts[:index], part, *self.parts[index:]]
        return self._replace(parts=self._move_space_behind_last(parts))

    def drop(self, index: int) -> "Composite":
        """Return a copy without a part; the white space before the closing bracket stays there."""
        parts = [*self.parts[:index], *self.parts[index + 1 :]]
        return (
            self._replace(parts=self._move_space_behind_last(parts))
            if parts
            else Composite(self.opening, (), self.closing)
        )

    def _move_space_behind_last(self, parts: list[JsonSpan]) -> tuple[JsonSpan, ...]:
        """Move the white space before the closing bracket to the part that is now the last one."""
        space = self.parts[-1].trail if self.parts else b""
        inner = [part._replace(trail=b"") if part is self.parts[-1] else part for part in parts[:-1]]
        return (*inner, parts[-1]._replace(trail=space))


def parse(content: bytes) -> JsonSpan:
    """Return the single value of a JSON text, with the white space around it; raises Failure if it has none."""
    start = _space(content, 0)
    end = _end(content, start)
    if _space(content, end) != len(content):
        raise _syntax_error(end)
    return JsonSpan(content[:start], b"", content[start:end], content[end:])


def split_members(raw: bytes) -> Composite:
    """Split an object or array into its parts; raises Failure for anything else, or broken JSON."""
    if not raw or raw[0] not in _CLOSING:
        raise Failure("not an object or array")
    closing, parts = _CLOSING[raw[0]], list[JsonSpan]()
    at = _space(raw, 1)
    if raw[at] == closing:
        return Composite(raw[:1], (), raw[1:])
    at = 1
    while True:
        part, at = _part(raw, at, keyed=raw[:1] == b"{")
        parts.append(part)
        if at >= len(raw) or raw[at] not in {closing, ord(",")} or len(parts) > _MOST_PARTS:
            raise _syntax_error(at)
        if raw[at] == closing:
            return Composite(raw[:1], tuple(parts), raw[at:])
        at += 1


def decode_value(raw: bytes) -> Any:
    """Decode one small value; raises Failure if it is broken."""
    try:
        return json.loads(raw.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise Failure("broken JSON") from None


def _part(raw: bytes, at: int, *, keyed: bool) -> tuple[JsonSpan, int]:
    """Return the part at a position, and the position where it ends."""
    start = _space(raw, at)
    lead, key, value = raw[at:start], b"", start
    if keyed:
        name = _STRING.match(raw, start)
        colon = _space(raw, name.end()) if name else start
        if not name or raw[colon : colon + 1] != b":":
            raise _syntax_error(start)
        value = _space(raw, colon + 1)
        key = raw[start:value]
    end = _end(raw, value)
    after = _space(raw, end)
    return JsonSpan(lead, key, raw[value:end], raw[end:after]), after


def _end(raw: bytes, start: int) -> int:
    """Return the end of the value that starts here."""
    first = raw[start : start + 1]
    if first not in {b"{", b"["}:
        match = (_STRING if first == b'"' else _PLAIN).match(raw, start)
        if not match:
            raise _syntax_error(start)
        return match.end()
    open_brackets = bytearray((_CLOSING[raw[start]],))
    at, brackets = start + 1, 0
    while open_brackets:
        brackets += 1
        match = _TO_BRACKET.match(raw, at)
        if not match:
            raise _syntax_error(at)
        at, bracket = match.end(), raw[match.end() - 1]
        if bracket in _CLOSING:
            open_brackets.append(_CLOSING[bracket])
            if len(open_brackets) > DEPTH or brackets > _MOST_BRACKETS:
                raise Failure(f"nested more than {DEPTH} deep, or more than {_MOST_BRACKETS:,} brackets")
        elif bracket != open_brackets.pop():
            raise _syntax_error(at - 1)
    return at


def _space(raw: bytes, at: int) -> int:
    """Return the position after white space."""
    match = _SPACE.match(raw, at)
    return match.end() if match else at


def _syntax_error(at: int) -> Failure:
    """Return the failure for a position where a text stops being JSON."""
    return Failure(f"not JSON at byte {at:,}")
