"""Checks of scheduled tasks that ask GitHub: a mistake in one says what to write."""

import pytest

from bot.core.checks import parse_github_check
from bot.core.errors import Refused


@pytest.mark.req("MT4")
def test_what_a_check_asks() -> None:
    """Each option has the words up to the next one."""
    options = {"days": ["30"], "exempt": ["a b", "c"]}
    assert parse_github_check("github:stale-issues --days 30 --exempt 'a b' c") == ("stale-issues", options)
    assert parse_github_check("github:ci-failures") == ("ci-failures", {})


@pytest.mark.req("MT4")
@pytest.mark.parametrize(
    ("check", "said"),
    (
        ("github:stale-isues", "there is no check github:stale-isues: use one of ci-failures, stale-issues"),
        ("github:", "there is no check github:: use one of "),
        ("github:stale-issues --months 2", "has no option --months: its options are days, exempt, most"),
        ("github:ci-failures --days 2", "has no option --days: its options are none"),
        ("github:stale-issues --days soon", "--days of a check must be a whole number, not 'soon'"),
        ("github:stale-issues --days", "--days of a check must be a whole number, not ''"),
        ("github:stale-issues --most 1 2", "--most of a check must be a whole number, not '1 2'"),
        ("github:stale-issues --most 100000", "--most of a check must be a whole number, not '100000'"),
        ("github:stale-issues 'open", "github:stale-issues 'open cannot be read: No closing quotation"),
    ),
)
def test_mistakes(check: str, said: str) -> None:
    """What is wrong, and what to write."""
    with pytest.raises(Refused) as refused:
        parse_github_check(check)
    assert said in str(refused.value)
