"""A new GitHub, a scripted model, and the bot on one of its faces, for each story."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from bot.compose.github import HostSetup
from tests.postgres import Server
from tests.stories.github.clocks import QuickClock, RealClock
from tests.stories.github.cluster import Cluster
from tests.stories.github.deaths import Mortal
from tests.stories.github.ground import Model, Story, reachable, settings
from tests.stories.github.runner import Runs
from tests.stories.github.service import Served, ready_service
from tests.stories.github.workflow_jobs import WorkflowJobs


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
async def story(tmp_path: Path, model: Model) -> AsyncIterator[Story]:
    clock = QuickClock()
    with reachable(tmp_path, model, clock) as (github, installation, advance, _, api):
        async with HostSetup(settings(github, api.base_url, tmp_path / "data"), clock=clock) as host:
            yield Story(github, installation, advance, host, clock, model, api)


@pytest.fixture
def served(tmp_path: Path, model: Model) -> Iterator[Served]:
    with ready_service(tmp_path, model) as made:
        yield made


@pytest.fixture
def cluster(tmp_path: Path, model: Model, postgres: Server, database_url: str) -> Iterator[Cluster]:
    with reachable(tmp_path, model, RealClock()) as reached:
        made = Cluster(*reached, tmp_path / "home", server=postgres, database_url=database_url)
        try:
            yield made
        finally:
            model.go_on()
            made.stop()


@pytest.fixture
def runs(tmp_path: Path, model: Model) -> Iterator[Runs]:
    with reachable(tmp_path, model, RealClock()) as reached:
        made = Runs(*reached, tmp_path / "jobs")
        with made.hooked():
            try:
                yield made
            finally:
                model.go_on()
                made.end()


@pytest.fixture
def mortal(request: pytest.FixtureRequest, tmp_path: Path, model: Model) -> Iterator[Mortal]:
    clock = QuickClock()
    with reachable(tmp_path, model, clock) as reached:
        made = Mortal(*reached, tmp_path / "disks", clock, action=request.param == "action")
        try:
            yield made
        finally:
            made.end()


@pytest.fixture
def jobs(tmp_path: Path, model: Model) -> Iterator[WorkflowJobs]:
    clock = QuickClock()
    with reachable(tmp_path, model, clock) as reached:
        made = WorkflowJobs(*reached, tmp_path / "jobs", clock)
        with made.hooked():
            yield made
