"""The demo that anyone can click through, clicked through: from the mention to the pull request, in a real browser."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.long

PROGRAM = Path(sys.executable).with_name("plangate")


@pytest.fixture
def addresses(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The addresses that `plangate demo` prints: of the dashboard, and of the thread."""
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    command = [str(PROGRAM), "demo", "--port", "0", "--dir", str(tmp_path / "demo")]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = (each[0] for line in process.stdout if (each := re.search(r"http://\S+", line)))
        yield next(found), next(found)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


def playwright_timeout() -> type[Exception]:
    """Playwright's own error: it is no TimeoutError of Python's."""
    from playwright.sync_api import TimeoutError as Late

    return Late


def thumb_up(page: Any, plan: Any, who: str) -> None:
    """Become that person and react; a click that met the page while it was being renewed is made again."""
    page.get_by_label("Acting as").select_option(who)
    page.wait_for_selector(f"option[value={who}][selected]", state="attached")
    mine = plan.locator(f"button[title^='+1:'][title*='{who}']")
    for _ in range(5):
        plan.get_by_role("button", name="👍").click()
        try:
            mine.wait_for(timeout=5_000)
        except playwright_timeout():
            continue
        return


@pytest.mark.soak
def test_a_person_clicks_from_the_mention_to_the_pull_request(
    addresses: tuple[str, str], browser: Any, tmp_path: Path
) -> None:
    """The plan waits; rita's 👍 starts nothing but one line; maya's 👍 ends in a pull request that closes the issue."""
    page = browser.new_page(viewport={"width": 1180, "height": 1000})
    page.set_default_timeout(40_000)
    _, address = addresses
    page.goto(address)
    plan = page.locator("article", has_text="plan mode: plan 1")
    plan.wait_for()
    page.wait_for_timeout(1_200)  # GitHub's times are whole seconds, and equal ones do not count
    thumb_up(page, plan, "rita")
    page.locator("article", has_text="too low to approve").wait_for()
    assert page.locator("article", has_text="Executing").count() == 0
    thumb_up(page, plan, "maya")
    page.locator("article", has_text="is ready for review").wait_for()
    # PICTURES=docs makes the picture that the README shows.
    picture = Path(os.environ.get("PICTURES") or tmp_path) / "thread.png"
    page.screenshot(path=picture, full_page=True)
    assert picture.stat().st_size > 10_000
    page.goto(address.replace("/issues/1", "/pull/2"))
    page.locator("article", has_text="Closes #1").wait_for()


def test_a_maintainer_approves_on_the_dashboard(addresses: tuple[str, str], browser: Any) -> None:
    """Maya signs in, sees the plan wait for her, approves it there, and the page follows until the pull request."""
    board, thread = addresses
    page = browser.new_page()
    page.set_default_timeout(40_000)
    page.goto(thread)
    page.locator("article", has_text="plan mode: plan 1").wait_for()
    page.wait_for_timeout(1_200)  # as above
    page.goto(board)
    page.get_by_role("link", name="Sign in with GitHub").click()
    page.get_by_label("You are").select_option("maya")
    page.get_by_role("button", name="Authorize Plangate").click()
    page.get_by_role("heading", name="Plans to decide on").wait_for()
    page.locator(".row-title").first.click()
    page.get_by_role("button", name="Approve plan 1").click()
    page.get_by_text("Your approval was posted").wait_for()
    page.locator(".head .pill", has_text="In review").wait_for()
    page.get_by_role("link", name="work-1", exact=True).click()
    page.get_by_role("heading", name="Transcript work-1").wait_for()
    page.locator(".event a", has_text="Fix").first.click()
    page.locator(".edit ins").first.wait_for()
    page.get_by_role("link", name="Deliveries").click()
    page.get_by_text("issue_comment.created").first.wait_for()
    page.goto(thread)
    page.locator("article", has_text="is ready for review").wait_for()
