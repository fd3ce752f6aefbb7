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
def address(tmp_path: Path) -> Iterator[str]:
    """The address that `plangate demo` prints."""
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    command = [str(PROGRAM), "demo", "--port", "0", "--dir", str(tmp_path / "demo")]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield next(found[0] for line in process.stdout if (found := re.search(r"http://\S+", line)))
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


def test_a_person_clicks_from_the_mention_to_the_pull_request(address: str, browser: Any, tmp_path: Path) -> None:
    """The plan waits; rita's 👍 starts nothing but one line; maya's 👍 ends in a pull request that closes the issue."""
    page = browser.new_page(viewport={"width": 1180, "height": 1000})
    page.set_default_timeout(40_000)
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
