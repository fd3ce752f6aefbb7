"""What the bot sends in a whole story: held against GitHub's own schemas, and counted."""

import json
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
async def test_every_request_is_documented(story: Story) -> None:
    """Path, parameters and body of every REST request, and every GraphQL query with its variables, are GitHub's own;
    what changes something is in the matrix of effects."""
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
    """Write the page."""
    lines = "\n".join(f"| {name} | {cost.rest} | {cost.queries} | {cost.points} |" for name, cost in rows.items())
    return f"""# What it asks of GitHub's limits

Measured on the simulated GitHub (`tests/stories/github/test_requests.py`), with the points of GitHub's rule: the
connections of a query divided by 100. A GitHub App may send 5,000 REST requests and use 5,000 points an hour, a job's
own token 1,000 of each. Fetches and pushes of git count for neither.

| what | REST requests | GraphQL queries | points |
|---|---|---|---|
{lines}

Plans that wait are polled every 15 seconds: up to 100 of them take 240 points an hour, 1,000 take 2,400. A whole look
at one that waits is taken when something happened to it, and else every 3 hours. Where nothing is new, the list of open
threads takes one listing of refs by git for each repository, and no fetch.

Longer work edits its progress comment more often: at most every 5 seconds in the first minute, every 20 later.
A plan that takes more than 20 seconds has a progress comment too: one write when it begins, one when it ends, and at
most one every 20 seconds between.

What no webhook told is read every 5 minutes. With a thousand repositories where nothing moved that is 11 REST requests
and 20 points; each one that moved adds 1 request, and 1 point for 20 issues or 2 for 10 pull requests. Where less than
a fifth of the hour's points is left, reading waits: the rest belongs to the work.

A scheduled run of the Action reads what moved in its repository within three days, since a job remembers no earlier
reading and GitHub starts scheduled runs late, or not at all. Every 10 minutes, with 200 issues and 50 pull requests
that moved within that time, that is about 130 points an hour; while nothing waits there is one such run a day.

## Minutes of the Action

A job bills at least a minute in a private repository. A month of a small one, with 60 issues, 60 pull requests, 60
reviews of three comments, 300 comments, and 15 requests whose plans wait 8 hours on average, starts 183 jobs
(`tests/action/test_month.py`): 113 for what people do, 30 daily runs, and 40 sweeps. Work with the model takes its own
minutes on top. These start none: comments on other threads, edits, what bots do, reviews of other pull requests, and
the sweep while nothing waits.

The label `plangate: open` marks the open threads that the bot works on; what people say there starts a job. It takes
one write for each thread, and one when the thread is closed. What starts no job is found by the daily run: a mention in
an edit, in a comment inside a review of another pull request, or in a comment that ends with the bot's own hidden line.
"""


def read(text: str) -> dict[str, Cost]:
    """Read the page's rows back."""
    found = re.findall(r"^\| ([^|]+) \| (\d+) \| (\d+) \| (\d+) \|$", text, re.MULTILINE)
    return {name: Cost(*map(int, numbers)) for name, *numbers in found}


@pytest.mark.long
async def test_the_page_on_costs_is_current(story: Story, tmp_path: Path) -> None:
    """docs/api-cost.md says what is measured, up to the progress comment's edits; a new page is printed and written."""
    rows = await measured(story)
    text = page(rows)
    sys.stdout.write(text)
    (tmp_path / "api-cost.md").write_text(text)
    told = read(PAGE.read_text()) if PAGE.exists() else {}
    cure = f"cp {tmp_path / 'api-cost.md'} {PAGE}"
    assert told.keys() == rows.keys(), cure
    for name, now in rows.items():
        for part in Cost.__slots__:
            slack = 3 if name in {"the whole story", "from the approval to the pull request"} else 0
            assert abs(getattr(told[name], part) - getattr(now, part)) <= slack, (name, part, cure)
    assert rows["a poll over 100 plans that wait"] == Cost(0, 1, 1)
    assert rows["a poll over 1,000 plans that wait"] == Cost(0, 10, 10)
    assert rows["a poll over one plan that waits"] == Cost(0, 1, 1)
