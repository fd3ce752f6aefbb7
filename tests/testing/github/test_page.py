"""The pages of the simulated GitHub: what they show, what their forms do, and what cannot get out of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import requests

import bot.testing.github
from bot.testing.github import conversation
from bot.testing.github.code_changes import LineNote
from bot.testing.github.entities import CheckRun
from bot.testing.github.page.markdown import Boxes, element, render_markdown, toggle_box
from tests.testing.github.page_ground import EVERYTHING, HOME, ISSUE, PAYLOADS, PLAN, PULL, Seen, Site, running


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with running(tmp_path) as site:
        yield site


def test_a_thread_is_shown_as_github_shows_it(site: Site) -> None:
    page = site.get(ISSUE)
    assert page.status_code == 200
    assert "<title>Orders of exactly 50 pay for `shipping` · Issue #1 · acme/parcel</title>" in page.text
    for shown in (
        "<h2>⏸ plan mode",
        "<table>",
        'class="align-right"',
        "<code>shipping</code>",
        ">write</span>",
        ">bot</span>",
    ):
        assert shown in page.text
    assert "KEYID" not in page.text
    boxes = [each for each in Seen(page.text).named("button") if each.get("role") == "checkbox"]
    assert [(each["aria-label"], each["aria-checked"]) for each in boxes] == [("Approve this plan", "false")]


def test_ticking_edits_only_the_box(site: Site) -> None:
    box = next(each for each in Seen(site.get(ISSUE).text).named("button") if each.get("role") == "checkbox")
    form = {"subject": f"issuecomment-{site.plan_id}", "box": str(box["value"])}
    assert site.post(f"{ISSUE}/tick", **form).status_code == 200
    assert site.plan.text.body == PLAN.replace("- [ ] Approve", "- [x] Approve")
    assert site.plan.text.editor == site.world.user("ada").id
    assert "edited by ada on" in site.get(ISSUE).text
    site.post(f"{ISSUE}/tick", **form)
    assert site.plan.text.body == PLAN


def test_reading_does_not_entitle_to_ticking(site: Site) -> None:
    box = next(each for each in Seen(site.get(ISSUE, "eve").text).named("button") if each.get("role") == "checkbox")
    assert "disabled" in box
    answer = site.post(f"{ISSUE}/tick", "eve", subject=f"issuecomment-{site.plan_id}", box=str(box["value"]))
    assert answer.status_code == 403
    assert site.plan.text.body == PLAN


@pytest.mark.parametrize("content", ("+1", "-1", "confused", "rocket", "eyes"))
def test_a_reaction_is_given_and_taken_back(site: Site, content: str) -> None:
    form = {"subject": f"issuecomment-{site.plan_id}", "content": content}
    site.post(f"{ISSUE}/reactions", **form)
    given = site.world.reactions_to(site.plan.node_id)
    assert [(each.user, each.content) for each in given] == [(site.world.user("ada").id, content)]
    assert f'title="{content}: ada"' in site.get(ISSUE).text
    site.post(f"{ISSUE}/reactions", **form)
    assert site.world.reactions_to(site.plan.node_id) == []


def test_a_locked_thread_takes_no_reactions_and_no_readers(site: Site) -> None:
    site.world.person("ada").lock(HOME, 1)
    form = {"subject": f"issuecomment-{site.plan_id}", "content": "+1"}
    assert site.post(f"{ISSUE}/reactions", **form).status_code == 403
    assert site.post(f"{ISSUE}/comments", "eve", body="hello").status_code == 403
    assert "<textarea" not in site.get(ISSUE, "eve").text
    assert site.post(f"{ISSUE}/comments", body="hello").status_code == 200


def test_a_thread_is_commented_closed_and_reopened(site: Site) -> None:
    page = site.post(f"{ISSUE}/comments", "ben", body="Not **now**.", then="close")
    assert "<strong>now</strong>" in page.text
    assert "<b>ben</b> closed this on" in page.text
    assert site.world.issue(HOME, 1).state == "closed"
    site.post(f"{ISSUE}/comments", "ben", then="reopen")
    assert site.world.issue(HOME, 1).state == "open"


def test_closing_other_peoples_threads_needs_triage(site: Site) -> None:
    assert "Close issue" not in site.get(ISSUE, "eve").text
    assert site.post(f"{ISSUE}/comments", "eve", then="close").status_code == 403
    assert site.world.issue(HOME, 1).state == "open"


def test_a_label_is_set_and_taken_away(site: Site) -> None:
    site.post(f"{ISSUE}/labels", label="plangate")
    assert site.world.issue(HOME, 1).labels == ("plangate",)
    assert 'class="label">plangate' in site.get(f"/{HOME}").text
    site.post(f"{ISSUE}/labels", label="plangate")
    assert site.world.issue(HOME, 1).labels == ()


def test_a_new_issue_needs_a_title(site: Site) -> None:
    page = site.post(f"/{HOME}/issues", "eve", title="It <b>breaks</b>", body="Look.")
    assert page.url.endswith("/issues/3")
    assert site.world.issue(HOME, 3).author == site.world.user("eve").id
    assert site.post(f"/{HOME}/issues", "eve", title=" ").status_code == 403
    assert (1, 4) not in {(1, number) for _, number in site.world.issues}


def test_a_minimized_comment_is_folded(site: Site) -> None:
    site.world.person("ada").minimize(site.plan_id, "outdated")
    page = site.get(ISSUE).text
    assert '<details class="folded"><summary>plangate[bot]&#x27;s comment was marked as outdated.' in page


def test_a_pull_request_shows_its_diff(site: Site) -> None:
    files = site.get(f"{PULL}/files").text
    assert '<tr class="removed"><td class="n">1</td><td class="n"></td><td>-free = total &gt; 50</td></tr>' in files
    assert '<tr class="added"><td class="n"></td><td class="n">2</td><td>+# &lt;b&gt;&amp;amp;</td></tr>' in files
    assert "Fix &lt;i&gt;it&lt;/i&gt;" in site.get(f"{PULL}/commits").text
    assert f'Closes <a href="{ISSUE}"' in site.get(PULL).text
    assert f'<a href="{PULL}">#2 Ship 50 free</a>' in site.get(ISSUE).text
    assert site.get(f"/{HOME}/issues/2").url.endswith(PULL)


def test_merging_needs_write_and_closes_the_issue(site: Site) -> None:
    assert site.post(f"{PULL}/merge", "eve").status_code == 403
    assert "Merged" in site.post(f"{PULL}/merge").text
    assert site.world.issue(HOME, 1).state == "closed"


def test_people_switch_and_stay_on_this_site(site: Site) -> None:
    with requests.Session() as browser:
        page = browser.post(f"{site.base}/acting-as", data={"login": "eve", "back": ISSUE}, timeout=20)
        assert page.url == site.base + ISSUE
        assert '<option value="eve" selected>eve (read)' in page.text
        for elsewhere in ("//evil.example", "https://evil.example", "/\\evil.example"):
            form = {"login": "eve", "back": elsewhere}
            answer = browser.post(f"{site.base}/acting-as", data=form, timeout=20, allow_redirects=False)
            assert answer.headers["location"] == "/"
        assert browser.post(f"{site.base}/acting-as", data={"login": "ghost"}, timeout=20).status_code == 404


def test_a_private_repository_is_not_there_for_strangers(site: Site) -> None:
    site.world.change_repository(HOME, private=True)
    for path in ("/", f"/{HOME}", ISSUE, f"{PULL}/files"):
        answer = site.get(path, "eve")
        assert "shipping" not in answer.text
        assert "parcel" not in answer.text.replace(path, "")
    assert site.post(f"{ISSUE}/comments", "eve", body="hello").status_code == 404
    assert site.get(ISSUE).status_code == 200


@pytest.mark.parametrize(
    "headers", ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"})
)
def test_a_form_of_another_site_changes_nothing(site: Site, headers: dict[str, str]) -> None:
    data = {"body": "hello"}
    answer = requests.post(f"{site.base}{ISSUE}/comments", data=data, headers=headers, timeout=20)
    assert answer.status_code == 403
    assert len(site.world.comments) == 1


def test_an_unchanged_page_costs_nothing(site: Site) -> None:
    tag = site.get(ISSUE).headers["etag"]
    assert site.get(ISSUE, **{"If-None-Match": tag}).status_code == 304
    assert site.get(ISSUE, "eve", **{"If-None-Match": tag}).status_code == 200
    site.world.person("ada").react(site.plan, "+1")
    assert site.get(ISSUE, **{"If-None-Match": tag}).status_code == 200


@pytest.mark.parametrize(
    "path",
    ("/x/y", f"/{HOME}/issues/99", f"/{HOME}/wiki/1", f"{ISSUE}/files", "/static/page.py", "/static/..%2fpage.py"),
)
def test_what_is_not_there_is_a_404(site: Site, path: str) -> None:
    assert site.get(path).status_code == 404


def test_every_answer_forbids_foreign_scripts(site: Site) -> None:
    for path in ("/", ISSUE, f"{PULL}/files", "/x/y", "/static/page.js"):
        policy = site.get(path).headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
        assert "unsafe" not in policy


def test_reviews_and_checks_are_shown(site: Site) -> None:
    note = LineNote("shipping.py", 1, "Why?")
    review = site.world.person("ada").review(HOME, 2, "- [ ] Fine", verdict="APPROVED", notes=[note])
    head = review.commit_id
    run = CheckRun(7, review.repository, 1, "tests", head, "completed", site.world.now(), conclusion="success")
    site.world.check_runs[run.id] = run
    page = site.get(PULL).text
    for shown in ("approved these changes", "commented on <code>shipping.py:1</code>", "✓ success"):
        assert shown in page
    subject = f"pullrequestreview-{review.id}"
    assert site.post(f"{PULL}/tick", subject=subject, box="0").status_code == 403
    site.post(f"{PULL}/reactions", subject=subject, content="rocket")
    assert [each.content for each in site.world.reactions_to(review.node_id)] == ["rocket"]


def test_every_kind_of_change_has_its_diff(site: Site) -> None:
    ada, main = site.world.person("ada"), "# Parcel\n"
    files = {"README.md": None, "READ.md": main, "bin": b"\0\1", "shipping.py": "free = 1", "new.py": "x\n" * 2_100}
    ada.push(HOME, files, branch="more")
    ada.open_pull(HOME, "More", head="more")
    page = site.get(f"/{HOME}/pull/3/files").text
    for shown in (
        "README.md → READ.md",
        "No lines to show",
        "No newline at end of file",
        "File added",
        "more lines are not",
    ):
        assert shown in page


def test_several_repositories_are_listed(site: Site) -> None:
    assert site.get("/").url == f"{site.base}/{HOME}"
    site.world.add_repository("acme/open", {})
    site.world.add_repository("acme/secret", {}, private=True)
    listed = site.get("/", "eve").text
    assert "acme/open" in listed
    assert "acme/secret" not in listed
    assert site.get(f"/{HOME}/issues/new").status_code == 200


def test_forms_that_make_no_sense_change_nothing(site: Site) -> None:
    assert site.post(f"{ISSUE}/delete").status_code == 404
    assert site.post(f"{PULL}/reactions", subject=f"issuecomment-{site.plan_id}", content="+1").status_code == 404
    assert site.post(f"{ISSUE}/comments", body="x" * 65_537).status_code == 403
    assert site.post(f"{ISSUE}/comments", body="x" * 1_000_001).status_code == 403
    assert len(site.world.comments) == 1


def test_a_threads_own_text_has_boxes(site: Site) -> None:
    site.world.person("ben").edit_issue(HOME, 1, body="- [ ] one")
    issue = site.world.issue(HOME, 1)
    site.post(f"{ISSUE}/tick", "ben", subject=f"issue-{issue.id}", box="0")
    assert site.world.issue(HOME, 1).text.body == "- [x] one"


def test_nothing_that_people_write_becomes_script(site: Site) -> None:
    eve, ada = site.world.person("eve"), site.world.person("ada")
    nasty = '"><img src=x onerror=1>'
    eve.open_issue(HOME, f"{nasty} `<script>1</script>`", EVERYTHING)
    for payload in PAYLOADS:
        eve.comment(HOME, 3, payload)
    folded = eve.comment(HOME, 3, EVERYTHING)
    ada.minimize(folded.id, nasty)
    ada.label(HOME, 3, nasty)
    ada.push(HOME, {'"><script>1<b>.py': EVERYTHING}, branch='x"><script>1', message=f"{nasty}\n")
    ada.open_pull(HOME, nasty, head='x"><script>1', body=EVERYTHING)
    for path in (
        f"/{HOME}",
        f"/{HOME}/issues/3",
        f"/{HOME}/pull/4",
        f"/{HOME}/pull/4/files",
        f"/{HOME}/pull/4/commits",
    ):
        answer = site.get(path)
        assert answer.status_code == 200, path
        Seen(answer.text).assert_harmless()


def test_text_cannot_leave_its_fold() -> None:
    boxes = Boxes(None)
    assert "</details>" not in render_markdown("</details>\n</summary>", HOME, boxes)
    assert render_markdown("<details>\n<summary>a", HOME, boxes).count("</") == 2
    crossed = render_markdown("<details>\n<summary>a</details>\n\nb", HOME, boxes)
    assert crossed.replace("\n", "") == "<details><summary>a</summary><p>b</p></details>"
    within = render_markdown("- <details>\n\n</details>\n", HOME, boxes)
    assert "&lt;details&gt;" in within
    assert "<details" not in within


def test_folding_by_the_bot_is_shown() -> None:
    shown = render_markdown("<details>\n<summary>The plan</summary>\n\n**x**\n\n</details>\n", HOME, Boxes(None))
    assert shown.replace("\n", "") == "<details><summary>The plan</summary><p><strong>x</strong></p></details>"


def test_references_are_linked_outside_of_code() -> None:
    shown = render_markdown("see #12, 请@ada修复, https://a.b/c. `#13` [#14](https://x.y)", HOME, Boxes(None))
    assert '<a href="/acme/parcel/issues/12"' in shown
    assert '<strong class="mention">@ada</strong>' in shown
    assert '<a href="https://a.b/c"' in shown
    assert "issues/13" not in shown
    assert "issues/14" not in shown


@pytest.mark.parametrize("newline", ("\n", "\r\n", "\r"))
def test_toggling_keeps_all_else(newline: str) -> None:
    text = newline.join(["a", "* [ ] one", "1. [x] two", ""])
    assert toggle_box(text, 1) == text.replace("[ ]", "[x]")
    assert toggle_box(text, 2) == text.replace("[x]", "[ ]")
    for nowhere in (-1, 0, 3, 99):
        with pytest.raises(LookupError):
            toggle_box(text, nowhere)


def test_attributes_and_text_are_escaped() -> None:
    assert element("a", "<b>", href='"><b>') == '<a href="&quot;&gt;&lt;b&gt;">&lt;b&gt;</a>'


CSS = (Path(bot.testing.github.__file__).parent / "page/static/page.css").read_text()
LIGHT, DARK = (dict(re.findall(r"--(\w[\w-]*): (#\w+);", block)) for block in re.findall(r":root \{(.*?)\}", CSS, re.S))
ENOUGH = 4.5  # https://www.w3.org/TR/WCAG22/#contrast-minimum
WRITTEN = [(ink, ground) for ink in ("text", "muted", "link") for ground in ("background", "canvas", "tint")]
WRITTEN += [("plus", "canvas"), ("minus", "canvas"), ("label", "tint"), ("text", "chip"), ("text", "hover")]
WRITTEN += [("white", ground) for ground in ("green", "purple", "red", "press", "on")]
WRITTEN += [("text", each) for each in ("added", "removed")] + [("muted", each) for each in ("added-n", "removed-n")]


def luminance(colour: str) -> float:
    """https://www.w3.org/TR/WCAG22/#dfn-relative-luminance"""
    digits = colour.removeprefix("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    parts = (int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("colours", (LIGHT, DARK), ids=("light", "dark"))
def test_everything_can_be_read(colours: dict[str, str]) -> None:
    assert colours.keys() == LIGHT.keys()
    known = {**colours, "white": "#fff"}
    faint = {}
    for ink, ground in WRITTEN:
        dark, bright = sorted((luminance(known[ink]), luminance(known[ground])))
        if (ratio := (bright + 0.05) / (dark + 0.05)) < ENOUGH:
            faint[ink, ground] = round(ratio, 2)
    assert faint == {}


if TYPE_CHECKING:
    from playwright.sync_api import Browser


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
