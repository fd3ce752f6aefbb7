"""The commands of a service with its queue in PostgreSQL. What they do: tests/stories/github/test_cluster.py."""

import asyncio
from dataclasses import replace
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


@pytest.mark.parametrize(
    ("library", "command"),
    (
        ("psycopg", ("worker",)),
        ("psycopg", ("serve", "--no-worker", "--port", "0")),
        ("psycopg", ("migrate",)),
        pytest.param("psycopg", ("doctor",), marks=pytest.mark.long),
        ("psycopg", ("reindex",)),
        pytest.param("psycopg", ("serve", "--port", "0"), marks=pytest.mark.long),
        pytest.param("psycopg_pool", ("worker",), marks=pytest.mark.long),
    ),
)
def test_without_the_extra(tmp_path: Path, library: str, command: tuple[str, ...]) -> None:
    """A database without its driver is refused with the command that installs it."""
    given = {"PLANGATE_DATABASE_URL": "postgresql://nobody@127.0.0.1:9/away", "PLANGATE_WEBHOOK_SECRET": "y"}
    env = bare(tmp_path) | given | {"PLANGATE_GITHUB_TOKEN": "x", "GITHUB_API_URL": "http://127.0.0.1:9"}
    halted = f"sys.modules[{library!r}] = None"  # as if it were not installed
    program = replace(forks.plangate(), code=f"{halted}; {forks.plangate().code}")
    ended = program.run(*command, env=env)
    said = ended.stdout + ended.stderr
    assert ended.returncode == 2, said
    assert f"{library} is not installed" in said
    assert "pip install 'plangate[cluster]'" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("command", (("worker",), ("serve", "--no-worker", "--port", "0"), ("reindex",)))
async def test_a_database_of_the_release_before(tmp_path: Path, database_url: str, command: tuple[str, ...]) -> None:
    """Refused before anything begins, with the migration that is missing and the command that applies it."""
    async with Database(database_url).open() as database:
        newest = [name for name in await migrate(database) if "_post_" not in name][-1]
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
