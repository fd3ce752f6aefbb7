"""Every request that the room sends is one that GitHub documents: held against GitHub's own schemas.

PLANGATE_ORACLES names a folder that holds api.github.com.json (@octokit/openapi) and schema.graphql
(@octokit/graphql-schema) somewhere below.
"""

import importlib
import json
import os
import pkgutil
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

import bot.github as room
from bot.core.brief import Topic
from bot.core.names import ThreadNumber
from bot.core.turn import Acknowledgment
from bot.core.work import PullOrder, Review, ReviewFinding, Severity
from bot.github.client import GitHubClient
from bot.github.pace import WritePace
from bot.github.pulls import GitHubPulls
from bot.github.repository import app_bot, app_installations, file, installation_on, pushable_repositories, repository
from bot.github.tokens import AppTokens, StaticToken
from bot.testing.github import credentials
from tests.github.conftest import HOME, Ground, turns_of
from tests.github.reading import Reading, fail_job


def oracle(name: str) -> Path | None:
    folder = os.environ.get("PLANGATE_ORACLES", "")
    return next(iter(sorted(Path(folder).rglob(name))), None) if folder else None


def queries() -> list[tuple[str, str]]:
    found = []
    for module in pkgutil.iter_modules(room.__path__, "bot.github."):
        texts = vars(importlib.import_module(module.name)).items()
        found += [
            (f"{module.name}.{name}", text)
            for name, text in texts
            if isinstance(text, str) and text.strip().startswith(("query", "mutation"))
        ]
    return found


def test_queries_for_the_next_test_are_found() -> None:
    assert len(queries()) >= 10


@pytest.mark.skipif(oracle("schema.graphql") is None, reason="PLANGATE_ORACLES names no folder with schema.graphql")
def test_every_query_is_valid_by_the_published_schema() -> None:
    graphql = pytest.importorskip("graphql")
    path = oracle("schema.graphql")
    assert path is not None
    schema = graphql.build_schema(path.read_text(), assume_valid=True, no_location=True)
    errors = {name: graphql.validate(schema, graphql.parse(text)) for name, text in queries()}
    assert {name: found for name, found in errors.items() if found} == {}


@pytest.mark.long
@pytest.mark.skipif(oracle("api.github.com.json") is None, reason="PLANGATE_ORACLES names no folder with the OpenAPI")
async def test_every_rest_request_of_a_conversation_is_in_githubs_openapi(ground: Ground) -> None:
    path = oracle("api.github.com.json")
    assert path is not None
    description = json.loads(path.read_text())
    await conversation(ground)
    requests = [
        logged for logged in ground.github.requests if logged.path != "/graphql" and "signed" not in logged.path
    ]
    assert len(requests) > 15
    assert [problem for logged in requests for problem in problems(description, logged)] == []


async def conversation(ground: Ground) -> None:
    client, at = ground.client, ground.address
    await repository(client, at)
    await app_bot(ground.app, client)
    await installation_on(ground.app, at)
    await file(client, at, "README.md", "main")
    thread = ground.issue()
    dialogue, plan = ground.dialogue(thread), ground.plan(thread, tier="high")
    for turn in await turns_of(dialogue):
        await dialogue.acknowledge(turn, Acknowledgment.SEEN)
    shown = (await dialogue.propose(plan, 1)).id
    ground.person("mia").react(ground.comments(thread)[0], "+1")
    ground.person("ada").push(HOME, {"src/a.py": "a = 2\n"})
    await dialogue.snapshot(plan, shown)
    await dialogue.progress("working", 2)
    await dialogue.post("done", 2)
    await dialogue.supersede(shown, "A newer one replaces it.")
    ground.person("will").push(HOME, {"src/b.py": "b = 2\n"}, branch="topic")
    await read_everything(ground)
    order = PullOrder("topic", "main", "Topic", "Body", labels=("by bot",), reviewers=("mia",))
    number = ThreadNumber((await GitHubPulls(client, at, ground.bot).ensure(order)).number)
    finding = ReviewFinding("src/b.py", 1, Severity.LOW, "Why?")
    commit = (await ground.dialogue(number).subject()).pull
    assert commit is not None
    await ground.dialogue(number).review(Review("Good.", (finding,), commit.head), 3)
    assert [each async for each in app_installations(ground.app)]
    token = credentials.personal_token(ground.github.world, "will").value
    person = GitHubClient(
        client.api_url, client.graphql_url, StaticToken(lambda: token), ground.clock, WritePace(ground.clock)
    )
    assert [each async for each in pushable_repositories(person)]
    person.close()
    assert isinstance(client.credentials, AppTokens)
    await client.credentials.revoke()


async def read_everything(ground: Ground) -> None:
    pull = ground.person("will").open_pull(HOME, "Also", head="topic").number
    head = str(ground.head)
    fail_job(ground, head, b"")
    reading = Reading(ground)
    for topic in Topic:
        about = {"commit": head} if topic in {Topic.COMMIT, Topic.CHECKS} else {}
        await reading.read(topic, 0 if about else pull, **about)
    ground.person("will").close(HOME, pull)


SEVERAL = {"path", "ref", "basehead", "branch"}  # what may hold a slash


def problems(description: dict[str, Any], logged: Any) -> list[str]:
    """List what GitHub does not document about a request: its path, a parameter, a field of its body."""
    operations = [
        paths[logged.method.lower()]
        for template, paths in description["paths"].items()
        if re.fullmatch(pattern(template), logged.path) and logged.method.lower() in paths
    ]
    if not operations:
        return [f"{logged.name}: no such operation"]
    return min((faults(description, operation, logged) for operation in operations), key=len)


def faults(description: dict[str, Any], operation: dict[str, Any], logged: Any) -> list[str]:
    parameters = {resolved(description, each)["name"] for each in operation.get("parameters", [])}
    asked = dict(parse_qsl(logged.query)).keys() - parameters
    content = resolved(description, operation.get("requestBody", {})).get("content", {})
    schema = resolved(description, content.get("application/json", {}).get("schema", {}))
    given = json.loads(logged.body) if logged.body else {}
    forms = [schema, *(resolved(description, each) for each in schema.get("oneOf", ()))]
    unknown = given.keys() - {name for form in forms for name in form.get("properties", {})}
    missing = set(schema.get("required", ())) - given.keys()
    return [f"{logged.name}: {sorted(each)}" for each in (asked, unknown, missing) if each]


def pattern(template: str) -> str:
    parts = re.split(r"\{([^}]+)\}", template)
    return "".join(
        re.escape(part) if at % 2 == 0 else (".+" if part in SEVERAL else "[^/]+") for at, part in enumerate(parts)
    )


def resolved(description: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in part:
        found: Any = description
        for step in part["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        part = found
    return part
