"""REST endpoints of a repository's code: contents, branches, commits, comparisons, and refs.

https://docs.github.com/en/rest/repos/contents, /branches and /commits
"""

import base64
from urllib.parse import quote

from bot.testing.github.bare import Bare, GitRefusedError
from bot.testing.github.code_changes import (
    ChangedFile,
    changed_files,
    commits_between,
    files_between,
    notice_pushes,
    push_files,
)
from bot.testing.github.entities import Repository, Role
from bot.testing.github.git_objects import ABSENT, CommitText
from bot.testing.github.rest.endpoint import ApiCall, ApiError, Endpoint, RestAnswer, not_found
from bot.testing.github.shapes import Json, Site, fields

REPOSITORY = "/repos/{owner}/{repo}"
READ, WRITE = ("contents:read",), ("contents:write",)
RAW = "raw"
LARGEST_INLINE = 1_000_000
"""Maximum bytes of a file in the JSON format; https://docs.github.com/en/rest/repos/contents#get-repository-content"""
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


def contents(call: ApiCall) -> RestAnswer:
    home, path = call.repository, call.path.get("path", "").strip("/")
    bare, commit = call.world.bare(home), commit_of(call, call.query.get("ref") or home.default_branch)
    if not path or bare.resolve(f"{commit}:{path}", "tree"):
        return RestAnswer([_entry(call, line) for line in _list(bare, commit, path)])
    blob = bare.resolve(f"{commit}:{path}", "blob")
    if blob is None:
        raise not_found()
    data = bare.run("cat-file", "blob", blob)
    if RAW in call.headers.get("accept", ""):
        return RestAnswer(data, headers={"content-type": "application/vnd.github.raw+json; charset=utf-8"})
    inline = len(data) <= LARGEST_INLINE
    content = base64.encodebytes(data).decode() if inline else ""
    entry = _place(call, path, blob, kind="file", size=len(data))
    return RestAnswer({**entry, "content": content, "encoding": "base64" if inline else "none"})


def put_contents(call: ApiCall) -> RestAnswer:
    home, path = call.repository, call.path["path"]
    branch = call.text("branch", home.default_branch)
    bare = call.world.bare(home)
    old = bare.resolve(f"refs/heads/{branch}:{path}", "blob")
    if old != call.body.get("sha"):
        raise ApiError(409 if old and "sha" in call.body else 422, f"{path} does not match {old}")
    data = base64.b64decode(call.text("content"))
    commit = push_files(call.actor, home, branch, files={path: data}, message=call.text("message"))
    blob = bare.resolve(f"{commit}:{path}", "blob") or ""
    content = _place(call, path, blob, kind="file", size=len(data))
    return RestAnswer({"content": content, "commit": git_commit_json(call.site, home, commit)}, 200 if old else 201)


def branch(call: ApiCall) -> RestAnswer:
    name, home = call.path["branch"], call.repository
    sha = call.world.bare(home).resolve(f"refs/heads/{name}")
    if sha is None:
        raise ApiError(404, "Branch not found")
    url = f"{call.site.api(home)}/branches/{quote(name)}"
    required = home.required_checks if name == home.default_branch else ()
    protected = name in home.protected or bool(required)
    return RestAnswer({
        "name": name,
        "commit": commit_json(call.site, home, sha),
        "_links": {"self": url, "html": f"{call.site.web(home)}/tree/{name}"},
        "protected": protected,
        "protection": {
            "enabled": protected,
            "required_status_checks": {
                "enforcement_level": "non_admins" if required else "off",
                "contexts": [check for check, _ in required],
                "checks": [{"context": check, "app_id": app} for check, app in required],
            },
        },
        "protection_url": f"{url}/protection",
    })  # fmt: skip


def commits(call: ApiCall) -> RestAnswer:
    home = call.repository
    start = commit_of(call, call.query.get("sha") or home.default_branch)
    paths = ["--", call.query["path"]] if call.query.get("path") else ["--"]
    ids = call.world.bare(home).text("rev-list", start, *paths).splitlines()
    return RestAnswer([commit_json(call.site, home, sha) for sha in ids])


def commit(call: ApiCall) -> RestAnswer:
    home = call.repository
    sha = commit_of(call, call.path["ref"])
    if "sha" in call.headers.get("accept", ""):
        return RestAnswer(sha.encode(), headers={"content-type": "application/vnd.github.sha; charset=utf-8"})
    bare = call.world.bare(home)
    files = files_between(bare, bare.resolve(f"{sha}^") or EMPTY_TREE, sha)
    added, deleted = sum(file.additions for file in files), sum(file.deletions for file in files)
    stats = {"total": added + deleted, "additions": added, "deletions": deleted}
    rows = [file_json(call.site, home, sha, file) for file in files]
    return RestAnswer({**commit_json(call.site, home, sha), "stats": stats, "files": rows})


def compare(call: ApiCall) -> RestAnswer:
    home = call.repository
    base_name, dots, head_name = call.path["basehead"].partition("...")
    if not dots:
        raise not_found()
    base, head = commit_of(call, base_name), commit_of(call, head_name)
    bare = call.world.bare(home)
    parted = bare.merge_base(base, head)
    if parted is None:
        raise ApiError(404, f"No common ancestor between {base_name} and {head_name}.")
    ahead, behind = commits_between(bare, base, head), commits_between(bare, head, base)
    status = ("diverged" if behind else "ahead") if ahead else ("behind" if behind else "identical")
    web = f"{call.site.web(home)}/compare/{base_name}...{head_name}"
    return RestAnswer({
        "url": f"{call.site.api(home)}/compare/{base_name}...{head_name}", "html_url": web, "permalink_url": web,
        "diff_url": f"{web}.diff", "patch_url": f"{web}.patch", "base_commit": commit_json(call.site, home, base),
        "merge_base_commit": commit_json(call.site, home, parted), "status": status, "ahead_by": len(ahead),
        "behind_by": len(behind), "total_commits": len(ahead),
        "commits": [commit_json(call.site, home, sha) for sha in ahead],
        "files": [file_json(call.site, home, head, file) for file in changed_files(bare, base, head)],
    })  # fmt: skip


def commit_of(call: ApiCall, name: str) -> str:
    bare = call.world.bare(call.repository)
    name = name.removeprefix(f"{call.repository.owner_login}:")
    for candidate in (f"refs/heads/{name}", f"refs/tags/{name}", name if name.startswith("refs/") else None, name):
        commit = bare.resolve(candidate) if candidate else None
        if commit is not None:
            return commit
    raise ApiError(422, f"No commit found for SHA: {name}") if len(name) == 40 else not_found()


def commit_json(site: Site, home: Repository, sha: str) -> Json:
    url, web = f"{site.api(home)}/commits/{sha}", f"{site.web(home)}/commit/{sha}"
    git = git_commit_json(site, home, sha)
    inner = {key: git[key] for key in ("author", "committer", "message", "verification")}
    tree = {"sha": git["tree"]["sha"], "url": git["tree"]["url"]}
    return {
        "sha": sha, "node_id": f"C_kw{sha}", "commit": {**inner, "tree": tree, "url": git["url"], "comment_count": 0},
        "url": url, "html_url": web, "comments_url": f"{url}/comments",
        "author": _account(site, git["author"]["email"]), "committer": _account(site, git["committer"]["email"]),
        "parents": [
            {"sha": each["sha"], "url": f"{site.api(home)}/commits/{each['sha']}", "html_url": each["html_url"]}
            for each in git["parents"]
        ],
    }  # fmt: skip


def git_commit_json(site: Site, home: Repository, sha: str) -> Json:
    commit = CommitText.parse(site.world.bare(home).commit_text(sha))
    api, web = f"{site.api(home)}/git", site.web(home)
    verification = dict.fromkeys(("signature", "payload", "verified_at"))
    return {
        "sha": sha, "node_id": f"C_kw{sha}", "url": f"{api}/commits/{sha}", "html_url": f"{web}/commit/{sha}",
        **fields(commit, "author committer message"), "tree": {"sha": commit.tree, "url": f"{api}/trees/{commit.tree}"},
        "parents": [
            {"sha": each, "url": f"{api}/commits/{each}", "html_url": f"{web}/commit/{each}"} for each in commit.parents
        ],
        "verification": {"verified": False, "reason": "unsigned", **verification},
    }  # fmt: skip


def file_json(site: Site, home: Repository, commit_id: str, file: ChangedFile) -> Json:
    path = quote(file.path)
    optional = {"patch": file.patch, "previous_filename": file.previous}
    return {
        **fields(file, "sha status additions deletions"), "filename": file.path,
        "changes": file.additions + file.deletions, "blob_url": f"{site.web(home)}/blob/{commit_id}/{path}",
        "raw_url": f"{site.web(home)}/raw/{commit_id}/{path}",
        "contents_url": f"{site.api(home)}/contents/{path}?ref={commit_id}",
        **{key: value for key, value in optional.items() if value is not None},
    }  # fmt: skip


def _list(bare: Bare, commit_id: str, path: str) -> list[str]:
    try:
        listing = bare.run("ls-tree", "-l", "-z", commit_id, f"{path}/" if path else "./")
    except GitRefusedError:
        raise not_found() from None
    return [line for line in listing.decode(errors="replace").split("\0") if line]


def _entry(call: ApiCall, line: str) -> Json:
    facts, _, path = line.partition("\t")
    mode, kind, sha, size = facts.split()
    names = {"tree": "dir", "commit": "submodule", "blob": "symlink" if mode == "120000" else "file"}
    return _place(call, path, sha, kind=names[kind], size=0 if size == "-" else int(size))


def _place(call: ApiCall, path: str, sha: str, *, kind: str, size: int) -> Json:
    home, ref = call.repository, call.query.get("ref") or call.repository.default_branch
    url = f"{call.site.api(home)}/contents/{quote(path)}?ref={ref}"
    git = f"{call.site.api(home)}/git/{'trees' if kind == 'dir' else 'blobs'}/{sha}"
    web = f"{call.site.web(home)}/{'tree' if kind == 'dir' else 'blob'}/{ref}/{quote(path)}"
    return {
        "name": path.rpartition("/")[2], "path": path, "sha": sha, "size": size, "url": url, "html_url": web,
        "git_url": git, "download_url": None if kind == "dir" else f"{call.site.web(home)}/raw/{ref}/{quote(path)}",
        "type": kind, "_links": {"self": url, "git": git, "html": web},
    }  # fmt: skip


def _account(site: Site, email: str) -> Json | None:
    ident = email.partition("+")[0]
    exists = ident.isdigit() and int(ident) in site.world.users
    return site.user(int(ident)) if exists else None


# https://docs.github.com/en/rest/git/refs
GIT = "/repos/{owner}/{repo}/git"


def matching_refs(call: ApiCall) -> RestAnswer:
    start = f"refs/{call.path['ref']}"
    return RestAnswer([_ref(call, ref, sha) for ref, sha in _bare(call).refs().items() if ref.startswith(start)])


def create_ref(call: ApiCall) -> RestAnswer:
    ref, sha = call.text("ref"), _commit(call, call.text("sha"))
    if not ref.startswith("refs/") or ref.count("/") < 2:
        raise ApiError(422, "Reference name must start with 'refs/' and have at least two slashes.")
    if ref in _bare(call).refs():
        raise ApiError(422, "Reference already exists")
    _move(call, ref, sha, ABSENT)
    return RestAnswer(_ref(call, ref, sha), 201)


def update_ref(call: ApiCall) -> RestAnswer:
    ref, sha = f"refs/{call.path['ref']}", _commit(call, call.text("sha"))
    before = _bare(call).refs().get(ref)
    if before is None:
        raise ApiError(422, "Reference does not exist")
    if not call.body.get("force", False) and _bare(call).merge_base(before, sha) != before:
        raise ApiError(422, "Update is not a fast forward")
    _move(call, ref, sha, before)
    return RestAnswer(_ref(call, ref, sha))


def delete_ref(call: ApiCall) -> RestAnswer:
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
    Endpoint("GET", f"{REPOSITORY}/contents", contents, READ),
    Endpoint("GET", f"{REPOSITORY}/contents/{{path:path}}", contents, READ),
    Endpoint("PUT", f"{REPOSITORY}/contents/{{path:path}}", put_contents, WRITE, Role.WRITE),
    Endpoint("GET", f"{REPOSITORY}/branches/{{branch:path}}", branch, READ),
    Endpoint("GET", f"{REPOSITORY}/compare/{{basehead:path}}", compare, READ),
    Endpoint("GET", f"{REPOSITORY}/commits", commits, READ),
    Endpoint("GET", f"{REPOSITORY}/commits/{{ref:path}}", commit, READ),
    Endpoint("GET", f"{GIT}/matching-refs/{{ref:path}}", matching_refs, READ),
    Endpoint("POST", f"{GIT}/refs", create_ref, WRITE, Role.WRITE),
    Endpoint("PATCH", f"{GIT}/refs/{{ref:path}}", update_ref, WRITE, Role.WRITE),
    Endpoint("DELETE", f"{GIT}/refs/{{ref:path}}", delete_ref, WRITE, Role.WRITE),
)  # fmt: skip
