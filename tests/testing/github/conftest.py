"""A simulated GitHub for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.testing.github.credentials import install, installation_token
from bot.testing.github.simulated_github import SimulatedGitHub
from bot.testing.github.world import TurnedClock
from tests.testing.github.ground import FILES, NAME, Ground


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock()


@pytest.fixture
def ground(tmp_path: Path, clock: TurnedClock) -> Iterator[Ground]:
    with SimulatedGitHub(tmp_path / "github", clock=clock) as github:
        repository = github.world.add_repository(NAME, FILES, private=True)
        for login, role in {"alice": "maintain", "bob": "write", "carol": "triage", "dave": "read"}.items():
            github.world.set_role(NAME, login, role)
        installation = install(github.world, github.app, "acme")
        token = installation_token(github.world, installation).value
        yield Ground(github, clock, repository, installation, token)
