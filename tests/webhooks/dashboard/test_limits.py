"""What people may have the dashboard do in vain, each and all together (W1b)."""

from contextlib import ExitStack

import pytest
import requests

from bot.config.settings import Settings
from bot.core.secrets.redaction import Redactor
from bot.core.turn import Actor
from bot.github.tokens import StaticToken
from bot.service.connections import github_client
from bot.service.viewers import Viewer
from tests.service.ground import HandClock
from tests.webhooks.dashboard.ground import Site
from tests.webhooks.dashboard.test_deliveries import PATH, form_for
from webhooks.access import Problem
from webhooks.dashboard.pages import Sessions
from webhooks.dashboard.service_pages import MOST_REDELIVERIES, REDELIVERY_SECONDS
from webhooks.dashboard.sign_in import MOST_REFUSALS, REFUSAL_SECONDS
from webhooks.event_stream import STREAMS_PER_PERSON, Streams

pytestmark = pytest.mark.req("W1b")


def test_codes_that_github_refuses_are_not_sent_without_end(own_site: Site) -> None:
    """Each goes out with the App's secret. Who is signed in notices nothing; a minute later people sign in again."""
    assert own_site.get("/").status == 200
    browser = requests.Session()
    away = browser.get(f"{own_site.base}/sign-in/github", allow_redirects=False, timeout=20)
    state = away.headers["location"].partition("state=")[2].partition("&")[0]
    before = exchanges(own_site)
    found = [
        browser.get(f"{own_site.base}/sign-in/callback", params={"state": state, "code": f"c{n}"}, timeout=20)
        for n in range(MOST_REFUSALS + 2)
    ]
    assert [each.status_code for each in found] == [403] * MOST_REFUSALS + [429] * 2
    assert "Try again in a minute" in found[-1].text
    assert exchanges(own_site) - before == MOST_REFUSALS
    assert own_site.get("/").status == 200
    own_site.clock.advance(REFUSAL_SECONDS)
    assert own_site.browser("will").get(own_site.base, allow_redirects=False, timeout=20).status_code == 200


def exchanges(site: Site) -> int:
    return sum(each.path == "/login/oauth/access_token" for each in site.github.requests)


def test_who_has_no_role_anywhere_gets_no_stream(site: Site) -> None:
    """Nothing could appear on it, so that it only would take the place of somebody else's."""
    assert (site.get("/live", "eve").status, site.get("/live", "eve").html) == (204, "")


def test_one_account_cannot_take_all_streams() -> None:
    """Nor can nine: once half are taken, each account gets one. The operator's own tools get what is left."""
    streams = Streams(most=4 * STREAMS_PER_PERSON)
    with ExitStack() as opened:
        for person in (1, 2):
            for _ in range(STREAMS_PER_PERSON):
                opened.enter_context(streams.open(person))
            with pytest.raises(Problem):
                streams.check(person)
        opened.enter_context(streams.open(3))
        with pytest.raises(Problem):
            opened.enter_context(streams.open(3))
        while streams.count < streams.most:
            opened.enter_context(streams.open(0))
        with pytest.raises(Problem):
            streams.check(4)
    assert streams.count == 0
    streams.check(1)


def test_people_with_many_sessions_do_not_end_the_only_one_of_others() -> None:
    clock = HandClock()
    client = github_client(Settings(), StaticToken(str), clock, redactor=Redactor())
    sessions = Sessions(clock, most=4)
    names = [sessions.begin(Viewer(client, Actor(number, f"u{number}"))) for number in (1, 2, 2, 3, 2, 4)]
    assert [sessions.find(name) is not None for name in names] == [True, False, False, True, True, True]


@pytest.mark.long
def test_an_administrator_cannot_have_deliveries_repeated_without_end(own_site: Site) -> None:
    """Every repetition is a new attempt, which can be repeated again."""
    form, attempt = form_for(own_site, 59), 59
    for _ in range(MOST_REDELIVERIES):
        assert own_site.post(PATH, form | {"attempt": str(attempt)}, "ada").status == 303
        attempt += 100
    refused = own_site.post(PATH, form | {"attempt": str(attempt)}, "ada")
    assert (refused.status, len(own_site.reading.redelivered)) == (403, MOST_REDELIVERIES)
    own_site.clock.advance(REDELIVERY_SECONDS)
    assert own_site.post(PATH, form | {"attempt": str(attempt)}, "ada").status == 303
