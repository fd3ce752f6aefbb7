"""Rules about calls of tools: how they are written, and what a mistake is told."""

import pytest

from bot.core.errors import Misconfigured
from bot.core.names import split_rule


@pytest.mark.parametrize(
    ("text", "parts"),
    (
        ("Bash", ("Bash", "*")),
        (" Bash() ", ("Bash", "*")),
        ("Bash(git diff:*)", ("Bash", "git diff:*")),
        ("Bash(f (x))", ("Bash", "f (x)")),
        ("WebFetch", ("WebFetch", "*")),
        ("WebFetch(domain:*)", ("WebFetch", "domain:*")),
        ("WebFetch(domain:*.pypi.org)", ("WebFetch", "domain:*.pypi.org")),
    ),
)
def test_a_rule_is_a_tool_and_a_pattern(text: str, parts: tuple[str, str]) -> None:
    """Without a pattern a rule covers every call."""
    assert split_rule(text) == parts


@pytest.mark.parametrize(
    ("text", "said"),
    (
        ("Bash(", "write Tool or Tool"),
        ("git diff", "write Tool or Tool"),
        ("", "write Tool or Tool"),
        ("WebFetch(pypi.org)", "domain:NAME"),
        ("WebFetch(domain:PyPI.org)", "not a host"),
        ("WebFetch(domain:)", "not a host"),
    ),
)
def test_a_mistake_is_told_with_the_right_form(text: str, said: str) -> None:
    """What would match nothing is refused, so that no rule denies nothing in silence."""
    with pytest.raises(Misconfigured, match=said):
        split_rule(text)
