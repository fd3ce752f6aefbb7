"""Write, Edit and MultiEdit: whole or not at all, and only what was read; and replacing as a pure function."""

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.toolhost.edits import apply_edit
from bot.toolhost.protocol import Failure
from tests.rows import every_row
from tests.toolhost.client import Client


@pytest.mark.req("T4")
@every_row(
    ("before", "old", "new", "after"),
    (
        (b"a\nb\nc", "b\nc", "b\nd", b"a\nb\nd"),
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\nc\r\n"),
        (b"a\r\nb\r\nc", "c", "x\ny", b"a\r\nb\r\nx\r\ny"),
        (b"a\nb\r\nc\nd\n", "b", "x\ny", b"a\nx\r\ny\r\nc\nd\n"),
        (b"a\nb\r\nc\nd\n", "d", "x\ny", b"a\nb\r\nc\nx\ny\n"),
        (b"a\nb\r\nc\nd\n", "b\nc\nd", "x", b"a\nx\n"),
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
        (b"a\r\nb\r\na\r\nb", "a\nb", "x", "2 times"),
        (b"aaa", "aa", "x", "2 times, overlapping"),
        (b"x b", "a", "x", "may already have been made"),
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


def test_the_answer_shows_the_lines_around_a_change(host: Client, root: Path) -> None:
    (root / "f").write_text("".join(f"line {n}\n" for n in range(1, 101)))
    got = host.call("Edit", file_path="f", old_string="line 50\n", new_string="x\ny\n", stamp=host.stamp("f"))
    shown = got.text.split("\n")[1:]
    assert shown[0] == "46\tline 46"
    assert "50\tx" in shown
    assert "51\ty" in shown
    assert shown[-1] == "56\tline 55"


WAYS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Write", {"content": "new"}), ("Edit", {"old_string": "old", "new_string": "new"}),
    ("MultiEdit", {"edits": [{"old_string": "old", "new_string": "new"}]}),
)  # fmt: skip


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
def test_nothing_is_written_outside(host: Client, root: Path, operation: str, arguments: dict[str, Any]) -> None:
    (root / "folder-out").symlink_to("..")
    (root / "out-link").symlink_to("../out")
    before = sorted(root.parent.iterdir())
    for path in ("../out", "/etc/out", "out-link", "folder-out/x", "."):
        assert host.call(operation, file_path=path, **arguments).is_error, path
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
    (root / "f").write_bytes(b"\xef\xbb\xbftop" + b"\n" * (16 << 20))
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


LINES = st.lists(st.sampled_from(("a", "b", "ab", "", "é", " a")), max_size=8)
ENDS = st.sampled_from((b"\n", b"\r\n"))


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Files with any mix of line ends, with and without a newline at the end and a byte order mark."""
    body = b"".join(line.encode() + draw(ENDS) for line in draw(LINES))
    return draw(st.sampled_from((b"", b"\xef\xbb\xbf"))) + body + draw(st.sampled_from((b"", b"a", b"\xff")))


@given(files(), files(), LINES)
def test_all_but_the_target_stays(before: bytes, after: bytes, new: list[str]) -> None:
    replacement = "\n".join(new)
    content, change = apply_edit(before + b"TARGET" + after, {"old_string": "TARGET", "new_string": replacement}, "f")
    assert content.startswith(before)
    assert content.endswith(after)
    middle = content[len(before) : len(content) - len(after)]
    encoding = "utf-8" if b"\xff" not in before + after else "latin-1"
    assert middle.decode(encoding).replace("\r\n", "\n") == replacement
    assert (change.times, change.start) == (1, len(before))


@given(files(), st.text("ab\n é", min_size=1, max_size=4), st.text("xy\n", max_size=4))
def test_replace_all_leaves_none(content: bytes, old: str, new: str) -> None:
    edit = {"old_string": old, "new_string": new, "replace_all": True}
    try:
        made, change = apply_edit(content, edit, "f")
    except Failure:
        return
    encoding = "utf-8" if b"\xff" not in content else "latin-1"
    plain = content.decode(encoding).replace("\r\n", "\n")
    if encoding == "utf-8":
        assert change.times == plain.count(old)
        assert made.decode().replace("\r\n", "\n") == plain.replace(old, new)


@given(files())
def test_an_edit_and_its_reverse_give_the_file_back(content: bytes) -> None:
    start = b"TARGET" + content
    there, _ = apply_edit(start, {"old_string": "TARGET", "new_string": "GOAL"}, "f")
    back, _ = apply_edit(there, {"old_string": "GOAL", "new_string": "TARGET"}, "f")
    assert back == start


@st.composite
def mixtures(draw: st.DrawFn) -> tuple[list[tuple[bytes, bytes]], int, int, list[int | str]]:
    """A file as lines with their ends, the range of lines that an edit names, and what it makes of them.

    A number is a line of the file that stays; a text is a line that is changed or new.
    """
    count = draw(st.integers(1, 7))
    kinds = st.sampled_from(("", "\r", "é", "\ri"))
    lines = [(f"{n}{draw(kinds)}{n}".encode(), draw(ENDS)) for n in range(count)]
    first = draw(st.integers(0, count - 1))
    last = draw(st.integers(first, count - 1))
    new = [(n, f"new{n}") for n in range(first, last + 1)]
    made: list[int | str] = []
    for n, text in new:
        made += draw(st.sampled_from(([n], [n], [text], [n, text], [text, n], [])))
    return lines, first, last, made


@pytest.mark.req("T4")
@given(mixtures())
def test_each_line_keeps_its_own_end(mixture: tuple[list[tuple[bytes, bytes]], int, int, list[int | str]]) -> None:
    lines, first, last, made = mixture
    old = "".join(f"{lines[n][0].decode()}\n" for n in range(first, last + 1))
    new = "".join(f"{lines[n][0].decode() if isinstance(n, int) else n}\n" for n in made)
    if old == new:
        return
    content, _ = apply_edit(b"".join(map(b"".join, lines)), {"old_string": old, "new_string": new}, "f")
    expected = [*range(first), *made, *range(last + 1, len(lines))]
    written = content.split(b"\n")
    assert written.pop() == b""
    changed = [line.removesuffix(b"\r").decode() for line in written]
    assert changed == [lines[n][0].decode() if isinstance(n, int) else n for n in expected]
    ends = [b"\r\n" if line.endswith(b"\r") else b"\n" for line in written]
    assert all(end == lines[n][1] for n, end in zip(expected, ends, strict=True) if isinstance(n, int))


@pytest.mark.req("T4")
@given(mixtures(), st.lists(st.tuples(st.sampled_from(("x", "y\r", "")), st.sampled_from(("\n", "\r\n"))), max_size=4))
def test_bytes_that_name_crlf_are_the_bytes_written(
    mixture: tuple[list[tuple[bytes, bytes]], int, int, list[int | str]], given_lines: list[tuple[str, str]]
) -> None:
    lines, first, last, _ = mixture
    whole = [b"".join(line) for line in lines]
    new = "".join(map("".join, given_lines)) + "END\r\n"
    edit = {"old_string": b"".join(whole[first : last + 1]).decode(), "new_string": new}
    content, _ = apply_edit(b"".join(whole), edit, "f")
    if b"\r\n" in b"".join(whole):
        assert content == b"".join((*whole[:first], new.encode(), *whole[last + 1 :]))


def test_a_long_edit_keeps_the_ends_of_the_lines_around_its_changes() -> None:
    lines = [b"%d%b" % (n, b"\r\n" if n % 3 else b"\n") for n in range(1000)]
    old = "".join(f"{n}\n" for n in range(1000))
    new = old.replace("\n100\n", "\n100\nnew\n").replace("\n900\n", "\nchanged\n")
    content, _ = apply_edit(b"".join(lines), {"old_string": old, "new_string": new}, "f")
    assert content.startswith(b"".join(lines[:101]))
    assert content.endswith(b"".join(lines[901:]))


def test_an_empty_file_is_filled() -> None:
    edit = {"old_string": "", "new_string": "x\n"}
    assert apply_edit(b"", edit, "f")[0] == apply_edit(None, edit, "f")[0] == b"x\n"
    with pytest.raises(Failure, match="not empty"):
        apply_edit(b"y", edit, "f")


@pytest.mark.req("T4")
@pytest.mark.parametrize(
    ("content", "old", "new", "made"),
    (
        (b"a\r\nb\r\nc\r\n", "a\r\nb", "a\nb", b"a\nb\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", "a\nb", "a\r\nB", b"a\r\nB\r\nc\r\n"),
        (b"a\nb\nc\n", "a\nb", "a\r\nb", b"a\r\nb\nc\n"),
        (b"a\nb\r\nc\n", "a\nb", "a\r\nb", b"a\r\nb\r\nc\n"),
        (b"a\r\nb\r\n", "a\nb", "a\nB\nC", b"a\r\nB\r\nC\r\n"),
        (b"a\r\nb\r\n", "a\r\nb", "a\r\nB\nC", b"a\r\nB\nC\r\n"),
        (b"a\r\nb\nc\r\n", "a\r\nb", "a\r\nB\nC", b"a\r\nB\nC\nc\r\n"),
        (b"a\nb\r\n", "a", "a\r\nA", b"a\r\nA\nb\r\n"),
        (b"a\r\nB\nc\rD\r\n", "a\nB\nc\rD\n", "a\nX\nc\rD\n", b"a\r\nX\nc\rD\r\n"),
        (b"a\r\nB\nc\rD\r\n", "a\nB", "A\nB", b"A\r\nB\nc\rD\r\n"),
        (b"a\r\nb\r\n", "a", "a\nA", b"a\r\nA\r\nb\r\n"),
    ),
)
def test_line_ends_change_where_an_edit_names_both(content: bytes, old: str, new: str, made: bytes) -> None:
    assert apply_edit(content, {"old_string": old, "new_string": new}, "f")[0] == made


@pytest.mark.req("T4")
@pytest.mark.parametrize(("old", "new", "made"), (("\r\n", "\n", b"a\nb\nc\n"), ("\n", "\r\n", b"a\r\nb\r\nc\r\n")))
def test_replace_all_changes_all_line_ends(old: str, new: str, made: bytes) -> None:
    edit = {"old_string": old, "new_string": new, "replace_all": True}
    assert apply_edit(b"a\r\nb\nc\r\n", edit, "f")[0] == made
