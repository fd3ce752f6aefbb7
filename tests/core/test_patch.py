"""Which lines of the new file a patch shows."""

from bot.core.lines import right_lines

PATCH = "@@ -1,2 +1,3 @@ def f():\n a\n-b\n+c\n+@@ -9 +9 @@\n\\ No newline\n@@ -10 +20 @@\n-x\n+y"


def test_lines_of_the_new_file() -> None:
    """Context and added lines count, removed ones and notes do not; each hunk begins at its own number."""
    assert right_lines(PATCH) == {1: 1, 2: 3, 3: 4, 20: 8}
    assert right_lines("") == {}
