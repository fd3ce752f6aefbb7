"""The dashboard in a real browser: signing in, deciding, live updates, the keyboard, and no scripts at all."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from bot.core.gate import Stage
from bot.service.overview.views import WaitsFor
from tests.webhooks.dashboard.ground import HIDDEN, THREAD, Site
from tests.webhooks.dashboard.sample_transcripts import Recorded, text, work_session
from tests.webhooks.dashboard.samples import FIRST, NOW, SECOND, digest_of, plan

pytestmark = pytest.mark.long


@pytest.fixture
def page(site: Site, browser: Any) -> Iterator[Any]:
    """A page with nobody signed in. Whatever the browser complains about fails the test."""
    context = browser.new_context()
    made = context.new_page()
    made.set_default_timeout(15_000)
    complaints: list[str] = []
    made.on("pageerror", lambda error: complaints.append(str(error)))
    made.on("console", lambda line: complaints.append(line.text) if "Content Security" in line.text else None)
    yield made
    context.close()
    assert complaints == []


def sign_in(page: Any, site: Site, login: str, path: str = "/") -> None:
    """Go somewhere, and sign in on the way as a person does."""
    page.goto(site.base + path)
    page.get_by_role("link", name="Sign in with GitHub").click()
    page.get_by_label("You are").select_option(login)
    page.get_by_role("button", name="Authorize Plangate").click()
    page.wait_for_url(site.base + path)


@pytest.mark.req("PR5")
def test_a_maintainer_signs_in_and_approves(page: Any, site: Site) -> None:
    """From the link to the sign-in and back to the plan, one click, and the thread on GitHub says who approved what."""
    sign_in(page, site, "maya", THREAD)
    page.get_by_role("button", name="Approve plan 2").click()
    page.get_by_role("alert").filter(has_text="Your approval was posted").wait_for()
    (comment,) = site.comments()
    assert site.github.world.users[comment.author].login == "maya"
    assert comment.text.body.splitlines()[0] == f"@plangate approve {digest_of(SECOND)}"
    page.goto(f"{site.github.server_url}/parcel/shop/issues/1")
    page.get_by_text(f"@plangate approve {digest_of(SECOND)}").wait_for()


def test_a_newer_plan_is_never_slipped_under_the_pointer(page: Any, site: Site) -> None:
    """The open page says that there is a newer plan and switches its buttons off; the form would be refused anyway."""
    sign_in(page, site, "maya", THREAD)
    third = plan(3, SECOND + "\n4. Delete the old table.\n")
    site.reading.move(1, plan=third, plans=(plan(1, FIRST), plan(2, SECOND), third))
    page.get_by_role("status").filter(has_text="There is a newer plan").wait_for(timeout=25_000)
    assert page.get_by_role("button", name="Approve plan 2").is_disabled()
    page.evaluate("document.querySelector('form[method=post] button[value=approve]').disabled = false")
    page.get_by_role("button", name="Approve plan 2").click()
    page.get_by_role("heading", name="This page was out of date").wait_for()
    assert page.locator("ins", has_text="Delete the old table").count() == 1
    assert site.comments() == []


def test_the_list_follows_by_itself(page: Any, site: Site) -> None:
    """A thread that moves on another process's account appears where it belongs, without a click."""
    sign_in(page, site, "maya")
    assert page.get_by_role("heading", name="Plangate is working 1").count() == 1
    found = site.reading.details[0]
    site.reading.move(1, summary=replace(found.summary, stage=Stage.EXECUTING, waiting_for=WaitsFor.PLANGATE))
    page.get_by_role("heading", name="Plangate is working 2").wait_for()
    assert page.get_by_role("heading", name="Plans to decide on").count() == 0


def test_a_transcript_grows_by_itself(page: Any, site: Site) -> None:
    """A new step of a running session appears on the open page, and what was unfolded there stays so."""
    path = "/threads/parcel/shop/2/transcripts/work-1"
    sign_in(page, site, "maya", path)
    page.get_by_text("Thinking").click()
    more = Recorded("work-1", NOW)
    more.answer(text("One more thing: the changelog."))
    site.reading.lines["parcel/shop", 2]["work-1"] = [*work_session(NOW), *more.lines[1:]]
    page.get_by_text("One more thing: the changelog.").wait_for()
    assert page.get_by_text("The comparison is wrong at the boundary.").is_visible()
    assert page.locator(".steps > li").count() == 6


def test_stopping(page: Any, site: Site) -> None:
    """The button on a thread at work posts the command."""
    sign_in(page, site, "will", "/threads/parcel/shop/2")
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("alert").filter(has_text="Your stop was posted").wait_for()
    assert site.comments()[0].text.body.startswith("@plangate stop\n")


@pytest.mark.req("W5")
def test_who_has_no_role_learns_nothing(page: Any, site: Site) -> None:
    """Eve signs in and sees an empty list; an address that she was told shows what any wrong address shows."""
    sign_in(page, site, "eve")
    page.get_by_text("Nothing waits for you").wait_for()
    texts = []
    for path in (HIDDEN, THREAD, "/threads/no/where/1"):
        page.goto(site.base + path)
        texts.append(page.inner_text("main"))
    assert len(set(texts)) == 1


def test_without_scripts(site: Site, browser: Any) -> None:
    """Reading, searching, rejecting with a reason, and signing out work as plain HTML."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.set_default_timeout(15_000)
    sign_in(page, site, "maya")
    page.get_by_role("link", name="Threads", exact=True).click()
    page.get_by_label("Search threads").fill("carrier")
    page.get_by_role("button", name="Search").click()
    assert page.locator(".row").count() == 1
    page.goto(site.base + THREAD)
    page.get_by_text("Reject…").click()
    page.get_by_label("Reason").fill("Not before the release")
    page.get_by_role("button", name="Reject plan 2").click()
    page.get_by_text("Your rejection was posted").wait_for()
    assert site.comments()[0].text.body.startswith("@plangate reject Not before the release\n")
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("heading", name="Sign in to Plangate").wait_for()
    context.close()


def test_the_keyboard(page: Any, site: Site) -> None:
    """GitHub's habits: j and k through the list, g t to the threads, / to the search, ? for help."""
    sign_in(page, site, "maya")
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.textContent") == "Which carrier ships to Norway?"
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    page.wait_for_url(site.base + THREAD)
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url(f"{site.base}/threads")
    page.keyboard.press("/")
    page.keyboard.type("j?")
    assert page.get_by_label("Search threads").input_value() == "j?"
    page.keyboard.press("Escape")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("?")
    page.get_by_role("dialog").get_by_text("Keyboard shortcuts").wait_for()
