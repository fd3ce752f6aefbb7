"""REST endpoints of workflows, of their runs, and of jobs' logs.

https://docs.github.com/en/rest/actions/workflows
https://docs.github.com/en/rest/actions/workflow-runs#get-a-workflow-run
https://docs.github.com/en/rest/actions/workflow-jobs#download-job-logs-for-a-workflow-run
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from bot.testing.github.entities import Role, WorkflowRun
from bot.testing.github.rest.endpoint import ApiCall, ApiError, Endpoint, RestAnswer, not_found
from bot.testing.github.site import Json, Site, stamp
from bot.testing.github.world import GitHubState

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

LINKS = ("jobs", "logs", "cancel", "rerun", "artifacts")
WORKFLOW = 1
PATH = ".github/workflows/plangate.yml"
LIFE = 60
"""Seconds that a signed address of a log works, for anybody and without another credential."""


def get_run(call: ApiCall) -> RestAnswer:
    """Return a workflow run."""
    run = call.world.workflow_runs.get(int(call.path["run_id"]))
    if run is None or run.repository != call.repository.id:
        raise not_found()
    return RestAnswer(workflow_run_json(call.site, run))


def job_log(call: ApiCall) -> RestAnswer:
    """Redirect to a job's log, at a signed address on another host."""
    job = int(call.path["job_id"])
    run = call.world.check_runs.get(job)
    if run is None or run.repository != call.repository.id or job not in call.world.job_logs:
        raise not_found()
    return RestAnswer(b"", 302, {"location": signed_address(call.site, job)})


def workflow_run_json(site: Site, run: WorkflowRun) -> Json:
    """Return a workflow run as JSON (schema workflow-run)."""
    home = site.world.repositories[run.repository]
    actions = f"{site.api(home)}/actions"
    url = f"{actions}/runs/{run.id}"
    written = site.repository(home)
    return {
        "id": run.id,
        "name": "plangate",
        "node_id": run.node_id,
        "head_branch": home.default_branch,
        "head_sha": run.head_sha,
        "path": PATH,
        "display_title": "plangate",
        "run_number": 1,
        "run_attempt": 1,
        "event": run.event,
        "status": run.status,
        "conclusion": run.conclusion,
        "workflow_id": WORKFLOW,
        "url": url,
        "html_url": f"{site.web(home)}/actions/runs/{run.id}",
        "pull_requests": [],
        "created_at": stamp(run.started_at),
        "run_started_at": stamp(run.started_at),
        "updated_at": stamp(run.updated_at),
        **{f"{name}_url": f"{url}/{name}" for name in LINKS},
        "check_suite_url": f"{site.api(home)}/check-suites/{run.id + 1}",
        "workflow_url": f"{actions}/workflows/{WORKFLOW}",
        "previous_attempt_url": None,
        "head_commit": None,
        "repository": written,
        "head_repository": written,
    }


def get_workflow(call: ApiCall) -> RestAnswer:
    """Return a workflow, named by its file."""
    return RestAnswer(workflow_json(call.site, *_workflow(call)))


def enable_workflow(call: ApiCall) -> RestAnswer:
    """Let the workflow's events start runs."""
    call.world.workflows[_workflow(call)] = "active"
    return RestAnswer(status=204)


def disable_workflow(call: ApiCall) -> RestAnswer:
    """Keep the workflow's events from starting runs."""
    call.world.workflows[_workflow(call)] = "disabled_manually"
    return RestAnswer(status=204)


def dispatch_workflow(call: ApiCall) -> RestAnswer:
    """Start a run by hand, or by a job. It is recorded, and nothing is executed."""
    home, file = _workflow(call)
    if call.world.workflows[home, file] != "active":
        raise ApiError(422, "Cannot trigger a 'workflow_dispatch' on a disabled workflow")
    call.world.start_run(call.repository.full_name, "workflow_dispatch")
    return RestAnswer(status=204)


def list_runs(call: ApiCall) -> RestAnswer:
    """Return the runs of a repository, optionally those of one event."""
    runs = [run for run in call.world.workflow_runs.values() if run.repository == call.repository.id]
    event = call.query.get("event")
    bodies = [workflow_run_json(call.site, run) for run in runs if event in {None, run.event}]
    return RestAnswer(bodies, wrapped="workflow_runs")


def deployments(_: ApiCall) -> RestAnswer:
    """Return the deployments: there are none, because no job runs."""
    return RestAnswer([])


def workflow_json(site: Site, repository: int, file: str) -> Json:
    """Return a workflow as JSON (schema workflow)."""
    home = site.world.repositories[repository]
    path, web = f".github/workflows/{file}", site.web(home)
    return {
        "id": WORKFLOW,
        "node_id": f"W_{WORKFLOW}",
        "name": file,
        "path": path,
        "state": site.world.workflows[repository, file],
        "created_at": stamp(home.created_at),
        "updated_at": stamp(home.created_at),
        "url": f"{site.api(home)}/actions/workflows/{WORKFLOW}",
        "html_url": f"{web}/blob/{home.default_branch}/{path}",
        "badge_url": f"{web}/workflows/{file}/badge.svg",
    }


def _workflow(call: ApiCall) -> tuple[int, str]:
    """Return the workflow in the path: one that was added, or a file on the default branch."""
    home = call.repository
    key = home.id, call.path["file"]
    if key not in call.world.workflows:
        place = f"refs/heads/{home.default_branch}:.github/workflows/{key[1]}"
        if call.world.bare(home).resolve(place, "blob") is None:
            raise not_found()
        call.world.workflows[key] = "active"
    return key


_WORKFLOW = "/repos/{owner}/{repo}/actions/workflows/{file}"
ENDPOINTS = (
    Endpoint("GET", "/repos/{owner}/{repo}/actions/runs/{run_id:int}", get_run, ("actions:read",)),
    Endpoint("GET", "/repos/{owner}/{repo}/actions/jobs/{job_id:int}/logs", job_log, ("actions:read",)),
    Endpoint("GET", "/repos/{owner}/{repo}/actions/runs", list_runs, ("actions:read",)),
    Endpoint("GET", "/repos/{owner}/{repo}/deployments", deployments, ("deployments:read",)),
    Endpoint("GET", _WORKFLOW, get_workflow, ("actions:read",)),
    Endpoint("POST", f"{_WORKFLOW}/dispatches", dispatch_workflow, ("actions:write",), Role.WRITE),
    Endpoint("PUT", f"{_WORKFLOW}/enable", enable_workflow, ("actions:write",), Role.WRITE),
    Endpoint("PUT", f"{_WORKFLOW}/disable", disable_workflow, ("actions:write",), Role.WRITE),
)


def signed_address(site: Site, job: int) -> str:
    """Return the address of a job's log."""
    until = int(site.world.now().timestamp()) + LIFE
    return f"{site.server_url}/signedlogcontent/{job}?se={until}&sig={_signature(job, until)}"


def log_routes(world: GitHubState) -> list[Route]:
    """Return the route of the logs."""
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

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
