"""A repository of somebody, and a workspace on it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.workspace.local_repository import LocalRepository
from bot.workspace.workspace import GitWorkspace
from tests.contracts.smart_http import Site, served
from tests.workspace.ground import NAME, TOKEN, Repository, make_repository


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_repository(tmp_path_factory.mktemp("template") / "repo").path


@pytest.fixture
def repository(tmp_path: Path, template: Path) -> Repository:
    shutil.copytree(template, tmp_path / "repo", symlinks=True)
    return Repository(tmp_path / "repo")


@pytest.fixture(scope="session")
def mirrored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a mirror of the template is kept, from the first test on that needs one; it is only ever copied."""
    return tmp_path_factory.mktemp("mirrored")


@pytest.fixture
async def workspace(repository: Repository, tmp_path: Path, template: Path, mirrored: Path) -> GitWorkspace:
    """A workspace that has fetched the repository already, which takes a dozen processes of git."""
    kept = mirrored / "kept.git"
    if not kept.exists():
        first = GitWorkspace.on(await LocalRepository.open(template), mirrored)
        await first.mirror.ensure(Repository(template).head)
        first.mirror.path.rename(kept)
    made = GitWorkspace.on(await LocalRepository.open(repository.path), tmp_path / "data")
    shutil.copytree(kept, made.mirror.path)
    return made


@pytest.fixture(scope="session")
def bare_template(tmp_path_factory: pytest.TempPathFactory, template: Path) -> Path:
    """The same repository as a server keeps it, which is only ever copied."""
    bare = tmp_path_factory.mktemp("bare") / "repo.git"
    Repository(template).git("clone", "-q", "--bare", "--template=", ".", str(bare))
    return bare


@pytest.fixture
def bare(bare_template: Path, tmp_path: Path) -> Repository:
    return Repository(shutil.copytree(bare_template, tmp_path / "site" / NAME))


@pytest.fixture
def site(bare: Repository, tmp_path: Path) -> Iterator[Site]:
    with served(tmp_path / "site", TOKEN) as site:
        yield site
