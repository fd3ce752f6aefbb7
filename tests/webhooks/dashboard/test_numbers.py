"""Every number on the pages equals one that is computed here from the raw entries of random journals."""

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from html import unescape
from pathlib import Path

import pytest

from bot.core.gate import Event, Move, Stage, Thread
from bot.core.moves import Entry
from bot.core.names import Digest, ThreadAddress
from bot.service.overview.thread_index import USUAL_ROWS
from bot.service.overview.views import WaitsFor
from bot.testing.github.world import TurnedClock
from tests.core.gate_laws import replay
from tests.core.journal_histories import histories
from tests.service.overview.ground import address
from tests.webhooks.dashboard.ground import Site
from tests.webhooks.dashboard.journal_site import JournalSite, journal_site
from tests.webhooks.dashboard.samples import NOW, detail, summary
from webhooks.dashboard.thread_pages import MOST_READ

WAITING = {Stage.AWAITING_APPROVAL: "Plans to decide on", Stage.ASKED: "Questions to answer"}
WAITING |= {Stage.IN_REVIEW: "Pull requests to review"}
GROUPS = {
    "waiting": "awaiting_approval asked",
    "active": "listening planning proposing executing publishing",
    "review": "in_review",
    "ended": "answered done rejected stale expired stopped failed limit",
}


@dataclass(frozen=True)
class Raw:
    """One thread: its entries as they are stored, and nothing that our folds made of them."""

    at: ThreadAddress
    entries: Sequence[Entry]

    @property
    def repository(self) -> str:
        return f"{self.at.owner}/{self.at.name}"

    @property
    def thread(self) -> Thread:
        """The gate's own state, without the fold."""
        kinds = set(Move)
        moves = [each for each in self.entries if each.kind in kinds]
        digests = [Digest(each.body["digest"]) if each.body.get("digest") else None for each in moves]
        return replay(
            [Event(Move(each.kind), each.body.get("ask"), digest) for each, digest in zip(moves, digests, strict=True)]
        )

    @property
    def cost(self) -> float | None:
        costs = [each.body["cost_usd"] for each in self.entries if "cost_usd" in each.body]
        return sum(costs) if costs else None


def with_tokens(entries: Iterable[Entry], days: int) -> list[Entry]:
    """Return entries some days earlier; those that say what they cost also say what they used, and on which model."""
    found = []
    for each in entries:
        body = dict(each.body)
        if "cost_usd" in body and body.get("session") and each.kind in set(Move):
            body |= {
                "tokens_input": 1_000 + 37 * each.n,
                "tokens_output": 10 + each.n,
                "model": f"model of {body['session']}",
            }
        found.append(replace(each, at=each.at - timedelta(days=days), body=body))
    return found


def money(amount: float | None) -> str:
    if amount is None:
        return "—"
    return f"${amount:.3f}" if 0 < amount < 0.1 else f"${amount:,.2f}"


def short(number: int) -> str:
    if number >= 1_000_000:
        return f"{number / 1_000_000:.1f}M"
    return f"{number / 1_000:.1f}k" if number >= 1_000 else str(number)


def add_up(pairs: Iterable[tuple[str, float]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for name, amount in pairs:
        found[name] += amount  # type: ignore[assignment]  # a Counter adds any numbers
    return found


def used(entry: Entry) -> int:
    return int(entry.body.get("tokens_input", 0)) + int(entry.body.get("tokens_output", 0))


def check_list(site: JournalSite, threads: Sequence[Raw]) -> None:
    stages = Counter(str(each.thread.stage) for each in threads)
    path, rows = "/threads", {}
    while path:
        page = site.get(path)
        counts = re.findall(r'stage=(\w+)"[^>]*>[^<]*<span class="count">(\d+)', page)
        shown = {name: int(number) for name, number in counts}
        assert shown == {name: sum(stages[each] for each in words.split()) for name, words in GROUPS.items()}
        assert re.search(r'>All <span class="count">(\d+)', page)[1] == str(len(threads))  # type: ignore[index]
        for row in re.findall(r'<li class="row">.*?</li>', page, re.S):
            (name,) = re.findall(r'href="/threads/([^"]+)"', row)
            rows[name] = re.findall(r"Cost: </span>([^<]+)<", row)
        following = re.search(r'href="([^"]+)" rel="next"', page)
        path = unescape(following[1]) if following else ""
    assert rows == {f"{each.repository}/{each.at.number}": [money(each.cost)] for each in threads}


def check_waiting(site: JournalSite, threads: Sequence[Raw]) -> None:
    page, stages = site.get("/"), Counter(each.thread.stage for each in threads)
    shown = dict(re.findall(r'<h2 id="[\w-]+">([^<]+) <span class="count">(\d+)', page))
    working = sum(stages[Stage(each)] for each in ("planning", "proposing", "executing", "publishing"))
    expected = {title: str(stages[stage]) for stage, title in WAITING.items() if stages[stage]}
    assert shown == expected | ({"Plangate is working": str(working)} if working else {})


def check_thread(site: JournalSite, raw: Raw) -> None:
    page = unescape(site.get(f"/threads/{raw.repository}/{raw.at.number}"))
    assert re.search(r'<h2>Cost</h2><p class="big number">([^<]+)<', page)[1] == money(raw.cost)  # type: ignore[index]
    spoken, said = (sum(int(each.body.get(f"tokens_{way}", 0)) for each in raw.entries) for way in ("input", "output"))
    assert f"{short(spoken)} tokens in, {short(said)} out" in page
    timeline = page[page.index('<ol class="timeline">') :]
    assert timeline[: timeline.index("</ol>")].count("<li>") == len(raw.entries)
    versions = [each.body["plan"]["plan"] for each in raw.entries if each.kind in {"planned", "outgrew"}]
    if versions:
        assert re.search(r'<h2 id="plan">Plan (\d+) ', page)[1] == str(versions[-1])  # type: ignore[index]
        assert [int(n) for n in re.findall(r'\?plan=(\d+)#plan"', page)] == (versions if len(versions) > 1 else [])
    decided = sum(len(each.body.get("by") or ()) for each in raw.entries if each.kind in {"approved", "rejected"})
    assert len(re.findall(r"</strong> (?:approved|rejected)", page)) == decided
    sessions = [each for each in raw.entries if each.body.get("session")]
    costs = add_up((each.body["session"], each.body["cost_usd"]) for each in sessions if "cost_usd" in each.body)
    tokens = add_up((each.body["session"], used(each)) for each in sessions)
    cell, number = r"<td.*?</td>\s*", r'<td class="number[^"]*">([^<]*)<.*?'
    agent = rf'<th scope="row" class="depth-0"><bdi>([^<]+)</bdi>.*?</th>\s*(?:{cell}){{2}}{number}{cell}{number}</td>'
    rows = re.findall(agent, page, re.S)
    shown = {name: (used_up, cost) for name, used_up, cost in rows}
    for name in costs:
        assert shown[name] == (short(int(tokens[name])), money(costs[name])), name


def check_costs(site: JournalSite, threads: Sequence[Raw], days: int) -> None:
    page, first = unescape(site.get(f"/costs?days={days}")), NOW.date() - timedelta(days=days - 1)
    counted = [(raw, each) for raw in threads for each in raw.entries if each.at.date() >= first]
    costs = [(raw, each, each.body["cost_usd"]) for raw, each in counted if "cost_usd" in each.body]
    assert re.search(r'<p class="big number">([^<]+)<', page)[1] == money(sum(cost for _, _, cost in costs))  # type: ignore[index]
    by_day = add_up((f"{each.at:%Y-%m-%d}", cost) for _, each, cost in costs)
    bars = dict(re.findall(r"<title>([\d-]+): ([^<]+)</title>", page))
    assert len(bars) == days
    assert bars == {name: money(by_day[name] or 0.0) for name in bars}
    assert set(by_day) <= set(bars)
    read, written = (sum(int(each.body.get(f"tokens_{way}", 0)) for _, each in counted) for way in ("input", "output"))
    assert f"{short(read)} tokens in, {short(written)} out" in page
    repositories = add_up((raw.repository, cost) for raw, _, cost in costs)
    assert table(page, "by-repository") == {name: money(cost) for name, cost in repositories.items()}
    for name in ("by-person", "by-model"):
        assert len(table(page, name)) > 1
    models = add_up((each.body["model"], used(each)) for _, each in counted if used(each))
    shown = {name: tokens for name, tokens in table(page, "by-model", cell=1).items() if name != "not recorded"}
    assert shown == {name: short(int(tokens)) for name, tokens in models.items()}


def table(page: str, name: str, *, cell: int = 2) -> Mapping[str, str]:
    section = page[page.index(f'aria-labelledby="{name}"') :].split("</section>", maxsplit=1)[0]
    number = r'<td class="number">([^<]+)</td>'
    rows = re.findall(rf"<bdi>([^<]+)</bdi>.*?{number}{number}", section, re.S)
    return {row[0]: row[cell] for row in rows}


def check_pages(folder: Path, count: int, length: int) -> None:
    made = enumerate(histories(count, length), start=1)
    threads = [Raw(address(n, n // 7 + 1), with_tokens(entries, n % 9)) for n, entries in made]
    with journal_site(folder, clock=TurnedClock(NOW)) as site:

        async def fill() -> None:
            for each in threads:
                await site.world.journal.write(each.entries, each.at.number)
                await site.world.recorder.record(each.at, each.entries)

        asyncio.run(fill())
        check_list(site, threads)
        check_waiting(site, threads)
        for raw in threads:
            check_thread(site, raw)
        for days in (7, 30, 90):
            check_costs(site, threads, days)


def test_every_number_on_the_pages_is_the_journals(tmp_path: Path) -> None:
    check_pages(tmp_path, 20, 40)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_every_number_on_the_pages_of_500_threads_is_the_journals(tmp_path: Path) -> None:
    check_pages(tmp_path, 500, 40)


def test_the_newest_fifty_requests_of_a_person_are_shown_with_the_number_of_all(site: Site) -> None:
    ended = summary(100, "Move the cart", Stage.FAILED, WaitsFor.REQUESTER, requester="maya")
    others = [detail(replace(ended, number=n, title="For maya", requester="will")) for n in range(101, 111)]
    for count, shown in ((3, "3"), (60, "60"), (MOST_READ + 50, "290+")):
        site.reading.details = [detail(replace(ended, number=n)) for n in range(200, 200 + count)]
        site.reading.details = others + site.reading.details
        page = site.get("/").html
        assert f'ended early <span class="count">{shown}<' in page
        assert page.count('<li class="row">') == min(count, USUAL_ROWS)
        assert ("All are in the list." in page) == (count > USUAL_ROWS)


def test_a_task_shows_its_newest_occurrence_first_and_the_titles_of_rejected_findings(site: Site) -> None:
    page = site.get("/maintenance").html
    places = [page.index(outcome) for outcome in ("pull request #19", "nothing to do", "skipped: a plan of the task")]
    assert places == sorted(places)
    assert "Rejected findings: <bdi>Retry the cart test</bdi>" in page
