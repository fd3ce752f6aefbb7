"""What `plangate doctor --live` does in a disposable repository. It writes only texts of this program.

Each method raises Refused if the token may not do it, and Transient if GitHub does not answer. GitHub documents the
endpoints at https://docs.github.com/en/rest: git/refs, repos/contents, repos/rules, actions/secrets, actions/workflows,
actions/workflow-runs, pulls/reviews.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from urllib.parse import quote

from bot.core.turn import Actor
from bot.github.client import GitHubClient, Json
from bot.github.comments import MINIMIZE
from bot.github.repository import Address
from bot.github.responses import WHO, actor, rest_actor, time

_RULES: Final = ("creation", "update", "deletion", "non_fast_forward")
# https://docs.github.com/en/graphql/reference/objects#usercontentedit
_EDITS: Final = f"""
query ($id: ID!) {{
  node(id: $id) {{
    ... on IssueComment {{
      body
      editor {{ ...who }}
      userContentEdits(first: 10) {{ nodes {{ editedAt diff }} }}
    }}
  }}
}}
{WHO}
"""


@dataclass(frozen=True, slots=True)
class LiveComment:
    """A comment on an issue."""

    node: str
    url: str
    author: Actor
    text: str


@dataclass(frozen=True, slots=True)
class Edits:
    """Who edited a comment last, and what GitHub keeps of each edit, in GitHub's order."""

    editor: Actor
    text: str
    listed: tuple[tuple[datetime, str | None], ...]


@dataclass(frozen=True, slots=True)
class LiveRepository:
    """One repository, with a token that administers it."""

    client: GitHubClient
    at: Address

    async def commit_count(self, limit: int) -> int:
        """Return how many commits the default branch has, at most `limit`. Raises Missing or Unprocessable for none."""
        return await self._count("commits", {"per_page": limit})

    async def open_thread_count(self) -> int:
        """Return how many issues and pull requests are open, at most 100."""
        return await self._count("issues", {"state": "open", "per_page": 100})

    async def deployment_count(self, environment: str) -> int:
        """Return how many deployments to an environment there are, at most 100."""
        return await self._count("deployments", {"environment": environment, "per_page": 100})

    async def run_count(self, event: str) -> int:
        """Return how many runs an event has started, at most 100."""
        return await self._count("actions/runs", {"event": event, "per_page": 100}, items="workflow_runs")

    async def _count(self, path: str, parameters: Mapping[str, str | int], items: str = "") -> int:
        return len((await self.client.page(f"{self.at.path}/{path}", dict(parameters), items=items))[0])

    async def refs(self, prefix: str) -> Mapping[str, str]:
        """Return the refs whose names begin with ``refs/`` and `prefix`, with their objects."""
        refs = await self.client.get(f"{self.at.path}/git/matching-refs/{quote(prefix)}")
        return {str(ref["ref"]): str(ref["object"]["sha"]) for ref in refs}

    async def add_branch(self, name: str, commit: str) -> None:
        """Create a branch."""
        await self.client.post(f"{self.at.path}/git/refs", {"ref": f"refs/heads/{name}", "sha": commit})

    async def set_branch(self, name: str, commit: str) -> None:
        """Move a branch to any commit, also an older one."""
        await self.client.change(f"{self.at.path}/git/refs/heads/{quote(name)}", {"sha": commit, "force": True})

    async def remove_ref(self, ref: str) -> None:
        """Delete a ref, given by its full name, if it exists."""
        if ref in await self.refs(ref.removeprefix("refs/")):
            await self.client.delete(f"{self.at.path}/git/{quote(ref)}")

    async def write_file(self, path: str, text: str, branch: str) -> None:
        """Commit a new file."""
        content = base64.b64encode(text.encode()).decode()
        body: Json = {"message": "Add a file of plangate doctor --live", "content": content, "branch": branch}
        await self.client.put(f"{self.at.path}/contents/{quote(path)}", body)

    async def add_ruleset(self, name: str) -> None:
        """Protect every branch from everybody."""
        body: Json = {
            "name": name,
            "target": "branch",
            "enforcement": "active",
            "conditions": {"ref_name": {"include": ["~ALL"], "exclude": []}},
            "rules": [{"type": rule} for rule in _RULES],
        }
        await self.client.post(f"{self.at.path}/rulesets", body)

    async def remove_rulesets(self, name: str) -> None:
        """Delete every ruleset of that name."""
        for ruleset in [ruleset async for ruleset in self.client.pages(f"{self.at.path}/rulesets")]:
            if ruleset["name"] == name:
                await self.client.delete(f"{self.at.path}/rulesets/{ruleset['id']}")

    async def add_environment(self, name: str, secret: str, value: str) -> None:
        """Create an environment with one secret, which is sealed with GitHub's key for it."""
        from github.PublicKey import encrypt

        path = f"{self.at.path}/environments/{quote(name, safe='')}"
        await self.client.put(path, {})
        key = await self.client.get(f"{path}/secrets/public-key")
        body: Json = {"encrypted_value": encrypt(str(key["key"]), value), "key_id": str(key["key_id"])}
        await self.client.put(f"{path}/secrets/{secret}", body)

    async def remove_environment(self, name: str) -> None:
        """Delete an environment with its secrets."""
        await self.client.delete(f"{self.at.path}/environments/{quote(name, safe='')}")

    async def dispatch(self, workflow: str, branch: str, inputs: Mapping[str, str]) -> None:
        """Start a run of a workflow. Raises Missing while GitHub does not know it."""
        path = f"{self.at.path}/actions/workflows/{workflow}/dispatches"
        await self.client.post(path, {"ref": branch, "inputs": dict(inputs)})

    async def open_issue(self, title: str, text: str) -> int:
        """Open an issue, and return its number."""
        return int((await self.client.post(f"{self.at.path}/issues", {"title": title, "body": text}))["number"])

    async def close_threads(self, title: str) -> None:
        """Close every open issue and pull request of that title. GitHub keeps them."""
        for issue in [issue async for issue in self.client.pages(f"{self.at.path}/issues", {"state": "open"})]:
            if issue["title"] == title:
                await self.client.change(f"{self.at.path}/issues/{issue['number']}", {"state": "closed"})

    async def add_comment(self, number: int, text: str) -> LiveComment:
        """Comment on an issue."""
        return _comment(await self.client.post(f"{self.at.path}/issues/{number}/comments", {"body": text}))

    async def comments(self, number: int) -> list[LiveComment]:
        """Return the comments on an issue, oldest first."""
        return [_comment(comment) async for comment in self.client.pages(f"{self.at.path}/issues/{number}/comments")]

    async def edits(self, node: str) -> Edits:
        """Return the edits of a comment."""
        comment = (await self.client.graphql(_EDITS, {"id": node}))["node"]
        edits = [(time(edit["editedAt"]), edit["diff"]) for edit in comment["userContentEdits"]["nodes"]]
        return Edits(actor(comment["editor"]), str(comment["body"]), tuple(edits))

    async def minimize(self, node: str) -> bool:
        """Hide a comment as outdated. Return whether GitHub then shows it as hidden."""
        answer = await self.client.mutate(MINIMIZE, {"id": node})
        return bool(answer["minimizeComment"]["minimizedComment"]["isMinimized"])

    async def open_pull(self, title: str, head: str, base: str) -> int:
        """Open a pull request, and return its number."""
        body: Json = {"title": title, "head": head, "base": base, "body": "Of plangate doctor --live."}
        return int((await self.client.post(f"{self.at.path}/pulls", body))["number"])

    async def review(self, number: int, path: str, remarks: int) -> int:
        """Submit a review with that many comments on the first line of a file. Return the number of the first one."""
        remark: Json = {"path": path, "line": 1, "side": "RIGHT", "body": "A remark"}
        pull = f"{self.at.path}/pulls/{number}"
        review: Json = {"event": "COMMENT", "body": "A review", "comments": [remark] * remarks}
        await self.client.post(f"{pull}/reviews", review)
        comments, _ = await self.client.page(f"{pull}/comments", {"per_page": 100})
        return int(comments[0]["id"])

    async def reply(self, number: int, remark: int) -> None:
        """Reply to a comment in a review."""
        await self.client.post(f"{self.at.path}/pulls/{number}/comments/{remark}/replies", {"body": "A reply"})


def _comment(comment: Json) -> LiveComment:
    author = rest_actor(comment["user"])
    return LiveComment(str(comment["node_id"]), str(comment["html_url"]), author, str(comment["body"] or ""))
