"""Texts that are shortened."""

from bot.core.lines import cut_middle, shorten_line


def test_a_cut_names_what_it_left_out() -> None:
    """A text that fits stays as it is; of a longer one both ends stay, and the note counts what is missing."""
    assert cut_middle("abcdef", 6) == "abcdef"
    assert cut_middle("abcdef", 3) == "ab\n\n[… 3 characters are left out here …]\n\nf"


def test_one_line() -> None:
    """White space is folded; a line that was cut ends with an ellipsis."""
    assert shorten_line(" a\n b ", 3) == "a b"
    assert shorten_line("abcdef", 4) == "abc…"
