"""Takes a live snapshot of everything that decides about a plan (A1): one query, then the roles of those who decided.

A failed read makes the snapshot incomplete, never empty (A3). This module decides nothing; core/approval.py does.
https://docs.github.com/en/graphql/reference/objects#issuecomment
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from urllib.parse import quote

from bot.core.approval import Candidate, Opinion, ShownPlan, Snapshot, Way
from bot.core.errors import PlangateError
from bot.core.markdown.visible import may_name
from bot.core.names import CommitId
from bot.core.paths import Tier
from bot.core.plan import PlanDocument
from bot.core.turn import Actor, ActorKind, Command, Role, Verb, parse, without_item_mark
from bot.github.client import GitHubClient, Json
from bot.github.edit_history import EDIT_FIELDS, History, history
from bot.github.permissions import Roles, owner_ids
from bot.github.responses import WHO, actor, require_present, time
from bot.github.threads import COMMENTS, ThreadPost, Threads, is_closed
from bot.github.turns import SHORT, BotIdentity, ParsedTextCache

FILES_LIMIT: Final = 300
"""The compare API lists at most this many files
(https://docs.github.com/en/rest/commits/commits#compare-two-commits)."""
_NO_ROLES: Final = {ActorKind.BOT, ActorKind.MANNEQUIN, ActorKind.GONE}

# https://docs.github.com/en/graphql/reference/enums#reactioncontent
VOTES: Final = {
    "THUMBS_UP": Opinion.APPROVE,
    "ROCKET": Opinion.APPROVE,
    "THUMBS_DOWN": Opinion.REJECT,
    "CONFUSED": Opinion.REVISE,
}
"""The opinion that each reaction expresses on a plan. Other reactions express none."""
_COMMANDS: Final = {Verb.APPROVE: Opinion.APPROVE, Verb.REJECT: Opinion.REJECT}
_NEWEST: Final = "orderBy: { field: CREATED_AT, direction: DESC }"
_VOTE: Final = """
fragment votes on ReactionConnection {
  nodes { createdAt user { __typename databaseId login } }
  pageInfo { hasNextPage endCursor }
}
"""
_SUBJECT: Final = "closed closedAt locked comments(last: 100) { ...comments }"
_QUERY: Final = f"""
query ($owner: String!, $name: String!, $number: Int!, $branch: String!, $plan: ID!) {{
  repository(owner: $owner, name: $name) {{
    databaseId
    ref(qualifiedName: $branch) {{ target {{ oid }} }}
    issueOrPullRequest(number: $number) {{
      __typename
      ... on Issue {{ {_SUBJECT} }}
      ... on PullRequest {{ {_SUBJECT} headRefName headRefOid isCrossRepository merged }}
    }}
  }}
  node(id: $plan) {{
    ... on IssueComment {{
      isMinimized {EDIT_FIELDS}
      {" ".join(f"{vote}: reactions(first: 100, content: {vote}, {_NEWEST}) {{ ...votes }}" for vote in VOTES)}
    }}
  }}
}}
{_VOTE} {COMMENTS} {WHO}
"""
_MORE: Final = f"""
query ($plan: ID!, $content: ReactionContent!, $after: String!) {{
  node(id: $plan) {{
    ... on IssueComment {{
      reactions(first: 100, after: $after, content: $content, {_NEWEST}) {{ ...votes }}
    }}
  }}
}}
{_VOTE}
"""


@dataclass(frozen=True, slots=True)
class SnapshotReader:
    """Takes snapshots of one thread. `branch` is the default branch, which plans for an issue are made for."""

    threads: Threads
    identity: BotIdentity
    branch: str
    roles: Callable[[], Roles]
    """Creates the roles for one check."""
    posted: Callable[[PlanDocument], str]
    """Returns the comment text that was posted for a plan."""
    parsed_texts: ParsedTextCache
    approve: Role = Role.MAINTAIN
    """The role that may approve. A plan of tier high also needs the list of everybody who has it."""
    onto: str = ""
    """Branch of the pull request that the plan adds to, or "" if its work gets a branch of its own."""
    pushed: str = ""
    """Commit of the plan's own work, which may be on the branch already."""
    begun: tuple[str, ...] = ()
    """Other texts that the comment may show and the journal accounts for: the same plan after its work began (A4b)."""

    async def read(self, plan: PlanDocument, shown: str) -> Snapshot:
        """Return a snapshot. A GitHub error makes it incomplete; none is raised."""
        try:
            branch = f"refs/heads/{self.onto or self.branch}"
            variables = {**self.threads.address.variables, "number": plan.thread, "branch": branch, "plan": shown}
            data = await self._client.node(_QUERY, variables)
            return await self._snapshot(plan, shown, data)
        except PlangateError:
            return Snapshot(ShownPlan(plan.expires), complete=False, plans=plan.plan)

    async def _snapshot(self, plan: PlanDocument, shown: str, data: Json) -> Snapshot:
        """Return the snapshot in GitHub's answer, incomplete if the answer lacks something."""
        repository, node = data["repository"], data["node"]
        if repository is None or repository["databaseId"] != plan.repository:
            return Snapshot(ShownPlan(plan.expires), complete=False, plans=plan.plan)
        subject = repository["issueOrPullRequest"]
        if self.onto and (repository["ref"] is None or _is_merged(subject, self.onto)):
            return Snapshot(ShownPlan(plan.expires), overtaken=True, plans=plan.plan)
        if repository["ref"] is None:
            return Snapshot(ShownPlan(plan.expires), complete=False, plans=plan.plan)
        if not node or not subject or actor(node["author"]).id != self.identity.bot.id:
            closed_at, gone = _closing_time(subject) if subject else None, ShownPlan(plan.expires, hidden=True)
            return Snapshot(gone, open=bool(subject) and closed_at is None, closed_at=closed_at, plans=plan.plan)
        past = history(node, self.posted(plan), self.begun)
        votes = [*standing_tick(past), *[opinion async for opinion in self._votes(node, shown)]]
        commented = await self._deciding_comments(plan, subject["comments"], time(node["createdAt"]))
        roles = self.roles()
        actors = {opinion.actor for opinion in votes} | {comment.actor for comment in commented}
        silent = await asyncio.to_thread(self._silent_people, commented) if roles.teams else set[Actor]()
        people = await _read_people(actors, roles, self.approve, silent - {opinion.actor for opinion in votes})
        opinions = [*votes, *await asyncio.to_thread(self._commands, commented, people)]
        candidates = tuple(
            replace(opinion, role=people[opinion.actor].role, listed=people[opinion.actor].listed)
            for opinion in opinions
        )
        return Snapshot(
            shown=ShownPlan(past.since, past.intact, node["isMinimized"]),
            candidates=candidates,
            open=not is_closed(subject),
            closed_at=_closing_time(subject),
            locked=subject["locked"],
            drifted=await self._drifted_files(plan, _base(repository)),
            complete=all(people[opinion.actor].is_known(barred=roles.barred) for opinion in opinions),
            plans=plan.plan,
            approvers=await roles.accounts_with_role(self.approve) if plan.tier == Tier.HIGH else None,
            owners=await self._owners(plan, candidates, roles),
        )

    async def _owners(self, plan: PlanDocument, candidates: Sequence[Candidate], roles: Roles) -> frozenset[int]:
        """Return the ids of the approvers who own everything that a plan of tier high may change.

        Nobody owns a host.
        """
        if plan.tier != Tier.HIGH or plan.contract.hosts:
            return frozenset()
        people = {
            candidate.actor
            for candidate in candidates
            if candidate.opinion is Opinion.APPROVE
            and (candidate.listed or (candidate.role or Role.NONE) >= self.approve)
        }
        return await owner_ids(roles, self.branch, plan.contract.scope, people)

    async def _votes(self, node: Json, shown: str) -> AsyncIterator[Candidate]:
        """Yield the reactions that express an opinion, from all pages."""
        for vote, opinion in VOTES.items():
            page = node[vote]
            while True:
                for reaction in page["nodes"] or []:
                    if reaction["user"] is not None:  # null for a bot, or an account that is gone (A2)
                        who = actor(reaction["user"])
                        yield Candidate(who, Way.REACTION, opinion, time(reaction["createdAt"]), None)
                if not page["pageInfo"]["hasNextPage"]:
                    break
                after = {"plan": shown, "content": vote, "after": page["pageInfo"]["endCursor"]}
                page = (await self._client.graphql(_MORE, after))["node"]["reactions"]

    async def _deciding_comments(self, plan: PlanDocument, connection: Json, posted: datetime) -> list[ThreadPost]:
        """Return the comments since the plan was posted that may approve or reject it, judged without parsing them."""
        comments = await self.threads.comments_since(plan.thread, connection, posted)
        bot, mention = self.identity.bot, self.identity.mention
        others = [comment for comment in comments if comment.actor.id != bot.id]
        return [comment for comment in others if may_name(comment.body, mention) and _may_decide(comment.body)]

    def _silent_people(self, comments: Sequence[ThreadPost]) -> set[Actor]:
        """Return the people whose comments express no opinion.

        A long text counts as expressing one: it is not parsed to find out.
        """
        speaking = {
            comment.actor
            for comment in comments
            if len(comment.body) > SHORT or decisions(comment, self._lines(comment), self.identity.mention)
        }
        return {comment.actor for comment in comments} - speaking

    def _lines(self, comment: ThreadPost) -> Sequence[str]:
        return self.parsed_texts.parse(comment.body, self.identity.mention, by_mail=comment.by_mail).lines

    def _commands(self, comments: Sequence[ThreadPost], people: Mapping[Actor, "_Person"]) -> list[Candidate]:
        """Return the opinions that comments express on the plan.

        People who may not decide only get a reply that says so. Their text is not parsed: a command is found only if
        it begins a line of a short text.
        """
        candidates: list[Candidate] = []
        for comment in comments:
            if comment.by_mail or people[comment.actor].may_decide(self.approve):
                lines = self._lines(comment)
            else:
                lines = [*map(without_item_mark, comment.body.splitlines())] if len(comment.body) <= SHORT else ()
            candidates += decisions(comment, lines, self.identity.mention)
        return candidates

    async def _drifted_files(self, plan: PlanDocument, head: CommitId) -> tuple[str, ...]:
        """Return the files of the plan's scope that others changed since its base.

        A renamed file appears under both names.
        """
        if head in {plan.base, self.pushed}:
            return ()
        path = f"{self.threads.address.path}/compare/{quote(plan.base)}...{quote(head)}"
        comparison = await self._client.get(path, {"per_page": 1})
        files: list[Json] = comparison.get("files") or []
        if comparison["status"] not in {"ahead", "identical"} or len(files) >= FILES_LIMIT:
            return ("*",)  # history was rewritten, or too many files changed for GitHub to list: make the plan again
        names = {str(file.get(key) or "") for file in files for key in ("filename", "previous_filename")} - {""}
        return tuple(sorted(name for name in names if plan.contract.reaches(name)))

    @property
    def _client(self) -> GitHubClient:
        return self.threads.client


def _base(repository: Json) -> CommitId:
    """Return the commit that plans are made for: the head of this repository's pull request, else of the branch."""
    subject = repository["issueOrPullRequest"]
    if subject["__typename"] == "PullRequest" and not subject["isCrossRepository"] and not subject["merged"]:
        return CommitId(subject["headRefOid"])
    return CommitId(require_present(repository["ref"]["target"], "the head of the branch")["oid"])


def _closing_time(subject: Json) -> datetime | None:
    """Return when a thread was closed without a merge, or None."""
    return time(subject["closedAt"]) if is_closed(subject) else None


def _is_merged(subject: Json | None, branch: str) -> bool:
    """Return whether a thread is a merged pull request of that branch."""
    return subject is not None and bool(subject.get("merged")) and subject["headRefName"] == branch


def decisions(post: ThreadPost, lines: Sequence[str], mention: str) -> list[Candidate]:
    """Return the approve and reject commands among the lines of one comment.

    Their authors' roles are not looked up yet.
    """
    commands = [parse(line, mention) for line in lines]
    return [
        Candidate(
            post.actor,
            Way.MAIL if post.by_mail else Way.COMMAND,
            _COMMANDS[command.verb],
            post.at,
            None,
            digest=command.argument if command.verb is Verb.APPROVE else "",
            edited=post.edited,
        )
        for command in commands
        if isinstance(command, Command) and command.verb in _COMMANDS
    ]


def standing_tick(past: History) -> list[Candidate]:
    """Return the approval by the box, if it is ticked. Its author's role is not looked up yet."""
    return [Candidate(past.tick.by, Way.TICK, Opinion.APPROVE, past.tick.at, None)] if past.tick else []


def _may_decide(text: str) -> bool:
    """Return whether a text may hold an approve or reject command, without parsing it."""
    return any(may_name(text, verb) for verb in _COMMANDS)


@dataclass(frozen=True, slots=True)
class _Person:
    """What one snapshot looked up about a person."""

    role: Role | None = Role.NONE
    listed: bool | None = False

    def may_decide(self, lowest: Role) -> bool:
        """Return whether this person may decide, as far as is known. True if unknown."""
        return self.role is None or self.role >= lowest or self.listed is not False

    def is_known(self, *, barred: bool) -> bool:
        """Return whether every look-up that can succeed did succeed."""
        return self.role is not None and (self.listed is not None or barred)


async def _read_people(
    actors: Collection[Actor], roles: Roles, lowest: Role, silent: Collection[Actor]
) -> dict[Actor, _Person]:
    """Return the role of each person, and whether the person is listed.

    If the role is enough, or if the person expressed no opinion (is in `silent`), team membership does not matter, and
    neither does whether it can be looked up.
    """
    people = {who for who in actors if who.kind not in _NO_ROLES}
    await roles.prefetch_roles(people)
    persons = dict.fromkeys(actors, _Person())
    for who in people:
        role = await roles.of(who)
        needless = (role or Role.NONE) >= lowest or who in silent
        persons[who] = _Person(role, False if needless else await roles.is_listed(who))
    return persons
