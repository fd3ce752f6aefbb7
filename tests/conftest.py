"""The same ground for every test on every machine: no keys, no proxies, no git configuration of its owner."""

import asyncio
import gc
import logging
import os
import shutil
import signal
import sys
from asyncio.events import _set_running_loop
from collections.abc import Generator, Iterator
from inspect import isfunction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from bot.agent.model.connection import load_types_on_demand
from tests.collecting import excluded_marks, remaining_marks
from tests.postgres import Server, running_server

# What a campaign holds is asserted there: a failure after an hour has to say what it saw.
pytest.register_assert_rewrite("tests.stories.github.deaths", "tests.stories.github.outcome")

_OF_THE_MACHINE = ("ANTHROPIC_", "CLAUDE_", "GH_", "GIT_", "GITHUB_", "OTEL_", "PLANGATE_")
_PROXIES = {"http_proxy", "https_proxy", "all_proxy", "no_proxy"}


def pytest_configure() -> None:
    """Clear what would let a test reach a real service, and what would make git behave as it does only here.

    A shell starts what runs in the background deaf to Ctrl-C, and so would be what the tests start. Byte code is kept,
    whatever the machine's environment says: without it each worker of each run compiles every test anew, for 10 s.
    The client library is loaded as the program loads it, which saves each worker a second.
    """
    load_types_on_demand()
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in tuple(os.environ):
        if name == "PLANGATE_ORACLES":
            continue  # where GitHub's own schemas lie, which some tests hold the simulated world against
        if name.startswith(_OF_THE_MACHINE) or name.lower() in _PROXIES:
            del os.environ[name]
    configuration = str(Path(__file__).with_name("gitconfig"))
    os.environ |= {"GIT_CONFIG_GLOBAL": configuration, "GIT_CONFIG_SYSTEM": os.devnull, "GIT_TERMINAL_PROMPT": "0"}


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Spare the garbage collector modules and cases, which live as long as the tests: a tenth of the whole time.

    It runs seldom afterwards: each full pass takes a tenth of a second and more.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000, 20, 10)
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: Any) -> list[pytest.Item] | None:
    """Collect nothing of a test whose cases this run leaves out, and no table's end that it leaves out."""
    excluded = excluded_marks(collector.config.getoption("markexpr"), collector.config.args)
    marks = getattr(obj, "pytestmark", []) if name.startswith("test_") and isfunction(obj) else []
    if not excluded or not marks:
        return None
    marks[:] = remaining_marks(marks, excluded)
    return None if marks else []


# Every day the same examples, so that a red build is red for everybody; a campaign draws new ones and says how to
# draw them again. No deadline: a slow machine is no bug.
settings.register_profile("every-day", max_examples=50, derandomize=True, deadline=None)
settings.register_profile("soak", max_examples=10_000, deadline=None, print_blob=True)
settings.load_profile("every-day")


@pytest.fixture(autouse=True)
def own_log() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in ("", "plangate", "bot")]
    levels, handlers = [logger.level for logger in loggers], list(loggers[0].handlers)
    yield
    loggers[0].handlers[:] = handlers
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


SWITCHES = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)


@pytest.fixture(scope="session")
def started_browser() -> Iterator[tuple[Any, asyncio.AbstractEventLoop]]:
    """The machine's Chromium, started once per process because a start takes a CPU second, and playwright's event loop.

    Playwright holds its loop marked as running between calls, and asyncio then refuses to run another one. The mark is
    taken away here, and `browser` sets it for the modules that use the browser.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if program is None:
        pytest.skip("no chromium is installed; on Debian: sudo apt-get install chromium")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=program, args=SWITCHES.split())
        loop = asyncio.get_running_loop()
        _set_running_loop(None)
        yield started, loop
        _set_running_loop(loop)
        started.close()
    _set_running_loop(None)


@pytest.fixture(scope="module")
def browser(started_browser: tuple[Any, asyncio.AbstractEventLoop]) -> Iterator[Any]:
    """The machine's Chromium, without what other modules opened in it; skips where it or playwright is not there."""
    started, loop = started_browser
    _set_running_loop(loop)
    yield started
    for context in started.contexts:
        context.close()
    _set_running_loop(None)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[Server]:
    """A server of PostgreSQL; skips where none is installed."""
    shared = None if worker_id == "master" else tmp_path_factory.getbasetemp().parent
    with running_server(shared=shared) as server:
        yield server


@pytest.fixture
def database_url(postgres: Server) -> str:
    return postgres.new_database()


@pytest.fixture
def migrated_url(postgres: Server) -> Iterator[str]:
    """The URL of a database that has the tables of this release, and no rows."""
    with postgres.lend_migrated_database() as url:
        yield url
