"""A new person and a scripted model for each story."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bot.testing.model.reply import Policy
from bot.testing.model.server import ScriptedModel
from tests.stories.ground import Person, person

Meet = Callable[..., tuple[Person, ScriptedModel]]


@pytest.fixture
def meet(tmp_path: Path) -> Iterator[Meet]:
    """Start a scripted model for a policy and give a person who uses it; further variables are the person's own."""
    with ExitStack() as stack:

        def together(policy: Policy, *, latency: float = 0.0, **variables: str) -> tuple[Person, ScriptedModel]:
            model = stack.enter_context(ScriptedModel(policy, latency=latency))
            return person(tmp_path / "home", model.base_url, **variables), model

        yield together


def described(value: Any) -> str:
    """Return a value's JSON type, by the word for it."""
    return {bool: "bool", int: "number", float: "number", str: "text", type(None): "null"}.get(
        type(value), type(value).__name__
    )
