"""Reads .github/plangate.yml into the configuration (docs/settings.md), and reports the position of every mistake.

The YAML reader limits size and depth, and refuses aliases (X4).
"""

from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from bot.core.configuration import Configuration, MaintenanceTask
from bot.core.errors import Misconfigured

LARGEST: Final = 256 * 1024
DEEPEST: Final = 20
_SAID: Final = {
    "model_type": "must hold keys, each on a line of its own",
    "dict_type": "must hold keys, each on a line of its own",
    "list_type": "must be a list, such as [a, b]",
    "string_type": "must be text; put it in quotes",
    "string_pattern_mismatch": "has characters that such a name cannot have",
    "string_too_short": "must not be empty",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "missing": "is missing",
}
"""Message for each kind of mistake. Other kinds use the library's message."""

PartModel = TypeVar("PartModel", bound=BaseModel)


def parse_configuration(text: str, where: str) -> Configuration:
    """Return a configuration. Raises Misconfigured with line, column, and the nearest key for an unknown one."""
    return validate_yaml(Configuration, text, where) if text.strip() else Configuration()


def validate_yaml(model: type[PartModel], text: str, where: str) -> PartModel:
    """Return a YAML text as a model. Raises Misconfigured with line and column."""
    value = _load(text, where)
    try:
        return model.model_validate(value if value is not None else {})
    except ValidationError as error:
        # An unknown key comes first: it may be a misspelling of a key that is reported as missing.
        first = min(error.errors(), key=lambda mistake: mistake["type"] != "extra_forbidden")
        raise _mistake(first["type"], first["msg"], first["loc"], value=(model, value), where=where) from error


def _load(text: str, where: str) -> Any:
    """Return the value of a YAML text, with the positions of its keys. Raises Misconfigured."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    _check_bounds(text, where)
    try:
        return YAML(typ="rt").load(text)
    except (YAMLError, ValueError) as error:  # ValueError: a malformed number or date
        raise _no_yaml(error, text, where) from error


def _check_bounds(text: str, where: str) -> None:
    """Raise Misconfigured for a text that is too large, nested too deeply, or has aliases, before it is loaded."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError
    from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent

    if len(text) > LARGEST:
        raise Misconfigured(f"larger than {LARGEST // 1024} KiB", where=where, fix="shorten it")
    depth = 0
    try:
        for event in YAML(typ="rt").parse(text):
            depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
            if depth > DEEPEST or isinstance(event, AliasEvent):
                raise Misconfigured("nested too deeply or with aliases", where=where, fix="write each value out")
    except YAMLError:
        return  # the loader reports it better


def _no_yaml(error: Exception, text: str, where: str) -> Misconfigured:
    from ruamel.yaml.error import MarkedYAMLError
    from ruamel.yaml.reader import ReaderError

    if isinstance(error, ReaderError):
        before = text[: error.position].split("\n")
        what = f"not YAML: the character U+{ord(text[error.position]):04X} is not allowed in it"
        place = f"{where}:{len(before)}:{len(before[-1]) + 1}"
        return Misconfigured(what, where=place, fix="remove the character, or write it as an escape in double quotes")
    mark = error.problem_mark if isinstance(error, MarkedYAMLError) else None
    place = f"{where}:{mark.line + 1}:{mark.column + 1}" if mark else where
    what = error.problem if isinstance(error, MarkedYAMLError) else str(error)
    return Misconfigured(f"not YAML: {what}", where=place, fix="correct the line")


def _mistake(
    kind: str, message: str, path: tuple[int | str, ...], *, value: tuple[type[BaseModel], Any], where: str
) -> Misconfigured:
    name = ".".join(map(str, path))
    place = where + _position(value[1], path)
    if kind != "extra_forbidden":
        plain = _SAID.get(kind) or message.removeprefix("Value error, ").replace("Input should be", "must be")
        return Misconfigured(f"{name or 'the file'}: {plain}", where=place, fix="see docs/settings.md of Plangate")
    nearest = _nearest(value[0], path)
    return Misconfigured(
        f"unknown key {name!r}", where=place, fix=f"did you mean {nearest!r}?" if nearest else "remove it"
    )


def _position(value: Any, path: tuple[int | str, ...]) -> str:
    """Return ``:line:column`` of the innermost key of a path that is in the file."""
    position = ""
    for key in path:
        try:
            line, column = value.lc.key(key) if isinstance(key, str) else value.lc.item(key)
            value = value[key]
        except (AttributeError, KeyError, IndexError, TypeError):
            break
        position = f":{line + 1}:{column + 1}"
    return position


def _nearest(model: type[BaseModel], path: tuple[int | str, ...]) -> str:
    """Return the known key that is most similar to an unknown one, with the path to it."""
    from rapidfuzz import process

    part: Any = model
    for key in path[:-1]:
        part = part.model_fields[key].annotation if isinstance(key, str) else MaintenanceTask
    best = process.extractOne(str(path[-1]), list(part.model_fields), score_cutoff=60)
    return ".".join([*map(str, path[:-1]), best[0]]) if best else ""
