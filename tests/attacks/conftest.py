"""The attacks stand on the same worlds as the stories and as the tests of GitHub's room."""

from tests.github.conftest import ground
from tests.stories.github.conftest import model, story

__all__ = ("ground", "model", "story")
