"""The pages of the simulated GitHub: what they show, what their forms do, and what cannot get out of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from bot.testing.github.code_changes import LineNote
from bot.testing.github.entities import CheckRun
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
