"""One dashboard for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.webhooks.dashboard.ground import Site, running


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with running(tmp_path) as made:
        yield made
