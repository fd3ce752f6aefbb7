"""The subset of JSON Schema that strict tools and structured outputs are compiled from, and its limits.

https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations; the client library's
`transform_schema` keeps the same subset.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from bot.testing.model.subject import Finding
from bot.testing.model.wire import Json

MAX_OPTIONAL = 24
MAX_UNIONS = 16
REFUSED = {
    "string": frozenset({"minLength", "maxLength"}),
    "integer": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
    "number": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
    "array": frozenset({"maxItems", "uniqueItems"}),
    "object": frozenset({"minProperties", "maxProperties", "patternProperties"}),
}
MAX_MIN_ITEMS = 1


def _schemas(schema: object) -> Iterator[Json]:
    """Yield the schema and all schemas inside it."""
    if not isinstance(schema, dict):
        return
    yield schema
    by_name = [schema.get(keyword) for keyword in ("properties", "$defs", "definitions")]
    alternatives = [schema.get(keyword) for keyword in ("anyOf", "oneOf", "allOf")]
    for inner in chain(
        *(v.values() for v in by_name if isinstance(v, dict)), *(v for v in alternatives if isinstance(v, list))
    ):
        yield from _schemas(inner)
    yield from _schemas(schema.get("items"))
    yield from _schemas(schema.get("additionalProperties"))


def well_formed(schema: Json, place: str) -> Iterator[Finding]:
    """Check that every inner schema has properties by name and a list of required names."""
    for inner in _schemas(schema):
        required = inner.get("required", [])
        is_valid = isinstance(required, list) and all(isinstance(name, str) for name in required)
        if not is_valid or not isinstance(inner.get("properties", {}), dict):
            yield f"{place}: JSON schema is invalid. It must match JSON Schema draft 2020-12"


def closed_world(schema: Json, place: str) -> Iterator[Finding]:
    """Check that every object in the schema forbids additional properties."""
    for inner in _schemas(schema):
        if inner.get("type") == "object" and inner.get("additionalProperties") is not False:
            yield f"{place}: For 'object' type, 'additionalProperties' must be explicitly set to false"


def unsupported_keywords(schema: Json, place: str) -> Iterator[Finding]:
    """Check that the schema uses no keyword that the grammar cannot express."""
    for inner in _schemas(schema):
        kind = str(inner.get("type"))
        keywords = sorted(REFUSED.get(kind, frozenset()) & inner.keys())
        if keywords:
            noun = "property" if len(keywords) == 1 else "properties"
            verb = "is" if len(keywords) == 1 else "are"
            yield f"{place}: For '{kind}' type, {noun} {', '.join(keywords)} {verb} not supported"
        if kind == "array" and inner.get("minItems", 0) > MAX_MIN_ITEMS:
            yield f"{place}: For 'array' type, 'minItems' values other than 0 or 1 are not supported"
        if "oneOf" in inner:
            yield f"{place}: Schema type 'oneOf' is not supported"


def complexity(schemas: list[Json]) -> Iterator[Finding]:
    """Check that all strict schemas together stay within the limits on optional and union-typed parameters."""
    every = [inner for schema in schemas for inner in _schemas(schema)]
    optional = sum(len(set(inner.get("properties") or {}) - set(inner.get("required") or [])) for inner in every)
    if optional > MAX_OPTIONAL:
        yield (
            f"Schemas contains too many optional parameters ({optional}), which would make grammar compilation "
            f"inefficient. Reduce the number of optional parameters in your tool schemas (limit: {MAX_OPTIONAL})."
        )
    unions = sum("anyOf" in inner or isinstance(inner.get("type"), list) for inner in every)
    if unions > MAX_UNIONS:
        yield (
            f"Schemas contains too many parameters with union types ({unions} parameters with type arrays or anyOf), "
            "which would cause exponential compilation cost. Reduce the number of nullable or union-typed parameters "
            f"(limit: {MAX_UNIONS} parameters with unions)."
        )
