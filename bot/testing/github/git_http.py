"""Git's smart HTTP protocol at `<server>/<owner>/<repo>.git`.

Most of a bot's requests to git are for a list of refs: `ls-refs`, and the list before a push. Both are answered here
from the repository's files. A function that returns None leaves the answer to git.
"""

import gzip
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from bot.testing.github.bare import Bare, GitRefusedError, bare_environment
from bot.testing.github.code_changes import notice_pushes
from bot.testing.github.credentials import grants
from bot.testing.github.entities import Repository, Role, Token
from bot.testing.github.git_objects import ABSENT
from bot.testing.github.rest.endpoint import ApiError, Caller, identify, visible, within
from bot.testing.github.world import ActingUser, GitHubState, NotThereError

FLUSH, DELIMITER = b"0000", b"0001"
CAPABILITIES = re.compile(rb"agent=[!-~]+|object-format=sha1")
"""The capabilities that a client may state before its request."""
ID = re.compile(r"[0-9a-f]{40}")
FEW = 8
"""Maximum number of packed objects that are looked up one by one. For more, one git process answers the request."""


@dataclass(frozen=True, slots=True)
class Listing:
    prefixes: tuple[str, ...]
    options: frozenset[bytes]

    def covers(self, name: str) -> bool:
        return not self.prefixes or name.startswith(self.prefixes)


def run_service(bare: Bare, service: str, option: str, environment: Mapping[str, str], *, body: bytes = b"") -> bytes:
    command = ["git", service.removeprefix("git-"), option, "."]
    return subprocess.run(
        command, cwd=bare.folder, input=body, env=environment, capture_output=True, check=False
    ).stdout


# https://git-scm.com/docs/protocol-v2#_capability_advertisement
@cache
def fetch_capabilities() -> bytes:
    """Return a server's capabilities in version 2 of the protocol. They name no refs, so git is asked only once."""
    return _advertise_nothing("git-upload-pack", {"GIT_PROTOCOL": "version=2"})


# https://git-scm.com/docs/pack-protocol#_reference_discovery
@cache
def push_capabilities() -> bytes:
    """Return a server's capabilities for a push, which follow its first ref. Git is asked only once."""
    advertised = _advertise_nothing("git-receive-pack", {})
    return advertised[: int(advertised[:4], 16)].partition(b"\0")[2].rstrip(b"\n")


def _advertise_nothing(service: str, environment: Mapping[str, str]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        empty = Bare(Path(folder) / "empty.git")
        empty.create("main")
        return run_service(empty, service, "--http-backend-info-refs", {**bare_environment(), **environment})


# https://git-scm.com/docs/protocol-v2#_ls_refs
def answer_listing(bare: Bare, request: bytes) -> bytes | None:
    """Return the answer to an `ls-refs` request (version 2 of the protocol); None if git has to answer."""
    listing, refs = parse_listing(request), _plain_refs(bare)
    if listing is None or refs is None:
        return None
    wanted = {name: at for name, at in refs.items() if listing.covers(name)}
    peeled = peel_tags(bare, wanted) if b"peel" in listing.options else {}
    if peeled is None:
        return None
    tagged = {name: f" peeled:{at}" for name, at in peeled.items()}
    lines = [f"{at} {name}{tagged.get(name, '')}\n" for name, at in wanted.items()]
    return b"".join(map(packet, [*_head_line(bare, listing, refs), *lines])) + FLUSH


def _head_line(bare: Bare, listing: Listing, refs: Mapping[str, str]) -> Iterator[str]:
    target = (bare.folder / "HEAD").read_text(encoding="utf-8").removeprefix("ref: ").rstrip()
    symref = f" symref-target:{target}" if b"symrefs" in listing.options else ""
    at = refs.get(target, "unborn" if symref and b"unborn" in listing.options else "")
    if at and listing.covers("HEAD"):
        yield f"{at} HEAD{symref}\n"


# https://git-scm.com/docs/pack-protocol#_reference_discovery
def refs_before_push(bare: Bare) -> bytes | None:
    """Return the list before a push: the refs that it may change, and the capabilities; None if git must answer."""
    refs = _plain_refs(bare)
    if refs is None:
        return None
    changeable = (f"{at} {name}" for name, at in refs.items() if not name.startswith("refs/pull/"))
    lines = list(changeable) or [f"{ABSENT} capabilities^{{}}"]
    lines[0] += f"\0{push_capabilities().decode()}"
    return b"".join(packet(f"{line}\n") for line in lines) + FLUSH


def _plain_refs(bare: Bare) -> dict[str, str] | None:
    refs = bare.refs()
    return refs if all(map(ID.fullmatch, refs.values())) else None


def parse_listing(request: bytes) -> Listing | None:
    """Parse an `ls-refs` request; None for any other request, and for one that git might reject."""
    packets = list(split_packets(request))
    if packets[:1] != [b"command=ls-refs"] or packets[-1] != FLUSH or packets.count(DELIMITER) > 1:
        return None
    end = packets.index(DELIMITER) if DELIMITER in packets else len(packets) - 1
    arguments = packets[end + 1 : -1]
    options = frozenset(each for each in arguments if not each.startswith(b"ref-prefix "))
    if not all(map(CAPABILITIES.fullmatch, packets[1:end])) or options - {b"peel", b"symrefs", b"unborn"}:
        return None
    prefixes = (each.removeprefix(b"ref-prefix ") for each in arguments if each not in options)
    return Listing(tuple(prefix.decode(errors="surrogateescape") for prefix in prefixes), options)


# https://git-scm.com/docs/protocol-common#_pkt_line_format
def split_packets(stream: bytes) -> Iterator[bytes]:
    """Yield the packets of a stream without their line breaks; special packets and invalid bytes are unchanged."""
    while stream:
        length = int(stream[:4], 16) if re.match(rb"[0-9a-f]{4}", stream) else 0
        if length <= len(FLUSH):
            yield stream[: len(FLUSH)]
            stream = stream[len(FLUSH) :]
        else:
            yield stream[4:length].removesuffix(b"\n")
            stream = stream[length:]


def packet(line: str) -> bytes:
    content = line.encode(errors="surrogateescape")
    return b"%04x%b" % (len(content) + 4, content)


def peel_tags(bare: Bare, refs: Mapping[str, str]) -> dict[str, str] | None:
    """Return what annotated tags point to: ref -> object id; None if too many of the objects are in packs."""
    others = {name: at for name, at in refs.items() if not name.startswith("refs/heads/")}  # those are commits always
    if sum(not bare.is_loose(at) for at in set(others.values())) > FEW:
        return None
    return {name: bare.resolve(at, "") or at for name, at in others.items() if _is_tag(bare, at)}


def _is_tag(bare: Bare, ident: str) -> bool:
    try:
        return bare.kind(ident) == "tag"
    except GitRefusedError:
        return False


# https://git-scm.com/docs/http-protocol. The password of Basic authentication is a token. All other requests are
# answered by git's own upload-pack and receive-pack, without the second process that git-http-backend would be.

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
    async def serve(request: Request) -> Response:
        return await run_in_threadpool(_answer, world, request, await request.body())

    paths = [f"/{{owner}}/{{repo}}.git/{tail}" for tail in ("info/refs", *SERVICES)]
    return [Route(path, serve, methods=["GET" if path.endswith("refs") else "POST"]) for path in paths]


def _answer(world: GitHubState, request: Request, body: bytes) -> Response:
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
    token = caller.token
    free = token is None or grants(token, "workflows", "write")
    if token is not None and token.permissions is None:
        free = "workflow" in token.scopes
    admin = token is not None and token.permissions is None and world.role(repository, token.user) is Role.ADMIN
    limited = token is not None and token.permissions is not None
    return {
        "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.hooksPath", "GIT_CONFIG_VALUE_0": str(_hooks(world)),
        "PROTECTED": "" if admin else " ".join(f"refs/heads/{name}" for name in sorted(repository.protected)),
        "PUSH_PROTECTION": PUSH_PROTECTION if repository.push_protection else "", "SECRETS": SECRETS,
        "RULED": " ".join(f"refs/heads/{prefix}" for prefix in _restricted_prefixes(world, repository)),
        "SIGNED": "yes" if repository.signed else "",
        "NO_WORKFLOWS": "" if free else "a GitHub App" if limited else "a Personal Access Token",
        "MISSING": "`workflows` permission" if limited else "`workflow` scope",
    }  # fmt: skip


def _restricted_prefixes(world: GitHubState, repository: Repository) -> list[str]:
    rulesets = world.settings_of(repository).rulesets
    active = [ruleset for ruleset in rulesets if (ruleset.target, ruleset.enforcement) == ("branch", "active")]
    return [each.prefix for each in active if {"creation", "update"} & set(each.rules)]


def _hooks(world: GitHubState) -> Path:
    hook = (world.folder / "hooks" / "pre-receive").absolute()
    with world.lock:
        if not hook.exists():
            hook.parent.mkdir()
            hook.write_text(PRE_RECEIVE, encoding="utf-8")
            hook.chmod(0o755)
    return hook.parent


# https://git-scm.com/docs/http-protocol#_smart_clients
def _advertisement(bare: Bare, service: str, environment: Mapping[str, str]) -> bytes:
    protocol = environment["GIT_PROTOCOL"]
    if (service, protocol) == ("git-upload-pack", "version=2"):
        return fetch_capabilities()
    # A push has no version 2. Git ignores a request for it.
    advertised = refs_before_push(bare) if service == "git-receive-pack" and protocol in ("", "version=2") else None
    refs = advertised or run_service(bare, service, "--http-backend-info-refs", environment)
    return packet(f"# service={service}\n") + FLUSH + refs


def _result(bare: Bare, service: str, environment: Mapping[str, str], body: bytes) -> bytes:
    is_listing = service == "git-upload-pack" and environment["GIT_PROTOCOL"] == "version=2"
    listing = answer_listing(bare, body) if is_listing else None
    return listing or run_service(bare, service, "--stateless-rpc", environment, body=body)


# https://git-scm.com/docs/pack-protocol#_reference_update_request_and_packfile_transfer
def _changes_ruled_refs(push: bytes) -> bool:
    """Return whether a push changes a branch or a tag. Rules, and so the hook, apply to no other refs."""
    commands = takewhile(lambda line: line != FLUSH, split_packets(push))
    return any(f" refs/{kind}/".encode() in line for line in commands for kind in ("heads", "tags"))


def _git_response(content: bytes, kind: str) -> Response:
    headers = {"content-type": f"application/x-{kind}", "cache-control": "no-cache, max-age=0, must-revalidate"}
    return Response(content, headers=headers)
