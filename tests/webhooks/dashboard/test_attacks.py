"""Attacks on the pages: forged forms, foreign frames, hostile text, and other people's repositories (W5)."""

import re
import time
from contextlib import ExitStack
from dataclasses import replace

import pytest
import requests
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.service.overview.views import TimelineEntry
from tests.testing.github.page_ground import EVERYTHING, PAYLOADS
from tests.webhooks.dashboard.ground import THREAD, Page, Site
from tests.webhooks.dashboard.samples import CHECKS, HOME, OTHER, plan
from webhooks.access import Problem
from webhooks.dashboard.service_pages import GATHER_SECONDS, LIST_SECONDS
from webhooks.event_stream import STREAMS_PER_PERSON, Streams

PAGES = ("/", "/threads", THREAD, "/costs", "/maintenance", "/deliveries", "/service", "/sign-in", "/assets/app.js")
ALLOWED = {"/assets/app.js"}


@pytest.mark.req("W5")
@pytest.mark.parametrize("origin", ("https://evil.example", "null", "", "http://127.0.0.1:1", "http://127.0.0.1"))
def test_a_form_of_another_site_is_refused_even_with_the_right_token(site: Site, origin: str) -> None:
    assert site.post(THREAD, site.get(THREAD).form("approve"), origin=origin).status == 403
    assert site.comments() == []


@pytest.mark.req("W5")
@pytest.mark.parametrize("token", ("", "x", "0" * 43))
def test_a_form_with_no_token_or_another_persons_is_refused(site: Site, token: str) -> None:
    form = site.get(THREAD).form("approve")
    theirs = site.get(THREAD, "ada").form("approve")["token"]
    for wrong in (token, theirs):
        assert site.post(THREAD, form | {"token": wrong}).status == 403
    assert site.comments() == []


def test_a_cross_site_sec_fetch_site_alone_is_enough_to_refuse(site: Site) -> None:
    headers = {"Origin": site.base, "Sec-Fetch-Site": "cross-site"}
    form = site.get(THREAD).form("approve")
    assert site.browser("maya").post(site.base + THREAD, data=form, headers=headers, timeout=20).status_code == 403


def test_a_form_that_is_too_large_is_refused(site: Site) -> None:
    assert site.post(THREAD, site.get(THREAD).form("reject") | {"reason": "x" * 30_000}).status == 403


@pytest.mark.parametrize("name", ("", "x", "a" * 43, "../../etc/passwd", "0" * 64))
def test_a_session_id_that_was_never_given_out_opens_nothing(site: Site, name: str) -> None:
    answer = requests.get(site.base + THREAD, cookies={"plangate": name}, allow_redirects=False, timeout=20)
    assert answer.status_code == 303


@pytest.mark.req("W5")
@pytest.mark.parametrize("path", PAGES)
def test_no_page_may_be_framed_run_foreign_scripts_be_stored_or_sniffed(site: Site, path: str) -> None:
    headers = site.get(path).answer.headers
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == policy["form-action"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] in {"no-store", "no-cache"}


@pytest.mark.req("W5")
@pytest.mark.parametrize("login", ("maya", "rita", "eve"))
def test_nothing_differs_where_nothing_may_be_seen(site: Site, login: str) -> None:
    """Every way to a thread: status, body, headers, and the requests that GitHub gets are those of no thread at all."""
    token = next(str(each["value"]) for each in site.get("/", login).tags("input") if each.get("name") == "token")
    form = {"token": token, "verb": "approve", "digest": "0" * 64, "position": "5"}
    ways = (
        "/threads/{}/7",
        "/threads/{}/7?plan=1",
        "/threads/{}/7/transcripts/plan-1",
        "/live/{}/7/transcripts/plan-1",
        "/live/{}/7",
        "POST /threads/{}/7",
    )

    def look(way: str, repository: str) -> tuple[int, str, dict[str, str], int]:
        asked, path = len(site.github.requests), way.removeprefix("POST ").format(repository)
        page = site.post(path, form, login) if way.startswith("POST") else site.get(path, login)
        headers = {name: value for name, value in page.answer.headers.items() if name != "date"}
        return page.status, page.html, headers, len(site.github.requests) - asked

    for way in ways:
        for is_old in (False, True):  # what GitHub said is remembered for a minute, then asked again
            site.clock.advance(60 if is_old else 0)
            hidden = look(way, OTHER)
            site.clock.advance(60 if is_old else 0)
            assert hidden == look(way, "parcel/nothing"), way
            assert hidden[0] == 404
    assert OTHER not in site.reading.read


@pytest.mark.long
@pytest.mark.req("W5")
def test_what_happens_elsewhere_wakes_no_stream(site: Site) -> None:
    """The stream of the list shows no sign when threads move that the person may not see; it would tell of them."""

    def signs(repository: str) -> float:
        """Return how many signs came beyond the usual ones while a repository was announced again and again."""
        began = time.monotonic()
        with site.browser("maya").get(f"{site.base}/live", stream=True, timeout=20) as answer:
            lines, found = answer.iter_lines(chunk_size=1), 0
            for _ in range(8):
                requests.post(f"{site.base}/announce/{site.reading.ids[repository]}", timeout=20)
                time.sleep(2 * GATHER_SECONDS)
            for line in lines:
                found += line in {b": alive", b"event: moved"}
                if time.monotonic() - began > 3 * LIST_SECONDS:
                    break
            return found - (time.monotonic() - began) / LIST_SECONDS

    assert signs(OTHER) <= 2 < signs(HOME)


@pytest.mark.req("W5", "A7")
def test_whoever_takes_a_name_sees_nothing_of_the_repository_that_had_it(own_site: Site) -> None:
    world = own_site.github.world
    world.change_repository(HOME, name="shop-of-old")
    world.add_repository(HOME, {"README.md": "# Another\n"}, private=True)
    world.set_role(HOME, "eve", "admin")
    for path in ("/", "/threads", "/costs", "/maintenance", "/deliveries"):
        page = own_site.get(path, "eve").html
        assert not [word for word in ("Split the tax table", "flaky-tests", "#1<", "#4<", "$0.31") if word in page], (
            path
        )
    assert [own_site.get(path, "eve").status for path in (THREAD, f"/live{THREAD.removeprefix('/threads')}")] == [
        404,
        404,
    ]
    assert "Split the tax table" in own_site.get("/threads").html
    assert own_site.post(THREAD, own_site.get(THREAD).form("approve")).status == 303
    (comment,) = own_site.comments()
    assert comment.repository == own_site.reading.ids[HOME]


VIEWERS: dict[str, set[str]] = {"ada": {HOME, OTHER}, "maya": {HOME}, "will": {HOME}, "rita": {HOME}, "eve": set()}


@pytest.mark.req("W5")
def test_names_titles_and_costs_appear_only_to_who_has_a_role_in_the_repository(site: Site) -> None:
    signs = {
        HOME: ("parcel/shop", "Split the tax table", "flaky-tests"),
        OTHER: ("parcel/vault", "rotat", "rotate-keys"),
    }
    paths = ("/", "/threads", "/threads?q=parcel", "/threads?stage=waiting", "/costs", "/maintenance", "/deliveries")
    for login, theirs in VIEWERS.items():
        text = "\n".join(site.get(path, login).html for path in paths)
        for repository, words in signs.items():
            if repository in theirs:
                assert repository in text
            else:
                assert not [word for word in words if word in text], (login, repository)
    assert site.get("/service", "eve").status == 404
    assert "3,912" not in site.get("/service", "maya").html


SITE_PATHS = st.builds(
    lambda owner, name, number: f"/threads/{owner}/{name}/{number}",
    st.sampled_from(("parcel", "PARCEL", "eve", "%2e%2e", "parcel%2fvault", "..")),
    st.sampled_from(("shop", "vault", "VAULT", "nothing", "vault%00", "shop%2f..%2fvault")),
    st.integers(0, 9),
)


def check_pairs(site: Site, count: int) -> None:
    @settings(max_examples=count, derandomize=True, deadline=None, database=None)
    @given(st.sampled_from(sorted(VIEWERS)), SITE_PATHS)
    def check(login: str, path: str) -> None:
        page = site.get(path, login)
        assert page.status in {200, 303, 404}
        assert "vault" not in page.html.lower() or OTHER in VIEWERS[login]

    check()


def test_no_spelling_of_a_path_shows_the_vault_to_who_may_not_see_it(site: Site) -> None:
    check_pairs(site, 15)


@pytest.mark.long
def test_no_spelling_of_a_path_shows_the_vault_in_a_thousand_cases(site: Site) -> None:
    check_pairs(site, 1_000)


HOSTILE = (
    *PAYLOADS,
    EVERYTHING,
    "\u202egnp.exe",
    "a\u200bb",
    "a&#x202e;&#8203;&ZeroWidthSpace;&#xE0041;&#917570;b [c&lrm;](https://a.b '&#x202e;')",
    "<!--",
    "{{ 7777*7777 }}",
    "{% include 'base.html' %}",
    "]]>",
)


def hostile(site: Site, text: str) -> list[Page]:
    """Put a text everywhere where people or a model can put one, and return the pages that show it."""
    found = site.reading.details[3]
    bad = plan(2, text, extra=text)
    entry = TimelineEntry(9, found.timeline[0].at, text, found.summary.stage, text, (text,), "", None)
    agents = tuple(replace(each, name=text, type=text, state=text, model=text) for each in found.agents)
    checks = tuple(replace(each, command=text, output=text) for each in CHECKS)
    row = replace(found.summary, title=text, requester=text)
    changes = {"plan": bad, "plans": (plan(1, "x"), bad), "checks": checks, "agents": agents}
    site.reading.move(4, **changes, summary=row, timeline=(entry,), detail=text, mode=text)
    return [site.get(path) for path in ("/", "/threads", "/threads/parcel/shop/4")]


@pytest.mark.req("X1")
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_in_titles_plans_agents_and_outputs_stays_text(site: Site, text: str) -> None:
    for page in hostile(site, text):
        assert page.status == 200
        assert page.tags("script") == [{"src": "/assets/app.js", "defer": None}]
        assert not [tag for tag in ("img", "iframe", "style", "base", "object", "embed") if page.tags(tag)]
        everything = [
            each for tag in ("a", "div", "svg", "details", "summary", "form", "td") for each in page.tags(tag)
        ]
        assert not [name for each in everything for name in each if name.startswith("on") or name == "style"]
        links = [str(each.get("href", "")) for each in page.tags("a")]
        assert all(re.match(r"/(?!/)|https?://|\?|#", link) for link in links), links
        assert not re.search("[\u200b-\u200f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]", page.html)
        assert "60481729" not in page.html


def test_what_is_searched_for_stays_text(site: Site) -> None:
    page = site.get("/threads?q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E&stage=%22%3E%3Cb%3E&after=%27%3Cb%3E")
    assert page.tags("script") == [{"src": "/assets/app.js", "defer": None}]
    assert page.tags("b") == []


def test_under_another_name_or_through_a_proxy_nothing_is_served(site: Site) -> None:
    for headers in ({"Host": "evil.example"}, {"X-Forwarded-For": "1.2.3.4"}, {"Host": "plangate.evil.example:80"}):
        for path in ("/", "/sign-in", "/sign-in/github", "/sign-in/callback?code=1", "/live"):
            answer = requests.get(site.base + path, headers=headers, allow_redirects=False, timeout=20)
            assert answer.status_code == 404


def test_no_page_header_or_cookie_holds_a_token_or_key(site: Site) -> None:
    held = [token.value for token in site.github.world.tokens.values()]
    held += [
        site.github.app.client_secret,
        site.github.app.pem,
        site.github.app.webhook_secret,
        *site.github.oauth.renewals,
    ]
    for path in PAGES:
        answer = site.get(path).answer
        shown = answer.text + repr(answer.headers) + repr(site.browser("maya").cookies)
        assert not [each for each in held if each in shown]


@pytest.mark.req("W1b")
def test_who_has_no_role_anywhere_gets_no_stream(site: Site) -> None:
    assert (site.get("/live", "eve").status, site.get("/live", "eve").html) == (204, "")


@pytest.mark.req("W1b")
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
