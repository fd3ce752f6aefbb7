"""What the tests' servers of PostgreSQL have in common."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres import Server


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Yield a folder that the account of the servers can read, too."""
    folder = Path(tempfile.mkdtemp(prefix="plangate-initdb-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("is_shared", (True, False))
def test_data_is_made_once(open_folder: Path, tmp_path: Path, is_shared: bool) -> None:
    """The second server of a run has a copy of the first one's data; without a shared folder, data of its own."""
    program = open_folder / "initdb"
    program.write_text('#!/bin/sh\nmkdir "$2" && date +%N > "$2/made"\n')
    program.chmod(0o755)
    servers = [Server(open_folder, open_folder / name, 1) for name in ("first", "second")]
    for server in servers:
        server.folder.mkdir()
        server.initialize(tmp_path if is_shared else None)
    first, second = (Path(server.data, "made") for server in servers)
    assert (first.read_text() == second.read_text()) is is_shared
    assert first.stat().st_uid == second.stat().st_uid


def test_a_lent_database_is_as_new(postgres: Server) -> None:
    """The next test finds no row, counts from 1, and meets no connection; a database with other tables is not lent."""
    psycopg = pytest.importorskip("psycopg")
    insert = "INSERT INTO plangate_workers DEFAULT VALUES RETURNING id"
    with postgres.lend_migrated_database() as first:
        left = psycopg.connect(first, autocommit=True)
        left.execute(insert)
    with pytest.raises(psycopg.OperationalError):
        left.execute(insert)
    with postgres.lend_migrated_database() as url, psycopg.connect(url, autocommit=True) as connection:
        assert url == first
        assert connection.execute(insert).fetchall() == [(1,)]
        connection.execute("ALTER TABLE plangate_threads ADD COLUMN next text")
    with postgres.lend_migrated_database() as other:
        assert other != first
