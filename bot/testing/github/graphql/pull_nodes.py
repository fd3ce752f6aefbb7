"""What a pull request changes, and the checks of its head, as GraphQL fields.

https://docs.github.com/en/graphql/reference/objects#pullrequest
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bot.testing.github.diffs import ChangedFile, changed_files, commits_between
from bot.testing.github.entities import CheckRun, Issue, Pull, Repository
from bot.testing.github.graphql.paging import Node, connection

if TYPE_CHECKING:
    from bot.testing.github.graphql.nodes import Nodes

GREEN = {"success", "neutral", "skipped"}


def pull_changes(nodes: Nodes, issue: Issue, pull: Pull) -> Node:
    """Return the fields of a pull request that take a look at its commits. Each is resolved on demand."""
    home = nodes.world.repositories[issue.repository]
    bare = nodes.world.bare(home)

    def files() -> tuple[ChangedFile, ...]:
        return changed_files(bare, pull.base_sha, pull.head_sha)

    def commit(sha: str) -> Node:
        ident = f"PURC_kw{issue.id}_{sha}"
        return {
            "id": ident,
            "commit": lambda _: nodes.git_object(home, sha),
            "pullRequest": lambda _: nodes.issue(issue),
        }

    def commits(info: Any, **page: Any) -> Node:
        ids = commits_between(bare, pull.base_sha, pull.head_sha)
        return connection(ids, commit, key=lambda sha: int(sha[:12], 16))(info, **page)

    return {
        "additions": lambda _: sum(file.additions for file in files()),
        "deletions": lambda _: sum(file.deletions for file in files()),
        "changedFiles": lambda _: len(files()),
        "commits": commits,
        "statusCheckRollup": lambda _: _rollup(nodes, home, pull.head_sha),
    }


def _rollup(nodes: Nodes, home: Repository, head: str) -> Node | None:
    """Return the newest check run of each name on a commit, or None if there is none."""
    nodes.require(home, "checks", "statuses")
    runs = [run for run in nodes.world.check_runs.values() if (run.repository, run.head_sha) == (home.id, head)]
    newest = list({(run.app, run.name): run for run in runs}.values())
    conclusions = {run.conclusion for run in newest}
    state = "FAILURE" if conclusions - GREEN - {None} else "PENDING" if None in conclusions else "SUCCESS"
    rollup = {"id": f"SCR_kw{home.id}_{head}", "state": state, "contexts": connection(newest, _check_run)}
    return rollup if newest else None


def _check_run(run: CheckRun) -> Node:
    conclusion = run.conclusion.upper() if run.conclusion else None
    return {
        "__typename": "CheckRun",
        "id": run.node_id,
        "name": run.name,
        "status": run.status.upper(),
        "conclusion": conclusion,
    }
