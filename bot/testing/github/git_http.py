"""Git's smart HTTP protocol at `<server>/<owner>/<repo>.git`.

The password of Basic authentication is a token. A push that changes workflow files requires a token that may do so; a
push to a protected branch requires an admin. `ref_advertisement` lists refs. Everything else is answered by git's own
upload-pack and receive-pack, without git-http-backend, which would be a second process for each request.
https://git-scm.com/docs/http-protocol
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from bot.testing.github.bare import Bare, bare_environment
from bot.testing.github.code_changes import notice_pushes
from bot.testing.github.credentials import grants
from bot.testing.github.entities import Repository, Role, Token
from bot.testing.github.ref_advertisement import (
    FLUSH,
    answer_listing,
    fetch_capabilities,
    packet,
    refs_before_push,
    run_service,
    split_packets,
)
from bot.testing.github.rest.endpoint import ApiError, Caller, identify, visible, within
from bot.testing.github.world import ActingUser, GitHubState, NotThereError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

PRE_RECEIVE = """#!/bin/sh
while read -r old new ref; do
  case " $PROTECTED " in *" $ref "*)
    echo "error: GH006: Protected branch update failed for $ref." >&2; exit 1 ;;
  esac
  case "$ref" in refs/heads/*|refs/tags/*) ;; *) continue ;; esac
  for prefix in $RULED; do
    case "$ref" in "$prefix"*)
      printf '%s\\n' "error: GH013: Repository rule violations found for $ref." '' >&2
      printf '%s\\n' '- Cannot create ref due to creations being restricted.' >&2
      exit 1 ;;
    esac
  done
  case "$new" in *[!0]*) ;; *) continue ;; esac
  if test -n "$PUSH_PROTECTION"; then
    found=$(git log --format=%H -G "$SECRETS" "$new" --not --all | head -n 1)
    if test -n "$found"; then
      file=$(git grep -n -m 1 -E "$SECRETS" "$found" | head -n 1 | cut -d: -f2,3)
      printf "$PUSH_PROTECTION" "$ref" "$found" "$file" >&2
      exit 1
    fi
  fi
  for commit in $(test -n "$SIGNED" && git rev-list "$new" --not --all); do
    git cat-file commit "$commit" | sed '/^$/q' | grep -q '^gpgsig ' && continue
    printf '%s\\n' "error: GH013: Repository rule violations found for $ref." '' >&2
    printf '%s\\n' '- Commits must have verified signatures.' '  Found 1 violation:' '' "  $commit" >&2
    exit 1
  done
  test -z "$NO_WORKFLOWS" && continue
  file=$(git log --format= --name-only "$new" --not --all -- .github/workflows | head -n 1)
  test -z "$file" && continue
  echo "refusing to allow $NO_WORKFLOWS to create or update workflow \\`$file\\` without $MISSING" >&2
  exit 1
done
"""
SECRETS = "ghp_[0-9A-Za-z]{36}"
# https://docs.github.com/en/code-security/secret-scanning/working-with-secret-scanning-and-push-protection/working-with-push-protection-from-the-command-line
PUSH_PROTECTION = """error: GH013: Repository rule violations found for %s.

- GITHUB PUSH PROTECTION
  —————————————————————————————————————————
    Resolve the following violations before pushing again

    - Push cannot contain secrets

     —— GitHub Personal Access Token ——————————————————
      locations:
        - commit: %s
          path: %s
"""
SERVICES = {"git-upload-pack": "read", "git-receive-pack": "write"}


class GitRefusal(Exception):
    """A refusal: the message for git's user, the HTTP status, and the location of a redirect."""

    def __init__(self, status: int, message: str, location: str = "") -> None:
        super().__init__(message)
        self.status, self.message, self.location = status, message, location


def git_routes(world: GitHubState) -> list[Route]:
    """Return the routes of git smart HTTP for all repositories of a world."""
    from starlette.concurrency import run_in_threadpool
    from starlette.routing import Route

    async def serve(request: Request) -> Response:
        return await run_in_threadpool(_answer, world, request, await request.body())

    paths = [f"/{{owner}}/{{repo}}.git/{tail}" for tail in ("info/refs", *SERVICES)]
    return [Route(path, serve, methods=["GET" if path.endswith("refs") else "POST"]) for path in paths]


def _answer(world: GitHubState, request: Request, body: bytes) -> Response:
    from starlette.responses import PlainTextResponse

    tail = request.url.path.rpartition(".git/")[2]
    service = request.query_params.get("service", "") if tail == "info/refs" else tail
    try:
        if service not in SERVICES:
            raise GitRefusal(403, "Please upgrade your git client.")
        caller, repository = _authorize(world, request, SERVICES[service])
    except GitRefusal as refusal:
        challenge = {"www-authenticate": 'Basic realm="GitHub"'} if refusal.status == 401 else {}
        moved = {"location": f"/{refusal.location}.git/{tail}?{request.url.query}"} if refusal.location else {}
        return PlainTextResponse(refusal.message, refusal.status, challenge | moved)
    request.state.logged.credential = caller.kind
    bare, environment = world.bare(repository), bare_environment()
    environment["GIT_PROTOCOL"] = request.headers.get("git-protocol", "")
    if tail == "info/refs":
        return _git_response(_advertisement(bare, service, environment), f"{service}-advertisement")
    if request.headers.get("content-encoding") == "gzip":
        body = gzip.decompress(body)
    if tail == "git-receive-pack" and _changes_ruled_refs(body):
        environment |= _rules(world, caller, repository)
    answer = _git_response(_result(bare, tail, environment, body), f"{tail}-result")
    if tail == "git-receive-pack" and caller.token is not None:
        notice_pushes(ActingUser(world, caller.token.user, caller.token.app), repository)
    return answer


def _authorize(world: GitHubState, request: Request, level: str) -> tuple[Caller, Repository]:
    try:
        caller = identify(world, request.headers.get("authorization", ""))
        name = f"{request.path_params['owner']}/{request.path_params['repo']}"
        repository = world.repository(name, renamed=True)
    except ApiError:
        raise GitRefusal(401, "Invalid username or token.") from None
    except NotThereError:
        raise GitRefusal(404, "Repository not found.") from None
    token = caller.token
    if token is None and (level == "write" or repository.private):
        raise GitRefusal(401, "Authentication required.")
    if not visible(world, caller, repository):
        raise GitRefusal(404, "Repository not found.")
    if name.lower() == repository.former.lower():
        raise GitRefusal(301, "Moved permanently.", repository.full_name)
    if token is not None and not _may(world, token, repository, level):
        raise GitRefusal(403, "Write access to repository not granted." if level == "write" else "Access denied.")
    return caller, repository


def _may(world: GitHubState, token: Token, repository: Repository, level: str) -> bool:
    if level == "write" and repository.archived:
        return False
    if token.permissions is None:
        return world.role(repository, token.user).covers(Role.WRITE if level == "write" else Role.READ)
    if not within(world, token, repository):
        return level == "read" and not repository.private
    return grants(token, "contents", level)


def _rules(world: GitHubState, caller: Caller, repository: Repository) -> dict[str, str]:
    """Return the environment variables by which git runs the hook, and from which the hook reads its rules."""
    token = caller.token
    free = token is None or grants(token, "workflows", "write")
    if token is not None and token.permissions is None:
        free = "workflow" in token.scopes
    admin = token is not None and token.permissions is None and world.role(repository, token.user) is Role.ADMIN
    limited = token is not None and token.permissions is not None
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.hooksPath",
        "GIT_CONFIG_VALUE_0": str(_hooks(world)),
        "PROTECTED": "" if admin else " ".join(f"refs/heads/{name}" for name in sorted(repository.protected)),
        "PUSH_PROTECTION": PUSH_PROTECTION if repository.push_protection else "",
        "SECRETS": SECRETS,
        "RULED": " ".join(f"refs/heads/{prefix}" for prefix in _restricted_prefixes(world, repository)),
        "SIGNED": "yes" if repository.signed else "",
        "NO_WORKFLOWS": "" if free else "a GitHub App" if limited else "a Personal Access Token",
        "MISSING": "`workflows` permission" if limited else "`workflow` scope",
    }


def _restricted_prefixes(world: GitHubState, repository: Repository) -> list[str]:
    """Return the prefixes of the branches that a ruleset restricts for everybody."""
    rulesets = world.settings_of(repository).rulesets
    active = [ruleset for ruleset in rulesets if (ruleset.target, ruleset.enforcement) == ("branch", "active")]
    return [each.prefix for each in active if {"creation", "update"} & set(each.rules)]


def _hooks(world: GitHubState) -> Path:
    """Return the folder of the hook that runs for every push to which rules may apply."""
    hook = (world.folder / "hooks" / "pre-receive").absolute()
    with world.lock:
        if not hook.exists():
            hook.parent.mkdir()
            hook.write_text(PRE_RECEIVE, encoding="utf-8")
            hook.chmod(0o755)
    return hook.parent


def _advertisement(bare: Bare, service: str, environment: Mapping[str, str]) -> bytes:
    """Return what the server can do and, unless it speaks version 2 of the protocol, its refs.

    https://git-scm.com/docs/http-protocol#_smart_clients
    """
    protocol = environment["GIT_PROTOCOL"]
    if (service, protocol) == ("git-upload-pack", "version=2"):
        return fetch_capabilities()
    # A push has no version 2. Git ignores a request for it.
    advertised = refs_before_push(bare) if service == "git-receive-pack" and protocol in ("", "version=2") else None
    refs = advertised or run_service(bare, service, "--http-backend-info-refs", environment)
    return packet(f"# service={service}\n") + FLUSH + refs


def _result(bare: Bare, service: str, environment: Mapping[str, str], body: bytes) -> bytes:
    """Return the answer to a fetch or a push, from git unless it is a mere listing of refs."""
    is_listing = service == "git-upload-pack" and environment["GIT_PROTOCOL"] == "version=2"
    listing = answer_listing(bare, body) if is_listing else None
    return listing or run_service(bare, service, "--stateless-rpc", environment, body=body)


def _changes_ruled_refs(push: bytes) -> bool:
    """Return whether a push names a branch or a tag. Rules, and so the hook, concern nothing else.

    https://git-scm.com/docs/pack-protocol#_reference_update_request_and_packfile_transfer
    """
    commands = takewhile(lambda line: line != FLUSH, split_packets(push))
    return any(f" refs/{kind}/".encode() in line for line in commands for kind in ("heads", "tags"))


def _git_response(content: bytes, kind: str) -> Response:
    from starlette.responses import Response

    headers = {"content-type": f"application/x-{kind}", "cache-control": "no-cache, max-age=0, must-revalidate"}
    return Response(content, headers=headers)
