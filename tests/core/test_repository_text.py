"""What a session reads of its repository on GitHub."""

import pytest

from bot.core.brief import Passage, RepositoryQuery, RepositoryText, Topic
from bot.core.turn import Picture


@pytest.mark.req("K8")
def test_nothing_foreign_unless_asked_for() -> None:
    """A query that says nothing else wants no words of people who may not ask, and a passage is nobody else's."""
    assert not RepositoryQuery(Topic.ISSUE, 7).strangers
    found = RepositoryText((Passage("issue #7", "It fails."),))
    assert (found.passages[0].foreign, found.more) == (False, False)


@pytest.mark.req("K9")
def test_a_picture_is_shown_or_says_why_not() -> None:
    """One without an image block has a reason."""
    assert Picture("by @rea in a comment", why="it is too large").image is None
