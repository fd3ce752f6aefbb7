"""What a month of a small private repository costs: each job that starts bills at least a minute.

The minutes of the sessions with the model come on top, and are the same whatever starts their jobs.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from tests.action.jobs import BOT, MAIN, MARKER, OPEN, PERSON, SWEEP, comment, loaded, pull, review, started

MINUTES = 30 * 24 * 60
WAITS = (60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 660, 720, 780, 840, 900)
"""Minutes from each of the 15 plans to its decision: 8 hours on average."""
TICKED, APPROVED = 7, 3
"""The plans that are decided by a tick and by a comment. The others get a reaction, of which no event tells."""
EVERY = {"*/10 * * * *": 10, "7 */3 * * *": 180, "23 4 * * *": 24 * 60}

Event = tuple[str, dict[str, Any]]


def people() -> Iterator[Event]:
    """Yield what people do in a month, and the bot: 300 comments, 60 issues, 60 pull requests, 60 reviews."""
    for number in range(60):
        asked = number < 10
        issue = {"number": number, "title": "t", "body": "@plangate fix it" if asked else "b", "user": PERSON}
        labels: Sequence[Any] = [OPEN] if number < len(WAITS) else []
        yield "issues", {"action": "opened", "issue": issue | {"labels": []}}
        yield "issues", {"action": "labeled", "issue": issue | {"labels": labels}, "label": {"name": "bug"}}
        yield "issues", {"action": "assigned", "issue": issue | {"labels": labels}, "assignee": {"login": "ada"}}
        yield "issues", {"action": "closed", "issue": issue | {"labels": labels}}
    for number in range(60):
        head, user = ("plangate/1-a", BOT) if number < len(WAITS) else ("topic", PERSON)
        made = pull(head=head, user=user)
        yield "pull_request", {"action": "opened", "pull_request": made, "sender": user}
        yield "pull_request", {"action": "closed", "pull_request": made}
        yield "pull_request_review", review(made, "See below.")
        for _ in range(3):
            yield "pull_request_review_comment", {"action": "created", "pull_request": made}
    for number in range(300):
        body, labels = said(number)
        yield "issue_comment", comment(body, labels=labels)
    for number in range(len(WAITS)):
        shown = {"body": f"The plan: `@plangate approve`\n\n{MARKER}", "user": BOT}
        for _ in range(3):  # the plan, how far the work is, the pull request
            yield "issue_comment", comment("", comment=shown, sender=BOT)
        if number < TICKED:
            yield "issue_comment", comment("", action="edited", comment=shown)


def said(number: int) -> tuple[str, Sequence[Any]]:
    """Return what a comment says: 5 ask, 3 approve, 10 say more to the bot, and 20 talk where it works."""
    if number < 5:
        return "@plangate fix it", ()
    if number < 5 + APPROVED + 10:
        return "@plangate and the docs", [OPEN]
    return "Looks good", ([OPEN] if number < 38 else ())


def clock(workflow: Any, *, waiting: Sequence[range] | None) -> Iterator[Event]:
    """Yield what the schedules start in a month: always, or while something waits."""
    for each in workflow["on"].get("schedule", ()):
        every = EVERY[each["cron"]]
        for minute in range(0, MINUTES, every):
            if waiting is None or any(minute in span for span in waiting):
                yield "schedule", {"schedule": each["cron"]}


def jobs(workflow: Any, events: Iterator[Event]) -> Counter[str]:
    """Count the jobs that start. What one job hands on to another run counts as well."""
    counted = Counter[str]()
    for event, payload in events:
        begun = started(workflow, event, payload)
        counted.update(begun)
        if "hand_on" in begun:
            listen = str(OPEN in payload["pull_request"]["labels"]).lower()
            handed = {"inputs": {"thread": "4", "listen": listen}, "sender": BOT}
            counted.update(started(workflow, "workflow_dispatch", handed))
    return counted


def waiting() -> Sequence[range]:
    """Return when plans wait, one after the other; one that gets a reaction waits for the sweep that finds it."""
    apart = MINUTES // len(WAITS)
    spans = []
    for number, minutes in enumerate(WAITS):
        begun = number * apart + 37
        found = begun + minutes
        if number >= TICKED + APPROVED:
            found += -found % 180
        spans.append(range(begun, found + 1))
    return spans


def test_a_month_of_a_small_repository() -> None:
    """Fewer than 200 minutes: the sweep checks while something waits, and nothing else starts without a reason."""
    main, sweep = loaded(MAIN), loaded(SWEEP)
    counted = (
        jobs(main, people()) + jobs(main, clock(main, waiting=None)) + jobs(sweep, clock(sweep, waiting=waiting()))
    )
    assert counted.total() < 200, counted
    by_events = jobs(main, people())
    assert by_events == {"work": 70, "listen": 28, "hand_on": 15}


def test_a_night_with_nothing_waiting() -> None:
    """The sweep is off: the daily run is all."""
    main, sweep = loaded(MAIN), loaded(SWEEP)
    assert jobs(sweep, clock(sweep, waiting=())).total() == 0
    assert jobs(main, clock(main, waiting=None)) == {"work": 30}
