"""The GraphQL schema that is served is a strict part of GitHub's own."""

from typing import Any

from bot.testing.github.graphql.graphql_api import schema
from tests.testing.github.oracles import SCHEMA, needs_oracles


@needs_oracles
def test_every_field_is_githubs_own() -> None:
    from graphql import build_schema

    assert SCHEMA is not None
    theirs = build_schema(SCHEMA.read_text(), assume_valid=True, no_location=True).type_map
    wrong = [
        f"{name}: {problem}"
        for name, ours in schema().type_map.items()
        if not name.startswith("__")
        for problem in _problems(ours, theirs.get(name))
    ]
    assert wrong == []


def _problems(ours: Any, theirs: Any) -> list[str]:
    if type(ours) is not type(theirs):
        return ["another kind of type"]
    found = [value for value in getattr(ours, "values", {}) if value not in theirs.values]
    fields = getattr(theirs, "fields", {})
    for name, field in getattr(ours, "fields", {}).items():
        if name not in fields or str(fields[name].type) != str(field.type):
            found.append(f"{name}: {field.type}")
        for argument, given in getattr(field, "args", {}).items():
            known = fields[name].args.get(argument) if name in fields else None
            if known is None or str(known.type) != str(given.type):
                found.append(f"{name}({argument})")
    return found
