"""Texts that are shortened, and which lines of the new file a patch shows."""

from bot.core.lines import cut_middle, right_lines, shorten_line

PATCH = "@@ -1,2 +1,3 @@ def f():\n a\n-b\n+c\n+@@ -9 +9 @@\n\\ No newline\n@@ -10 +20 @@\n-x\n+y"


def test_a_cut_names_what_it_left_out() -> None:
    """A text that fits stays as it is; of a longer one both ends stay, and the note counts what is missing."""
    assert cut_middle("abcdef", 6) == "abcdef"
    assert cut_middle("abcdef", 3) == "ab\n\n[… 3 characters are left out here …]\n\nf"


def test_one_line() -> None:
    """White space is folded; a line that was cut ends with an ellipsis."""
    assert shorten_line(" a\n b ", 3) == "a b"
    assert shorten_line("abcdef", 4) == "abc…"


def test_lines_of_the_new_file() -> None:
    """Context and added lines count, removed ones and notes do not; each hunk begins at its own number."""
    assert right_lines(PATCH) == {1: 1, 2: 3, 3: 4, 20: 8}
    assert right_lines("") == {}
