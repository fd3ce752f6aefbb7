"""Workers of two releases share the database: no migration takes away what the release before reads or writes."""

import re
from importlib import resources
from typing import Final

import pytest

SQL: Final = {each.name: each.read_text() for each in (resources.files("bot.store.postgres") / "sql").iterdir()}
SAME_PROMISE: Final = tuple(
    f"CREATE OR REPLACE FUNCTION plangate_{name}_v1" for name in ("is_held", "wake", "wait", "return")
)
"""Functions that were replaced by one with the same promise: what they wake is checked, by another table's workers."""
TAKES_AWAY: Final = re.compile(
    r"""\b(?:
        (?:DROP|TRUNCATE|RENAME) (?!\s+DEFAULT) [^;]*
        | CREATE \s+ OR \s+ REPLACE [^;(]*                 # the workers of the release before call the old function
        | ALTER \s+ (?:COLUMN \s+)? \w+ \s+ (?:SET \s+ DATA \s+)? TYPE [^;]*
        | SET \s+ NOT \s+ NULL [^;]*
        | ADD \s+ (?:COLUMN \s+)? (?:IF \s+ NOT \s+ EXISTS \s+)? \w+ \s+ (?![^,;]*DEFAULT) [^,;]* NOT \s+ NULL [^;]*
        | ADD \s+ (?:CONSTRAINT|CHECK|UNIQUE|PRIMARY|FOREIGN) [^;]*
        | (?:DELETE \s+ FROM|UPDATE) \s+ plangate_migrations [^;]*
    )""",
    re.IGNORECASE | re.VERBOSE,
)


def takings(sql: str) -> list[str]:
    """Return the statements after which a worker of the release before could not go on."""
    plain = re.sub(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'", " ", sql, flags=re.DOTALL)
    return [each.group() for each in TAKES_AWAY.finditer(plain)]


@pytest.mark.req("D2")
def test_no_migration_takes_anything_away() -> None:
    """Files with `_post_` in their names may: `plangate migrate --finish` applies them after the old workers."""
    assert sorted(SQL)
    found = {name: takings(sql) for name, sql in SQL.items() if "_post_" not in name}
    assert {name: each for name, each in found.items() if not set(each) <= set(SAME_PROMISE)} == {}


def test_the_numbers_are_in_order_and_unique() -> None:
    """Files are applied in the order of their names."""
    numbers = [int(name.partition("_")[0]) for name in sorted(SQL)]
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize(
    "sql",
    (
        "DROP TABLE plangate_leases;",
        "DROP FUNCTION plangate_wake_v1(text, jsonb);",
        "ALTER TABLE plangate_threads DROP COLUMN words;",
        "ALTER TABLE plangate_threads RENAME COLUMN words TO text;",
        "alter table plangate_threads rename to plangate_list;",
        "ALTER TABLE plangate_threads ALTER COLUMN number TYPE text;",
        "ALTER TABLE plangate_threads ALTER number SET DATA TYPE text;",
        "ALTER TABLE plangate_threads ALTER COLUMN task SET NOT NULL;",
        "ALTER TABLE plangate_threads ADD COLUMN color text NOT NULL;",
        "ALTER TABLE plangate_threads ADD CONSTRAINT few CHECK (number < 5);",
        "CREATE OR REPLACE FUNCTION plangate_wake_v1(about text, args jsonb) RETURNS boolean LANGUAGE sql AS $$ $$;",
        "TRUNCATE plangate_leases;",
    ),
)
def test_what_takes_something_away(sql: str) -> None:
    """Each of these is found."""
    assert takings(f"CREATE TABLE plangate_new (id bigint);\n{sql}") != []


@pytest.mark.parametrize(
    "sql",
    (
        "CREATE TABLE plangate_new (id bigint PRIMARY KEY, at timestamptz NOT NULL DEFAULT now());",
        "ALTER TABLE plangate_threads ADD COLUMN color text NOT NULL DEFAULT 'red';",
        "ALTER TABLE plangate_threads ADD COLUMN color text;",
        "CREATE INDEX plangate_new_by_id ON plangate_new (id); -- does not DROP TABLE anything",
        "CREATE FUNCTION plangate_wake_v2(about text) RETURNS text LANGUAGE sql AS $$ SELECT 'DROP TABLE' $$;",
    ),
)
def test_what_only_adds(sql: str) -> None:
    """None of these is."""
    assert takings(sql) == []
