"""A thread as GitHub shows it: its posts, their authors, and their times, read by one query.

https://docs.github.com/en/graphql/reference/unions#issueorpullrequest
"""

from collections.abc import Collection, Iterator, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from bot.core.errors import Refused
from bot.core.markdown.elements import code
from bot.core.names import CommitId, RepositoryId, ThreadNumber
from bot.core.turn import Actor
from bot.core.work import PullCommits
from bot.github.client import LAGS, PAGE, GitHubClient, Json
from bot.github.repository import Address, repository_id
from bot.github.responses import WHO, Missing, TooMuch, actor, require_present, time

CATCH_UP: Final = 500
"""Number of the newest comments, and of the newest reviews, that are read of a thread never processed before, in whole
pages. Otherwise all pages since the cursor are read: GitHub does not allow more than 2,500 comments."""

SMALLEST_PAGE: Final = 6
"""Smallest page size that GitHub is asked for."""

COMMENTS: Final = """
fragment comments on IssueCommentConnection {
  nodes { id fullDatabaseId body createdAt lastEditedAt createdViaEmail author { ...who } editor { ...who } }
  pageInfo { hasPreviousPage startCursor }
  totalCount
}
"""
_NOTES: Final = """
        nodes { id fullDatabaseId body createdViaEmail createdAt lastEditedAt editor { ...who } path line }
        pageInfo { hasNextPage endCursor }
"""


# `closed` is read instead of `state`: the two kinds of thread have `state` fields of different types, which one query
# may not mix.
def subject(newest: int | str) -> str:
    """Return the fields of an issue or a pull request, with `newest` of its comments (a number or a variable)."""
    return f"""
  id number title body createdViaEmail createdAt updatedAt lastEditedAt closed closedAt
  author {{ ...who }} editor {{ ...who }}
  labels(first: 100) {{ nodes {{ name }} }}
  assignees(first: 100) {{ nodes {{ databaseId }} }}
  comments(last: {newest}) {{ ...comments }}
"""


def pull_request_fields(newest: int | str) -> str:
    """Return the additional fields of a pull request, with `newest` of its reviews."""
    return f"""
  headRefName headRefOid baseRefOid isCrossRepository merged
  reviews(last: {newest}) {{ {_page_of_reviews(newest)} }}
"""


def _page_of_reviews(newest: int | str) -> str:
    """Return the fields of a page of reviews, each with up to `newest` of its comments."""
    return f"""
    nodes {{
      id fullDatabaseId body createdViaEmail createdAt submittedAt lastEditedAt author {{ ...who }} editor {{ ...who }}
      comments(first: {newest}) {{ {_NOTES} }}
    }}
    pageInfo {{ hasPreviousPage startCursor }}
"""


_THREAD: Final = f"""
query ($owner: String!, $name: String!, $number: Int!, $page: Int!) {{
  repository(owner: $owner, name: $name) {{
    databaseId
    issueOrPullRequest(number: $number) {{
      __typename
      ... on Issue {{ {subject("$page")} }}
      ... on PullRequest {{ {subject("$page")} {pull_request_fields("$page")} }}
    }}
  }}
}}
{COMMENTS} {WHO}
"""
_OLDER: Final = f"""
query ($owner: String!, $name: String!, $number: Int!, $before: String!, $page: Int!) {{
  repository(owner: $owner, name: $name) {{
    issueOrPullRequest(number: $number) {{
      __typename
      ... on Issue {{ comments(last: $page, before: $before) {{ ...comments }} }}
      ... on PullRequest {{ comments(last: $page, before: $before) {{ ...comments }} }}
    }}
  }}
}}
{COMMENTS} {WHO}
"""
_OLDER_REVIEWS: Final = f"""
query ($owner: String!, $name: String!, $number: Int!, $before: String!, $page: Int!) {{
  repository(owner: $owner, name: $name) {{
    pullRequest(number: $number) {{ reviews(last: $page, before: $before) {{ {_page_of_reviews("$page")} }} }}
  }}
}}
{WHO}
"""
_MORE_NOTES: Final = f"""
query ($review: ID!, $after: String!, $page: Int!) {{
  node(id: $review) {{
    ... on PullRequestReview {{ comments(first: $page, after: $after) {{ {_NOTES} }} }}
  }}
}}
{WHO}
"""


@dataclass(frozen=True, slots=True)
class ThreadPost:
    """One post of a thread: its opening post, a comment, or a review. `key` identifies it permanently."""

    key: str
    actor: Actor
    body: str
    at: datetime
    edited_at: datetime | None = None
    """When one of its texts was last edited."""
    notes: tuple[tuple[str, str], ...] = ()
    """The comments of a review: the place and text of each."""
    editors: tuple[Actor, ...] = ()
    """The last editor of each of its texts."""
    changed: tuple[str, ...] = ()
    """Global ids of its edited texts."""
    node: str = ""
    """Its global id."""
    by_mail: bool = False
    """Whether one of its texts was sent by mail, so that it may quote anybody without a mark (A6)."""
    aliases: Set[str] = frozenset()
    """Other keys by which deliveries report it: those of a review and of each of its comments."""
    more: str = ""
    """Cursor of a review's further comments; "" if all are here."""

    @property
    def edited(self) -> bool:
        """Whether one of its texts was ever edited."""
        return self.edited_at is not None

    @property
    def version(self) -> str:
        """Key of its current version. Another edit makes another version."""
        return f"{self.key}@{self.edited_at.isoformat() if self.edited_at else ''}"

    @property
    def words(self) -> tuple[str, ...]:
        """Each of its texts, separately."""
        return (self.body, *(body for _, body in self.notes))

    @property
    def parts(self) -> tuple[str, ...]:
        """Every text that is not blank, each review comment preceded by its place."""
        return tuple(part for part in (self.body, *map("\n\n".join, self.notes)) if part.strip())


@dataclass(frozen=True, slots=True)
class GitHubThread:
    """A thread at one moment. Its posts are sorted oldest first."""

    repository: RepositoryId
    number: ThreadNumber
    title: str
    opened: ThreadPost
    closed: bool
    labels: frozenset[str]
    assignees: frozenset[int]
    comments: tuple[ThreadPost, ...]
    reviews: tuple[ThreadPost, ...] = ()
    older: str = ""
    """Cursor of older comments, or ""."""
    older_reviews: str = ""
    """Cursor of older reviews, or ""."""
    head: CommitId | None = None
    """Head of a pull request whose branch is in this repository; None once it is merged, when nothing can be added."""
    head_branch: str = ""
    pull: PullCommits | None = None
    """The commits of a pull request, also of one from a fork. None for an issue."""
    comment_count: int = 0
    """Number of all its comments, read here or not."""
    further: frozenset[str] = frozenset()
    """Keys of the posts that took further pages to read. Once they were judged, those pages are not read again."""
    moved: bool = False
    """Whether anything happened to it after it was opened."""
    closed_at: datetime | None = None
    """When it was closed, or None. A merge ends a round and does not count as closing."""

    def everything(self) -> tuple[ThreadPost, ...]:
        """Return all posts, oldest first."""
        return tuple(sorted((self.opened, *self.comments, *self.reviews), key=lambda post: post.at))


@dataclass(slots=True)
class Threads:
    """Reads the threads of one repository: a hundred comments or reviews at a time, or fewer if that is too much."""

    client: GitHubClient
    address: Address
    _page: int = PAGE
    """Current page size. It stays halved once GitHub reported that a page was too much."""

    async def read(self, number: ThreadNumber, reported: str = "") -> GitHubThread:
        """Return a thread with its newest comments and reviews, a page of each, read by one query. Raises Missing.

        With `reported`, waits a few seconds for the post with that key: a webhook can arrive before the API shows the
        post that it reports.
        """
        for pause in LAGS if reported else ():
            with suppress(Missing):
                thread = await self._now(number)
                if any(reported in {post.key, *post.aliases} for post in thread.everything()):
                    return thread
            await self.client.clock.sleep(pause)
        return await self._now(number)

    async def _now(self, number: ThreadNumber) -> GitHubThread:
        repository = (await self._ask(_THREAD, {**self.address.variables, "number": number}))["repository"]
        if repository is None or repository["issueOrPullRequest"] is None:
            where = f"{self.address.path}#{number}"
            raise Missing("GitHub has no such thread, or this token may not see it", where=where)
        return read_thread(repository_id(repository), repository["issueOrPullRequest"])

    async def _ask(self, query: str, variables: Json) -> Json:
        """Query a page. If GitHub reports that it is too much, halve the page size, down to the smallest.

        Raises Refused if even the smallest page is too much, so that nobody retries forever.
        https://docs.github.com/en/graphql/overview/rate-limits-and-query-limits-for-the-graphql-api#resource-limits
        """
        while True:
            divisible = self._page // 2 >= SMALLEST_PAGE
            try:
                return await self.client.graphql(query, {**variables, "page": self._page}, divisible=divisible)
            except TooMuch as error:
                if not divisible:
                    fix = "continue in a new issue or pull request"
                    raise Refused(
                        f"GitHub cannot show this thread: {error.what}", where=self.address.path, fix=fix
                    ) from None
            self._page //= 2
            await self.client.clock.sleep(1.0)

    async def back_to(self, thread: GitHubThread, seen: Collection[str], heard_until: datetime | None) -> GitHubThread:
        """Read older pages back to `heard_until`, and all comments of the unseen reviews.

        Without `heard_until`, reads the newest CATCH_UP comments and reviews.
        """
        first = thread
        while thread.older and _needs_older(thread.comments, heard_until):
            comments, cursor = await self.before(thread.number, thread.older)
            thread = replace(thread, comments=(*comments, *thread.comments), older=cursor)
        while thread.older_reviews and _needs_older(thread.reviews, heard_until):
            variables = {**self.address.variables, "number": thread.number, "before": thread.older_reviews}
            page = (await self._ask(_OLDER_REVIEWS, variables))["repository"]["pullRequest"]["reviews"]
            thread = replace(thread, reviews=(*_reviews(page), *thread.reviews), older_reviews=_older_cursor(page))
        new = {
            review.key
            for review in thread.reviews
            if {review.key, review.version}.isdisjoint(seen) and (heard_until is None or review.at >= heard_until)
        }
        further = {review.key for review in thread.reviews if review.key in new and review.more}
        if (thread.older, thread.older_reviews) != (first.older, first.older_reviews):
            further.add(thread.everything()[-1].key)
        whole = [await self._complete_review(review) if review.key in new else review for review in thread.reviews]
        return replace(thread, reviews=tuple(whole), further=frozenset(further))

    async def _complete_review(self, review: ThreadPost) -> ThreadPost:
        while review.more:
            page = await self._ask(_MORE_NOTES, {"review": review.node, "after": review.more})
            review = _with_notes(review, page["node"]["comments"])
        return review

    async def before(self, number: ThreadNumber, cursor: str) -> tuple[tuple[ThreadPost, ...], str]:
        """Return a page of comments before a cursor, and the cursor of the next older page ("" for none)."""
        variables = {**self.address.variables, "number": number, "before": cursor}
        page = (await self._ask(_OLDER, variables))["repository"]["issueOrPullRequest"]["comments"]
        return _comments(page), _older_cursor(page)

    async def comments_since(self, number: ThreadNumber, newest: Json, moment: datetime) -> list[ThreadPost]:
        """Return the comments since a moment, given the page of the newest ones, from as many pages as that takes."""
        comments, cursor = _comments(newest), _older_cursor(newest)
        while cursor and comments and comments[0].at >= moment:
            earlier, cursor = await self.before(number, cursor)
            comments = (*earlier, *comments)
        return [comment for comment in comments if comment.at >= moment]


def read_thread(repository: RepositoryId, node: Json) -> GitHubThread:
    """Return the thread in the data of a query with `subject` and, for a pull request, `pull_request_fields`."""
    comments = node["comments"]
    pull_request = node["__typename"] == "PullRequest"
    reviews = node["reviews"] if pull_request else None
    has_own_branch = pull_request and not node["isCrossRepository"] and not node["merged"]
    return GitHubThread(
        repository=repository,
        number=ThreadNumber(node["number"]),
        title=node["title"],
        opened=_parse_text("issue", node),
        closed=node["closed"],
        labels=frozenset(label["name"] for label in (node["labels"] or {}).get("nodes") or []),
        assignees=frozenset(user["databaseId"] for user in node["assignees"]["nodes"] or []),
        comments=_comments(comments),
        reviews=tuple(_reviews(reviews)) if reviews else (),
        older=_older_cursor(comments),
        older_reviews=_older_cursor(reviews) if reviews else "",
        head=CommitId(node["headRefOid"]) if has_own_branch else None,
        head_branch=node["headRefName"] if has_own_branch else "",
        pull=PullCommits(CommitId(node["baseRefOid"]), CommitId(node["headRefOid"])) if pull_request else None,
        comment_count=comments["totalCount"],
        moved=time(node["updatedAt"]) > time(node["createdAt"]),
        closed_at=time(node["closedAt"]) if is_closed(node) and node["closedAt"] else None,
    )


def _comments(connection: Json) -> tuple[ThreadPost, ...]:
    return tuple(_parse_text(_key("comment", node), node) for node in connection["nodes"] or [])


def _key(kind: str, node: Json) -> str:
    return f"{kind}-{require_present(node['fullDatabaseId'], f'the id of a {kind}')}"


def _parse_text(key: str, node: Json) -> ThreadPost:
    post = ThreadPost(key, actor(node["author"]), node["body"], time(node["createdAt"]), _edited_at(node))
    editors, changed = _editors(node), _edited_ids(node)
    return replace(post, editors=editors, changed=changed, node=node["id"], by_mail=node["createdViaEmail"])


def is_closed(subject: Json) -> bool:
    """Return whether an issue or pull request was closed without a merge.

    Needs `closed` and, for a pull request, `merged`.
    """
    return bool(subject["closed"]) and not subject.get("merged")


def _older_cursor(connection: Json) -> str:
    """Return the cursor of the next older page, or ""."""
    page = connection["pageInfo"]
    return str(page["startCursor"]) if page["hasPreviousPage"] else ""


def _needs_older(posts: Collection[ThreadPost], heard_until: datetime | None) -> bool:
    """Return whether posts older than these are to be read, back to a moment; without it, the newest CATCH_UP."""
    return len(posts) < CATCH_UP if heard_until is None else all(post.at >= heard_until for post in posts)


def _reviews(connection: Json) -> Iterator[ThreadPost]:
    """Yield the submitted reviews. A review's body and comments are one item."""
    for node in connection["nodes"] or []:
        comments: Json = node["comments"] or {"nodes": []}
        if node["submittedAt"] is None or not (node["body"].strip() or comments["nodes"]):
            continue
        # GitHub sends a single comment as a review without a body, which it does not show: nobody can react to it.
        bare = not node["body"].strip()
        key = _key("review-comment", comments["nodes"][0]) if bare else _key("review", node)
        review = replace(_parse_text(key, node), at=time(node["submittedAt"]), aliases={_key("review", node)})
        yield _with_notes(review, comments)


def _with_notes(review: ThreadPost, connection: Json) -> ThreadPost:
    """Return a review with a page of its comments added."""
    comments: list[Json] = connection["nodes"] or []
    page = connection.get("pageInfo") or {"hasNextPage": False}
    return replace(
        review,
        edited_at=max((at for at in (review.edited_at, *map(_edited_at, comments)) if at), default=None),
        notes=(*review.notes, *((_line_reference(comment), comment["body"]) for comment in comments)),
        editors=(*review.editors, *_editors(*comments)),
        changed=(*review.changed, *_edited_ids(*comments)),
        by_mail=review.by_mail or any(comment["createdViaEmail"] for comment in comments),
        aliases=review.aliases | {_key("review-comment", comment) for comment in comments},
        more=page["endCursor"] if page["hasNextPage"] else "",
    )


def _line_reference(comment: Json) -> str:
    line = f":{comment['line']}" if comment["line"] else ""
    return code(f"{comment['path']}{line}")


def _editors(*nodes: Json) -> tuple[Actor, ...]:
    return tuple(actor(node["editor"]) for node in nodes if node.get("editor"))


def _edited_at(node: Any) -> datetime | None:
    return time(node["lastEditedAt"]) if node["lastEditedAt"] else None


def _edited_ids(*nodes: Json) -> tuple[str, ...]:
    return tuple(node["id"] for node in nodes if _edited_at(node))
