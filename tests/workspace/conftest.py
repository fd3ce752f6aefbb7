"""A repository of somebody, and a workspace on it."""

import shutil
from pathlib import Path

import pytest

from bot.workspace.repository import LocalRepository
from bot.workspace.workspace import GitWorkspace
from tests.workspace.ground import Repository, make_repository


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository that is only ever copied."""
    return make_repository(tmp_path_factory.mktemp("template") / "repo").path


@pytest.fixture
def repository(tmp_path: Path, template: Path) -> Repository:
    shutil.copytree(template, tmp_path / "repo", symlinks=True)
    return Repository(tmp_path / "repo")


@pytest.fixture
async def workspace(repository: Repository, tmp_path: Path) -> GitWorkspace:
    return GitWorkspace.on(await LocalRepository.open(repository.path), tmp_path / "data")


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    return folder
