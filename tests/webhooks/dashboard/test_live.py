"""Pages follow by themselves in a real browser: at once, and through a proxy that cuts connections (Last-Event-ID)."""

import random
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.core.moves import Entry
from tests.core.journal_histories import histories
from tests.webhooks.dashboard.journal_site import CuttingProxy, JournalSite, journal_site

pytestmark = pytest.mark.long

CUTS = 20
THREAD = "/threads/octo/hello/1"
COLLECT = """() => {
    window.entries = []; window.states = []; window.opened = { journal: 0, live: 0 };
    window.journal = new EventSource("/api/threads/octo/hello/1/events?after=1");
    journal.addEventListener("entry", (event) => entries.push(Number(event.lastEventId)));
    window.live = new EventSource("/live/octo/hello/1?seen=" + document.body.dataset.state);
    live.addEventListener("moved", (event) => states.push(event.lastEventId));
    for (const name of ["journal", "live"]) window[name].onopen = () => { opened[name] += 1; };
}"""
ARE_OPEN = "(times) => opened.journal >= times && opened.live >= times"


def talk(number: int) -> list[Entry]:
    """Return the journal of a request on which people then say a lot. No plan is exchanged, so pages just follow."""
    (first,) = next(histories(1, 1))
    said = {"turn": "", "actor": 7, "login": "u7", "text": "", "turn_at": "2026-11-20T08:30:00+00:00"}
    words = ({**said, "turn": f"comment-{n}", "text": f"Word {n} on {number}."} for n in range(2, 90))
    return [first, *(replace(first, n=n, kind="heard", body=body) for n, body in enumerate(words, start=2))]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[JournalSite]:
    with journal_site(tmp_path, [talk(n) for n in (1, 2, 3)]) as made:
        for number in (1, 2, 3):
            made.append(number)
        yield made


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    context = browser.new_context()
    made = context.new_page()
    made.set_default_timeout(20_000)
    yield made
    context.close()


@pytest.mark.timeout(180)
def test_twenty_cuts_miss_and_repeat_nothing(site: JournalSite, page: Any) -> None:
    """Entries come before, between, and after the cuts: the browser has each once, and the page shows each once."""
    chance, proxy, total = random.Random(7), CuttingProxy(site.base), 1
    page.goto(proxy.base + THREAD)
    page.evaluate(COLLECT)
    for times in range(1, CUTS + 1):
        page.wait_for_function(ARE_OPEN, arg=times)
        for moment in range(3):
            count = chance.randint(0, 1)
            site.append(1, count)
            total += count
            if moment == 1:
                proxy.cut()
    page.wait_for_function(ARE_OPEN, arg=CUTS + 1)
    site.append(1)
    total += 1
    page.wait_for_function(f"() => entries.at(-1) === {total}")
    page.wait_for_function(f"() => document.querySelectorAll('.timeline li').length === {total}")
    page.wait_for_function("() => states.at(-1) === document.body.dataset.state")
    entries, states = page.evaluate("() => [entries, states]")
    assert entries == list(range(2, total + 1))
    assert len(set(states)) == len(states) > CUTS / 2
    assert f'data-state="{states[-1]}"' in site.get(THREAD)
    shown = page.eval_on_selector_all(".timeline li p:first-child", "found => found.map(each => each.textContent)")
    page.goto(site.base + THREAD)
    assert shown == page.eval_on_selector_all(
        ".timeline li p:first-child", "found => found.map(each => each.textContent)"
    )
    proxy.close()


def test_how_soon_an_entry_is_on_the_page(site: JournalSite, page: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """An entry that this process journals reaches an open page by itself; how soon is printed."""
    for path, shown in ((THREAD, ".timeline li"), ("/threads", ".row")):
        page.goto(site.base + path)
        page.wait_for_load_state("networkidle") if path == "/threads" else None
        took = []
        for _ in range(10):
            before = page.evaluate("document.body.dataset.state")
            began = time.monotonic()
            site.append(1)
            page.wait_for_function(f"() => document.body.dataset.state !== '{before}'", polling=5)
            took.append(1_000 * (time.monotonic() - began))
            assert page.locator(shown).count() >= 3 if path == "/threads" else True
        with capsys.disabled():
            figures = f"{statistics.median(took):.0f} ms, at most {max(took):.0f} ms"
            print(f"\n{path}: an entry is shown after {figures}")  # noqa: T201 - the figure that people ask for
