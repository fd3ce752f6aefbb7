"""The JSON schema of a receipt's statement, and the check of a value against it.

The schema is the one description of the format: docs/receipts/plan-approval-v1.schema.json is a copy of it. It uses the
few words of JSON Schema that `schema_objections` knows, so that a check needs no library and takes microseconds.
https://json-schema.org/draft/2020-12/json-schema-validation
"""

import re
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any, Final

from bot.core.receipt_format import PREDICATE_TYPE, STATEMENT_TYPE
from bot.core.transcript import Json

_TYPES: Final = MappingProxyType(
    {
        str: "string",
        int: "integer",
        bool: "boolean",
        list: "array",
        dict: "object",
        type(None): "null",
    }
)
_DEEPEST: Final = 20


def _object(**properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": sorted(properties), "additionalProperties": False}


def _list(items: Json) -> Json:
    return {"type": "array", "items": items, "maxItems": 100_000}


def _text(pattern: str) -> Json:
    return {"type": "string", "pattern": f"^(?:{pattern})$"}


_STRING: Final[Json] = {"type": "string"}
_INTEGER: Final[Json] = {"type": "integer", "minimum": 1 - 2**53, "maximum": 2**53 - 1}
"""Languages that read numbers as floats know larger ones only roughly: https://www.rfc-editor.org/rfc/rfc8259#section-6"""
_BOOLEAN: Final[Json] = {"type": "boolean"}
_COST: Final[Json] = {"type": ["string", "null"], "pattern": r"^(?:[0-9]+\.[0-9]{6})$"}
_EXIT_CODE: Final[Json] = {**_INTEGER, "type": ["integer", "null"]}
_GIT: Final = _text("[0-9a-f]{40}|[0-9a-f]{64}")
_GIT_OR_NONE: Final = _text("|[0-9a-f]{40}|[0-9a-f]{64}")
_SHA256: Final = _text("[0-9a-f]{64}")
_SHA256_OR_NONE: Final = _text("|[0-9a-f]{64}")
_TIME: Final = _text(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{6})?\+00:00")
_OPINION: Final = _object(actor_id=_INTEGER, login=_STRING, role=_STRING, listed=_BOOLEAN, way=_STRING, at=_TIME)
_DECISION: Final = _object(plan=_SHA256_OR_NONE, observed_at=_TIME, snapshot_sha256=_SHA256_OR_NONE, by=_list(_OPINION))
_POLICY: Final = {
    **_object(
        configuration=_GIT_OR_NONE,
        required_role=_STRING,
        needed=_INTEGER,
        fewer=_STRING,
        four_eyes=_BOOLEAN,
        requesters=_list(_INTEGER),
        approver_is_not_requester=_BOOLEAN,
    ),
    "type": ["object", "null"],
}
_AGENT: Final = _object(type=_STRING, state=_STRING, tool_calls=_INTEGER, cost_usd=_COST)
_COMMAND: Final[Json] = {
    **_object(agent=_STRING, command=_STRING, exit_code=_EXIT_CODE, output_sha256=_SHA256),
    "required": ["agent", "command", "exit_code"],
}
_CHECK: Final = _object(command=_STRING, exit_code=_EXIT_CODE, exit_code_before=_EXIT_CODE, output_sha256=_SHA256)
_REQUEST: Final = _object(
    actor_id=_INTEGER, login=_STRING, turn=_STRING, at=_TIME, text_sha256=_SHA256, editors=_list(_INTEGER)
)
_PREDICATE: Final = _object(
    attester=_STRING,
    repository=_object(host=_STRING, id=_INTEGER, name=_STRING),
    thread=_INTEGER,
    branch=_STRING,
    plan=_object(digest=_SHA256, version=_INTEGER, base=_GIT, tier=_STRING, expires=_TIME, scope_tree=_GIT_OR_NONE),
    requests=_list(_REQUEST),
    approvals=_list(_DECISION),
    rejections=_list(_DECISION),
    policy=_POLICY,
    execution=_object(
        session=_STRING,
        model=_STRING,
        agents=_list(_AGENT),
        commands=_list(_COMMAND),
        cost_usd=_COST,
        tokens_input=_INTEGER,
        tokens_output=_INTEGER,
        hosts=_list(_STRING),
    ),
    scope=_object(planned=_list(_STRING), changed=_list(_STRING), amendments=_INTEGER),
    verification=_object(tree=_GIT_OR_NONE, baseline=_STRING, checks=_list(_CHECK)),
    journal=_object(position=_INTEGER, hash=_SHA256, at=_TIME),
    builder=_object(version=_STRING, run=_STRING),
    complete=_BOOLEAN,
    missing=_list(_STRING),
)
_SUBJECT: Final = _object(
    name=_STRING, digest={**_object(gitCommit=_GIT, gitTree=_GIT), "required": [], "minProperties": 1}
)
STATEMENT_SCHEMA: Final = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": f"{PREDICATE_TYPE}/schema.json",
    "title": "Plangate receipt: the in-toto Statement of an approved plan",
    **_object(
        _type={"const": STATEMENT_TYPE},
        subject={
            **_list(_SUBJECT),
            "minItems": 2,
            "maxItems": 2,
        },
        predicateType={"const": PREDICATE_TYPE},
        predicate=_PREDICATE,
    ),
}


def schema_objections(value: Any, schema: Json, where: str = "statement", depth: int = 0) -> Iterator[str]:
    """Yield what is wrong with a value, one sentence each; nothing if it fits the schema."""
    if depth > _DEEPEST:
        yield f"{where} is nested too deeply"
        return
    if "const" in schema and value != schema["const"]:
        yield f"{where} is not {schema['const']}"
    if "type" in schema and not _has_type(value, schema["type"]):
        yield f"{where} is not of type {schema['type']}"
        return
    if isinstance(value, int) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{where} is out of range"
    if isinstance(value, str) and "pattern" in schema and not re.fullmatch(schema["pattern"], value):
        yield f"{where} does not have the form {schema['pattern']}"
    if isinstance(value, list):
        yield from _list_objections(value, schema, where, depth)
    if isinstance(value, dict):
        yield from _object_objections(value, schema, where, depth)


def _has_type(value: Any, wanted: str | list[str]) -> bool:
    """Return whether a value that was read from JSON has one of the wanted types. In JSON, true is no number."""
    return _TYPES.get(type(value)) in ([wanted] if isinstance(wanted, str) else wanted)


def _list_objections(value: list[Any], schema: Json, where: str, depth: int) -> Iterator[str]:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        yield f"{where} has {len(value)} items"
        return
    for n, item in enumerate(value):
        yield from schema_objections(item, schema.get("items", {}), f"{where}[{n}]", depth + 1)


def _object_objections(value: dict[str, Any], schema: Json, where: str, depth: int) -> Iterator[str]:
    properties = schema.get("properties", {})
    if len(value) < schema.get("minProperties", 0):
        yield f"{where} is empty"
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{where} lacks {name}"
    if not schema.get("additionalProperties", True):
        for name in sorted(value.keys() - properties.keys()):
            yield f"{where} has an unknown key {name}"
    for name, inner in properties.items():
        if name in value:
            yield from schema_objections(value[name], inner, f"{where}.{name}", depth + 1)
