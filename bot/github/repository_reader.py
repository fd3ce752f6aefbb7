"""The RepositoryReader port: what a session reads of the one repository of its thread (K8).

Every path begins with the address of that repository. A query adds only a number or a commit id.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote

from bot.core.brief import Passage, RepositoryQuery, RepositoryText, Topic
from bot.core.errors import Refused
from bot.core.turn import Picture
from bot.github.attached_pictures import AttachedPictures
from bot.github.checks import CheckResults, missing_permission
from bot.github.client import GitHubClient, Json
from bot.github.repository import Address
from bot.github.responses import WHO, Forbidden, Missing, actor, rest_actor, time
from bot.github.tasks import label_names
from bot.github.thread_quotes import WITHHELD, Attribution, WrittenText, cut

COMMENTS: Final = 20
"""Comments of one page."""
COMMENT: Final = 3_000
"""Characters of one comment that are shown."""
BODY: Final = 20_000
FILES: Final = 20
"""Files of one page of a diff."""
LISTED: Final = 100
"""Files of one page of a list."""
MOST_PAGES: Final = 30
"""Pages of LISTED files that a path is searched in. GitHub lists 3,000 files at most."""
PATCH: Final = 20_000

_LINKED: Final = f"""
query ($owner: String!, $name: String!, $number: Int!) {{
  repository(owner: $owner, name: $name) {{
    databaseId
    issueOrPullRequest(number: $number) {{
      __typename
      ... on Issue {{
        closedByPullRequestsReferences(first: 50, includeClosedPrs: true) {{
          nodes {{ id number title createdAt state author {{ ...who }} repository {{ databaseId }} }}
        }}
      }}
      ... on PullRequest {{
        closingIssuesReferences(first: 50) {{
          nodes {{ id number title createdAt issueState: state author {{ ...who }} repository {{ databaseId }} }}
        }}
      }}
    }}
  }}
}}
{WHO}
"""


@dataclass(frozen=True, slots=True)
class GitHubReader:
    """Reads one repository."""

    client: GitHubClient
    at: Address
    default_branch: str
    attribution: Attribution
    results: CheckResults
    attached: AttachedPictures
    untrusted_context: bool = True
    """Whether a session may read anything that people who may not ask wrote (ask.untrusted_context)."""

    async def read(self, query: RepositoryQuery) -> RepositoryText:
        """Return a page of what a query is about. Raises Refused with the reason."""
        query = replace(query, strangers=query.strangers and self.untrusted_context)
        try:
            match query.topic:
                case Topic.ISSUE:
                    return await self._issue(query)
                case Topic.COMMENTS:
                    return await self._comments(query)
                case Topic.PULL_REQUEST:
                    return await self._pull_request(query)
                case Topic.DIFF:
                    return await self._diff(query)
                case Topic.COMMIT:
                    return await self._commit(query)
                case Topic.CHECKS:
                    return await self._checks(query)
                case Topic.LINKED:
                    return await self._linked_threads(query)
        except Forbidden as error:
            needed = "contents: read" if query.commit else _PERMISSIONS[query.topic]
            raise missing_permission(error, needed) from error

    async def pictures(self, turns: Collection[str], *, strangers: bool, reads_images: bool) -> tuple[Picture, ...]:
        """Return pictures attached to turns and, with `strangers`, to the opening post; fetched if `reads_images`."""
        return await self.attached.of(turns, strangers=strangers and self.untrusted_context, reads_images=reads_images)

    async def _issue(self, query: RepositoryQuery) -> RepositoryText:
        """https://docs.github.com/en/rest/issues/issues#get-an-issue."""
        issue = await self.client.get(f"{self.at.path}/issues/{query.number}")
        self._require_here(issue["repository_url"])
        kind = "pull request" if issue.get("pull_request") else "issue"
        facts = [f"{kind} #{query.number}", issue["state"], f"{issue['comments']} comments"]
        labels = ", ".join(label_names(issue))
        title = f"Title: {issue['title']}" + (f"\nLabels: {labels}" if labels else "")
        opening = WrittenText.of(", ".join(facts) + ", opened", issue, title=title)
        return RepositoryText(await self.attribution.passages([opening], strangers=query.strangers, longest=BODY))

    async def _comments(self, query: RepositoryQuery) -> RepositoryText:
        """https://docs.github.com/en/rest/issues/comments#list-issue-comments."""
        items, more = await self._page(f"issues/{query.number}/comments", query.page)
        for item in items:
            self._require_here(item["issue_url"])
        comments = [WrittenText.of("comment", item) for item in items]
        passages = await self.attribution.passages(comments, strangers=query.strangers, longest=COMMENT)
        return RepositoryText(passages, more)

    async def _pull_request(self, query: RepositoryQuery) -> RepositoryText:
        """https://docs.github.com/en/rest/pulls: the description, and a page of files, reviews, and line comments."""
        pull, path = await self._pull(query.number), f"pulls/{query.number}"
        files, more_files = await self._files(f"{path}/files", query, LISTED)
        reviews, more_reviews = await self._page(f"{path}/reviews", query.page)
        notes, more_notes = await self._page(f"{path}/comments", query.page)
        state = "merged" if pull["merged_at"] else "draft" if pull.get("draft") else pull["state"]
        fork = ", from a fork" if _is_fork(pull) else ""
        title = f"Title: {pull['title']}\nBranches: {pull['head']['ref']} into {pull['base']['ref']}"
        opening = WrittenText.of(f"pull request #{query.number}, {state}{fork}, opened", pull, title=title)
        placed = query.strangers or not await self._is_foreign(pull)
        passages_of = self.attribution.passages
        first = () if query.page > 1 else await passages_of([opening], strangers=query.strangers, longest=BODY)
        file_list = self.attribution.clean("\n".join(f"- {_file(file)}" for file in files))
        submitted = [review for review in reviews if review.get("submitted_at") and (review["body"] or "").strip()]
        posts = [
            WrittenText.of(f"review, {str(review['state']).lower()},", review, at="submitted_at")
            for review in submitted
        ]
        posts += [
            WrittenText.of("comment on a line", note, place=_line_reference(note) if placed else "") for note in notes
        ]
        changed = await self._code(pull, f"changed files ({pull['changed_files']} in all)", [file_list], query)
        return RepositoryText(
            (*first, *changed, *await passages_of(posts, strangers=query.strangers, longest=COMMENT)),
            more_files or more_reviews or more_notes,
        )

    async def _diff(self, query: RepositoryQuery) -> RepositoryText:
        """https://docs.github.com/en/rest/pulls/pulls#list-pull-requests-files."""
        pull = await self._pull(query.number)
        files, more = await self._files(f"pulls/{query.number}/files", query, FILES)
        head = f"diff of pull request #{query.number}, head {pull['head']['sha']}"
        return RepositoryText(await self._code(pull, head, [self._patch(file) for file in files], query), more)

    async def _commit(self, query: RepositoryQuery) -> RepositoryText:
        """https://docs.github.com/en/rest/commits/commits#get-a-commit."""
        commit = await self._whole_id(query.commit)
        foreign = not await self._is_on_default_branch(commit)
        if foreign and not query.strangers:
            return RepositoryText((Passage(f"commit {commit}", WITHHELD),))
        params = {"per_page": FILES, "page": query.page}
        answer, more = await self.client.page(f"{self.at.path}/commits/{commit}", params)
        files = [file for file in answer.get("files") or [] if _is_within(file["filename"], query.path)]
        author = (answer["commit"]["author"] or {}).get("name") or "an unknown author"
        heading = f"{author}: {answer['commit']['message']}"
        texts = (cut(self.attribution.clean(heading), COMMENT), *(self._patch(file) for file in files))
        where = "not on the default branch" if foreign else "on the default branch"
        return RepositoryText((Passage(f"commit {commit}, {where}", "\n\n".join(texts), foreign),), more)

    async def _checks(self, query: RepositoryQuery) -> RepositoryText:
        """Return check runs of a commit or a pull request's head. What they report counts as strangers' words (A9)."""
        if query.commit:
            commit = await self._whole_id(query.commit)
            foreign = not await self._is_on_default_branch(commit)
        else:
            pull = await self._pull(query.number)
            commit, foreign = str(pull["head"]["sha"]), await self._is_foreign(pull)
        head = f"check runs of commit {commit}"
        if foreign and not query.strangers:
            return RepositoryText((Passage(head, WITHHELD),))
        texts, more = await self.results.of(commit, query.page, self.attribution)
        listed, *failed = texts
        shown = [Passage("failed check", text if query.strangers else WITHHELD, query.strangers) for text in failed]
        return RepositoryText((Passage(head, listed, foreign), *shown), more)

    async def _linked_threads(self, query: RepositoryQuery) -> RepositoryText:
        """https://docs.github.com/en/graphql/reference/objects#issue, closedByPullRequestsReferences."""
        variables = {**self.at.variables, "number": query.number}
        home = (await self.client.graphql(_LINKED, variables))["repository"]
        about = home and home["issueOrPullRequest"]
        if not about:
            raise Missing("there is no such issue or pull request here", where=f"#{query.number}")
        issues = about["__typename"] == "PullRequest"
        linked = about["closingIssuesReferences" if issues else "closedByPullRequestsReferences"] or {}
        nodes = [node for node in linked.get("nodes") or [] if node]
        here = [node for node in nodes if node["repository"]["databaseId"] == home["databaseId"]]
        kind = "issue that it closes" if issues else "pull request that closes it"
        items = [_linked_item(kind, node) for node in here]
        passages = await self.attribution.passages(items, strangers=query.strangers, longest=COMMENT)
        elsewhere = len(nodes) - len(here)
        outside = (
            [Passage(f"{elsewhere} more in other repositories, which cannot be read here", "")] if elsewhere else []
        )
        return RepositoryText((*passages, *outside))

    async def _page(self, path: str, page: int) -> tuple[list[Json], bool]:
        return await self.client.page(f"{self.at.path}/{path}", {"per_page": COMMENTS, "page": page})

    async def _files(self, path: str, query: RepositoryQuery, size: int) -> tuple[list[Json], bool]:
        """Return a page of changed files; if the query names a path, all files within it."""
        if not query.path:
            return await self.client.page(f"{self.at.path}/{path}", {"per_page": size, "page": query.page})
        matching, page, more = list[Json](), 0, True
        while more and page < MOST_PAGES and not any(file["filename"] == query.path for file in matching):
            page += 1
            files, more = await self.client.page(f"{self.at.path}/{path}", {"per_page": LISTED, "page": page})
            matching += [file for file in files if _is_within(file["filename"], query.path)]
        start = (query.page - 1) * size
        return matching[start : start + size], len(matching) > start + size

    async def _code(self, pull: Json, head: str, texts: Sequence[str], query: RepositoryQuery) -> tuple[Passage, ...]:
        """Return what a pull request contains. Its author can have written all of it if it comes from a fork."""
        foreign = await self._is_foreign(pull)
        if foreign and not query.strangers:
            return (Passage(head, WITHHELD),)
        return (Passage(head, "\n\n".join(texts), foreign),)

    def _patch(self, file: Json) -> str:
        """Return how a file changes, without secrets."""
        patch = file.get("patch") or "(no text to show)"
        return f"{self.attribution.clean(_file(file))}\n{cut(self.attribution.clean(patch), PATCH)}"

    def _require_here(self, url: str) -> None:
        """Raise Refused if an API address is in another repository: GitHub redirects a transferred issue's number.

        https://docs.github.com/en/rest/issues/issues#get-an-issue
        """
        if f"{self.at.path}/".lower() not in f"{url}/".lower():
            raise Refused("it was moved to another repository, which cannot be read here", where="GitHub")

    async def _pull(self, number: int) -> Json:
        pull: Json = await self.client.get(f"{self.at.path}/pulls/{number}")
        return pull

    async def _is_foreign(self, pull: Json) -> bool:
        """Return whether people who may not ask may have written a pull request's commits."""
        return _is_fork(pull) or not await self.attribution.is_trusted(rest_actor(pull["user"]))

    async def _whole_id(self, commit: str) -> str:
        """Return the full id of a commit. Raises Refused if the id names something else, such as a branch."""
        answer = await self.client.get(f"{self.at.path}/commits/{commit}", {"per_page": 1})
        if not str(answer["sha"]).startswith(commit):
            raise Refused(f"{commit} is not a commit id", where="commit")
        return str(answer["sha"])

    async def _is_on_default_branch(self, commit: str) -> bool:
        """Return whether a commit is part of the default branch. Any commit of any fork can be read by its id.

        https://docs.github.com/en/rest/commits/commits#compare-two-commits
        """
        place = f"{self.at.path}/compare/{quote(self.default_branch, safe='')}...{commit}"
        try:
            return (await self.client.get(place, {"per_page": 1}))["status"] in {"behind", "identical"}
        except Forbidden:
            raise
        except Refused:  # no common history
            return False


_PERMISSIONS: Final = {
    Topic.ISSUE: "issues: read",
    Topic.COMMENTS: "issues: read",
    Topic.LINKED: "issues: read",
    Topic.PULL_REQUEST: "pull_requests: read",
    Topic.DIFF: "pull_requests: read",
    Topic.CHECKS: "pull_requests: read",
    Topic.COMMIT: "contents: read",
}


def _linked_item(kind: str, node: Json) -> WrittenText:
    state = str(node.get("state") or node["issueState"]).lower()
    what = f"{kind}, #{node['number']}, {state}, opened"
    opened = time(node["createdAt"])
    return WrittenText(what, actor(node["author"]), node["id"], opened, "", title=f"Title: {node['title']}")


def _is_fork(pull: Json) -> bool:
    """Return whether a pull request's branch is in another repository, or in one that is gone."""
    return bool((pull["head"]["repo"] or {}).get("id") != pull["base"]["repo"]["id"])


def _is_within(name: str, path: str) -> bool:
    return not path or name == path or name.startswith(path.rstrip("/") + "/")


def _file(file: Json) -> str:
    before = f", was {file['previous_filename']}" if file.get("previous_filename") else ""
    return f"{file['filename']} ({file['status']}{before}, +{file['additions']} -{file['deletions']})"


def _line_reference(comment: Json) -> str:
    return f"{comment['path']}:{comment.get('line') or comment.get('original_line') or '?'}"
