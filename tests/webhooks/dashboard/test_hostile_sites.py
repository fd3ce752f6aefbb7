"""Other sites in the browser of somebody who is signed in: frames around a page, and forms and scripts that post to it.

The other site is on this machine as well, at another port and under another name: to the browser, the first is the same
site, so that it sends the session's cookie, and the second is not.
"""

import html
import http.cookiejar
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from bot.testing.host import serve_routes
from tests.webhooks.dashboard.ground import THREAD, Site

pytestmark = [pytest.mark.long, pytest.mark.req("W5")]

NAMES = ("127.0.0.1", "localhost")


@contextmanager
def other_site(content: str) -> Iterator[str]:
    """Serve one page of a hostile site, and yield its address with a place for a name of this machine."""

    async def page(_: Request) -> HTMLResponse:
        return HTMLResponse(f"<!doctype html><title>Win a prize</title>{content}<p>loaded</p>")

    with serve_routes([Route("/", page)]) as base:
        yield base.replace("127.0.0.1", "{}")


@pytest.fixture
def page(site: Site, browser: Any) -> Iterator[Any]:
    """A page in which Maya is signed in."""
    context = browser.new_context()
    for cookie in http.cookiejar.CookieJar.__iter__(site.browser("maya").cookies):
        context.add_cookies([{"name": cookie.name, "value": cookie.value, "url": site.base, "sameSite": "Lax"}])
    made = context.new_page()
    made.set_default_timeout(15_000)
    yield made
    context.close()


def test_no_page_can_be_framed(page: Any, site: Site) -> None:
    """The button lies under nobody's picture of a kitten: the browser shows no page of ours in a frame."""
    frames = "".join(f'<{tag} src="{site.base}{THREAD}" width=900 height=700></{tag}>' for tag in ("iframe", "embed"))
    with other_site(f'{frames}<object data="{site.base}{THREAD}"></object>') as address:
        for name in NAMES:
            refused: list[str] = []
            page.on("console", lambda line, said=refused: said.append(line.text))
            page.goto(address.format(name))
            page.get_by_text("loaded").wait_for()
            page.wait_for_load_state("networkidle")
            shown = [frame.content() for frame in page.frames[1:]]
            assert shown
            assert not [each for each in shown if "Approve plan" in each or "Orders" in each]
            assert [each for each in refused if "frame-ancestors 'none'" in each or "X-Frame-Options" in each]
    page.goto(site.base + THREAD)
    page.get_by_role("button", name="Approve plan 2").wait_for()


@pytest.mark.parametrize("name", NAMES)
def test_another_sites_form_approves_nothing(page: Any, site: Site, name: str) -> None:
    """Sent by itself, with the right token even: nothing is posted on the thread."""
    form = site.get(THREAD).form("approve")
    fields = "".join(f'<input name="{html.escape(each)}" value="{html.escape(form[each])}">' for each in form)
    with other_site(f'<form method=post action="{site.base}{THREAD}">{fields}<button>Prize</button></form>') as address:
        page.goto(address.format(name))
        with page.expect_navigation():
            page.get_by_role("button", name="Prize").click()
        page.wait_for_load_state()
        assert "Your approval was posted" not in page.content()
    assert site.comments() == []


@pytest.mark.parametrize("name", NAMES)
def test_another_sites_script_reads_and_posts_nothing(page: Any, site: Site, name: str) -> None:
    """With the session's cookie, and without asking first: no answer can be read, and nothing is posted."""
    form = site.get(THREAD).form("approve")
    with other_site("") as address:
        page.goto(address.format(name))
        read = """async ([url, form]) => {
            const said = [];
            for (const mode of ["cors", "no-cors"]) {
                for (const method of ["GET", "POST"]) {
                    const body = method === "POST" ? new URLSearchParams(form) : undefined;
                    try { said.push(await (await fetch(url, { mode, method, body, credentials: "include" })).text()); }
                    catch (error) { said.push(String(error)); }
                }
            }
            const stream = new EventSource(url.replace("/threads/", "/live/"), { withCredentials: true });
            const opened = (done) => { stream.onerror = () => done("error"); stream.onopen = () => done("open"); };
            said.push(await new Promise(opened));
            stream.close();
            return said;
        }"""
        said = page.evaluate(read, [site.base + THREAD, form])
    assert not [each for each in said if "Orders" in each or "plan" in each or each == "open"]
    assert site.comments() == []
