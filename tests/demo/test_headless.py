"""The demo: the whole way by itself, clicked through in a browser, and ended by somebody."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import forks
from tests.stories.ground import until


@pytest.mark.soak  # .ci/run plays each story by itself
def test_the_demo_plays_the_story_as_often_as_one_wants(tmp_path: Path) -> None:
    """Headless it needs no key and no terminal: exit 0, a plan, sub-agents, a branch whose tests pass; then again."""
    for n in (1, 2):
        done = play(tmp_path, "--face", "local")
        assert done.returncode == 0, done.stdout + done.stderr
        told = [
            "Somebody asks",
            "⧉ explore-1 completed",
            "plan mode: plan 1",
            "⧉ code-3 completed",
            "✓ The failing test",
        ]
        places = [done.stdout.index(part) for part in told]
        assert places == sorted(places)
        assert "on main: exit code 1" in done.stdout
        sample = tmp_path / "kept" / f"sample-{n}"
        listed = subprocess.run(
            ["git", "-C", str(sample), "branch", "--list", "plangate/*"], capture_output=True, text=True, check=True
        )
        assert len(listed.stdout.split()) == 1


@pytest.mark.soak  # the same
@pytest.mark.req("MT10")
def test_the_demo_of_a_scheduled_task(tmp_path: Path) -> None:
    """From the schedule over tracking issue, plan, and 👍 to a pull request whose tests pass."""
    done = play(tmp_path, "--story", "maintenance", "--face", "action")
    assert done.returncode == 0, done.stdout + done.stderr
    told = [
        "schedule: daily",
        "Yesterday the bot opened #1: Scheduled task: tests",
        "Today the task is due",
        "### Findings",
        "maya (maintain) reacts with 👍: this counts",
        "Pull request #2 is ready for review.",
        "✓ The failing test",
    ]
    places = [done.stdout.index(part) for part in told]
    assert places == sorted(places)


def test_the_demo_without_github_has_no_scheduled_task(tmp_path: Path) -> None:
    """It is told with what to do instead."""
    done = play(tmp_path, "--story", "maintenance", "--face", "local")
    assert done.returncode == 2
    assert "only GitHub has scheduled tasks (--story): use --face service or action" in done.stderr


def play(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    """Play the demo by itself, without a key and without a terminal."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"}
    command = ["demo", "--headless", "--dir", str(folder / "kept"), *options]
    return forks.plangate().run(*command, env=env, timeout=600)


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


@pytest.mark.long
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


@pytest.mark.long
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


def services(folder: Path) -> list[int]:
    """List the processes that have the demo's folder in their environment, but for the demo itself."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and f"PLANGATE_DATA_DIR={folder}".encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue  # it has ended, or is another user's
    return found


@contextmanager
def playing(folder: Path) -> Iterator[forks.Fork]:
    """Play the demo with its page, until its service runs."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"}
    out, written = os.pipe()
    process = forks.plangate().start(
        "demo", "--port", "0", "--dir", str(folder), env=env, stdout=written, stderr=written
    )
    os.close(written)
    with open(out) as lines:
        try:
            assert any("Ctrl-C ends it" in line for line in lines)
            assert services(folder)
            yield process
        finally:
            process.kill()
            for each in services(folder):
                os.kill(each, signal.SIGKILL)


@pytest.mark.parametrize(
    "number",
    (
        signal.SIGTERM,
        *(pytest.param(each, marks=pytest.mark.long) for each in (signal.SIGINT, signal.SIGHUP)),
    ),
)
def test_a_signal_ends_the_demo_and_its_service(tmp_path: Path, number: signal.Signals) -> None:
    """As Ctrl-C does: exit code 0, and no process is left."""
    with playing(tmp_path) as process:
        process.send_signal(number)
        assert process.wait(30) == 0
        assert services(tmp_path) == []


@pytest.mark.long
def test_kill_9_ends_the_service_as_well(tmp_path: Path) -> None:
    """The kernel tells the service that its parent has died."""
    with playing(tmp_path) as process:
        process.kill()
        process.wait(30)
        until(lambda: not services(tmp_path), "the service has ended")
