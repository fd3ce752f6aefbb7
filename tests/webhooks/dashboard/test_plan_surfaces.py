"""Every surface that shows a plan shows all of it: a change of any field changes what each surface shows (A8)."""

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any, Final

import pytest

from bot.cli.replay import show
from bot.cli.threads import ServiceClient, print_thread
from bot.clock import SystemClock
from bot.config.settings import Secret
from bot.core.approval import Verdict, VerdictOutcome
from bot.core.codec import encode
from bot.core.comment import changes, plan_text
from bot.core.events import JournalEvent
from bot.core.maintenance import Operation, OperationKind, TaskFinding
from bot.core.moves import Entry, Planned, Proposed
from bot.core.names import CommitId, RepositoryId, ThreadNumber
from bot.core.plan import Contract, Hidden, PlanDocument
from bot.core.pull_text import PullOrigin, pull_body
from bot.core.reporting import Notification
from bot.github.dialogue import plan_comment
from bot.store.sealing import Chain
from bot.terminal import Terminal
from tests.core.receipt_story import NOW, REQUESTED
from tests.webhooks.api_ground import place
from tests.webhooks.dashboard.journal_site import JournalSite, journal_site

FULL: Final = PlanDocument(
    repository=RepositoryId(1),
    thread=ThreadNumber(1),
    plan=2,
    base=CommitId("c" * 40),
    markdown="# Fix it\n\n- first\n",
    contract=Contract(("src/**",), ("pytest",), ("pypi.org",), ("attrs",), (("high", "infra/**"),)),
    tier="normal",
    budget_usd=5.0,
    expires=datetime(2026, 11, 27, 8, 30, tzinfo=UTC),
    tree="7" * 40,
    hidden=Hidden(2, ("<!-- push -->",)),
    changed="-one\n+two",
    notes="Root cause: rounding.",
    findings=(TaskFinding("F1", "An old pin", ("a.txt",)),),
    operations=(Operation(OperationKind.COMMENT, 8, "Done."), Operation(OperationKind.ADD_LABEL, 9, "bug")),
    estimate="about $0.40",
)
ELSEWHERE: Final = {"repository", "thread", "operations.seen"}
"""What the text says by the digest alone: the place that shows the plan, and fingerprints of what it was made from."""
EACH_TIME: Final = ELSEWHERE | {"plan", "expires", "changed", "estimate"}
"""What `changes` leaves out, because every version has its own."""


def changed_values(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield (path of the field, the value with that field changed) for each field in turn, nested ones too."""
    match value:
        case OperationKind():
            yield name, OperationKind.CLOSE if value is not OperationKind.CLOSE else OperationKind.REOPEN
        case str():
            yield name, ("d" if name in {"base", "tree"} else "x") + value[1:]
        case int() | float():
            yield name, value + 1
        case datetime():
            yield name, value + timedelta(days=1)
        case tuple():
            if name != "contract.classes" or value == FULL.contract.classes:  # a pair has two items
                yield name, value[:-1]
            for at, item in enumerate(value):
                for path, changed in changed_values(item, name):
                    yield path, (*value[:at], changed, *value[at + 1 :])
        case _ if is_dataclass(value) and not isinstance(value, type):
            for field in fields(value):
                inner = f"{name}.{field.name}".removeprefix(".")
                for path, changed in changed_values(getattr(value, field.name), inner):
                    yield path, replace(value, **{field.name: changed})
        case _:
            raise AssertionError(f"no change of {name} is known")


VARIANTS: Final = [("", FULL), *changed_values(FULL, "")]


def entries_of(plan: PlanDocument) -> list[Entry]:
    planned = Planned(plan=plan, digest=plan.digest, estimate=plan.estimate, ask=1)
    events: tuple[JournalEvent, ...] = (REQUESTED, planned, Proposed(shown="c1", digest=plan.digest, ask=2))
    return [Entry(n, NOW, event.kind, encode(event)) for n, event in enumerate(events, start=1)]


async def printed(plan: PlanDocument) -> str:
    out = io.StringIO()
    await Terminal("Fix it.", SystemClock(), out, dry_run=True).propose(plan, 1)
    return out.getvalue()


def replayed(plan: PlanDocument, folder: Path) -> str:
    path, out = folder / "journal.jsonl", io.StringIO()
    bodies = [(entry.kind, entry.body) for entry in entries_of(plan)]
    path.write_bytes(b"\n".join(Chain(RepositoryId(1), ThreadNumber(1), b"k" * 32).extend((), NOW, bodies)) + b"\n")
    show(path, out)
    return "\n".join(line for line in out.getvalue().splitlines() if "│" in line)


async def offline(plan: PlanDocument, folder: Path) -> dict[str, str]:
    origin = PullOrigin(("will",), Verdict(VerdictOutcome.APPROVED), NOW)
    notification = Notification(place(1), entries_of(plan)).payload("https://github.example")["data"]
    return {
        "comment": plan_comment(plan, "@plangate"),
        "terminal": await printed(plan),
        "replay": replayed(plan, folder),
        "notification": notification["plan"],
        "pull request": pull_body(plan, origin, summary="Done.", checks=()),
    }


def online(site: JournalSite, number: int) -> dict[str, str]:
    out, client = io.StringIO(), ServiceClient(site.base, Secret(""))
    print_thread(client, f"octo/hello#{number}", out, as_json=False)
    page = site.get(f"/threads/octo/hello/{number}")
    return {
        "api": client.read(f"/api/threads/octo/hello/{number}")[0]["plan"]["text"],
        "show": out.getvalue().partition("\nplan ")[2].partition("\ntimeline")[0],
        "dashboard": page[page.index('aria-labelledby="plan"') :].partition("</section>")[0],
    }


def check_that_each_differs(path: str, plan: PlanDocument, shown: dict[str, str], whole: dict[str, str]) -> None:
    """Check that no surface shows a changed plan as it shows the unchanged one, and not only by the digest."""
    for surface, text in shown.items():
        before = whole[surface]
        assert text != before, (surface, path)
        assert without_digest(text, plan) != without_digest(before, FULL) or path in ELSEWHERE, (surface, path)


def without_digest(text: str, plan: PlanDocument) -> str:
    return text.replace(plan.digest, "").replace(plan.short_digest, "")


async def check_variants(folder: Path, variants: Sequence[tuple[str, PlanDocument]], *, with_service: bool) -> None:
    with journal_site(folder, [entries_of(plan) for _, plan in variants]) as site:
        whole: dict[str, str] = {}
        for number, (path, plan) in enumerate(variants, start=1):
            shown = await offline(plan, folder)
            if with_service:
                site.append(number, 3)
                shown |= online(site, number)
            whole = whole or shown
            if path:
                check_that_each_differs(path, plan, shown, whole)


@pytest.mark.req("A8", "PR5")
async def test_each_surface_changes_with_each_field_of_the_plan(tmp_path: Path) -> None:
    """Without a service for every field, and on a service for what its page once left out."""
    await check_variants(tmp_path, VARIANTS, with_service=False)
    once_left_out = {"operations.text", "notes", "hidden.count", "contract.classes"}
    some = [VARIANTS[0], *((path, plan) for path, plan in VARIANTS if path in once_left_out)]
    await check_variants(tmp_path, some[:7], with_service=True)


@pytest.mark.long
@pytest.mark.req("A8", "PR5")
async def test_a_service_changes_with_each_field_of_the_plan(tmp_path: Path) -> None:
    await check_variants(tmp_path, VARIANTS, with_service=True)


@pytest.mark.req("A8", "PR5")
def test_a_difference_of_versions_is_that_of_all_that_is_shown() -> None:
    unsaid = {path for path, plan in VARIANTS if changes(FULL, plan) == "nothing"}
    assert unsaid == EACH_TIME | {""}


@pytest.mark.req("A8")
async def test_every_surface_has_the_text_of_the_comment(tmp_path: Path) -> None:
    plan = replace(FULL, contract=replace(FULL.contract, commands=("p\u0443test",)))
    text = plan_text(plan)
    assert "`p‹U+0443›test`" in text
    with journal_site(tmp_path, [entries_of(plan)]) as site:
        site.append(1, 3)
        shown = await offline(plan, tmp_path) | online(site, 1)
    words = re.findall(r"\S+", text)
    for surface in ("comment", "terminal", "replay", "notification", "pull request", "api", "show"):
        missing = [word for word in words if word not in shown[surface]]
        assert not missing, (surface, missing)
    assert shown["api"] == shown["notification"] == text
    page = unescape(re.sub("<[^>]+>", "", shown["dashboard"]))
    letters = re.findall(r"[\w.‹›+]+", re.sub("</?(details|summary)>", " ", text))
    assert not [word for word in letters if word not in page]
