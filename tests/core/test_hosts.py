"""Names of hosts: one spelling, what a list covers, what opening one weighs, and what is open in the end."""

import pytest

from bot.core.errors import Misconfigured
from bot.core.network import (
    NEVER,
    OPEN_TO_WRITES,
    intersection,
    is_covered,
    reachable_hosts,
    require_host_pattern,
    tier_of_hosts,
)
from bot.core.paths import Tier
from bot.core.plan import Contract, contract_tier
from tests.rows import every_row

pytestmark = pytest.mark.req("N1a")


@pytest.mark.parametrize("text", ("pypi.org", "*.pypi.org", "xn--dcs-sna.example.org", "a1.b-c.io"))
def test_a_name_and_all_below_a_domain_may_stand_in_a_list(text: str) -> None:
    assert require_host_pattern(text) == text


@every_row(
    "text",
    (
        "",
        "*",
        "*.",
        "*.org.",
        "PyPI.org",
        "pypi.org.",
        "pypi.org:443",
        "https://pypi.org",
        "10.0.0.1",
        "*.*.org",
        "a.*.b",
    ),
)
def test_what_is_no_entry(text: str) -> None:
    """Anything else is refused with the form that it should have."""
    with pytest.raises(Misconfigured, match="not a host"):
        require_host_pattern(text)


@every_row(
    ("planned", "configured", "tier", "found"),
    (
        (("pypi.org",), ("pypi.org", "docs.rs"), "normal", ("pypi.org",)),
        (("pypi.org",), (), "high", ()),
        ((), ("pypi.org",), "high", ()),
        (("*.pypi.org",), ("a.pypi.org",), "normal", ("a.pypi.org",)),
        (("a.pypi.org",), ("*.pypi.org",), "normal", ("a.pypi.org",)),
        (("pypi.org",), ("*.pypi.org",), "normal", ()),
        (("*.b.pypi.org",), ("*.pypi.org",), "normal", ("*.b.pypi.org",)),
        (("github.com",), ("github.com",), "normal", ()),
        (("github.com",), ("github.com",), "high", ("github.com",)),
        (("*.com",), ("*.com",), "normal", ()),
        (("api.github.com",), ("api.github.com",), "high", ()),
        (("not a host", "pypi.org"), ("pypi.org",), "low", ("pypi.org",)),
    ),
)
def test_open_in_the_end(
    planned: tuple[str, ...], configured: tuple[str, ...], tier: str, found: tuple[str, ...]
) -> None:
    """What plan and configuration both cover; what anybody can write to under tier high alone; GitHub's API never."""
    assert reachable_hosts(planned, configured, tier) == found


@pytest.mark.parametrize(
    ("hosts", "tier"),
    (
        ((), Tier.LOW),
        (("pypi.org",), Tier.NORMAL),
        (("pypi.org", "gist.github.com"), Tier.HIGH),
        (("*.org",), Tier.HIGH),
    ),
)
def test_a_plan_weighs_what_its_heaviest_host_does_however_light_its_files_are(
    hosts: tuple[str, ...], tier: Tier
) -> None:
    assert tier_of_hosts(hosts) is tier
    assert contract_tier(Contract(scope=("docs/a.md",), hosts=hosts)) is tier


def test_the_tables_are_entries() -> None:
    """Each row could match something, and lists are narrowed the same from either side."""
    assert all(require_host_pattern(entry) == entry for entry in (*NEVER, *OPEN_TO_WRITES))
    assert set(intersection(NEVER, OPEN_TO_WRITES)) == set(intersection(OPEN_TO_WRITES, NEVER))
    assert is_covered("a.b.example.org", ("*.example.org",))
