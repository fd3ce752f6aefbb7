"""The buttons: each is a comment in the person's name, about exactly the plan that the page showed (PR1, PR5)."""

from dataclasses import replace

import pytest

from bot.core.gate import Stage
from bot.core.markdown.visible import command_lines
from bot.core.turn import Command, Verb, parse
from bot.service.overview.views import WaitsFor
from bot.service.viewers import VISIBLE_SECONDS
from tests.webhooks.dashboard.ground import THREAD, Site
from tests.webhooks.dashboard.samples import FIRST, HOME, SECOND, digest_of, plan
from webhooks.dashboard.thread_pages import comment_text

FAILED = "/threads/parcel/shop/5"


@pytest.mark.req("PR5")
def test_an_approval_is_a_comment_by_the_person_with_the_whole_digest(site: Site) -> None:
    answer = site.post(THREAD, site.get(THREAD).form("approve"))
    assert (answer.status, answer.answer.headers["location"]) == (303, f"{THREAD}?posted=approve")
    (comment,) = site.comments()
    assert site.github.world.users[comment.author].login == "maya"
    assert comment.text.body.splitlines()[0] == f"@plangate approve {digest_of(SECOND)}"
    assert "Your approval was posted" in site.get(f"{THREAD}?posted=approve").html


@pytest.mark.req("PR5")
def test_a_decision_on_a_replaced_plan_posts_nothing_and_shows_the_difference(site: Site) -> None:
    form = site.get(THREAD).form("approve")
    third = plan(3, SECOND + "\n4. Delete the old table.\n")
    site.reading.move(1, plan=third, plans=(plan(1, FIRST), plan(2, SECOND), third))
    answer = site.post(THREAD, form)
    assert answer.status == 409
    assert "you read plan 2, and plan 3 replaced it" in answer.html
    assert "<ins>4. Delete the old table.</ins>" in answer.html
    assert site.comments() == []


@pytest.mark.parametrize("verb", ("approve", "reject"))
@pytest.mark.parametrize("stage", (Stage.EXECUTING, Stage.REJECTED, Stage.STALE))
def test_a_decision_on_a_plan_that_no_longer_waits_posts_nothing(site: Site, verb: str, stage: Stage) -> None:
    form = site.get(THREAD).form(verb)
    found = site.reading.details[0]
    site.reading.move(1, summary=replace(found.summary, stage=stage, waiting_for=WaitsFor.NOBODY))
    assert site.post(THREAD, form).status == 409
    assert site.comments() == []


@pytest.mark.parametrize("digest", ("", "8a26", "0" * 64, digest_of(SECOND)[:12], digest_of(FIRST)))
def test_an_approval_without_the_exact_digest_posts_nothing(site: Site, digest: str) -> None:
    assert site.post(THREAD, site.get(THREAD).form("approve") | {"digest": digest}).status == 409
    assert site.comments() == []


def test_a_form_that_is_sent_twice_acts_once_until_the_thread_moves(site: Site) -> None:
    form = site.get(FAILED).form("retry")
    assert [site.post(FAILED, form).status for _ in range(2)] == [303, 303]
    assert [each.text.body.splitlines()[0] for each in site.comments()] == ["@plangate retry"]
    site.reading.move(5)
    assert site.post(FAILED, site.get(FAILED).form("retry")).status == 303
    assert len(site.comments()) == 2


def test_stop_is_offered_while_something_runs(site: Site) -> None:
    path = "/threads/parcel/shop/2"
    assert site.post(path, site.get(path).form("stop")).status == 303
    assert site.comments()[0].text.body.startswith("@plangate stop\n")
    assert 'value="stop"' not in site.get(FAILED).html


def test_a_reason_is_one_line_and_no_other_command(site: Site) -> None:
    reason = "no\n\n@plangate approve " + digest_of(SECOND) + "\u202e\n/plangate approve"
    assert site.post(THREAD, site.get(THREAD).form("reject") | {"reason": reason}).status == 303
    (comment,) = site.comments()
    found = [parse(line) for line in command_lines(comment.text.body)]
    assert [each.verb for each in found if isinstance(each, Command)] == [Verb.REJECT]
    assert "\u202e" not in comment.text.body


def test_a_reader_sees_no_buttons_and_cannot_send_them(site: Site) -> None:
    page = site.get(THREAD, "rita")
    assert (page.status, "Approve plan" in page.html) == (200, False)
    (token,) = {str(each["value"]) for each in page.tags("input") if each.get("name") == "token"}
    form = {"token": token, "verb": "approve", "digest": digest_of(SECOND), "position": "5"}
    assert site.post(THREAD, form, "rita").status == 403
    assert site.comments() == []


@pytest.mark.parametrize("verb", ("budget", "mode", "finish", "revise", "", "APPROVE"))
def test_no_other_command_can_be_sent(site: Site, verb: str) -> None:
    assert site.post(THREAD, site.get(THREAD).form("approve") | {"verb": verb}).status == 404
    assert site.comments() == []


def test_an_old_version_has_no_buttons_to_decide(site: Site) -> None:
    page = site.get(f"{THREAD}?plan=1")
    assert "Add a test for an order of exactly 50." in page.html
    assert "Approve plan" not in page.html


def test_a_command_that_github_did_not_take_can_be_sent_again(site: Site) -> None:
    form = site.get(THREAD).form("approve")
    site.github.faults.fail("POST /repos/parcel/shop/issues/1/comments", 403, times=1)
    assert site.post(THREAD, form).status == 403
    site.github.faults.fail("POST /repos/parcel/shop/issues/1/comments", 502, times=1)
    assert "the comment may be there" in site.post(THREAD, form).html
    assert site.post(THREAD, form).status == 303
    assert len(site.comments()) == 1


def test_a_command_begins_with_the_mention_of_the_repository() -> None:
    texts = [comment_text("@shopbot", verb, "ab12", "not now").splitlines()[0] for verb in (Verb.APPROVE, Verb.REJECT)]
    assert texts == ["@shopbot approve ab12", "@shopbot reject not now"]


@pytest.mark.parametrize("number", ("9" * 25, "9" * 4_400, "x", "%D9%A3"))
def test_a_number_that_no_thread_can_have_is_like_one_that_none_has(site: Site, number: str) -> None:
    form = {**site.get(THREAD).form("stop"), "verb": "stop"}
    odd, unknown = (site.post(f"/threads/{HOME}/{each}", form) for each in (number, "999"))
    assert (odd.status, odd.html) == (unknown.status, unknown.html)
    assert odd.status == site.get(f"/live/{HOME}/{number}").status == 404


@pytest.mark.req("A7")
def test_nothing_is_posted_in_a_repository_that_took_the_name_meanwhile(own_site: Site) -> None:
    form, world = own_site.get(THREAD).form("approve"), own_site.github.world
    world.change_repository(HOME, name="shop-of-old")
    world.add_repository(HOME, {"README.md": "# Another\n"}, private=True)
    world.set_role(HOME, "maya", "admin")
    world.person("maya").open_issue(HOME, "Another", "text")

    def lose() -> None:
        world.set_role("parcel/shop-of-old", "maya", "none")
        own_site.clock.advance(VISIBLE_SECONDS)

    own_site.reading.before_mention = lose
    answer = own_site.post(THREAD, form)
    assert (answer.status, own_site.comments()) == (403, [])
    assert "you may not see this repository any more" in answer.html
