"""What people see of threads: every number equals one that is computed from the raw entries in another way."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date

import pytest

from bot.core.events import decode_event
from bot.core.gate import Event, Move
from bot.core.moves import Entry
from bot.core.names import Digest, ThreadAddress
from bot.core.secrets.redaction import Redactor
from bot.service.overview.agent_tree import add_up, bookings, journal_steps, session_at_work, session_models
from bot.service.overview.thread_views import describe, summarize
from bot.service.overview.timeline import describe_event, people_of
from bot.service.overview.views import CostLine, Costs, redact_view
from tests.core.gate_laws import replay
from tests.core.journal_histories import histories
from tests.rows import every_row

SERVER = "https://github.example"
AT = ThreadAddress(7, 1, "octo", "hello", 4)


def check_thread(entries: Sequence[Entry]) -> None:
    """Compare what is shown of a journal with the raw entries."""
    detail = describe(AT, [*journal_steps(entries)], SERVER)
    moves = [Event(Move(each.kind), each.body.get("ask"), _digest(each)) for each in entries if each.kind in set(Move)]
    thread, row = replay(moves), detail.summary
    assert (row.stage, row.plan_digest, row.round) == (thread.stage, thread.digest, thread.round)
    costs = [each.body["cost_usd"] for each in entries if "cost_usd" in each.body]
    assert row.cost_usd == (pytest.approx(sum(costs)) if costs else None)
    assert row.updated == entries[-1].at
    assert row.position == len(entries) == len(detail.timeline)
    assert [each.digest for each in detail.plans] == [
        each.body["digest"] for each in entries if each.kind in {"planned", "outgrew"}
    ]
    approvals = [each.body["by"] for each in entries if each.kind == "approved"]
    assert [each.login for each in detail.approvals if each.decision == "approved"] == [
        login for by in approvals for login in by
    ]
    assert sum(agent.cost_usd or 0 for agent in detail.agents) == pytest.approx(
        sum(each.body["cost_usd"] for each in entries if "cost_usd" in each.body and each.body.get("session"))
    )
    pulls = [each.body["pull_request"] for each in entries if each.kind == "published"]
    assert row.pull_request == (pulls[-1] if pulls else None)


def _digest(entry: Entry) -> Digest | None:
    return Digest(entry.body["digest"]) if entry.body.get("digest") else None


def check_costs(costs: Costs, entries: Sequence[Entry]) -> None:
    """Compare added-up costs with the raw entries of all threads."""
    for lines in (costs.days, costs.repositories, costs.people, costs.models):
        assert sum(line.cost_usd for line in lines) == pytest.approx(costs.total.cost_usd)
        assert sum(line.tokens_input for line in lines) == costs.total.tokens_input
    days: Counter[str] = Counter()
    for each in entries:
        days[f"{each.at:%Y-%m-%d}"] += each.body.get("cost_usd") or 0
    assert {line.name: line.cost_usd for line in costs.days} == {
        day: pytest.approx(cost) for day, cost in days.items() if cost
    }


def check_histories(journals: Iterator[tuple[Entry, ...]]) -> None:
    made = []
    for entries in journals:
        check_thread(entries)
        found = bookings("octo/hello", [*journal_steps(entries)])
        check_costs(add_up(found), entries)
        made += [(found, entries)]
    everything = [each for _, entries in made for each in entries]
    check_costs(add_up(each for found, _ in made for each in found), everything)


def test_what_is_shown_of_random_threads_is_what_their_raw_entries_say() -> None:
    check_histories(histories(25, 40))


@pytest.mark.soak
def test_what_is_shown_of_500_threads_is_what_their_raw_entries_say() -> None:
    check_histories(histories(500, 60))


def test_bookings_of_earlier_days_do_not_count() -> None:
    (entries,) = histories(1, 40)
    found = bookings("octo/hello", [*journal_steps(entries)])
    assert add_up(found, date(2026, 11, 20)).total == add_up(found).total != CostLine("", 0.0, 0, 0)
    assert add_up(found, date(2030, 1, 1)).total == CostLine("", 0.0, 0, 0)


def test_a_view_is_redacted_at_any_depth_except_words_of_closed_sets() -> None:
    (entries,) = histories(1, 30)
    detail = describe(AT, [*journal_steps(entries)], SERVER)
    secret = "correct horse battery staple"
    leaking = replace(detail, summary=replace(detail.summary, title=f"Rotate {secret}"))
    shown = redact_view(leaking, Redactor(((secret, "PASSWORD"),)))
    assert shown.summary.title == "Rotate [redacted: PASSWORD]"
    assert shown == replace(detail, summary=replace(detail.summary, title=shown.summary.title))
    assert shown.summary.stage is detail.summary.stage
    with pytest.raises(TypeError, match="would not be redacted"):
        redact_view((object(),), Redactor())


def test_the_row_of_the_list_is_the_one_that_the_detail_has() -> None:
    (entries,) = histories(1, 30)
    steps = [*journal_steps(entries)]
    assert summarize(AT, steps, SERVER) == describe(AT, steps, SERVER).summary


def test_a_model_is_that_of_the_session_that_the_entry_names() -> None:
    steps = [step for entries in histories(9, 30) for step in journal_steps(entries)]
    other = next(step for step in steps if session_at_work(step.before) == "plan-1" and step.event.session == "work-1")
    named = replace(other, event=replace(other.event, model="opus"))
    assert session_models([named]) == {"work-1": "opus"}
    unnamed = replace(other, event=replace(other.event, model="opus", session=""))
    assert session_models([unnamed]) == {"plan-1": "opus"}


SAID = {"turn": "t", "actor": 7, "login": "u7", "text": "Do it.", "turn_at": "2026-11-20T08:30:00+00:00"}
DUE = {"key": "k", "due": "2026-11-20T08:00:00+00:00"}


@every_row(
    ("kind", "body", "line", "people"),
    (
        ("noted", SAID, "u7 added: Do it.", ("u7",)),
        ("noted", SAID | {"kept": True}, "u7 added, kept until the approved work is over: Do it.", ("u7",)),
        ("heard", SAID, "u7 commented: Do it.", ("u7",)),
        ("heard", SAID | {"refused": True}, "u7 may not ask: Do it.", ("u7",)),
        ("heard", SAID | {"quota": True}, "u7 is over the daily quota: Do it.", ("u7",)),
        ("stopped", {"by": ["ada"]}, "Stopped by ada", ("ada",)),
        ("stopped", {}, "Stopped by Plangate", ()),
        ("retried", {}, "Plangate asked to plan again", ()),
        ("resumed", {}, "Plangate continued the approved work", ()),
        ("due", DUE | {"by": "ada"}, "ada asked to run the task now", ("ada",)),
        ("due", DUE, "The task is due (2026-11-20 08:00)", ()),
        ("queued", {"queued": True}, "Waits for a free session", ()),
        ("queued", {"queued": False}, "A session is free", ()),
        ("told of late", {}, "Recorded by a newer version of Plangate: told of late", ()),
    ),
)
def test_an_entry_is_one_line_and_names_who_caused_it(
    kind: str, body: dict[str, object], line: str, people: tuple[str, ...]
) -> None:
    event = decode_event(kind, body)
    assert (describe_event(event), people_of(event)) == (line, people)
