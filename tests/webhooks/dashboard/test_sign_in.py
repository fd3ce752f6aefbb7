"""Signing in: the flow with GitHub, the cookies, and what a person sees afterwards (W5)."""

import http.cookiejar
from datetime import timedelta
from pathlib import Path

import pytest
import requests

from bot.testing.github.oauth import ACCESS_LIFE, challenge_of
from tests.webhooks.dashboard.ground import HIDDEN, THREAD, Site, query_of, running
from webhooks.dashboard.pages import IDLE_SECONDS, SESSION_SECONDS, SESSIONS_PER_PERSON, SIGN_IN_SECONDS


def test_a_stranger_is_sent_to_sign_in(site: Site) -> None:
    """Every page leads to the sign-in and remembers where the person wanted to go, whether it exists or not."""
    for path in ("/", "/threads", THREAD, "/threads/no/where/1", "/costs", "/service"):
        answer = requests.get(site.base + path, allow_redirects=False, timeout=20)
        assert (answer.status_code, answer.headers["location"]) == (303, f"/sign-in?back={path}")
    page = requests.get(f"{site.base}/sign-in?back={THREAD}", timeout=20)
    assert f'href="/sign-in/github?back={THREAD}"' in page.text


def test_the_flow_carries_state_and_a_challenge(site: Site) -> None:
    """GitHub gets the client id, the exact callback, a state, and an S256 challenge; the verifier stays here."""
    answer = requests.get(f"{site.base}/sign-in/github", allow_redirects=False, timeout=20)
    sent = query_of(answer.headers["location"])
    assert sent["client_id"] == site.github.app.client_id
    assert sent["redirect_uri"] == f"{site.base}/sign-in/callback"
    assert sent["code_challenge_method"] == "S256"
    assert len(sent["code_challenge"]) == len(challenge_of("x"))
    assert len(sent["state"]) >= 40
    assert "verifier" not in answer.headers["location"]


def test_who_signed_in_sees_the_threads_of_their_repositories(site: Site) -> None:
    """Maya has a role in one of the two repositories, Ada in both, Eve in none."""
    assert "Orders of exactly 50" in site.get("/").html
    assert "Secret rotation" not in site.get("/").html
    assert "Secret rotation" in site.get("/", "ada").html
    assert "Nothing waits for you" in site.get("/", "eve").html
    assert [site.get(HIDDEN, login).status for login in ("ada", "maya", "eve")] == [200, 404, 404]


def test_the_session_cookie_is_out_of_reach(site: Site) -> None:
    """Scripts cannot read it, and forms of other sites do not send it; over https it belongs to exactly this host."""
    browser = site.signed_in("maya")
    (cookie,) = iter(http.cookiejar.CookieJar.__iter__(browser.cookies))
    assert (cookie.name, cookie.path, cookie.has_nonstandard_attr("HttpOnly")) == ("plangate", "/", True)
    assert cookie.get_nonstandard_attr("SameSite") == "lax"


def test_over_https_the_cookies_are_bound_to_the_host(tmp_path: Path) -> None:
    """With a public https address the names begin with __Host-, and the cookies are secure."""
    with running(tmp_path, public_url="https://plangate.example.com") as site:
        answer = requests.get(f"{site.base}/sign-in/github", allow_redirects=False, timeout=20)
        header = answer.headers["set-cookie"]
        assert header.startswith("__Host-plangate-sign-in=")
        assert {"HttpOnly", "Path=/", "SameSite=lax", "Secure"} <= {part.strip() for part in header.split(";")}
        assert query_of(answer.headers["location"])["redirect_uri"] == "https://plangate.example.com/sign-in/callback"


@pytest.mark.parametrize("how", ("no cookie", "another state", "late", "no code", "forged cookie"))
def test_a_callback_that_was_not_begun_here(site: Site, how: str) -> None:
    """403, no session, and GitHub's token endpoint is not asked."""
    browser = requests.Session()
    away = browser.get(f"{site.base}/sign-in/github", allow_redirects=False, timeout=20)
    click = requests.post(away.headers["location"], data={"login": "maya"}, allow_redirects=False, timeout=20)
    target = click.headers["location"]
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
    asked = len([each for each in site.github.requests if each.path == "/login/oauth/access_token"])
    answer = browser.get(target, allow_redirects=False, timeout=20)
    assert answer.status_code == 403
    assert "plangate" not in browser.cookies
    assert len([each for each in site.github.requests if each.path == "/login/oauth/access_token"]) == asked


def test_a_code_works_once(site: Site) -> None:
    """The same address a second time is no sign-in: GitHub refuses the code, and the cookie is gone."""
    browser = requests.Session()
    away = browser.get(f"{site.base}/sign-in/github", allow_redirects=False, timeout=20)
    kept = browser.cookies["plangate-sign-in"]
    click = requests.post(away.headers["location"], data={"login": "maya"}, allow_redirects=False, timeout=20)
    assert browser.get(click.headers["location"], allow_redirects=False, timeout=20).status_code == 303
    thief = requests.Session()
    thief.cookies.set("plangate-sign-in", kept)
    assert thief.get(click.headers["location"], allow_redirects=False, timeout=20).status_code == 403


def test_cancelling_at_github(site: Site) -> None:
    """Who cancels comes back to a page that says so."""
    browser = requests.Session()
    away = browser.get(f"{site.base}/sign-in/github", allow_redirects=False, timeout=20)
    click = requests.post(away.headers["location"], allow_redirects=False, timeout=20)
    answer = browser.get(click.headers["location"], allow_redirects=False, timeout=20)
    assert answer.status_code == 403
    assert "cancelled" in answer.text


def test_signing_in_changes_the_session_id(site: Site) -> None:
    """A session id from before the sign-in, planted or old, is worth nothing afterwards (fixation)."""
    planted = "planted-by-somebody-else"
    browser = requests.Session()
    browser.cookies.set("plangate", planted)
    away = browser.get(f"{site.base}/sign-in/github", allow_redirects=False, timeout=20)
    click = requests.post(away.headers["location"], data={"login": "maya"}, allow_redirects=False, timeout=20)
    answer = browser.get(click.headers["location"], allow_redirects=False, timeout=20)
    fresh = answer.cookies["plangate"] or ""
    assert fresh != planted
    assert requests.get(site.base, cookies={"plangate": planted}, allow_redirects=False, timeout=20).status_code == 303
    again = requests.Session()
    again.cookies.set("plangate", fresh)
    away = again.get(f"{site.base}/sign-in/github", allow_redirects=False, timeout=20)
    click = requests.post(away.headers["location"], data={"login": "maya"}, allow_redirects=False, timeout=20)
    again.get(click.headers["location"], allow_redirects=False, timeout=20)
    assert requests.get(site.base, cookies={"plangate": fresh}, allow_redirects=False, timeout=20).status_code == 303


def test_sessions_end(own_site: Site) -> None:
    """After two idle hours, after twelve hours in all, at sign-out, and the oldest when one person has too many."""
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
    """What GitHub says is remembered for at most sixty seconds."""
    assert own_site.get(THREAD).status == 200
    own_site.github.world.set_role("parcel/shop", "maya", "none")
    own_site.clock.advance(60)
    assert own_site.get(THREAD).status == 404


def test_an_expiring_token_is_renewed_once(own_site: Site) -> None:
    """Before it expires, the refresh token is exchanged; the old tokens end, and the person notices nothing."""
    assert own_site.get("/").status == 200
    for _ in range(int(ACCESS_LIFE / timedelta(hours=1))):
        own_site.clock.advance(3_600)
        assert own_site.get("/").status == 200
    exchanges = [each for each in own_site.github.requests if each.path == "/login/oauth/access_token"]
    assert len(exchanges) == 2
    assert len([token for token in own_site.github.world.tokens.values() if token.kind == "oauth"]) == 1


def test_who_revokes_the_app_has_to_sign_in_again(own_site: Site) -> None:
    """The session ends as soon as GitHub refuses the token."""
    assert own_site.get("/").status == 200
    own_site.github.oauth.revoke(own_site.github.world.user("maya").id)
    own_site.clock.advance(60)
    assert own_site.get("/").status == 303
    assert own_site.get("/").status == 303


@pytest.mark.parametrize(
    "back", ("//evil.example", "/\\evil.example", "https://evil.example", "/ /evil", "/\n/x", "javascript:1")
)
def test_no_way_leads_to_another_site(site: Site, back: str) -> None:
    """Whatever is given as the way back, the browser stays here."""
    browser = requests.Session()
    away = browser.get(f"{site.base}/sign-in/github", params={"back": back}, allow_redirects=False, timeout=20)
    click = requests.post(away.headers["location"], data={"login": "maya"}, allow_redirects=False, timeout=20)
    answer = browser.get(click.headers["location"], allow_redirects=False, timeout=20)
    assert answer.headers["location"] == "/"


def test_github_does_not_answer(own_site: Site) -> None:
    """Pages say so and show nothing: what a person may see is then unknown."""
    assert own_site.get("/").status == 200
    own_site.clock.advance(60)
    own_site.github.faults.fail("GET /user/installations", 502, times=9)
    page = own_site.get("/")
    assert page.status == 503
    assert "Orders of exactly" not in page.html
