"""REST endpoints of check runs.

https://docs.github.com/en/rest/checks/runs
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from bot.testing.github import code_changes
from bot.testing.github.entities import CheckRun
from bot.testing.github.rest.code import commit_of
from bot.testing.github.rest.endpoint import ApiCall, ApiError, Endpoint, RestAnswer
from bot.testing.github.site import Json, Site, stamp, stamp_or_none

RUNS = "/repos/{owner}/{repo}/check-runs"
READ, WRITE = ("checks:read",), ("checks:write",)
TEXT_LIMIT = 65_535


def runs_of_commit(call: ApiCall) -> RestAnswer:
    """Return the check runs of a commit; only the newest of each name unless the query asks for all."""
    sha = commit_of(call, call.path["ref"])
    runs = [
        run for run in call.world.check_runs.values() if (run.repository, run.head_sha) == (call.repository.id, sha)
    ]
    if call.query.get("filter", "latest") == "latest":
        runs = list({(run.app, run.name): run for run in runs}.values())
    if "check_name" in call.query:
        runs = [run for run in runs if run.name == call.query["check_name"]]
    return RestAnswer([check_run_json(call.site, run) for run in runs], wrapped="check_runs")


def create_run(call: ApiCall) -> RestAnswer:
    """Create a check run. Only Apps may do this."""
    app = call.actor.app
    if app is None:
        raise ApiError(403, "You must authenticate via a GitHub App.")
    run = CheckRun(
        id=call.world.next_id(),
        repository=call.repository.id,
        app=app,
        name=call.text("name"),
        head_sha=commit_of(call, call.text("head_sha")),
        status="queued",
        started_at=call.world.now(),
    )
    return RestAnswer(check_run_json(call.site, code_changes.check(call.actor, _update_check(call, run))), 201)


def check_run_json(site: Site, run: CheckRun) -> Json:
    """Return a check run as JSON (schema check-run)."""
    home = site.world.repositories[run.repository]
    url = f"{site.api(home)}/check-runs/{run.id}"
    web = f"{site.web(home)}/runs/{run.id}"
    app = site.world.apps.get(run.app)
    return {
        "id": run.id,
        "name": run.name,
        "node_id": run.node_id,
        "head_sha": run.head_sha,
        "external_id": run.external_id,
        "url": url,
        "html_url": web,
        "details_url": run.details_url or web,
        "status": run.status,
        "conclusion": run.conclusion,
        "started_at": stamp(run.started_at),
        "completed_at": stamp_or_none(run.completed_at),
        "output": {
            "title": run.title,
            "summary": run.summary,
            "text": run.body,
            "annotations_count": 0,
            "annotations_url": f"{url}/annotations",
        },
        "check_suite": {"id": run.id + 1},
        "app": None if app is None else site.app(app),
        "pull_requests": pull_requests_of(site, run),
    }


def pull_requests_of(site: Site, run: CheckRun) -> list[Json]:
    """Return the open pull requests of a check run's head (schema pull-request-minimal), but for those of forks."""
    home, every = site.world.repositories[run.repository], site.world.issues.values()
    place = {"id": home.id, "url": site.api(home), "name": home.name}
    return [
        {
            "id": issue.id,
            "number": issue.number,
            "url": f"{site.api(home)}/pulls/{issue.number}",
            "head": {"ref": pull.head_ref, "sha": pull.head_sha, "repo": place},
            "base": {"ref": pull.base_ref, "sha": pull.base_sha, "repo": place},
        }
        for issue in every
        if (pull := issue.pull) is not None and issue.state == "open"
        if (issue.repository, pull.head_repository, pull.head_sha) == (home.id, home.id, run.head_sha)
    ]


def _update_check(call: ApiCall, run: CheckRun) -> CheckRun:
    output: dict[str, Any] = call.body.get("output") or {}
    if any(len(output.get(name) or "") > TEXT_LIMIT for name in ("summary", "text")):
        raise ApiError(422, "Invalid request.\n\nOnly 65535 characters are allowed; more were supplied.")
    conclusion = call.body.get("conclusion", run.conclusion)
    completed_at = call.body.get("completed_at")
    return replace(
        run,
        status="completed" if conclusion else call.body.get("status", run.status),
        conclusion=conclusion,
        completed_at=datetime.fromisoformat(completed_at) if completed_at else call.world.now() if conclusion else None,
        external_id=call.body.get("external_id", run.external_id),
        details_url=call.body.get("details_url", run.details_url),
        title=output.get("title", run.title),
        summary=output.get("summary", run.summary),
        body=output.get("text", run.body),
    )


ENDPOINTS = (
    Endpoint("GET", "/repos/{owner}/{repo}/commits/{ref:path}/check-runs", runs_of_commit, READ),
    Endpoint("POST", RUNS, create_run, WRITE),
)
