"""The commands of a service with its queue in PostgreSQL. What they do: tests/stories/github/test_cluster.py."""

import asyncio
from pathlib import Path

import pytest

from bot.store.postgres.database import Database
from bot.store.postgres.migrations import migrate
from tests import forks
from tests.stories.ground import bare


@pytest.mark.parametrize("command", ("worker", "migrate"))
def test_without_a_database(tmp_path: Path, command: str) -> None:
    """Refused with the variable to set: files have one process."""
    ended = forks.plangate().run(command, env=bare(tmp_path))
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "no database (PLANGATE_DATABASE_URL): set it" in ended.stderr


@pytest.mark.parametrize("command", (("worker",), ("serve", "--no-worker", "--port", "0")))
async def test_a_database_of_the_release_before(tmp_path: Path, database_url: str, command: tuple[str, ...]) -> None:
    """Refused before anything begins, with the migration that is missing and the command that applies it."""
    async with Database(database_url).open() as database:
        newest = (await migrate(database))[-1]
        await database.rows("DELETE FROM plangate_migrations WHERE name = %(name)s", name=newest)
    given = {"PLANGATE_DATABASE_URL": database_url, "PLANGATE_GITHUB_TOKEN": "x", "PLANGATE_WEBHOOK_SECRET": "y"}
    env = bare(tmp_path) | given | {"GITHUB_API_URL": "http://127.0.0.1:9", "ANTHROPIC_API_KEY": "z"}
    ended = await asyncio.to_thread(forks.plangate().run, *command, env=env)
    assert ended.returncode == 2, ended.stderr
    expected = f"plangate: the database lacks {newest} (PLANGATE_DATABASE_URL): run plangate migrate\n"
    assert ended.stderr.endswith(expected), ended.stderr


@pytest.mark.parametrize("number", ("0", "-1", "many"))
def test_a_worker_has_at_least_one_of_each(tmp_path: Path, number: str) -> None:
    """Of sessions and looks."""
    ended = forks.plangate().run("worker", f"--sessions={number}", env=bare(tmp_path))
    assert (ended.returncode, "not a positive whole number" in ended.stderr) == (2, True)
