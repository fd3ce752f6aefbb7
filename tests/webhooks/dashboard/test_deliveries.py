"""Deliveries: who sees which, who may have GitHub deliver again, and how often (W3, W5, W1b)."""

import re

import pytest

from tests.webhooks.dashboard.ground import Site
from tests.webhooks.dashboard.samples import HOME, OTHER
from webhooks.dashboard.service_pages import MOST_REDELIVERIES, REDELIVERY_SECONDS

PATH = "/deliveries"


def form_for(site: Site, attempt: int, login: str = "ada") -> dict[str, str]:
    token = next(str(each["value"]) for each in site.get(PATH, login).tags("input") if each.get("name") == "token")
    return {"token": token, "attempt": str(attempt)}


def test_deliveries_of_a_persons_repositories_are_listed_with_their_newest_attempt(site: Site) -> None:
    page = site.get(PATH)
    for words in ("issue_comment.created", "pull_request_review.submitted", "no answer · 2 attempts", "503"):
        assert words in page.html
    assert re.findall(r">(Delivered|Failed)</span>", page.html) == ["Delivered", "Failed", "Failed"]
    assert "issues.opened" not in page.html
    assert OTHER not in page.html
    assert "installation.created" not in site.get(PATH, "ada").html
    assert "issues.opened" in site.get(PATH, "ada").html


@pytest.mark.req("W3")
def test_an_administrator_has_github_deliver_again_once_however_often_it_is_pressed(site: Site) -> None:
    form = form_for(site, 59)
    assert 'value="59"' in site.get(PATH, "ada").html
    answers = [site.post(PATH, form, "ada") for _ in range(2)]
    assert [each.answer.headers["location"] for each in answers] == ["/deliveries?redelivered"] * 2
    assert "GitHub delivers it again" in site.get("/deliveries?redelivered", "ada").html
    assert site.reading.redelivered == [59]
    assert site.post(PATH, form | {"attempt": "159"}, "ada").status == 303
    assert site.reading.redelivered == [59, 159]


@pytest.mark.req("W5")
@pytest.mark.parametrize("login", ("maya", "rita"))
def test_who_does_not_administer_has_no_button_and_cannot_send_the_form(site: Site, login: str) -> None:
    page = site.get(PATH, login)
    assert page.status == 200
    assert "Redeliver" not in page.html
    assert site.post(PATH, form_for(site, 59, login), login).status == 403
    assert site.reading.redelivered == []


@pytest.mark.req("W5")
def test_another_repositorys_delivery_is_like_none(own_site: Site) -> None:
    own_site.github.world.set_role(HOME, "maya", "admin")
    answers = [own_site.post(PATH, form_for(own_site, attempt, "maya"), "maya") for attempt in (60, 58, 4_711, -1)]
    assert {each.status for each in answers} == {404}
    assert len({each.html for each in answers}) == 1
    assert own_site.post(PATH, form_for(own_site, 59, "maya") | {"attempt": ""}, "maya").status == 404
    assert own_site.reading.redelivered == []


@pytest.mark.req("W5")
def test_a_redelivery_of_another_site_or_without_the_token_is_refused(site: Site) -> None:
    form = form_for(site, 59)
    assert site.post(PATH, form, "ada", origin="https://evil.example").status == 403
    assert site.post(PATH, form | {"token": "x"}, "ada").status == 403
    assert site.reading.redelivered == []


def test_what_is_stored_is_shown_while_github_does_not_answer(site: Site) -> None:
    site.reading.github_fails = True
    page = site.get(PATH, "ada")
    assert page.status == 200
    assert "GitHub does not list its deliveries right now" in page.html
    assert f"{HOME}#1" in page.html
    assert site.post(PATH, form_for(site, 59), "ada").status == 503


@pytest.mark.long
@pytest.mark.req("W1b")
def test_an_administrator_cannot_have_deliveries_repeated_without_end(own_site: Site) -> None:
    form, attempt = form_for(own_site, 59), 59
    for _ in range(MOST_REDELIVERIES):
        assert own_site.post(PATH, form | {"attempt": str(attempt)}, "ada").status == 303
        attempt += 100
    refused = own_site.post(PATH, form | {"attempt": str(attempt)}, "ada")
    assert (refused.status, len(own_site.reading.redelivered)) == (403, MOST_REDELIVERIES)
    own_site.clock.advance(REDELIVERY_SECONDS)
    assert own_site.post(PATH, form | {"attempt": str(attempt)}, "ada").status == 303
