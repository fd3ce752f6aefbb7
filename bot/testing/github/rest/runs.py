"""REST endpoints of check runs, of workflows and their runs, and of jobs' logs.

https://docs.github.com/en/rest/checks/runs
"""

import hashlib
from dataclasses import replace
from datetime import datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from bot.testing.github import code_changes
from bot.testing.github.entities import CheckRun, Role, WorkflowRun
from bot.testing.github.rest.code import commit_of
from bot.testing.github.rest.endpoint import ApiCall, ApiError, Endpoint, RestAnswer, not_found
from bot.testing.github.shapes import Json, Site, fields, stamp
from bot.testing.github.world import GitHubState

RUNS = "/repos/{owner}/{repo}/check-runs"
READ, WRITE = ("checks:read",), ("checks:write",)
TEXT_LIMIT = 65_535


def runs_of_commit(call: ApiCall) -> RestAnswer:
    sha = commit_of(call, call.path["ref"])
    place = call.repository.id, sha
    runs = [run for run in call.world.check_runs.values() if (run.repository, run.head_sha) == place]
    if call.query.get("filter", "latest") == "latest":
        runs = list({(run.app, run.name): run for run in runs}.values())
    if "check_name" in call.query:
        runs = [run for run in runs if run.name == call.query["check_name"]]
    return RestAnswer([check_run_json(call.site, run) for run in runs], wrapped="check_runs")


def create_run(call: ApiCall) -> RestAnswer:
    app = call.actor.app
    if app is None:
        raise ApiError(403, "You must authenticate via a GitHub App.")
    run = CheckRun(
        id=call.world.next_id(), repository=call.repository.id, app=app, name=call.text("name"),
        head_sha=commit_of(call, call.text("head_sha")), status="queued", started_at=call.world.now(),
    )  # fmt: skip
    return RestAnswer(check_run_json(call.site, code_changes.check(call.actor, _update_check(call, run))), 201)


def check_run_json(site: Site, run: CheckRun) -> Json:
    home = site.world.repositories[run.repository]
    url = f"{site.api(home)}/check-runs/{run.id}"
    web = f"{site.web(home)}/runs/{run.id}"
    app = site.world.apps.get(run.app)
    return {
        **fields(run, "id name node_id head_sha external_id status conclusion started_at completed_at"), "url": url,
        "html_url": web, "details_url": run.details_url or web,
        "output": {
            "title": run.title,
            "summary": run.summary,
            "text": run.body,
            "annotations_count": 0,
            "annotations_url": f"{url}/annotations",
        },
        "check_suite": {"id": run.id + 1}, "app": None if app is None else site.app(app),
        "pull_requests": pull_requests_of(site, run),
    }  # fmt: skip


def pull_requests_of(site: Site, run: CheckRun) -> list[Json]:
    """Return the open pull requests, except those of forks, of a check run's head (schema pull-request-minimal)."""
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
        run, status="completed" if conclusion else call.body.get("status", run.status), conclusion=conclusion,
        completed_at=datetime.fromisoformat(completed_at) if completed_at else call.world.now() if conclusion else None,
        external_id=call.body.get("external_id", run.external_id),
        details_url=call.body.get("details_url", run.details_url), title=output.get("title", run.title),
        summary=output.get("summary", run.summary), body=output.get("text", run.body),
    )  # fmt: skip


# https://docs.github.com/en/rest/actions/workflows
# https://docs.github.com/en/rest/actions/workflow-runs#get-a-workflow-run
# https://docs.github.com/en/rest/actions/workflow-jobs#download-job-logs-for-a-workflow-run

LINKS = ("jobs", "logs", "cancel", "rerun", "artifacts")
WORKFLOW = 1
PATH = ".github/workflows/plangate.yml"
LIFE = 60  # seconds for which a signed URL of a log works, without another credential


def get_run(call: ApiCall) -> RestAnswer:
    run = call.world.workflow_runs.get(int(call.path["run_id"]))
    if run is None or run.repository != call.repository.id:
        raise not_found()
    return RestAnswer(workflow_run_json(call.site, run))


def job_log(call: ApiCall) -> RestAnswer:
    job = int(call.path["job_id"])
    run = call.world.check_runs.get(job)
    if run is None or run.repository != call.repository.id or job not in call.world.job_logs:
        raise not_found()
    return RestAnswer(b"", 302, {"location": signed_address(call.site, job)})


def workflow_run_json(site: Site, run: WorkflowRun) -> Json:
    home = site.world.repositories[run.repository]
    actions = f"{site.api(home)}/actions"
    url = f"{actions}/runs/{run.id}"
    written = site.repository(home)
    return {
        **fields(run, "id node_id head_sha event status conclusion updated_at"), "name": "plangate",
        "head_branch": home.default_branch, "path": PATH, "display_title": "plangate", "run_number": 1,
        "run_attempt": 1, "workflow_id": WORKFLOW, "url": url, "html_url": f"{site.web(home)}/actions/runs/{run.id}",
        "pull_requests": [], "created_at": stamp(run.started_at), "run_started_at": stamp(run.started_at),
        **{f"{name}_url": f"{url}/{name}" for name in LINKS},
        "check_suite_url": f"{site.api(home)}/check-suites/{run.id + 1}",
        "workflow_url": f"{actions}/workflows/{WORKFLOW}", "previous_attempt_url": None, "head_commit": None,
        "repository": written, "head_repository": written,
    }  # fmt: skip


def enable_workflow(call: ApiCall) -> RestAnswer:
    call.world.workflows[_workflow(call)] = "active"
    return RestAnswer(status=204)


def disable_workflow(call: ApiCall) -> RestAnswer:
    call.world.workflows[_workflow(call)] = "disabled_manually"
    return RestAnswer(status=204)


def dispatch_workflow(call: ApiCall) -> RestAnswer:
    home, file = _workflow(call)
    if call.world.workflows[home, file] != "active":
        raise ApiError(422, "Cannot trigger a 'workflow_dispatch' on a disabled workflow")
    call.world.start_run(call.repository.full_name, "workflow_dispatch")
    return RestAnswer(status=204)


def list_runs(call: ApiCall) -> RestAnswer:
    runs = [run for run in call.world.workflow_runs.values() if run.repository == call.repository.id]
    event = call.query.get("event")
    bodies = [workflow_run_json(call.site, run) for run in runs if event in {None, run.event}]
    return RestAnswer(bodies, wrapped="workflow_runs")


def deployments(_: ApiCall) -> RestAnswer:
    return RestAnswer([])


def workflow_json(site: Site, repository: int, file: str) -> Json:
    home = site.world.repositories[repository]
    path, web = f".github/workflows/{file}", site.web(home)
    return {
        "id": WORKFLOW, "node_id": f"W_{WORKFLOW}", "name": file, "path": path,
        "state": site.world.workflows[repository, file], "created_at": stamp(home.created_at),
        "updated_at": stamp(home.created_at), "url": f"{site.api(home)}/actions/workflows/{WORKFLOW}",
        "html_url": f"{web}/blob/{home.default_branch}/{path}", "badge_url": f"{web}/workflows/{file}/badge.svg",
    }  # fmt: skip


def _workflow(call: ApiCall) -> tuple[int, str]:
    home = call.repository
    key = home.id, call.path["file"]
    if key not in call.world.workflows:
        place = f"refs/heads/{home.default_branch}:.github/workflows/{key[1]}"
        if call.world.bare(home).resolve(place, "blob") is None:
            raise not_found()
        call.world.workflows[key] = "active"
    return key


_WORKFLOW = "/repos/{owner}/{repo}/actions/workflows/{file}"


def signed_address(site: Site, job: int) -> str:
    until = int(site.world.now().timestamp()) + LIFE
    return f"{site.server_url}/signedlogcontent/{job}?se={until}&sig={_signature(job, until)}"


def log_routes(world: GitHubState) -> list[Route]:
    async def serve(request: Request) -> Response:
        job, until = request.path_params["job"], int(request.query_params.get("se", "0"))
        if "authorization" in request.headers:
            # The storage refuses a second credential:
            # https://learn.microsoft.com/en-us/rest/api/storageservices/authorize-requests-to-azure-storage
            return PlainTextResponse("InvalidAuthenticationInfo", 400)
        if request.query_params.get("sig") != _signature(job, until) or world.now().timestamp() > until:
            return PlainTextResponse("AuthenticationFailed", 403)
        return PlainTextResponse(world.job_logs[job])

    return [Route("/signedlogcontent/{job:int}", serve)]


def _signature(job: int, until: int) -> str:
    return hashlib.sha256(f"signed {job} {until}".encode()).hexdigest()


ENDPOINTS = (
    Endpoint("GET", "/repos/{owner}/{repo}/commits/{ref:path}/check-runs", runs_of_commit, READ),
    Endpoint("POST", RUNS, create_run, WRITE),
    Endpoint("GET", "/repos/{owner}/{repo}/actions/runs/{run_id:int}", get_run, ("actions:read",)),
    Endpoint("GET", "/repos/{owner}/{repo}/actions/jobs/{job_id:int}/logs", job_log, ("actions:read",)),
    Endpoint("GET", "/repos/{owner}/{repo}/actions/runs", list_runs, ("actions:read",)),
    Endpoint("GET", "/repos/{owner}/{repo}/deployments", deployments, ("deployments:read",)),
    Endpoint("GET", _WORKFLOW, lambda call: workflow_json(call.site, *_workflow(call)), ("actions:read",)),
    Endpoint("POST", f"{_WORKFLOW}/dispatches", dispatch_workflow, ("actions:write",), Role.WRITE),
    Endpoint("PUT", f"{_WORKFLOW}/enable", enable_workflow, ("actions:write",), Role.WRITE),
    Endpoint("PUT", f"{_WORKFLOW}/disable", disable_workflow, ("actions:write",), Role.WRITE),
)  # fmt: skip
