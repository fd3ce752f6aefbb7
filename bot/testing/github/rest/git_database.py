"""One job: REST endpoints of git's own data: refs, commits, trees, and blobs.

https://docs.github.com/en/rest/git
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from bot.testing.github.bare import ABSENT, Bare, GitRefusedError
from bot.testing.github.code_changes import notice_pushes
from bot.testing.github.entities import Role
from bot.testing.github.rest.code import git_commit_json
from bot.testing.github.rest.endpoint import ApiError, Call, Endpoint, RestAnswer, not_found
from bot.testing.github.site import Json

GIT = "/repos/{owner}/{repo}/git"
READ, WRITE = ("contents:read",), ("contents:write",)


def get_ref(call: Call) -> RestAnswer:
    """Return a ref by its name without "refs/"."""
    ref = f"refs/{call.path['ref']}"
    sha = _bare(call).refs().get(ref)
    if sha is None:
        raise not_found()
    return RestAnswer(_ref(call, ref, sha))


def matching_refs(call: Call) -> RestAnswer:
    """Return the refs that start with a name."""
    start = f"refs/{call.path['ref']}"
    return RestAnswer([_ref(call, ref, sha) for ref, sha in _bare(call).refs().items() if ref.startswith(start)])


def create_ref(call: Call) -> RestAnswer:
    """Create a ref. An existing ref is a 422."""
    ref, sha = call.text("ref"), _commit(call, call.text("sha"))
    if not ref.startswith("refs/") or ref.count("/") < 2:
        raise ApiError(422, "Reference name must start with 'refs/' and have at least two slashes.")
    if ref in _bare(call).refs():
        raise ApiError(422, "Reference already exists")
    _move(call, ref, sha, ABSENT)
    return RestAnswer(_ref(call, ref, sha), 201)


def update_ref(call: Call) -> RestAnswer:
    """Move a ref. Only a forced update may drop commits."""
    ref, sha = f"refs/{call.path['ref']}", _commit(call, call.text("sha"))
    before = _bare(call).refs().get(ref)
    if before is None:
        raise ApiError(422, "Reference does not exist")
    if not call.body.get("force", False) and _bare(call).merge_base(before, sha) != before:
        raise ApiError(422, "Update is not a fast forward")
    _move(call, ref, sha, before)
    return RestAnswer(_ref(call, ref, sha))


def delete_ref(call: Call) -> RestAnswer:
    """Delete a ref."""
    ref = f"refs/{call.path['ref']}"
    before = _bare(call).refs().get(ref)
    if before is None:
        raise ApiError(422, "Reference does not exist")
    _move(call, ref, ABSENT, before)
    return RestAnswer(status=204)


def get_commit(call: Call) -> RestAnswer:
    """Return a commit."""
    sha = _bare(call).resolve(call.path["sha"])
    if sha is None:
        raise not_found()
    return RestAnswer(git_commit_json(call.site, call.repository, sha))


def create_commit(call: Call) -> RestAnswer:
    """Create a commit of a tree. The caller is its author and committer."""
    tree, parents = call.text("tree"), call.texts("parents")
    if _bare(call).resolve(tree, "tree") is None:
        raise ApiError(422, "Tree SHA does not exist")
    by = call.world.signature(call.actor.id)
    sha = _bare(call).commit_tree(tree, [_commit(call, p) for p in parents], message=call.text("message"), by=by)
    return RestAnswer(git_commit_json(call.site, call.repository, sha), 201)


def get_tree(call: Call) -> RestAnswer:
    """Return a tree, recursively if requested."""
    bare = _bare(call)
    sha = bare.resolve(call.path["sha"], "tree") or bare.resolve(f"refs/heads/{call.path['sha']}", "tree")
    if sha is None:
        raise not_found()
    flags = ("-r", "-t") if call.query.get("recursive") else ()
    return RestAnswer(_tree(call, sha, flags))


def create_tree(call: Call) -> RestAnswer:
    """Create a tree from a base tree and changed entries (a null sha deletes)."""
    bare, entries = _bare(call), call.body.get("tree")
    if not isinstance(entries, list):
        raise ApiError(422, 'Invalid request.\n\n"tree" wasn\'t supplied.')
    old = call.body.get("base_tree")
    start = [] if old is None else _raw_entries(bare, old)
    kept = {line.partition("\t")[2]: line for line in start}
    for entry in entries:
        kept[entry["path"]] = _new_entry(bare, entry)
    lines = "".join(f"{line}\0" for line in kept.values() if line)
    return RestAnswer(_tree(call, _write_tree(bare, lines), ()), 201)


def get_blob(call: Call) -> RestAnswer:
    """Return a blob."""
    bare, sha = _bare(call), call.path["sha"]
    if bare.resolve(sha, "blob") is None:
        raise not_found()
    data = bare.run("cat-file", "blob", sha)
    content = base64.encodebytes(data).decode()
    return RestAnswer({**_blob_place(call, sha), "size": len(data), "content": content, "encoding": "base64"})


def create_blob(call: Call) -> RestAnswer:
    """Store a blob."""
    content = call.text("content")
    try:
        data = base64.b64decode(content) if call.body.get("encoding") == "base64" else content.encode()
    except binascii.Error:
        raise ApiError(422, "content is not valid Base64") from None
    sha = _bare(call).blob(data)
    return RestAnswer({"sha": sha, "url": _blob_place(call, sha)["url"]}, 201)


def _bare(call: Call) -> Bare:
    return call.world.bare(call.repository)


def _move(call: Call, ref: str, after: str, before: str) -> None:
    try:
        _bare(call).move(ref, after, before)
    except GitRefusedError:
        raise ApiError(422, "Reference cannot be updated") from None
    notice_pushes(call.actor, call.repository)


def _commit(call: Call, sha: str) -> str:
    found = _bare(call).resolve(sha) if len(sha) == 40 else None
    if found is None:
        raise ApiError(422, "Object does not exist")
    return found


def _ref(call: Call, ref: str, sha: str) -> Json:
    home = call.site.api(call.repository)
    kind = _bare(call).kind(sha)
    target = {"sha": sha, "type": kind, "url": f"{home}/git/{kind}s/{sha}"}
    return {"ref": ref, "node_id": f"REF_kw{ref}", "url": f"{home}/git/{ref}", "object": target}


def _tree(call: Call, sha: str, flags: tuple[str, ...]) -> Json:
    home = call.site.api(call.repository)
    lines = _bare(call).run("ls-tree", "-l", "-z", *flags, sha).decode(errors="replace").split("\0")
    entries = []
    for line in filter(None, lines):
        facts, _, path = line.partition("\t")
        mode, kind, item, size = facts.split()
        length = {} if size == "-" else {"size": int(size)}
        url = f"{home}/git/{kind}s/{item}"
        entries.append({"path": path, "mode": mode, "type": kind, "sha": item, "url": url, **length})
    return {"sha": sha, "url": f"{home}/git/trees/{sha}", "tree": entries, "truncated": False}


def _raw_entries(bare: Bare, tree: str) -> list[str]:
    return [line for line in bare.run("ls-tree", "-r", "-z", tree).decode().split("\0") if line]


def _new_entry(bare: Bare, entry: dict[str, Any]) -> str:
    content, sha = entry.get("content"), entry.get("sha")
    if content is None and sha is None:
        return ""
    item = sha if content is None else bare.blob(content.encode())
    return f"{entry.get('mode', '100644')} blob {item}\t{entry['path']}"


def _write_tree(bare: Bare, lines: str) -> str:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        index = {"GIT_INDEX_FILE": f"{folder}/index"}
        bare.run("update-index", "-z", "--index-info", stdin=lines.encode(), environment=index)
        return bare.run("write-tree", environment=index).decode().strip()


def _blob_place(call: Call, sha: str) -> Json:
    return {"sha": sha, "node_id": f"B_kw{sha}", "url": f"{call.site.api(call.repository)}/git/blobs/{sha}"}


ENDPOINTS = (
    Endpoint("GET", f"{GIT}/ref/{{ref:path}}", get_ref, READ),
    Endpoint("GET", f"{GIT}/matching-refs/{{ref:path}}", matching_refs, READ),
    Endpoint("POST", f"{GIT}/refs", create_ref, WRITE, Role.WRITE),
    Endpoint("PATCH", f"{GIT}/refs/{{ref:path}}", update_ref, WRITE, Role.WRITE),
    Endpoint("DELETE", f"{GIT}/refs/{{ref:path}}", delete_ref, WRITE, Role.WRITE),
    Endpoint("POST", f"{GIT}/commits", create_commit, WRITE, Role.WRITE),
    Endpoint("GET", f"{GIT}/commits/{{sha}}", get_commit, READ),
    Endpoint("POST", f"{GIT}/trees", create_tree, WRITE, Role.WRITE),
    Endpoint("GET", f"{GIT}/trees/{{sha:path}}", get_tree, READ),
    Endpoint("POST", f"{GIT}/blobs", create_blob, WRITE, Role.WRITE),
    Endpoint("GET", f"{GIT}/blobs/{{sha}}", get_blob, READ),
)
