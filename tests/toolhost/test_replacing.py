"""Replacing, as a pure function: what holds for any file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.toolhost.edits import apply_edit
from bot.toolhost.protocol import Failure

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
