"""GitHub's own published schemas, where the environment says that they are there (npm packages @octokit/...)."""

import json
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

FOLDER = os.environ.get("PLANGATE_ORACLES", "")


def published(name: str) -> Path | None:
    """Find a file of the packages, wherever in the folder they were unpacked."""
    return next(iter(sorted(Path(FOLDER).rglob(name))), None) if FOLDER else None


OPENAPI = published("generated/api.github.com.json")
SCHEMA = published("schema.graphql")
WEBHOOKS = published("webhooks-schemas*/schema.json")
needs_oracles = pytest.mark.skipif(
    not (OPENAPI and SCHEMA and WEBHOOKS),
    reason="PLANGATE_ORACLES names no folder with @octokit/openapi, graphql-schema and webhooks-schemas",
)


@cache
def openapi() -> dict[str, Any]:
    assert OPENAPI is not None
    document: dict[str, Any] = json.loads(OPENAPI.read_text())
    return document


@cache
def validator(name: str) -> Any:
    """Return the validator of a schema of the document by the text of its own schema."""
    import jsonschema_rs

    schema = json.loads(name)
    wanted = _reached(schema, {})
    return jsonschema_rs.Draft7Validator({"components": {"schemas": wanted}, **schema})


def _reached(schema: Any, found: dict[str, Any]) -> dict[str, Any]:
    """Collect the components that a schema refers to, and those that they do."""
    if isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
        name = schema["$ref"].rpartition("/")[2]
        if name not in found:
            found[name] = _plain(openapi()["components"]["schemas"][name])
            _reached(found[name], found)
    for each in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        _reached(each, found)
    return found


def _plain(schema: Any) -> Any:
    """OpenAPI 3.0 to JSON Schema: `nullable` becomes a type."""
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {key: _plain(value) for key, value in schema.items() if key not in {"example", "examples"}}
    if plain.pop("nullable", None) is not True:
        return plain
    return {"anyOf": [plain, {"type": "null"}]}


@cache
def operation(method: str, path: str) -> dict[str, Any] | None:
    shape = re.sub(r"\{[^}]*\}", "{}", path)
    for known, methods in openapi()["paths"].items():
        if re.sub(r"\{[^}]*\}", "{}", known) == shape and method.lower() in methods:
            found: dict[str, Any] = methods[method.lower()]
            return found
    return None


def answer_errors(method: str, path: str, status: int, body: Any) -> list[str]:
    known = operation(method, path)
    if known is None:
        return [f"GitHub has no {method} {path}"]
    response = known["responses"].get(str(status))
    if response is None:
        return [f"GitHub does not answer {status} to {method} {path}"]
    if "$ref" in response:
        response = openapi()["components"]["responses"][response["$ref"].rpartition("/")[2]]
    content = response.get("content", {}).get("application/json")
    if content is None:
        return [] if body is None else [f"GitHub answers nothing to {method} {path}"]
    errors = validator(json.dumps(_plain(content["schema"]))).iter_errors(body)
    return [f"{method} {path}: {'/'.join(map(str, error.instance_path))}: {error.message[-160:]}" for error in errors]
