"""Git's smart HTTP protocol at `<server>/<owner>/<repo>.git`.

The password of Basic authentication is a token. A push that changes workflow files requires a token that may do so; a
push to a protected branch requires an admin. Git's own upload-pack and receive-pack answer, without git-http-backend
between, which would be a second process for each request. https://git-scm.com/docs/http-protocol
"""

from __future__ import annotations

import gzip
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from bot.testing.github.bare import Bare, bare_environment
from bot.testing.github.code_changes import notice_pushes
from bot.testing.github.credentials import grants
from bot.testing.github.entities import Repository, Role, Token
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
    bare, environment = world.bare(repository), _environment(world, caller, repository)
    environment["GIT_PROTOCOL"] = request.headers.get("git-protocol", "")
    if tail == "info/refs":
        return _advertisement(bare, service, environment)
    if request.headers.get("content-encoding") == "gzip":
        body = gzip.decompress(body)
    answer = _git_response(_serve_git(bare, tail, "--stateless-rpc", environment, body=body), f"{tail}-result")
    if tail == "git-receive-pack" and caller.token is not None:
        notice_pushes(ActingUser(world, caller.token.user, caller.token.app), repository)
    return answer


def _authorize(world: GitHubState, request: Request, level: str) -> tuple[Caller, Repository]:
    try:
        caller = identify(world, request.headers.get("authorization", ""))
        asked = f"{request.path_params['owner']}/{request.path_params['repo']}"
        repository = world.repository(asked, renamed=True)
    except ApiError:
        raise GitRefusal(401, "Invalid username or token.") from None
    except NotThereError:
        raise GitRefusal(404, "Repository not found.") from None
    token = caller.token
    if token is None and (level == "write" or repository.private):
        raise GitRefusal(401, "Authentication required.")
    if not visible(world, caller, repository):
        raise GitRefusal(404, "Repository not found.")
    if asked.lower() == repository.former.lower():
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


def _environment(world: GitHubState, caller: Caller, repository: Repository) -> dict[str, str]:
    """Return the environment of git, with what the hook decides by."""
    _install_hook(world.bare(repository))
    token = caller.token
    free = token is None or grants(token, "workflows", "write")
    if token is not None and token.permissions is None:
        free = "workflow" in token.scopes
    admin = token is not None and token.permissions is None and world.role(repository, token.user) is Role.ADMIN
    limited = token is not None and token.permissions is not None
    return {
        **bare_environment(),
        "PROTECTED": "" if admin else " ".join(f"refs/heads/{name}" for name in sorted(repository.protected)),
        "PUSH_PROTECTION": PUSH_PROTECTION if repository.push_protection else "",
        "SECRETS": SECRETS,
        "RULED": " ".join(f"refs/heads/{prefix}" for prefix in _restricted_prefixes(world, repository)),
        "SIGNED": "yes" if repository.signed else "",
        "NO_WORKFLOWS": "" if free else "a GitHub App" if limited else "a Personal Access Token",
        "MISSING": "`workflows` permission" if limited else "`workflow` scope",
    }


def _restricted_prefixes(world: GitHubState, repository: Repository) -> list[str]:
    """Return how branches begin that a ruleset restricts for everybody."""
    rulesets = world.settings_of(repository).rulesets
    active = [ruleset for ruleset in rulesets if (ruleset.target, ruleset.enforcement) == ("branch", "active")]
    return [each.prefix for each in active if {"creation", "update"} & set(each.rules)]


def _install_hook(bare: Bare) -> None:
    hook = bare.folder / "hooks" / "pre-receive"
    if not hook.exists():
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(PRE_RECEIVE, encoding="utf-8")
        hook.chmod(0o755)


@dataclass(frozen=True, slots=True)
class _Served:
    """A repository, equal to each other one that has the same configuration."""

    configuration: bytes
    bare: Bare = field(compare=False)


def _advertisement(bare: Bare, service: str, environment: Mapping[str, str]) -> Response:
    """Return what the server can do and, unless it speaks version 2 of the protocol, its refs.

    https://git-scm.com/docs/http-protocol#_smart_clients
    """
    if service == "git-upload-pack" and environment["GIT_PROTOCOL"] == "version=2":
        content = _capabilities(_Served((bare.folder / "config").read_bytes(), bare))
    else:
        head = f"# service={service}\n".encode()
        content = b"%04x%b0000" % (len(head) + 4, head)
        content += _serve_git(bare, service, "--http-backend-info-refs", environment)
    return _git_response(content, f"{service}-advertisement")


@lru_cache(maxsize=64)
def _capabilities(served: _Served) -> bytes:
    """Return what a server can do in version 2 of the protocol: it names no refs, so it is asked of git once.

    https://git-scm.com/docs/protocol-v2#_capability_advertisement
    """
    environment = {**bare_environment(), "GIT_PROTOCOL": "version=2"}
    return _serve_git(served.bare, "git-upload-pack", "--http-backend-info-refs", environment)


def _serve_git(bare: Bare, service: str, option: str, environment: Mapping[str, str], *, body: bytes = b"") -> bytes:
    """Return what git's service answers. What went wrong is part of the answer."""
    command = ["git", service.removeprefix("git-"), option, "."]
    return subprocess.run(
        command, cwd=bare.folder, input=body, env=environment, capture_output=True, check=False
    ).stdout


def _git_response(content: bytes, kind: str) -> Response:
    from starlette.responses import Response

    headers = {"content-type": f"application/x-{kind}", "cache-control": "no-cache, max-age=0, must-revalidate"}
    return Response(content, headers=headers)
