"""Which hosts a configuration opens: to WebFetch by rules, to approved work by a list."""

import pytest
from pydantic import ValidationError

from bot.compose.parts import egress_route_of, web_of
from bot.config.settings import Settings
from bot.core.configuration import Configuration
from bot.core.errors import Refused
from bot.core.network import NetworkDecision

HOSTS = {"hosts": ["docs.example.org", "pastebin.com"]}


def keys(allow: list[str]) -> Configuration:
    return Configuration.model_validate({"tools": {"allow": allow}, "sandbox": HOSTS})


@pytest.mark.req("N1")
@pytest.mark.parametrize(
    ("allow", "closed"),
    (
        (["WebFetch(domain:files.example.org)"], ("docs.example.org", "pastebin.com")),
        (["WebFetch"], ("files.example.org", "pastebin.com")),
        (["WebFetch(domain:*)"], ("files.example.org", "pastebin.com")),
    ),
)
async def test_what_rules_do_not_open_stays_closed(allow: list[str], closed: tuple[str, ...]) -> None:
    """Refused without a question to any name server; a rule without a host opens no host that anybody can write to."""
    web = web_of(keys(allow), Settings())
    assert web is not None
    for host in (*closed, "api.github.com"):
        told: list[NetworkDecision] = []
        with pytest.raises(Refused, match=r"not on the list|never allowed"):
            await web.fetch(f"https://{host}/", told.append)
        assert [row.allowed for row in told] == [False]


@pytest.mark.req("N1")
def test_no_rule_no_web() -> None:
    """Nothing is open to WebFetch by default, whatever the sandbox may reach."""
    assert web_of(keys(["Bash(ls)"]), Settings()) is None


@pytest.mark.req("N1", "P7")
def test_a_rule_in_another_form_is_refused() -> None:
    """When the configuration is read, with the form that it should have."""
    with pytest.raises(ValidationError, match=r"WebFetch\(domain:NAME\)"):
        keys(["WebFetch(docs.example.org)"])


@pytest.mark.req("N2")
def test_approved_work_never_reaches_the_api_of_github() -> None:
    assert egress_route_of(Settings()).never == ("api.github.com", "api.github.com")
