"""One job: jobs' logs at signed addresses, which work for a minute, for anybody, and take no other credential.

https://docs.github.com/en/rest/actions/workflow-jobs#download-job-logs-for-a-workflow-run
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from bot.testing.github.site import Site
from bot.testing.github.world import GitHubState

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

LIFE = 60
"""Seconds that an address works."""


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
