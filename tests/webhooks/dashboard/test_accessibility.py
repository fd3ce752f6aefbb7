"""Every page by axe, on a phone, a tablet, and a desk, light and dark; and the pictures of the documentation."""

import http.cookiejar
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.testing.github.oracles import published
from tests.webhooks.dashboard.ground import THREAD, Site, running
from tests.webhooks.dashboard.samples import FIRST, SECOND, plan

pytestmark = pytest.mark.long

AXE = published("axe-core-*/axe.min.js")
PICTURES = {
    "waiting": "/",
    "threads": "/threads",
    "thread": THREAD,
    "transcript": "/threads/parcel/shop/2/transcripts/work-1",
    "costs": "/costs?days=30",
    "maintenance": "/maintenance",
    "deliveries": "/deliveries",
    "service": "/service",
}
WHOLE = {"thread", "transcript"}
"""Pages that are shown to their end."""
PAGES = {
    **PICTURES,
    "review": "/threads/parcel/shop/4",
    "failed": "/threads/parcel/shop/5",
    "old-plan": f"{THREAD}?plan=1&posted=approve",
    "search": "/threads?q=zebra",
    "many-steps": "/threads/parcel/shop/2/transcripts/plan-1?page=2",
    "missing": "/threads/no/where/1",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running(tmp_path_factory.mktemp("dashboard")) as made:
        yield made


def opened(site: Site, browser: Any, login: str = "maya", **how: Any) -> Any:
    context = browser.new_context(**how)
    for cookie in http.cookiejar.CookieJar.__iter__(site.browser(login).cookies):
        context.add_cookies([{"name": cookie.name, "value": cookie.value, "url": site.base}])
    return context.new_page()


@pytest.mark.skipif(AXE is None, reason="PLANGATE_ORACLES names no folder with axe-core")
@pytest.mark.parametrize(
    ("width", "scheme"),
    (
        (320, "light"),
        (768, "dark"),
        (1280, "light"),
        *(pytest.param(*page, marks=pytest.mark.soak) for page in ((320, "dark"), (768, "light"), (1280, "dark"))),
    ),
)
def test_axe_finds_nothing(site: Site, browser: Any, width: int, scheme: str) -> None:
    """No violation on any page, none that scrolls sideways, and none that the content security policy stops."""
    assert AXE is not None
    page = opened(site, browser, "ada", viewport={"width": width, "height": 900}, color_scheme=scheme)
    complaints: list[str] = []
    page.on("console", lambda line: complaints.append(line.text) if "Content Security" in line.text else None)
    found = {}
    for name, path in PAGES.items():
        page.goto(site.base + path)
        page.evaluate(AXE.read_text())
        result = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
        found[name] = [(each["id"], [node["html"] for node in each["nodes"]][:3]) for each in result["violations"]]
        if page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
            found[name].append(("wider than the screen", []))
    page.context.close()
    assert {name: each for name, each in found.items() if each} == {}
    assert complaints == []


def test_axe_finds_nothing_on_the_stale_page_and_the_sign_in(site: Site, browser: Any) -> None:
    if AXE is None:
        pytest.skip("PLANGATE_ORACLES names no folder with axe-core")
    page = opened(site, browser, viewport={"width": 320, "height": 900})
    page.add_init_script("delete window.EventSource")  # or the open page would switch its buttons off
    page.goto(site.base + THREAD)
    third = plan(3, SECOND + "\n4. Delete the old table.\n")
    old = site.reading.details[0]
    site.reading.move(1, plan=third, plans=(plan(1, FIRST), plan(2, SECOND), third))
    page.get_by_role("button", name="Approve plan 2").click()
    page.get_by_role("heading", name="This page was out of date").wait_for()
    page.evaluate(AXE.read_text())
    assert page.evaluate("axe.run(document)")["violations"] == []
    site.reading.details[0] = old
    page.context.clear_cookies()
    page.goto(f"{site.base}/sign-in")
    page.evaluate(AXE.read_text())
    assert page.evaluate("axe.run(document)")["violations"] == []
    page.context.close()


@pytest.mark.parametrize("scheme", ("light", "dark"))
def test_pictures(site: Site, browser: Any, tmp_path: Path, scheme: str) -> None:
    """PICTURES=docs/dashboard makes the pictures that the documentation shows."""
    folder = Path(os.environ.get("PICTURES") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    page = opened(site, browser, "ada", viewport={"width": 1180, "height": 760}, color_scheme=scheme)
    for name, path in PICTURES.items():
        page.goto(site.base + path)
        picture = folder / f"{name}-{scheme}.png"
        page.screenshot(path=picture, full_page=name in WHOLE)
        assert 5_000 < picture.stat().st_size < 400_000
    page.set_viewport_size({"width": 1040, "height": 1180})
    page.goto(site.base + THREAD)
    page.screenshot(path=folder / f"decide-{scheme}.png")  # the README's
    page.context.clear_cookies()
    page.goto(f"{site.base}/sign-in")
    page.screenshot(path=folder / f"sign-in-{scheme}.png", clip={"x": 0, "y": 0, "width": 1180, "height": 480})
    page.context.close()
    phone = {"width": 390, "height": 760}
    page = opened(site, browser, "ada", viewport=phone, color_scheme=scheme)
    page.goto(site.base + THREAD)
    page.screenshot(path=folder / f"phone-{scheme}.png")
    page.context.close()
