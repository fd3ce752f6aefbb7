"""What an App asks for is what the documentation says that it needs."""

import json
import re
from itertools import takewhile
from pathlib import Path

import pytest

from bot.github.app import APP_EVENTS, WantedApp
from bot.github.deliveries import EVENTS as HEARD

DOCS = Path(__file__).parents[2] / "docs"
NAMES = "contents|issues|pull_requests|metadata|actions|checks|members"


@pytest.mark.req("W4a")
def test_app_asks_for_the_permissions_that_the_docs_name() -> None:
    """The column of the App in docs/tokens.md: the strongest level that any row names."""
    lines = (DOCS / "tokens.md").read_text().splitlines()
    first_table = takewhile(bool, lines[lines.index(next(line for line in lines if line.startswith("| "))) :])
    rows = [row.split("|")[2] for row in first_table]
    told = [pair for row in rows for pair in re.findall(rf"\b({NAMES}): (read|write)", row)]
    documented = {name: "write" if (name, "write") in told else "read" for name, _ in told}
    assert WantedApp("a", "acme", "https://a/webhooks/github").permissions == documented
    of_a_person = WantedApp("a", "", "https://a/webhooks/github").permissions
    assert of_a_person == {name: level for name, level in documented.items() if name != "members"}


def test_app_asks_for_no_event_that_wakes_nobody() -> None:
    assert set(APP_EVENTS) < HEARD


def test_form_goes_to_the_own_server_for_a_person_or_an_organization() -> None:
    wanted = WantedApp("a", "acme", "https://a/webhooks/github")
    assert wanted.form_url("https://ghes", "s&1") == "https://ghes/organizations/acme/settings/apps/new?state=s%261"
    assert (
        WantedApp("a", "", wanted.webhook_url).form_url("https://ghes", "s") == "https://ghes/settings/apps/new?state=s"
    )
    manifest = json.loads(wanted.manifest("http://localhost:8000/setup/callback"))
    assert manifest["url"] == "https://a/"
    assert manifest["callback_urls"] == ["https://a/sign-in/callback", "http://localhost:8000/sign-in/callback"]
