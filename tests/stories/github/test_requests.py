"""What the bot sends in a whole story, and while it waits: held against GitHub's own schemas, and counted (E2)."""

import cProfile
import json
import pstats
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest

from bot.core.gate import Stage
from bot.core.names import ThreadAddress
from bot.github import repository
from bot.github.activity import fingerprints
from bot.service.polling import REST_SPAN
from bot.service.reconcile import Reconciler, unreported_threads
from bot.testing.github import conversation
from bot.testing.github.code_changes import LineNote
from bot.testing.github.faults import Logged
from tests.github.effects import EFFECTS, ISSUE_EFFECTS, named, none_known
from tests.github.test_oracles import oracle, pattern, problems, resolved
from tests.stories.github.ground import HOME, Story
from tests.testing.github.oracles import validator

PAGE: Final = Path(__file__).parents[3] / "docs" / "api-cost.md"
needs_schemas = pytest.mark.skipif(
    oracle("api.github.com.json") is None or oracle("schema.graphql") is None,
    reason="PLANGATE_ORACLES names no folder with api.github.com.json and schema.graphql",
)


async def long_story(story: Story) -> None:
    """Carry a thread through nearly everything that can happen to it."""
    await story.host.open_threads()
    story.opens("will")
    story.says("rita", "@plangate me too")
    await story.rests()
    await story.host.changed_threads([story.address()])
    story.says("will", "@plangate revise Say it in the changelog too.")
    await story.rests()
    story.reacts("rita", "+1")
    story.person("ada").push(HOME, {"docs/new.md": "New.\n"})
    await story.rests()
    story.says("will", "@plangate status")
    story.reacts("maya", "+1")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
    story.model.turn_to_the_changelog()
    story.person("maya").review(HOME, 2, "Note it in the changelog.", notes=[LineNote("parcel/shipping.py", 10, "So.")])
    await story.rests()
    story.reacts("maya", "+1", story.plans(2)[0])
    await story.rests(2)
    story.opens("rita", "Orders of 60 as well.")
    story.person("will").label(HOME, 3, "plangate")
    await story.rests(3)
    assert await story.host.open_threads()
    story.opens("will", title="Told by no webhook")
    await Reconciler(story.host).read(taken)
    story.github.webhooks.hook_app(story.github.app, "http://127.0.0.1:9/")
    story.opens("will", title="Delivered to nobody")
    story.github.webhooks.drain()
    story.clock.advance(120)
    assert await Reconciler(story.host).redeliver(none_known) == 1


async def taken(_: ThreadAddress, keys: frozenset[str]) -> None:
    """Take what was found, and do nothing."""
    assert keys


@needs_schemas
@pytest.mark.long
@pytest.mark.req("N2", "E1")
async def test_every_request_of_a_long_story_is_githubs_own(story: Story) -> None:
    """What changes something is in the matrix of effects."""
    graphql = pytest.importorskip("graphql")
    description = json.loads(_text("api.github.com.json"))
    schema = graphql.build_schema(_text("schema.graphql"), assume_valid=True)
    await long_story(story)
    written = {named(logged) for logged in story.github.requests} - {""}
    assert written <= {*EFFECTS}
    elsewhere = {"label", "labels", "review", "sign on a line", "revocation"}  # doctor makes the label
    elsewhere |= {"tracking issue", "tracking text", "tracking warning"}  # scheduled tasks
    elsewhere |= {*ISSUE_EFFECTS}  # closed threads, the Action
    assert {*EFFECTS} - written <= elsewhere
    sent = [logged for logged in story.github.requests if ".git/" not in logged.path]
    rest = [*{(each.name, each.query, each.body): each for each in sent if each.path != "/graphql"}.values()]
    assert len(rest) > 30
    assert [problem for logged in rest for problem in problems(description, logged)] == []
    assert [problem for logged in rest for problem in ill_formed(description, logged)] == []
    asked = [json.loads(logged.body) for logged in sent if logged.path == "/graphql"]
    assert len(asked) > 20
    assert [problem for body in asked for problem in not_asked_well(schema, body)] == []


def _text(name: str) -> str:
    path = oracle(name)
    assert path is not None
    return path.read_text()


def ill_formed(description: dict[str, Any], logged: Logged) -> list[str]:
    """List what GitHub's description has against the values of a request's body."""
    if not logged.body:
        return []
    found = []
    for template, methods in description["paths"].items():
        if logged.method.lower() in methods and re.fullmatch(pattern(template), logged.path):
            wanted = resolved(description, methods[logged.method.lower()].get("requestBody", {}))
            schema = wanted.get("content", {}).get("application/json", {}).get("schema", {})
            errors = validator(json.dumps(schema)).iter_errors(json.loads(logged.body))
            found.append([f"{logged.name}: {error.message[-160:]}" for error in errors])
    return min(found, key=len)


def not_asked_well(schema: Any, body: dict[str, Any]) -> list[str]:
    """List what GitHub's schema has against a query or its variables."""
    from graphql import OperationDefinitionNode, get_variable_values, parse, validate

    document = parse(body["query"])
    if errors := validate(schema, document):
        return [error.message for error in errors]
    (operation,) = (each for each in document.definitions if isinstance(each, OperationDefinitionNode))
    values = get_variable_values(schema, operation.variable_definitions or (), body.get("variables") or {})
    return [error.message for error in values] if isinstance(values, list) else []


@dataclass(frozen=True, slots=True)
class Cost:
    """What something asks of GitHub's limits."""

    rest: int
    queries: int
    points: int


def cost_of(requests: Sequence[Logged]) -> Cost:
    """Count requests; git over HTTP counts for neither limit."""
    rest = [logged for logged in requests if ".git/" not in logged.path and logged.path != "/graphql"]
    queries = [logged for logged in requests if logged.path == "/graphql"]
    return Cost(len(rest), len(queries), sum(logged.cost for logged in queries))


async def measured(story: Story) -> dict[str, Cost]:
    """Measure the rows of the page."""
    rows: dict[str, Cost] = {}
    marks = [0]

    def row(name: str) -> None:
        rows[name] = cost_of(story.github.requests[marks[-1] :])
        marks.append(len(story.github.requests))

    await story.planned()
    row("from the mention to the plan")
    await story.host.changed_threads([story.address()])
    marks.append(len(story.github.requests))
    await story.rests(1)
    row("a check of a plan that waits, where nothing is new")
    await story.host.changed_threads([story.address()])
    row("a poll over one plan that waits")
    rita, elsewhere = story.person("rita"), story.opens("rita", "Nothing for a bot.")
    plans = [conversation.comment(rita, elsewhere, "A plan.").node_id for _ in range(1000)]
    marks.append(len(story.github.requests))
    for count in (100, 1000):
        await fingerprints(story.host.connections.poller(story.installation.id), plans[:count])
        row(f"a poll over {count:,} plans that wait")
    await story.host.open_threads()
    row("the list of all open threads of one repository, however many, every five minutes")
    story.reacts("maya", "+1")
    await story.rests(1)
    row("from the approval to the pull request")
    await read_on(story, row, marks)
    parts = [rows["from the mention to the plan"], rows["from the approval to the pull request"]]
    rows["the whole story"] = Cost(*(sum(getattr(part, name) for part in parts) for name in Cost.__slots__))
    return rows


async def read_on(story: Story, row: Callable[[str], None], marks: list[int]) -> None:
    """Measure what it costs to read what no webhook may have told."""
    reconciler = Reconciler(story.host)
    await reconciler.read(taken)
    story.clock.advance(600)
    await reconciler.read(taken)
    marks.append(len(story.github.requests))
    story.opens("will", title="Told by no webhook")
    await reconciler.read(taken)
    row("a reading of what no webhook told, where issues of one repository moved")
    story.clock.advance(600)
    await reconciler.read(taken)
    home = story.world.repository(HOME)
    for number in range(99):
        made = replace(home, id=story.world.small_id(), name=f"place-{number}")
        story.world.repositories[made.id] = made
    marks.append(len(story.github.requests))
    await reconciler.read(taken)
    row("a reading of 100 repositories, where nothing moved")
    await reconciler.redeliver(none_known)
    row("a question for deliveries that failed, every ten minutes")
    (story.host.settings.data_dir / "reconciled.json").unlink()  # a job has a new disk
    story.host.only = (repository.Address(*HOME.split("/")),)
    await unreported_threads(story.host)
    row("a reading of what no event told, by a scheduled run of the Action")


def page(rows: dict[str, Cost]) -> str:
    """Return the page with a new table."""
    table = "".join(f"| {name} | {cost.rest} | {cost.queries} | {cost.points} |\n" for name, cost in rows.items())
    before, head, after = PAGE.read_text().partition("|---|---|---|---|\n")
    return before + head + table + re.sub(r"\A(\|[^\n]*\n)*", "", after)


def read(text: str) -> dict[str, Cost]:
    found = re.findall(r"^\| ([^|]+) \| (\d+) \| (\d+) \| (\d+) \|$", text, re.MULTILINE)
    return {name: Cost(*map(int, numbers)) for name, *numbers in found}


@pytest.mark.long
async def test_the_page_on_costs_is_current(story: Story, tmp_path: Path) -> None:
    """Up to the progress comment's edits; a new page is printed and written."""
    rows = await measured(story)
    text = page(rows)
    sys.stdout.write(text)
    (tmp_path / "api-cost.md").write_text(text)
    told = read(PAGE.read_text())
    cure = f"cp {tmp_path / 'api-cost.md'} {PAGE}"
    assert told.keys() == rows.keys(), cure
    for name, now in rows.items():
        for part in Cost.__slots__:
            slack = 3 if name in {"the whole story", "from the approval to the pull request"} else 0
            assert abs(getattr(told[name], part) - getattr(now, part)) <= slack, (name, part, cure)
    assert rows["a poll over 100 plans that wait"] == Cost(0, 1, 1)
    assert rows["a poll over 1,000 plans that wait"] == Cost(0, 10, 10)
    assert rows["a poll over one plan that waits"] == Cost(0, 1, 1)


MOST_CALLS = 6_000
"""Function calls of the event loop in one check at most: twice what was counted."""
UPLOAD = f"POST /{HOME}.git/git-upload-pack"


@pytest.mark.long
@pytest.mark.req("E2", "W3")
async def test_listing_threads_that_wait_costs_one_listing_of_refs_a_repository(story: Story) -> None:
    await story.planned()
    story.opens("will", title="Another")
    await story.rests(2)
    await story.host.open_threads()
    await story.rests(1, 2)
    before = len(story.github.requests)
    opened = await story.host.open_threads()
    asked = story.github.requests[before:]
    assert len(opened) == 2
    assert all(map(story.host.rests, opened))
    assert [logged.name for logged in asked if ".git/" in logged.path].count(UPLOAD) == 1
    assert [b"fetch" in logged.body for logged in asked if logged.name == UPLOAD] == [False]
    assert cost_of(asked) == Cost(2, 0, 0)


@pytest.mark.req("E2")
async def test_a_check_of_mere_talk_costs_little(story: Story) -> None:
    """Function calls are counted, because times depend on the machine."""
    story.opens("will", "Just talk.")
    await story.host.check_thread(story.address())
    await story.host.check_thread(story.address())
    before, calls = len(story.github.requests), cProfile.Profile()
    with calls:
        await story.host.check_thread(story.address())
    asked = story.github.requests[before:]
    assert [logged.name for logged in asked if ".git/" in logged.path] == [UPLOAD]
    assert cost_of(asked) == Cost(2, 2, 2)
    assert pstats.Stats(calls).total_calls < MOST_CALLS  # type: ignore[attr-defined]  # typeshed lacks it


@pytest.mark.long
@pytest.mark.req("E2", "W3", "PR3")
async def test_a_push_a_word_and_time_end_the_rest_of_a_thread(story: Story) -> None:
    await story.planned()
    await story.host.open_threads()
    await story.rests(1)

    async def rests() -> bool:
        (opened,) = await story.host.open_threads()
        return story.host.rests(opened)

    assert await rests()
    story.person("maya").push(HOME, {"docs/new.md": "New.\n"})
    assert not await rests()
    await story.rests(1)
    assert await rests()
    story.says("will", "@plangate status")
    await story.reads_comments()
    assert not await rests()
    await story.rests(1)
    assert await rests()
    story.clock.advance(REST_SPAN.total_seconds())
    assert not await rests()
