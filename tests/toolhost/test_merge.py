"""Merge: what a fork changed comes back, three ways, and nothing is lost."""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.toolhost.client import Client, Got

Side: TypeAlias = dict[str, bytes | str]
"""Path -> content; a text is the target of a symlink; ``!`` at the end of a path makes it executable."""
LINES = b"1\n2\n3\n4\n5\n6\n7\n"


def plant(folder: Path, side: Side) -> None:
    folder.mkdir(exist_ok=True)
    for name, content in side.items():
        path = folder / name.removesuffix("!")
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            path.symlink_to(content)
        else:
            path.write_bytes(content)
            path.chmod(0o755 if name.endswith("!") else 0o644)


def harvest(folder: Path) -> Side:
    found: Side = {}
    for place, folders, files in os.walk(folder):
        for name in (*files, *(name for name in folders if Path(place, name).is_symlink())):
            path = Path(place, name)
            shown = str(path.relative_to(folder))
            if path.is_symlink():
                found[shown] = str(path.readlink())
            else:
                executable = path.stat().st_mode & stat.S_IXUSR
                found[shown + "!" * bool(executable)] = path.read_bytes()
    return found


def merged(host: Client, base: Side, theirs: Side, into: Side) -> Got:
    places = {"base": host.root.parent / "base", "theirs": host.root.parent / "theirs", "into": host.root}
    for name, side in (("base", base), ("theirs", theirs), ("into", into)):
        plant(places[name], side)
    return host.call("Merge", **{name: str(place) for name, place in places.items()})


@pytest.mark.req("S4")
@pytest.mark.parametrize(
    ("base", "theirs", "into", "after", "taken"),
    (
        ({"f": b"a"}, {"f": b"b"}, {"f": b"a"}, {"f": b"b"}, ["f"]),
        ({"f": b"a"}, {"f": b"a"}, {"f": b"b"}, {"f": b"b"}, []),
        ({"f": b"a"}, {"f": b"b"}, {"f": b"b"}, {"f": b"b"}, ["f"]),
        ({}, {"d/e/f": b"a"}, {}, {"d/e/f": b"a"}, ["d/e/f"]),
        ({"d/f": b"a"}, {}, {"d/f": b"a", "g": b""}, {"g": b""}, ["d/f"]),
        ({"f": b"a"}, {}, {}, {}, ["f"]),
        (
            {"f": LINES},
            {"f": LINES.replace(b"1", b"x")},
            {"f": LINES.replace(b"7", b"y")},
            {"f": b"x\n2\n3\n4\n5\n6\ny\n"},
            ["f"],
        ),
        ({"f": b"a"}, {"f!": b"a"}, {"f": b"b"}, {"f!": b"b"}, ["f"]),
        ({"f": b"a"}, {"f": b"b"}, {"f!": b"a"}, {"f!": b"b"}, ["f"]),
        ({"f!": b"a"}, {"f": b"a"}, {"f!": b"a"}, {"f": b"a"}, ["f"]),
        ({"f": "x"}, {"f": "y"}, {"f": "x"}, {"f": "y"}, ["f"]),
        ({"f": b"a"}, {"f": "y"}, {"f": b"a"}, {"f": "y"}, ["f"]),
        ({"f": "x"}, {"f": b"a"}, {"f": "x"}, {"f": b"a"}, ["f"]),
        ({"d/f": b"a"}, {"d": b"b"}, {"d/f": b"a"}, {"d": b"b"}, ["d", "d/f"]),
        ({"d": b"b"}, {"d/f": b"a"}, {"d": b"b"}, {"d/f": b"a"}, ["d", "d/f"]),
        ({"b": b"\0a"}, {"b": b"\0b"}, {"b": b"\0a"}, {"b": b"\0b"}, ["b"]),
        ({".git/x": b"a"}, {".git/x": b"b"}, {".git/x": b"c"}, {".git/x": b"c"}, []),
        (
            {"two\nlines -n": b"a"},
            {"two\nlines -n": b"b"},
            {"two\nlines -n": b"a"},
            {"two\nlines -n": b"b"},
            ["two\nlines -n"],
        ),
    ),
)
def test_separate_changes_are_taken(
    host: Client, base: Side, theirs: Side, into: Side, after: Side, taken: list[str]
) -> None:
    got = merged(host, base, theirs, into)
    assert got.details == {"merged": taken, "conflicts": {}}
    assert harvest(host.root) == after


@pytest.mark.req("S4")
@pytest.mark.parametrize(
    ("base", "theirs", "into", "words"),
    (
        ({"f": b"a\n"}, {"f": b"b\n"}, {"f": b"c\n"}, "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"),
        ({"f": b"a\n"}, {}, {"f": b"c\n"}, "+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"),
        ({"f": b"a\n"}, {"f": b"b\n"}, {}, "-a\n+b\n"),
        ({}, {"f": b"b\n"}, {"f": b"c\n"}, "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+b\n"),
        ({"f": b"\0a"}, {"f": b"\0b"}, {"f": b"\0c"}, "not text"),
        ({"f": "x"}, {"f": "y"}, {"f": "z"}, "a symlink to x became a symlink to y"),
        ({"f": b"a"}, {"f": "y"}, {"f": b"c"}, "a file of 1 bytes became a symlink to y"),
        ({}, {"f": b"b\n"}, {"f/g": b"c\n"}, "a folder is in its place"),
        ({}, {"d/f": b"b\n"}, {"d": b"c\n"}, "+b\n"),
        ({}, {"d/f": b"b\n"}, {"d": "/tmp"}, "a symlink in the checkout"),
        ({"d/f": b"a\n"}, {"d/f": b"b\n"}, {"d": ".."}, "-a\n+b\n"),
        ({"f": b"a\n"}, {"f": b"".join(b"%d\n" % n for n in range(9000))}, {"f": b"c\n"}, "characters left out]"),
    ),
)
def test_a_conflict_keeps_the_checkouts_side(host: Client, base: Side, theirs: Side, into: Side, words: str) -> None:
    got = merged(host, base, theirs, into)
    assert got.details["merged"] == []
    (diff,) = got.details["conflicts"].values()
    assert words in diff.partition("# in the checkout:\n")[0]
    assert len(diff) <= 20_000
    assert harvest(host.root) == into


@pytest.mark.req("S4")
@pytest.mark.parametrize(
    ("into", "words"),
    (
        ({"f": b"c\n"}, "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+c\n"),
        ({}, "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"),
        ({"f": "z"}, "a file of 2 bytes became a symlink to z\n"),
        ({"f": b"".join(b"%d\n" % n for n in range(9000))}, "characters left out]"),
    ),
)
def test_a_conflict_shows_the_checkouts_side(host: Client, into: Side, words: str) -> None:
    (diff,) = merged(host, {"f": b"a\n"}, {"f": b"b\n"}, into).details["conflicts"].values()
    theirs, _, yours = diff.partition("# in the checkout:\n")
    assert "-a\n+b\n" in theirs
    assert words in yours
    assert len(diff) <= 20_000


def test_one_conflict_stops_nothing(host: Client) -> None:
    base: Side = dict.fromkeys("abcde", b"a\n")
    theirs: Side = dict.fromkeys("abcde", b"b\n")
    got = merged(host, base, theirs, base | {"c": b"c\n"})
    assert got.details["merged"] == ["a", "b", "d", "e"]
    assert list(got.details["conflicts"]) == ["c"]
    assert got.text == "4 merged, 1 in conflict"


def test_nothing_is_merged_read_only_or_from_nowhere(open_host: Callable[..., Client], root: Path) -> None:
    places = {"base": str(root), "theirs": str(root), "into": str(root)}
    assert "read-only" in open_host(writable=False).call("Merge", **places).text
    assert "absolute path" in open_host().call("Merge", **places | {"base": "elsewhere"}).text
