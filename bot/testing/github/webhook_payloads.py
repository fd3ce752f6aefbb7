"""The webhook payload of an event, in GitHub's format.

https://docs.github.com/en/webhooks/webhook-events-and-payloads
"""

from __future__ import annotations

from typing import TypeVar

from bot.testing.github.credentials import reaches
from bot.testing.github.diffs import commits_between
from bot.testing.github.entities import App, CheckRun, Event, Installation, Push, Repository, node_id
from bot.testing.github.ref_files import ABSENT
from bot.testing.github.rest.check_runs import check_run_json
from bot.testing.github.rest.code import git_commit_json
from bot.testing.github.shapes import comment_json, issue_json, pull_json, review_comment_json, review_json
from bot.testing.github.site import Json, Site, stamp, web_login

T = TypeVar("T")


def payload(site: Site, event: Event, installation: Installation | None) -> Json:
    """Return the payload of an event for one webhook. An App's payload also names the installation."""
    parts: Json = {}
    if event.action is not None:
        parts["action"] = event.action
    parts |= _subject(site, event)
    if event.changed:
        parts["changes"] = {name: {"from": before} for name, before in event.changed.items()}
    elif event.action == "edited":
        parts["changes"] = {}
    if event.label is not None and event.repository is not None:
        parts["label"] = site.label(event.repository, site.world.labels[event.repository.id][event.label])
    if event.assignee is not None:
        parts["assignee"] = site.user(event.assignee)
    if event.repository is not None:
        parts["repository"] = site.repository(event.repository)
    if installation is not None and event.installation is None:
        parts["installation"] = {"id": installation.id, "node_id": node_id("App", installation.id)}
    parts["sender"] = site.user(event.sender)
    return parts


def ping(site: Site, app: App) -> Json:
    """Return the payload of the ping that confirms a webhook's setup."""
    hook = {"type": "App", "id": app.id, "name": "web", "active": True, "events": list(app.events), "app_id": app.id}
    url = f"{site.api_url}/app/hook"
    config = {"content_type": "json", "url": "https://example.com", "insecure_ssl": "0"}
    times = {"updated_at": stamp(app.created_at), "created_at": stamp(app.created_at)}
    links = {"deliveries_url": f"{url}/deliveries"}
    return {"zen": "Design for failure.", "hook_id": app.id, "hook": {**hook, "config": config, **times, **links}}


def _subject(site: Site, event: Event) -> Json:
    match event.name:
        case "issues":
            return {"issue": issue_json(site, _payload_of(event.issue), webhook=True)}
        case "issue_comment":
            issue = issue_json(site, _payload_of(event.issue), webhook=True)
            return {"issue": issue, "comment": comment_json(site, _payload_of(event.comment))}
        case "pull_request":
            moved = {} if event.push is None else {"before": event.push.before, "after": event.push.after}
            return {
                "number": _payload_of(event.issue).number,
                "pull_request": pull_json(site, _payload_of(event.issue)),
                **moved,
            }
        case "pull_request_review":
            review = review_json(site, _payload_of(event.review))
            review["state"] = review["state"].lower()
            return {"review": review, "pull_request": pull_json(site, _payload_of(event.issue), whole=False)}
        case "pull_request_review_comment":
            comment = review_comment_json(site, _payload_of(event.review_comment))
            return {"comment": comment, "pull_request": pull_json(site, _payload_of(event.issue), whole=False)}
        case "check_run":
            return {"check_run": _check_run(site, _payload_of(event.check_run))}
        case "push":
            return _push(site, _payload_of(event.repository), _payload_of(event.push), event.sender)
        case _:
            return _installation(site, event)


def _payload_of(value: T | None) -> T:
    if value is None:
        raise ValueError("an event of that name always has this value")
    return value


def _installation(site: Site, event: Event) -> Json:
    installation = _payload_of(event.installation)
    reached = [repository for repository in site.world.repositories.values() if reaches(installation, repository)]
    keys = ("id", "node_id", "name", "full_name", "private")
    rows = [{key: site.repository(each)[key] for key in keys} for each in reached]
    return {"installation": site.installation(installation), "repositories": rows, "requester": None}


def _check_run(site: Site, run: CheckRun) -> Json:
    written = check_run_json(site, run)
    suite = {
        "id": written["check_suite"]["id"],
        "node_id": run.node_id,
        "head_branch": None,
        "head_sha": run.head_sha,
        "url": f"{site.api(site.world.repositories[run.repository])}/check-suites/{run.id + 1}",
        "before": None,
        "after": run.head_sha,
        "pull_requests": written["pull_requests"],
        "app": written["app"],
        "created_at": written["started_at"],
        "updated_at": written["started_at"],
    }
    return {**written, "check_suite": {**suite, "status": run.status, "conclusion": run.conclusion}}


def _push(site: Site, home: Repository, push: Push, sender: int) -> Json:
    bare, user = site.world.bare(home), site.world.users[sender]
    created, deleted = push.before == ABSENT, push.after == ABSENT
    base = None if created or deleted else bare.merge_base(push.before, push.after)
    start = bare.resolve(f"refs/heads/{home.default_branch}") if created else push.before
    ids = () if deleted else commits_between(bare, start or ABSENT, push.after)
    commits = [_pushed_commit(site, home, sha) for sha in ids]
    head = None if deleted else _pushed_commit(site, home, push.after)
    pusher = {"name": user.login, "email": f"{user.id}+{web_login(user)}@users.noreply.github.com"}
    return {
        "ref": push.ref,
        "before": push.before,
        "after": push.after,
        "pusher": pusher,
        "created": created,
        "deleted": deleted,
        "forced": not created and not deleted and base != push.before,
        "base_ref": None,
        "compare": f"{site.web(home)}/compare/{push.before[:12]}...{push.after[:12]}",
        "commits": commits,
        "head_commit": head,
    }


def _pushed_commit(site: Site, home: Repository, sha: str) -> Json:
    git = git_commit_json(site, home, sha)
    people = {role: {**git[role], "username": git[role]["name"]} for role in ("author", "committer")}
    listing = (
        site.world.bare(home).text("show", "--name-status", "--no-renames", "--format=", "-z", sha, "--").split("\0")
    )
    changed = list(zip(listing[::2], listing[1::2], strict=False))
    return {
        "id": sha,
        "tree_id": git["tree"]["sha"],
        "distinct": True,
        "message": git["message"],
        "timestamp": git["committer"]["date"],
        "url": git["html_url"],
        **people,
        "added": [path for status, path in changed if status == "A"],
        "removed": [path for status, path in changed if status == "D"],
        "modified": [path for status, path in changed if status == "M"],
    }
