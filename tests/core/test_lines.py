"""Texts that are shortened, and which lines of the new file a patch shows."""

import pytest

from bot.core.markdown.elements import cut_middle, line_matcher, right_lines, shorten_line

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


class CountedLine(str):
    """A line that counts how often it is looked up."""

    __slots__ = ()
    lookups = 0

    def __hash__(self) -> int:
        CountedLine.lookups += 1
        return super().__hash__()


@pytest.mark.parametrize("kinds", (1, 60, 900))
def test_no_two_texts_take_long_to_compare(kinds: int) -> None:
    """Not even if each match is one line at the beginning, so that all others are looked up once more."""
    a = [CountedLine(n % kinds) for n in range(2_000)]
    b = [CountedLine(n // 2 % kinds if n % 2 else f"only {n}") for n in range(2_000)]
    CountedLine.lookups = 0
    codes = line_matcher(a, b).get_opcodes()
    assert CountedLine.lookups < 100_000
    assert [line for kind, start, end, *_ in codes if kind != "equal" for line in a[start:end]]
