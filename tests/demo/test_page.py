"""The demo that anyone can click through, clicked through: from the mention to the pull request, in a real browser."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(sys.executable).with_name("plangate")
SWITCHES = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)


@pytest.fixture
def browser() -> Iterator[Any]:
    """The machine's Chromium; skips where it or playwright is not there."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if program is None:
        pytest.skip("no chromium is installed; on Debian: sudo apt-get install chromium")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=program, args=SWITCHES.split())
        yield started
        started.close()


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The address that `plangate demo` prints."""
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    command = [PROGRAM, "demo", "--port", "0", "--dir", str(tmp_path / "demo")]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield next(found[0] for line in process.stdout if (found := re.search(r"http://\S+", line)))
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


def test_a_person_clicks_from_the_mention_to_the_pull_request(address: str, browser: Any, tmp_path: Path) -> None:
    """The plan waits; rita's 👍 starts nothing but one line; maya's 👍 ends in a pull request that closes the issue."""
    page = browser.new_page(viewport={"width": 1180, "height": 1000})
    page.set_default_timeout(40_000)
    page.goto(address)
    plan = page.locator("article", has_text="plan mode: plan 1")
    plan.wait_for()
    page.get_by_label("Acting as").select_option("rita")
    page.wait_for_selector("option[value=rita][selected]", state="attached")
    page.wait_for_timeout(1_200)  # GitHub's times are whole seconds, and equal ones do not count
    plan.get_by_role("button", name="👍").click()
    page.locator("article", has_text="too low to approve").wait_for()
    assert page.locator("article", has_text="Executing").count() == 0
    page.get_by_label("Acting as").select_option("maya")
    page.wait_for_selector("option[value=maya][selected]", state="attached")
    plan.get_by_role("button", name="👍").click()
    page.locator("article", has_text="is ready for review").wait_for()
    # PICTURES=docs makes the picture that the README shows.
    picture = Path(os.environ.get("PICTURES") or tmp_path) / "thread.png"
    page.screenshot(path=picture, full_page=True)
    assert picture.stat().st_size > 10_000
    page.goto(address.replace("/issues/1", "/pull/2"))
    page.locator("article", has_text="Closes #1").wait_for()
