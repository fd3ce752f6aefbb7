"""One dashboard for the tests of a file, as new for each test; and one of its own for a test that changes the world."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.webhooks.dashboard.ground import Site, running


@pytest.fixture(scope="module")
def shared_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running(tmp_path_factory.mktemp("dashboard")) as made:
        yield made


@pytest.fixture
def site(shared_site: Site) -> Iterator[Site]:
    """A dashboard. What it shows, and what people posted, is as new; clock, roles, and sessions are those of others."""
    yield shared_site
    shared_site.renew()


@pytest.fixture
def own_site(tmp_path: Path) -> Iterator[Site]:
    """A dashboard and a GitHub of the test's own, whose clock and roles it may change."""
    with running(tmp_path) as made:
        yield made
