"""Write, Edit and MultiEdit: whole or not at all, and only what was read."""

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.rows import every_row
from tests.toolhost.client import Client


@pytest.mark.req("T4")
@every_row(
    ("before", "old", "new", "after"),
    (
        (b"a b c\n", "b", "x", b"a x c\n"),
        (b"a\nb\nc", "b\nc", "b\nd", b"a\nb\nd"),
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\nc\r\n"),
        (b"a\r\nb\r\nc", "c", "x\ny", b"a\r\nb\r\nx\r\ny"),
        (b"a\nb\r\nc\nd\n", "b", "x\ny", b"a\nx\r\ny\r\nc\nd\n"),
        (b"a\nb\r\nc\nd\n", "d", "x\ny", b"a\nb\r\nc\nx\ny\n"),
        (b"a\nb\r\nc\nd\n", "b\nc\nd", "x", b"a\nx\n"),
        (b"\xef\xbb\xbfa\nb\n", "a\n", "x\n", b"\xef\xbb\xbfx\nb\n"),
        (b"caf\xe9 x\n", "café", "thé", b"th\xe9 x\n"),
        (b"\xff\xfe caf\xc3\xa9\n", "café", "thé", b"\xff\xfe th\xc3\xa9\n"),
        (b"a\tb\n", "\t", "  ", b"a  b\n"),
        (b"a.b*c\r\n", "a.b*c", "(\\1)", b"(\\1)\r\n"),
        (b"keep\x80\x81 me\n", "me", "you", b"keep\x80\x81 you\n"),
        (b"a\nb\n", "b\n", "", b"a\n"),
    ),
)
def test_bytes_around_an_edit_stay(host: Client, root: Path, before: bytes, old: str, new: str, after: bytes) -> None:
    (root / "f").write_bytes(before)
    got = host.call("Edit", file_path="f", old_string=old, new_string=new, stamp=host.stamp("f"))
    assert not got.is_error, got.text
    assert (root / "f").read_bytes() == after
    assert got.stamps["f"] == host.stamp("f")


@pytest.mark.req("T4")
@every_row(
    ("before", "old", "new", "words"),
    (
        (b"a b", "a", "a", "the same"),
        (b"a b a", "a", "x", "2 times"),
        (b"a\r\nb\r\na\r\nb", "a\nb", "x", "2 times"),
        (b"aaa", "aa", "x", "2 times, overlapping"),
        (b"x b", "a", "x", "may already have been made"),
        (b"def f():\n\treturn 1\n", "def f():\n    return 1", "y", "Line 1 differs from it only in white space"),
        (b"abc", "zzz", "y", "not in the file. It must be exact"),
        (b"caf\xe9", "caf", "ж", "Latin-1 does not have"),
        (b"a", "a", "\ud800", "surrogate"),
        (b"a", "", "b", "not empty"),
    ),
)
def test_a_refused_edit_changes_nothing(
    host: Client, root: Path, before: bytes, old: str, new: str, words: str
) -> None:
    (root / "f").write_bytes(before)
    got = host.call("Edit", file_path="f", old_string=old, new_string=new, stamp=host.stamp("f"))
    assert got.is_error
    assert words in got.text
    assert (root / "f").read_bytes() == before


def test_replace_all_replaces_what_does_not_overlap(host: Client, root: Path) -> None:
    (root / "f").write_bytes(b"aaa a\r\nb aa")
    edit = {"file_path": "f", "old_string": "aa", "new_string": "x", "replace_all": True}
    got = host.call("Edit", **edit, stamp=host.stamp("f"))
    assert "2 replacements" in got.text
    assert (root / "f").read_bytes() == b"xa a\r\nb x"


def test_the_answer_shows_the_lines_around_a_change(host: Client, root: Path) -> None:
    (root / "f").write_text("".join(f"line {n}\n" for n in range(1, 101)))
    got = host.call("Edit", file_path="f", old_string="line 50\n", new_string="x\ny\n", stamp=host.stamp("f"))
    shown = got.text.split("\n")[1:]
    assert shown[0] == "46\tline 46"
    assert "50\tx" in shown
    assert "51\ty" in shown
    assert shown[-1] == "56\tline 55"


@pytest.mark.req("T4")
def test_each_edit_sees_those_before_it(host: Client, root: Path) -> None:
    (root / "f").write_text("a b")
    edits = [{"old_string": "a", "new_string": "b"}, {"old_string": "b", "new_string": "c", "replace_all": True}]
    assert not host.call("MultiEdit", file_path="f", edits=edits, stamp=host.stamp("f")).is_error
    assert (root / "f").read_text() == "c c"


@pytest.mark.req("T4")
def test_one_refused_edit_of_several_is_named_and_changes_nothing(host: Client, root: Path) -> None:
    (root / "f").write_text("a b")
    edits = [{"old_string": "a", "new_string": "x"}, {"old_string": "z", "new_string": "y"}]
    got = host.call("MultiEdit", file_path="f", edits=edits, stamp=host.stamp("f"))
    assert got.is_error
    assert got.text.startswith("Edit 2 of 2: old_string is not in the file.")
    assert (root / "f").read_text() == "a b"


def test_edits_that_undo_each_other_are_an_error(host: Client, root: Path) -> None:
    (root / "f").write_text("a")
    edits = [{"old_string": "a", "new_string": "b"}, {"old_string": "b", "new_string": "a"}]
    assert "undo each other" in host.call("MultiEdit", file_path="f", edits=edits, stamp=host.stamp("f")).text


def test_an_empty_old_string_creates_a_file(host: Client, root: Path) -> None:
    edits = [{"old_string": "", "new_string": "a\n"}, {"old_string": "a", "new_string": "b"}]
    got = host.call("MultiEdit", file_path="d/e/f", edits=edits)
    assert not got.is_error, got.text
    assert (root / "d/e/f").read_text() == "b\n"
    missing = host.call("Edit", file_path="none", old_string="a", new_string="b")
    assert "does not exist" in missing.text


WAYS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Write", {"content": "new"}),
    ("Edit", {"old_string": "old", "new_string": "new"}),
    ("MultiEdit", {"edits": [{"old_string": "old", "new_string": "new"}]}),
)


@pytest.mark.req("T4")
@pytest.mark.parametrize(("operation", "arguments"), WAYS)
def test_only_what_was_read_is_changed(host: Client, root: Path, operation: str, arguments: dict[str, Any]) -> None:
    (root / "f").write_text("old")
    for unread in ({}, {"stamp": ""}, {"stamp": None}):
        got = host.call(operation, file_path="f", **arguments, **unread)
        assert (got.is_error, "read it first" in got.text) == (True, True)
    stamp = host.stamp("f")
    (root / "f").write_text("old!")
    got = host.call(operation, file_path="f", **arguments, stamp=stamp)
    assert (got.is_error, "read it again" in got.text) == (True, True)
    assert (root / "f").read_text() == "old!"
    got = host.call(operation, file_path="f", **arguments, stamp=host.stamp("f"))
    assert not got.is_error
    assert (root / "f").read_text().startswith("new")


@pytest.mark.parametrize(("operation", "arguments"), WAYS)
@pytest.mark.parametrize("path", ("../out", "/etc/out", "out-link", "folder-out/x", "."))
def test_nothing_is_written_outside(
    host: Client, root: Path, operation: str, arguments: dict[str, Any], path: str
) -> None:
    (root / "folder-out").symlink_to("..")
    (root / "out-link").symlink_to("../out")
    before = sorted(root.parent.iterdir())
    assert host.call(operation, file_path=path, **arguments).is_error
    assert sorted(root.parent.iterdir()) == before


@pytest.mark.req("P4")
@pytest.mark.parametrize(("operation", "arguments"), WAYS)
def test_nothing_is_written_in_a_read_only_checkout(
    open_host: Callable[..., Client], root: Path, operation: str, arguments: dict[str, Any]
) -> None:
    (root / "f").write_text("old")
    host = open_host(writable=False)
    got = host.call(operation, file_path="f", **arguments, stamp=host.stamp("f"))
    assert "read-only" in got.text
    assert (root / "f").read_text() == "old"


def test_write_creates_a_file_and_its_folders(host: Client, root: Path) -> None:
    got = host.call("Write", file_path="a/b/c.txt", content="x\r\nж")
    assert got.text == "Created a/b/c.txt (5 bytes)."
    assert (root / "a/b/c.txt").read_bytes() == "x\r\nж".encode()
    assert [path.name for path in (root / "a/b").iterdir()] == ["c.txt"]
    assert got.stamps == {"a/b/c.txt": host.stamp("a/b/c.txt")}


def test_writing_the_same_needs_no_stamp(host: Client, root: Path) -> None:
    (root / "f").write_text("x")
    got = host.call("Write", file_path="f", content="x")
    assert not got.is_error
    assert got.stamps == {"f": host.stamp("f")}


def test_a_file_keeps_its_mode(host: Client, root: Path) -> None:
    (root / "f").write_text("x")
    (root / "f").chmod(0o751)
    host.call("Write", file_path="f", content="y", stamp=host.stamp("f"))
    assert stat.S_IMODE((root / "f").stat().st_mode) == 0o751


def test_a_write_through_a_symlink_changes_the_file(host: Client, root: Path) -> None:
    (root / "f").write_text("x")
    (root / "link").symlink_to("f")
    host.call("Write", file_path="link", content="y", stamp=host.stamp("link"))
    assert (root / "link").is_symlink()
    assert (root / "f").read_text() == "y"


def test_a_path_through_a_file_is_an_error(host: Client, root: Path) -> None:
    (root / "f").write_text("x")
    assert "a part of its path is a file" in host.call("Write", file_path="f/g", content="y").text


def test_a_large_file_has_a_stamp_of_size_and_time(host: Client, root: Path) -> None:
    (root / "f").write_bytes(b"start\n" + b"x" * (9 << 20))
    stamp = host.call("Read", file_path="f", limit=1).stamps["f"]
    got = host.call("Edit", file_path="f", old_string="start", new_string="begin", stamp=stamp)
    assert not got.is_error, got.text
    assert got.stamps["f"] == host.call("Read", file_path="f", limit=1).stamps["f"]
    assert (root / "f").read_bytes()[:6] == b"begin\n"


@pytest.mark.parametrize(
    ("size", "new", "words"),
    (
        (100_000, "a" * 11, "Edit 2 of 40: old_string is there more than 1,000,000 times"),
        (70, "a" * 9_900, "Edit 2 of 40: f would grow beyond 67,108,864 bytes"),
    ),
    ids=("replacements", "bytes"),
)
def test_edits_that_grow_without_end_are_never_made(host: Client, root: Path, size: int, new: str, words: str) -> None:
    (root / "f").write_text("a" * size)
    grown = {"old_string": "a", "new_string": new, "replace_all": True}
    got = host.call("MultiEdit", file_path="f", edits=[grown] * 40, stamp=host.stamp("f"))
    assert words in got.text
    assert (root / "f").read_text() == "a" * size
    assert host.peak_mb() < 400


def test_a_snippet_of_many_empty_lines_takes_little_memory(host: Client, root: Path) -> None:
    (root / "f").write_bytes(b"\xef\xbb\xbftop" + b"\n" * (40 << 20))
    got = host.call("Edit", file_path="f", old_string="top", new_string="head", stamp=host.stamp("f"))
    assert got.text.split("\n")[1:] == ["1\thead", "2\t", "3\t", "4\t", "5\t"]
    assert host.peak_mb() < 400


def test_one_of_several_edits_of_a_version_is_made(host: Client, root: Path) -> None:
    (root / "f").write_text("a")
    stamp = host.stamp("f")
    ids = [host.start("Edit", file_path="f", old_string="a", new_string=f"b{n}", stamp=stamp) for n in range(8)]
    answers = [host.wait(id_) for id_ in ids]
    made = [n for n, answer in enumerate(answers) if not answer.is_error]
    assert len(made) == 1
    assert (root / "f").read_text() == f"b{made[0]}"
