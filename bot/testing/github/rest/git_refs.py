"""REST endpoints of git's refs.

https://docs.github.com/en/rest/git/refs
"""

from __future__ import annotations

from bot.testing.github.bare import Bare, GitRefusedError
from bot.testing.github.code_changes import notice_pushes
from bot.testing.github.entities import Role
from bot.testing.github.ref_files import ABSENT
from bot.testing.github.rest.endpoint import ApiCall, ApiError, Endpoint, RestAnswer
from bot.testing.github.site import Json

GIT = "/repos/{owner}/{repo}/git"
READ, WRITE = ("contents:read",), ("contents:write",)


def matching_refs(call: ApiCall) -> RestAnswer:
    """Return the refs that start with a name."""
    start = f"refs/{call.path['ref']}"
    return RestAnswer([_ref(call, ref, sha) for ref, sha in _bare(call).refs().items() if ref.startswith(start)])


def create_ref(call: ApiCall) -> RestAnswer:
    """Create a ref. An existing ref is a 422."""
    ref, sha = call.text("ref"), _commit(call, call.text("sha"))
    if not ref.startswith("refs/") or ref.count("/") < 2:
        raise ApiError(422, "Reference name must start with 'refs/' and have at least two slashes.")
    if ref in _bare(call).refs():
        raise ApiError(422, "Reference already exists")
    _move(call, ref, sha, ABSENT)
    return RestAnswer(_ref(call, ref, sha), 201)


def update_ref(call: ApiCall) -> RestAnswer:
    """Move a ref. Only a forced update may drop commits."""
    ref, sha = f"refs/{call.path['ref']}", _commit(call, call.text("sha"))
    before = _bare(call).refs().get(ref)
    if before is None:
        raise ApiError(422, "Reference does not exist")
    if not call.body.get("force", False) and _bare(call).merge_base(before, sha) != before:
        raise ApiError(422, "Update is not a fast forward")
    _move(call, ref, sha, before)
    return RestAnswer(_ref(call, ref, sha))


def delete_ref(call: ApiCall) -> RestAnswer:
    """Delete a ref."""
    ref = f"refs/{call.path['ref']}"
    before = _bare(call).refs().get(ref)
    if before is None:
        raise ApiError(422, "Reference does not exist")
    _move(call, ref, ABSENT, before)
    return RestAnswer(status=204)


def _bare(call: ApiCall) -> Bare:
    return call.world.bare(call.repository)


def _move(call: ApiCall, ref: str, after: str, before: str) -> None:
    try:
        _bare(call).move(ref, after, before)
    except GitRefusedError:
        raise ApiError(422, "Reference cannot be updated") from None
    notice_pushes(call.actor, call.repository)


def _commit(call: ApiCall, sha: str) -> str:
    commit = _bare(call).resolve(sha) if len(sha) == 40 else None
    if commit is None:
        raise ApiError(422, "Object does not exist")
    return commit


def _ref(call: ApiCall, ref: str, sha: str) -> Json:
    home = call.site.api(call.repository)
    kind = _bare(call).kind(sha)
    target = {"sha": sha, "type": kind, "url": f"{home}/git/{kind}s/{sha}"}
    return {"ref": ref, "node_id": f"REF_kw{ref}", "url": f"{home}/git/{ref}", "object": target}


ENDPOINTS = (
    Endpoint("GET", f"{GIT}/matching-refs/{{ref:path}}", matching_refs, READ),
    Endpoint("POST", f"{GIT}/refs", create_ref, WRITE, Role.WRITE),
    Endpoint("PATCH", f"{GIT}/refs/{{ref:path}}", update_ref, WRITE, Role.WRITE),
    Endpoint("DELETE", f"{GIT}/refs/{{ref:path}}", delete_ref, WRITE, Role.WRITE),
)
