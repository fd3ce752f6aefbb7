"""The places of GitHub's data that its schemas allow to be null or absent, and data with one of them changed."""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from bot.testing.github.faults import Fault, Logged
from tests.github.conftest import Ground
from tests.github.test_oracles import pattern
from tests.testing.github.oracles import SCHEMA, openapi

EACH = "[]"
"""The step of a path into every item of a list."""


class Place(NamedTuple):
    """A field of the answers to one query or operation: `path` leads to it, whatever the index in lists."""

    answer: str
    path: tuple[str, ...]
    absent: bool
    """Whether GitHub may leave it out; else it may be null."""

    def __str__(self) -> str:
        return f"{self.answer}: {'.'.join(self.path)} {'absent' if self.absent else 'null'}"


@dataclass
class Recorder:
    """Lists the places of the answers that pass, and changes one of them."""

    places: dict[Place, None] = field(default_factory=dict)
    changed: Place | None = None

    def __call__(self, logged: Logged, body: Any) -> Any:
        is_query = logged.path == "/graphql"
        found = graphql_places(logged.body, body) if is_query else rest_places(logged.method, logged.path, body)
        for place in found:
            self.places.setdefault(place)
            if place == self.changed:
                body = without(body, place.path, absent=place.absent)
        return body

    @classmethod
    def of(cls, ground: Ground) -> "Recorder":
        """Return a recorder of every answer from now on."""
        recorder = cls()
        ground.github.faults.plan("*", Fault("alter", alter=recorder), times=10**9)
        return recorder


def without(value: Any, path: tuple[str, ...], *, absent: bool) -> Any:
    """Return a JSON value with null, or nothing, at a path."""
    if not path:
        return None
    step, rest = path[0], path[1:]
    if step == EACH:
        return [without(item, rest, absent=absent) for item in value] if isinstance(value, list) else value
    if not isinstance(value, dict) or step not in value:
        return value
    if not rest and absent:
        return {key: inner for key, inner in value.items() if key != step}
    return {**value, step: without(value[step], rest, absent=absent)}


@cache
def graphql_schema() -> Any:
    import graphql

    assert SCHEMA is not None
    return graphql.build_schema(SCHEMA.read_text(), assume_valid=True, no_location=True)


def graphql_places(request: bytes, answer: Any) -> Iterator[Place]:
    """Yield the nullable fields that a query selects and that its answer fills."""
    from graphql import FragmentDefinitionNode, OperationDefinitionNode, parse

    text = json.loads(request)["query"]
    document = parse(text, no_location=True)
    fragments = {each.name.value: each for each in document.definitions if isinstance(each, FragmentDefinitionNode)}
    (operation,) = (each for each in document.definitions if isinstance(each, OperationDefinitionNode))
    schema = graphql_schema()
    root = schema.mutation_type if operation.operation.value == "mutation" else schema.query_type
    name = f"GraphQL {hashlib.sha256(text.encode()).hexdigest()[:6]}"
    for path in _selected(root, operation.selection_set, answer.get("data"), fragments):
        yield Place(name, ("data", *path), absent=False)


def _selected(kind: Any, selection: Any, data: Any, fragments: Any) -> Iterator[tuple[str, ...]]:
    from graphql import FieldNode, FragmentSpreadNode, is_abstract_type

    if not isinstance(data, dict) or selection is None:
        return
    if is_abstract_type(kind) and "__typename" in data:
        kind = graphql_schema().get_type(data["__typename"])
    for node in selection.selections:
        if not isinstance(node, FieldNode):
            part = fragments[node.name.value] if isinstance(node, FragmentSpreadNode) else node
            condition = part.type_condition.name.value
            inner = (
                kind if is_abstract_type(graphql_schema().get_type(condition)) else graphql_schema().get_type(condition)
            )
            yield from _selected(inner, part.selection_set, data, fragments)
            continue
        key = node.alias.value if node.alias else node.name.value
        known = getattr(kind, "fields", {}).get(node.name.value)
        if known is not None and data.get(key) is not None:
            yield from ((key, *path) for path in _typed(known.type, node.selection_set, data[key], fragments))


def _typed(kind: Any, selection: Any, value: Any, fragments: Any) -> Iterator[tuple[str, ...]]:
    from graphql import get_named_type, is_list_type, is_non_null_type

    if value is None:
        return
    if not is_non_null_type(kind):
        yield ()
    else:
        kind = kind.of_type
    if is_list_type(kind):
        for item in value:
            yield from ((EACH, *path) for path in _typed(kind.of_type, selection, item, fragments))
    else:
        yield from _selected(get_named_type(kind), selection, value, fragments)


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    ordered = sorted(openapi()["paths"], key=lambda template: template.count("{"))
    return [(re.compile(pattern(template)), template) for template in ordered]


def rest_places(method: str, path: str, answer: Any) -> Iterator[Place]:
    """Yield the fields of an answer that GitHub's description lets be null or leaves optional."""
    for shape, template in _patterns():
        operation = openapi()["paths"][template].get(method.lower())
        if operation is not None and shape.fullmatch(path):
            break
    else:
        return
    responses = (
        _resolved(each, openapi()) for status, each in operation["responses"].items() if status.startswith("2")
    )
    schemas = [
        each["content"]["application/json"]["schema"]
        for each in responses
        if "application/json" in each.get("content", {})
    ]
    if schemas:
        for found, absent in described(schemas[0], answer, openapi()):
            yield Place(f"{method} {template}", found, absent=absent)


def _resolved(schema: Any, root: Any) -> Any:
    while "$ref" in schema:
        found: Any = root
        for step in schema["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        schema = found
    return schema


def _forms(schema: Any, root: Any) -> Iterator[Any]:
    """Yield the schemas that may describe one value."""
    schema = _resolved(schema, root)
    yield schema
    for key in ("allOf", "anyOf", "oneOf"):
        for each in schema.get(key, ()):
            yield from _forms(each, root)


def described(schema: Any, value: Any, root: Any) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Yield the path to each part of a value that its schema lets be null (False) or leaves optional (True)."""
    forms = list(_forms(schema, root))
    if value is not None and any(form.get("nullable") or "null" in (form.get("type") or ()) for form in forms):
        yield (), False
    if isinstance(value, list):
        items = next((form["items"] for form in forms if isinstance(form.get("items"), dict)), None)
        for item in value if items is not None else ():
            yield from (((EACH, *path), absent) for path, absent in described(items, item, root))
    if isinstance(value, dict):
        objects = [form for form in forms if "properties" in form]
        for key, inner in value.items():
            here = [form for form in objects if key in form["properties"]]
            if here and not all(key in form.get("required", ()) for form in here):
                yield (key,), True
            if here:
                below = described(here[0]["properties"][key], inner, root)
                yield from (((key, *path), absent) for path, absent in below)
