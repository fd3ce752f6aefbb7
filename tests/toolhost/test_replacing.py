"""Replacing, as a pure function: what holds for any file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.toolhost.protocol import Failure
from bot.toolhost.replacing import apply_edit

LINES = st.lists(st.sampled_from(("a", "b", "ab", "", "é", " a")), max_size=8)
ENDS = st.sampled_from((b"\n", b"\r\n"))


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Files with any mix of line ends, with and without a newline at the end and a byte order mark."""
    body = b"".join(line.encode() + draw(ENDS) for line in draw(LINES))
    return draw(st.sampled_from((b"", b"\xef\xbb\xbf"))) + body + draw(st.sampled_from((b"", b"a", b"\xff")))


@given(files(), files(), LINES)
def test_all_but_the_target_stays(before: bytes, after: bytes, new: list[str]) -> None:
    """The bytes before and after the target stay, whatever they are; the new lines hold what was asked for."""
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
    """After replacing all, the text is not to be found any more, and what it was said to be is true."""
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
def test_an_edit_and_its_reverse(content: bytes) -> None:
    """An edit within one line, and its reverse, give the file back."""
    start = b"TARGET" + content
    there, _ = apply_edit(start, {"old_string": "TARGET", "new_string": "GOAL"}, "f")
    back, _ = apply_edit(there, {"old_string": "GOAL", "new_string": "TARGET"}, "f")
    assert back == start


def test_an_empty_file_is_filled() -> None:
    """An empty old_string fills a file that is empty or not there, and no other."""
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
        (b"a\r\nb\r\n", "a\r\nb", "a\r\nB\nC", b"a\r\nB\r\nC\r\n"),
        (b"a\r\nb\r\n", "a", "a\nA", b"a\r\nA\r\nb\r\n"),
    ),
)
def test_line_ends_change_where_an_edit_names_both(content: bytes, old: str, new: str, made: bytes) -> None:
    """Only texts that end their lines differently change line ends; any other edit keeps those of the file."""
    assert apply_edit(content, {"old_string": old, "new_string": new}, "f")[0] == made


@pytest.mark.req("T4")
@pytest.mark.parametrize(("old", "new", "made"), (("\r\n", "\n", b"a\nb\nc\n"), ("\n", "\r\n", b"a\r\nb\r\nc\r\n")))
def test_all_line_ends_of_a_file_change(old: str, new: str, made: bytes) -> None:
    """With replace_all, a file with both kinds of line ends gets one kind."""
    edit = {"old_string": old, "new_string": new, "replace_all": True}
    assert apply_edit(b"a\r\nb\nc\r\n", edit, "f")[0] == made
