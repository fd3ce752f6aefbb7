"""What the tests themselves stand on: tables in one test, uncollected campaigns, servers of PostgreSQL."""

import inspect
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.collecting import excluded_marks, remaining_marks
from tests.postgres import Server
from tests.rows import every_row


def test_every_row_that_fails_is_told() -> None:
    @every_row("number", range(4))
    def hold_even(number: int) -> None:
        assert number % 2 == 0

    with pytest.raises(ExceptionGroup, match="rows that fail") as raised:
        hold_even()
    assert [error.__notes__ for error in raised.value.exceptions] == [["row: {'number': 1}"], ["row: {'number': 3}"]]


def test_what_should_have_been_raised_is_missed() -> None:
    @every_row("text", ("1", "one"))
    def refuse(text: str) -> None:
        with pytest.raises(ValueError, match="invalid literal"):
            int(text)

    with pytest.raises(BaseExceptionGroup) as raised:
        refuse()
    assert [error.__notes__ for error in raised.value.exceptions] == [["row: {'text': '1'}"]]


def test_tables_are_multiplied_beside_fixtures() -> None:
    seen = []

    @every_row(("one", "two"), ((1, 2), (3, 4)))
    @every_row("letter", "ab")
    def note(one: int, two: int, letter: str, tmp_path: str) -> None:
        seen.append((one, two, letter, tmp_path))

    assert [*inspect.signature(note).parameters] == ["tmp_path"]
    note(tmp_path="here")
    assert seen == [(1, 2, "a", "here"), (1, 2, "b", "here"), (3, 4, "a", "here"), (3, 4, "b", "here")]


async def test_coroutines_are_awaited() -> None:
    @every_row("number", (1, 2))
    async def hold_one(number: int) -> None:
        assert number == 1

    waiting = hold_one()
    assert waiting is not None
    with pytest.raises(ExceptionGroup) as raised:
        await waiting
    assert [error.__notes__ for error in raised.value.exceptions] == [["row: {'number': 2}"]]


SOAK, LONG = pytest.mark.soak, pytest.mark.long
EVERY_DAY = frozenset({"soak", "long"})


def remaining(values: Sequence[Any], **names: Any) -> list[Any]:
    """Return the cases that remain of a table."""
    kept = remaining_marks(
        [pytest.mark.req("T1").mark, pytest.mark.parametrize("case", values, **names).mark], EVERY_DAY
    )
    return list(kept[1].args[1]) if kept else []


@every_row(
    ("marks", "arguments", "excluded"),
    (
        (" not soak and not long", ["tests"], EVERY_DAY),
        ("long and not soak", [], {"soak"}),
        ("soak or not soak", [], set()),
        ("not (soak)", [], set()),
        ("", [], set()),
        ("not soak", ["tests/core", "tests/test_own_tools.py::test_one"], set()),
    ),
)
def test_a_run_leaves_out_what_its_marks_exclude_for_sure(marks: str, arguments: list[str], excluded: set[str]) -> None:
    assert excluded_marks(marks, arguments) == excluded


def test_nothing_is_collected_of_a_test_of_a_campaign() -> None:
    assert remaining_marks([pytest.mark.req("T1").mark, SOAK.mark], EVERY_DAY) == []
    assert remaining_marks([SOAK.mark], frozenset({"long"})) == [SOAK.mark]


def test_cases_are_left_out_where_the_names_of_others_stay_the_same() -> None:
    soak, long = pytest.param(2, marks=SOAK), pytest.param(3, marks=LONG)
    assert remaining([1, soak, long]) == [1]
    assert remaining((soak, 1, long)) == [soak, 1]
    assert remaining([soak, 1, 4], ids=["two", "one", "four"]) == [1, 4]
    assert remaining([soak, named := pytest.param(1, id="one")]) == [named]
    assert remaining([soak, 1], ids=iter("ab")) == [soak, 1]
    assert remaining([soak, long]) == []
    assert remaining(range(3)) == [0, 1, 2]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Yield a folder that the account of the servers can read, too."""
    folder = Path(tempfile.mkdtemp(prefix="plangate-initdb-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("is_shared", (True, False))
def test_the_second_server_of_a_run_has_a_copy_of_the_firsts_data(
    open_folder: Path, tmp_path: Path, is_shared: bool
) -> None:
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
