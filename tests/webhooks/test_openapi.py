"""/openapi.json is true: no route answers with a status that it does not name, or with a body of another shape."""

import asyncio
import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.webhooks.api_ground import World, as_operator, request, served
from webhooks.event_stream import Streams

OURS = {"owner": "octo", "repo": "hello", "number": 1}
"""A thread that there is: every other case is about this one."""
CASES = 1_000
"""For each route."""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    world = World(tmp_path_factory.mktemp("openapi"), streams=Streams(seconds=0.02))
    asyncio.run(world.fill(3))
    with served(world) as address:
        yield address


def operations(base: str) -> list[Any]:
    import schemathesis  # takes a second, so only a campaign pays for it
    from schemathesis.core.result import Ok

    schema = schemathesis.openapi.from_dict(request(base, "GET", "/openapi.json").body)
    schema.config.update(base_url=base)
    found = [*schema.get_all_operations()]
    assert all(isinstance(each, Ok) for each in found)
    return [each.ok() for each in found if isinstance(each, Ok)]


def check_operation(operation: Any, cases: int) -> None:
    """Send cases that fit the schema, and ones that do not."""
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    held = (
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    )
    turns = itertools.count()

    @settings(
        max_examples=cases,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def check(case: Any) -> None:
        if next(turns) % 2 and case.path_parameters:
            case.path_parameters = {**case.path_parameters, **OURS}
        headers = as_operator() if next(turns) % 8 else {}
        response = case.call(headers=headers, timeout=20)
        case.validate_response(response, checks=held)

    check()


def test_every_route_is_listed(base: str) -> None:
    """What people build on stands in the document, each with its errors as problems."""
    document = request(base, "GET", "/openapi.json").body
    thread = "/api/threads/{owner}/{repo}/{number}"
    listed = {(path, verb) for path, verbs in document["paths"].items() for verb in verbs}
    assert listed >= {
        ("/webhooks/github", "post"),
        ("/healthz", "get"),
        ("/readyz", "get"),
        ("/metrics", "get"),
        ("/api/threads", "get"),
        (thread, "get"),
        (f"{thread}/journal", "get"),
        (f"{thread}/events", "get"),
        (f"{thread}/turns", "post"),
    }
    for path, verb in listed:
        answers = document["paths"][path][verb]["responses"]
        if path.startswith("/api/"):
            for status in set(answers) - {"200", "201"}:
                assert [*answers[status]["content"]] == ["application/problem+json"], (path, status)
    assert "docs" not in json.dumps(sorted(document["paths"]))


REQUESTS = (
    ("GET", "/api/threads", 200),
    ("GET", "/api/threads?limit=x", 422),
    ("GET", "/api/threads/octo/hello/1", 200),
    ("GET", "/api/threads/octo/hello/99", 404),
    ("GET", "/api/threads/octo/hello/1/journal", 200),
    ("GET", "/api/threads/octo/hello/1/journal?after=-1", 422),
    ("GET", "/api/threads/octo/hello/1/events", 200),
    ("POST", "/api/threads/octo/hello/1/turns", 422),
    ("GET", "/metrics", 200),
    ("GET", "/readyz", 200),
    ("GET", "/.well-known/plangate-keys.json", 404),
    ("POST", "/webhooks/github", 401),
)


@pytest.mark.parametrize(("verb", "path", "status"), REQUESTS)
def test_a_status_is_in_the_document(base: str, verb: str, path: str, status: int) -> None:
    """With the operator's token, and without one: the status and the type of the body are those of the document."""
    paths = request(base, "GET", "/openapi.json").body["paths"]
    plain = re.sub("octo/hello/[0-9]+", "{owner}/{repo}/{number}", path.partition("?")[0])
    for headers in (as_operator(), {}):
        answer = request(base, verb, path, headers)
        described = paths[plain][verb.lower()]["responses"][str(answer.status)]
        kind = answer.headers["content-type"].partition(";")[0]
        assert kind in described.get("content", {"application/json": {}, "text/plain": {}})
        if headers:
            assert answer.status == status


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_the_document_is_true_in_many_cases(base: str) -> None:
    """Many cases for each route, made from the document."""
    for operation in operations(base):
        check_operation(operation, CASES)
