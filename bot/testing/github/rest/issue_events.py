"""The REST endpoint of a thread's events: labels, assignments, locks, states, and titles.

https://docs.github.com/en/rest/issues/events
"""

from __future__ import annotations

from datetime import datetime

from bot.testing.github.entities import Event, node_id
from bot.testing.github.rest.endpoint import ApiCall, Endpoint, RestAnswer
from bot.testing.github.site import Json, stamp

LISTED = frozenset({"labeled", "unlabeled", "assigned", "closed", "reopened", "locked", "unlocked"})
"""https://docs.github.com/en/rest/using-the-rest-api/issue-event-types"""


def list_events(call: ApiCall) -> RestAnswer:
    """Return the events of a thread, oldest first."""
    place = (call.issue.repository, call.issue.number)
    return RestAnswer(
        [
            event_json(call, ident, at, event)
            for ident, at, event in call.world.past
            if event.issue is not None
            and (event.issue.repository, event.issue.number) == place
            and (event.action in LISTED or _renames(event))
            and event.comment is None
        ]
    )


def event_json(call: ApiCall, ident: int, at: datetime, event: Event) -> Json:
    """Return an event as JSON (schema issue-event-for-issue)."""
    site, actor = call.site, call.site.user(event.sender)
    body: Json = {
        "id": ident,
        "node_id": node_id("IssueEvent", ident),
        "url": f"{site.api(call.repository)}/issues/events/{ident}",
        "actor": actor,
        "event": event.action,
        "commit_id": None,
        "commit_url": None,
        "created_at": stamp(at),
        "performed_via_github_app": None,
    }
    if event.label is not None:
        label = call.world.labels[call.repository.id][event.label]
        body["label"] = {"name": label.name, "color": label.color}
    if event.assignee is not None:
        body |= {"assignee": site.user(event.assignee), "assigner": actor}
    if event.action == "locked":
        body["lock_reason"] = None
    if event.issue is not None and _renames(event):
        body |= {"event": "renamed", "rename": {"from": event.changed["title"], "to": event.issue.title}}
    return body


def _renames(event: Event) -> bool:
    return event.action == "edited" and "title" in event.changed


ENDPOINTS = (
    Endpoint(
        "GET",
        "/repos/{owner}/{repo}/issues/{number:int}/events",
        list_events,
        ("issues:read", "pull_requests:read"),
    ),
)
