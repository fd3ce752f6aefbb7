"""The page of a session's transcript: its steps, edits as differences, pages, and what it never shows (W5, X3)."""

import re
from pathlib import Path

import pytest

from bot.core.secrets.redaction import Redactor
from bot.core.transcript import LineKind
from bot.service.overview.transcript_views import transcript_page
from tests.testing.github.page_ground import PAYLOADS
from tests.webhooks.api_ground import SECRET, World, place
from tests.webhooks.dashboard.ground import Site
from tests.webhooks.dashboard.samples import (
    BRIEF,
    HOME,
    NOW,
    OTHER,
    Recorded,
    call,
    long_session,
    result,
    text,
    work_session,
)

WORK = f"/threads/{HOME}/2/transcripts/work-1"
PLAN = f"/threads/{HOME}/2/transcripts/plan-1"


def test_a_transcript_shows_prompts_answers_calls_results_and_costs_step_by_step(site: Site) -> None:
    page = site.get(WORK)
    assert page.status == 200
    for words in (
        "Orders of exactly 50 pay",
        "<strong>50 or more</strong>",
        "python -m unittest",
        "FAILED (failures=1)",
    ):
        assert words in page.html
    assert "<ins>    if total &gt;= FREE_FROM:</ins>" in page.html
    assert "<del>    if total &gt; FREE_FROM:</del>" in page.html
    assert "<ins>Orders of 50 or more ship free.</ins>" in page.html
    assert re.findall(r'id="step-(\d+)"', page.html) == ["0", "1", "2", "3", "4"]
    assert "4 steps" in page.html
    assert "19.3k tokens" in page.html
    assert "$0.060" in page.html
    assert f'href="/threads/{HOME}/2/transcripts/work-1-a1"' in page.html


def test_the_thread_leads_to_its_transcripts(site: Site) -> None:
    assert f'href="{WORK}"' in site.get(f"/threads/{HOME}/2").html
    assert "/transcripts/" not in site.get(f"/threads/{HOME}/1").html


def test_pages_hold_every_step_once_and_an_unknown_page_is_the_nearest_one(site: Site) -> None:
    pages = [site.get(f"{PLAN}?page={n}") for n in (1, 2, 3)]
    steps = [int(n) for page in pages for n in re.findall(r'id="step-(\d+)"', page.html)]
    assert steps == list(range(46))
    assert 'rel="next"' in pages[0].html
    assert 'rel="next"' not in pages[2].html
    for number, same in (("0", 0), ("-3", 0), ("x", 0), ("9", 2), ("9" * 20, 0)):
        assert site.get(f"{PLAN}?page={number}").html == pages[same].html


def test_the_stream_of_a_transcript_tells_only_who_has_an_older_state(site: Site) -> None:
    def first_event(seen: str, **headers: str) -> str:
        url = f"{site.base}/live{WORK.removeprefix('/threads')}?seen={seen}"
        with site.browser("maya").get(url, headers=headers, stream=True, timeout=20) as answer:
            lines = (line for line in map(bytes.decode, answer.iter_lines()) if line and not line.startswith("retry"))
            return str(next(lines))

    def state() -> str:
        (body,) = site.get(WORK).tags("body")
        return str(body["data-state"])

    old = state()
    assert first_event(old) == ": alive"
    site.reading.lines[HOME, 2]["work-1"] = [*work_session(NOW), *work_session(NOW)[-1:]]
    assert first_event(old) == f"id: {state()}" != f"id: {old}"
    assert first_event(old, **{"Last-Event-ID": state()}) == ": alive"
    assert first_event(state(), **{"Last-Event-ID": old}) == f"id: {state()}"


@pytest.mark.req("W5")
@pytest.mark.parametrize("login", ("maya", "eve"))
def test_a_transcript_of_another_repository_answers_as_one_that_does_not_exist(site: Site, login: str) -> None:
    site.get("/", login)
    site.reading.read.clear()
    paths = [f"/threads/{OTHER}/7/transcripts/plan-1", "/threads/no/where/1/transcripts/plan-1"]
    paths += [f"/threads/{HOME}/1/transcripts/{name}" for name in ("plan-1", "%2e%2e%2f2", "work-1", "a" * 90)]
    answers = [site.get(path, login) for path in paths]
    assert {each.status for each in answers} == {404}
    assert len({each.html for each in answers if "Nothing is here" in each.html}) == 1
    assert OTHER not in site.reading.read


@pytest.mark.req("X3")
async def test_a_secret_in_any_place_of_a_transcript_is_redacted(tmp_path: Path) -> None:
    world, made = World(tmp_path), Recorded(SECRET, NOW)
    await world.fill(1)
    padding = "x" * 3_990
    made.given(text(f"{padding} {SECRET} {padding}"))
    made.answer(
        text(SECRET),
        {"type": "thinking", "thinking": SECRET, "signature": SECRET},
        call("Bash", "1", command=f"echo '{SECRET}'", description=SECRET),
        call("Edit", "2", file_path=SECRET, old_string=f"a\n{SECRET}", new_string=f"b {SECRET}"),
        call("MultiEdit", "3", file_path="a", edits=[{"old_string": SECRET, "new_string": SECRET}]),
        call(SECRET, "4", deep=[{"x": SECRET}]),
    )
    made.given(result("1", SECRET), result("2", [text(SECRET)]))
    made.note(SECRET, text=SECRET)
    made.note("subagent", session=SECRET, type=SECRET, description=SECRET, agent="a")
    world.sessions.lines[1] = {"work-1": made.lines, SECRET: made.lines}
    found = await world.overview.transcript(place(1), "work-1", 1)
    assert found is not None
    assert len(found.steps) == 2
    assert SECRET not in repr(found)
    assert "correct horse" not in repr(found)
    assert SECRET not in repr(await world.overview.transcripts(place(1)))


@pytest.mark.req("X1")
def test_hostile_text_in_a_transcript_stays_text(site: Site) -> None:
    made = Recorded("work-1", NOW)
    for number, bad in enumerate((*PAYLOADS, "\u202egnp.exe", "a\u200bb\x00\x1b[2J", "{{ 7*7 }}")):
        made.given(text(bad), {"type": "image", "source": bad}, {"type": bad})
        edit = call("Edit", f"e{number}", file_path=bad, old_string=bad, new_string=bad + "!")
        made.answer(text(bad), edit, call(bad, f"x{number}", **{"command": bad, "more": [bad]}))
        made.given(result(f"x{number}", bad, failed=True))
        made.note(bad, why=bad)
    site.reading.lines[HOME, 2] = {"work-1": made.lines}
    page = site.get(WORK)
    assert page.status == 200
    assert page.tags("script") == [{"src": "/assets/app.js", "defer": None}]
    assert not [tag for tag in ("img", "iframe", "style", "base", "object", "embed") if page.tags(tag)]
    links = [str(each.get("href", "")) for each in page.tags("a")]
    assert all(re.match(r"/(?!/)|https?://|\?|#", link) for link in links), links
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b\x00\x1b]", page.html)


def test_an_unfinished_session_shows_every_kind_of_line() -> None:
    made = Recorded("work-1", NOW)
    made.add(LineKind.MESSAGE, {"message": {"role": "user", "content": BRIEF}})
    made.note("asked", message={"role": "assistant", "content": []}, cost_usd=9.0, usage={"input": 1})
    made.note("light", text="a title", cost_usd=0.5)
    made.note("aside", model="haiku", cost_usd=0.0)
    made.note("mode", mode="plan", by="ada")
    checks = [{"command": name, "exit_code": code} for name, code in (("pytest -q", 2), ("ruff check", 0))]
    made.note("baseline", checks=checks)
    made.note("subagent_ended", agent="code-1", state="completed", report="Changed a.py.", tokens=3)
    made.add(LineKind.COMPACTED, {"history": [], "before": 120_000, "after": 9_000, "by": "model"})
    made.answer({"type": "redacted_thinking", "data": "x"}, call("Write", "1", file_path="a", content="b"), cost=None)
    page = transcript_page("work-1", made.lines, 1, Redactor())
    first, second = page.steps
    assert first.parts[0].text == BRIEF
    assert [part.text for part in first.parts][1:] == [
        "A small question to the light model failed: text a title, cost_usd 0.5",
        "A short answer by haiku",
        "Mode changed by ada: plan mode on",
        "Checks before the work: pytest -q failed (exit code 2), ruff check passed",
        "Sub-agent code-1 completed: Changed a.py.",
        "The history was compacted from 120,000 to 9,000 tokens",
    ]
    (part,) = second.parts
    assert part.call is not None
    assert (part.call.ended, part.call.failed, second.cost_usd) == (False, False, None)
    assert (page.cost_usd, page.answers) == (0.5, 1)
    assert [page.page for page in (transcript_page("p", long_session(NOW), n, Redactor()) for n in (-1, 2, 99))] == [
        1,
        2,
        3,
    ]
