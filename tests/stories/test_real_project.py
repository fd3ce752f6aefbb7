"""A real project: its release is played by script, from download to branch."""

import pytest

from benchmarks.real_project import main


@pytest.mark.soak
def test_a_release_of_markdown_is_reproduced() -> None:
    """The branch is exactly the release's fix; its own tests fail before and pass after; nothing else changes."""
    assert main() == 0
