"""Signing in: the flow with GitHub, the cookies, what a person sees afterwards, and a replaced client secret (W5)."""

import http.cookiejar
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import requests
from fastapi import FastAPI

from bot.config.settings import Settings
from bot.core.secrets.redaction import Redactor
from bot.core.turn import Actor
from bot.github.tokens import StaticToken
from bot.service.connections import github_client
from bot.service.viewers import SignIn, Viewer
from bot.testing.github import credentials
from bot.testing.github.oauth import ACCESS_LIFE, challenge_of
from bot.testing.host import host_application
from tests.service.ground import HandClock
from tests.webhooks.dashboard.ground import HIDDEN, THREAD, Site, query_of, running, settings
from webhooks.dashboard.pages import IDLE_SECONDS, SESSION_SECONDS, SESSIONS_PER_PERSON, SIGN_IN_SECONDS, Sessions
from webhooks.dashboard.service_pages import add_dashboard
from webhooks.dashboard.sign_in import MOST_REFUSALS, REFUSAL_SECONDS
from webhooks.event_stream import Streams


def begun(site: Site, back: str = "/", login: str = "maya") -> tuple[requests.Session, str]:
    """Return a browser that goes to GitHub, and the address to which GitHub sends it back; "": who cancels there."""
    browser = requests.Session()
    away = browser.get(f"{site.base}/sign-in/github", params={"back": back}, allow_redirects=False, timeout=20)
    data = {"login": login} if login else {}
    click = requests.post(away.headers["location"], data=data, allow_redirects=False, timeout=20)
    return browser, click.headers["location"]


def exchanges(site: Site) -> int:
    return sum(each.path == "/login/oauth/access_token" for each in site.github.requests)


def test_every_page_leads_a_stranger_to_the_sign_in_and_back(site: Site) -> None:
    for path in ("/", "/threads", THREAD, "/threads/no/where/1", "/costs", "/service"):
        answer = requests.get(site.base + path, allow_redirects=False, timeout=20)
        assert (answer.status_code, answer.headers["location"]) == (303, f"/sign-in?back={path}")
    page = requests.get(f"{site.base}/sign-in?back={THREAD}", timeout=20)
    assert f'href="/sign-in/github?back={THREAD}"' in page.text


def test_github_gets_a_state_and_a_challenge_and_never_the_verifier(site: Site) -> None:
    answer = requests.get(f"{site.base}/sign-in/github", allow_redirects=False, timeout=20)
    sent = query_of(answer.headers["location"])
    assert sent["client_id"] == site.github.app.client_id
    assert sent["redirect_uri"] == f"{site.base}/sign-in/callback"
    assert sent["code_challenge_method"] == "S256"
    assert len(sent["code_challenge"]) == len(challenge_of("x"))
    assert len(sent["state"]) >= 40
    assert "verifier" not in answer.headers["location"]


def test_who_signed_in_sees_the_threads_of_their_repositories(site: Site) -> None:
    assert "Orders of exactly 50" in site.get("/").html
    assert "Secret rotation" not in site.get("/").html
    assert "Secret rotation" in site.get("/", "ada").html
    assert "Nothing waits for you" in site.get("/", "eve").html
    assert [site.get(HIDDEN, login).status for login in ("ada", "maya", "eve")] == [200, 404, 404]


def test_the_session_cookie_is_out_of_reach_of_scripts_and_other_sites(site: Site) -> None:
    browser = site.signed_in("maya")
    (cookie,) = iter(http.cookiejar.CookieJar.__iter__(browser.cookies))
    assert (cookie.name, cookie.path, cookie.has_nonstandard_attr("HttpOnly")) == ("plangate", "/", True)
    assert cookie.get_nonstandard_attr("SameSite") == "lax"


def test_over_https_the_cookies_are_bound_to_the_host(tmp_path: Path) -> None:
    with running(tmp_path, public_url="https://plangate.example.com") as site:
        answer = requests.get(f"{site.base}/sign-in/github", allow_redirects=False, timeout=20)
        header = answer.headers["set-cookie"]
        assert header.startswith("__Host-plangate-sign-in=")
        assert {"HttpOnly", "Path=/", "SameSite=lax", "Secure"} <= {part.strip() for part in header.split(";")}
        assert query_of(answer.headers["location"])["redirect_uri"] == "https://plangate.example.com/sign-in/callback"


@pytest.mark.parametrize("how", ("no cookie", "another state", "late", "no code", "forged cookie"))
def test_a_callback_that_was_not_begun_here_never_reaches_github(site: Site, how: str) -> None:
    browser, target = begun(site)
    if how == "no cookie":
        browser = requests.Session()
    if how == "another state":
        target = target.replace("state=", "state=x")
    if how == "late":
        site.clock.advance(SIGN_IN_SECONDS)
    if how == "no code":
        target = target.replace("code=", "error=")
    if how == "forged cookie":
        value = browser.cookies["plangate-sign-in"] or ""
        browser.cookies.set("plangate-sign-in", value[:-1] + ("0" if value[-1] != "0" else "1"))
    asked = exchanges(site)
    answer = browser.get(target, allow_redirects=False, timeout=20)
    assert answer.status_code == 403
    assert "plangate" not in browser.cookies
    assert exchanges(site) == asked


def test_a_code_works_once(site: Site) -> None:
    browser, target = begun(site)
    kept = browser.cookies["plangate-sign-in"]
    assert browser.get(target, allow_redirects=False, timeout=20).status_code == 303
    thief = requests.Session()
    thief.cookies.set("plangate-sign-in", kept)
    assert thief.get(target, allow_redirects=False, timeout=20).status_code == 403


def test_who_cancels_at_github_is_told_so(site: Site) -> None:
    browser, target = begun(site, login="")
    answer = browser.get(target, allow_redirects=False, timeout=20)
    assert answer.status_code == 403
    assert "cancelled" in answer.text


def test_a_session_id_from_before_the_sign_in_is_worth_nothing_afterwards(site: Site) -> None:
    planted = "planted-by-somebody-else"
    browser, target = begun(site)
    browser.cookies.set("plangate", planted)
    answer = browser.get(target, allow_redirects=False, timeout=20)
    fresh = answer.cookies["plangate"] or ""
    assert fresh != planted
    assert requests.get(site.base, cookies={"plangate": planted}, allow_redirects=False, timeout=20).status_code == 303
    again = requests.Session()
    again.cookies.set("plangate", fresh)
    away = again.get(f"{site.base}/sign-in/github", allow_redirects=False, timeout=20)
    click = requests.post(away.headers["location"], data={"login": "maya"}, allow_redirects=False, timeout=20)
    again.get(click.headers["location"], allow_redirects=False, timeout=20)
    assert requests.get(site.base, cookies={"plangate": fresh}, allow_redirects=False, timeout=20).status_code == 303


def test_sessions_end_after_idle_hours_at_sign_out_and_when_there_are_too_many(own_site: Site) -> None:
    assert own_site.get("/").status == 200
    own_site.clock.advance(IDLE_SECONDS)
    assert own_site.get("/").status == 303
    own_site.people.clear()
    for _ in range(SESSION_SECONDS // (IDLE_SECONDS // 2) - 1):
        assert own_site.get("/").status == 200
        own_site.clock.advance(IDLE_SECONDS // 2)
    own_site.clock.advance(IDLE_SECONDS // 2)
    assert own_site.get("/").status == 303
    own_site.people.clear()
    form = own_site.get("/").tags("input")
    token = next(str(each["value"]) for each in form if each.get("name") == "token")
    assert own_site.post("/sign-out", {"token": token}).status == 303
    assert own_site.get("/").status == 303
    many = [own_site.signed_in("maya") for _ in range(SESSIONS_PER_PERSON + 1)]
    statuses = [each.get(own_site.base, allow_redirects=False, timeout=20).status_code for each in many]
    assert statuses == [303, *[200] * SESSIONS_PER_PERSON]


def test_a_role_that_is_taken_away_counts_within_a_minute(own_site: Site) -> None:
    assert own_site.get(THREAD).status == 200
    own_site.github.world.set_role("parcel/shop", "maya", "none")
    own_site.clock.advance(60)
    assert own_site.get(THREAD).status == 404


def test_an_expiring_token_is_renewed_once(own_site: Site) -> None:
    assert own_site.get("/").status == 200
    for _ in range(int(ACCESS_LIFE / timedelta(hours=1))):
        own_site.clock.advance(3_600)
        assert own_site.get("/").status == 200
    assert exchanges(own_site) == 2
    assert len([token for token in own_site.github.world.tokens.values() if token.kind == "oauth"]) == 1


def test_who_revokes_the_app_has_to_sign_in_again(own_site: Site) -> None:
    assert own_site.get("/").status == 200
    own_site.github.oauth.revoke(own_site.github.world.user("maya").id)
    own_site.clock.advance(60)
    assert own_site.get("/").status == 303
    assert own_site.get("/").status == 303


@pytest.mark.parametrize(
    "back", ("//evil.example", "/\\evil.example", "https://evil.example", "/ /evil", "/\n/x", "javascript:1")
)
def test_no_way_back_leads_to_another_site(site: Site, back: str) -> None:
    browser, target = begun(site, back)
    answer = browser.get(target, allow_redirects=False, timeout=20)
    assert answer.headers["location"] == "/"


def test_pages_show_nothing_while_github_does_not_say_what_a_person_may_see(own_site: Site) -> None:
    assert own_site.get("/").status == 200
    own_site.clock.advance(60)
    own_site.github.faults.fail("GET /user/installations", 502, times=9)
    page = own_site.get("/")
    assert page.status == 503
    assert "Orders of exactly" not in page.html


@pytest.mark.req("W1b")
def test_codes_that_github_refuses_are_not_sent_without_end(own_site: Site) -> None:
    assert own_site.get("/").status == 200
    browser, target = begun(own_site)
    state = query_of(target)["state"]
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


@pytest.mark.req("W1b")
def test_people_with_many_sessions_do_not_end_the_only_one_of_others() -> None:
    clock = HandClock()
    client = github_client(Settings(), StaticToken(str), clock, redactor=Redactor())
    sessions = Sessions(clock, most=4)
    names = [sessions.begin(Viewer(client, Actor(number, f"u{number}"))) for number in (1, 2, 2, 3, 2, 4)]
    assert [sessions.find(name) is not None for name in names] == [True, False, False, True, True, True]


@contextmanager
def restarted(own_site: Site, folder: Path) -> Iterator[Site]:
    """Serve the same dashboard from a new process, with what the App has now and nobody signed in."""
    app = FastAPI(docs_url=None)
    sign_in = SignIn(settings(own_site.github, folder), own_site.clock, Redactor())
    add_dashboard(app, reading=own_site.reading.overview(), sign_in=sign_in, streams=Streams())
    with host_application(app) as base:
        yield replace(own_site, base=base, people={})


@pytest.mark.req("W5")
def test_the_old_client_secret_renews_tokens_until_the_restart(own_site: Site, tmp_path: Path) -> None:
    assert own_site.get(THREAD).status == 200
    own_site.github.app = credentials.add_client_secret(own_site.github.world, own_site.github.app)
    before = len(own_site.github.oauth.renewals)
    for _ in range(5):  # a session ends after two hours without use
        own_site.clock.advance(ACCESS_LIFE.total_seconds() / 5)
        assert own_site.get(THREAD).status == 200
    assert len(own_site.github.oauth.renewals) == before
    with restarted(own_site, tmp_path) as again:
        own_site.github.app = credentials.delete_older(own_site.github.world, own_site.github.app)
        assert again.get(THREAD).status == 200


@pytest.mark.req("W5")
def test_after_a_secret_was_deleted_too_early_nobody_signs_in_until_the_restart(own_site: Site, tmp_path: Path) -> None:
    made = credentials.add_client_secret(own_site.github.world, own_site.github.app)
    own_site.github.app = credentials.delete_older(own_site.github.world, made)
    assert own_site.get(THREAD).status == 303
    with restarted(own_site, tmp_path) as again:
        assert again.get(THREAD).status == 200
