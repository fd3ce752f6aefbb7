"""The pages of the simulated GitHub in a real browser, with scripts and without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bot.testing.github import conversation
from tests.testing.github.page_ground import EVERYTHING, HOME, ISSUE, PAYLOADS, Site, running

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with running(tmp_path) as site:
        yield site


@pytest.mark.long
def test_a_browser_reacts_ticks_and_comments_on_one_page(site: Site, browser: Browser, tmp_path: Path) -> None:
    page = browser.new_page(viewport={"width": 1180, "height": 1000})
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(site.base + ISSUE)
    page.get_by_label("Acting as").select_option("ada")
    page.wait_for_selector("option[value=ada][selected]", state="attached")
    plan = page.locator(f"#issuecomment-{site.plan_id}")
    plan.get_by_role("button", name="👍").click()
    plan.locator("button[title='+1: ada']").wait_for()
    plan.get_by_role("checkbox", name="Approve this plan").click()
    plan.locator("[aria-checked=true]").wait_for()
    page.get_by_label("Add a comment").fill("Looks **good**.")
    page.get_by_role("button", name="Comment", exact=True).click()
    page.locator("article strong", has_text="good").wait_for()
    page.get_by_label("Add a comment").fill("half a sentence")
    conversation.comment(site.bot, site.world.issue(HOME, 1), "Approved by @ada: the work begins.")
    page.locator("article", has_text="the work begins").wait_for()
    picture = tmp_path / "thread.png"
    page.screenshot(path=picture, full_page=True)
    assert page.get_by_label("Add a comment").input_value() == "half a sentence"
    assert "- [x] Approve this plan" in site.plan.text.body
    assert [each.content for each in site.world.reactions_to(site.plan.node_id)] == ["+1"]
    assert picture.stat().st_size > 10_000
    assert complaints == []


def test_a_browser_runs_nothing_that_people_wrote(site: Site, browser: Browser) -> None:
    eve = site.world.person("eve")
    eve.open_issue(HOME, f"{PAYLOADS[0]} {'wide' * 80}", EVERYTHING)
    for payload in PAYLOADS:
        eve.comment(HOME, 3, payload)
    page = browser.new_page(viewport={"width": 390, "height": 844})
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{site.base}/{HOME}/issues/3")
    assert page.evaluate("window.hit") is None
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert {url.startswith(site.base) for url in asked} == {True}


@pytest.mark.long
def test_a_page_works_without_scripts(site: Site, browser: Browser) -> None:
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(site.base + ISSUE)
    page.get_by_label("Acting as").select_option("ada")
    page.get_by_role("button", name="Switch").click()
    page.get_by_role("checkbox", name="Approve this plan").click()
    assert page.get_by_role("checkbox", name="Approve this plan").get_attribute("aria-checked") == "true"
    assert site.plan.text.editor == site.world.user("ada").id
