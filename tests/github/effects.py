"""Every request that changes something on GitHub, and how to see what came of it (E1)."""

import ast
import re
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Final

from bot.core.errors import Refused
from bot.core.maintenance import Operation, OperationKind
from bot.core.marker import Key
from bot.core.names import CommitId, RepositoryId, ThreadNumber, ToolUseId, thread_ref
from bot.core.question import permission
from bot.core.receipt import KEYS_REF, receipt_ref
from bot.core.turn import Acknowledgment, Actor
from bot.core.work import PullOrder, Review, ReviewFinding, Severity
from bot.github.app import redeliver_failed
from bot.github.client import GitHubClient
from bot.github.pulls import NAME, ApprovalChecks, GitHubPulls
from bot.github.tasks import LABEL as TRACKED
from bot.github.tasks import OPEN_LABEL, IssueOperations, TrackingIssues, label_as_open, make_label, unlabel_as_open
from bot.github.tokens import AppTokens
from bot.receipts.envelope import ReceiptKey, is_receipt_of, sign_statement, with_current_key_file
from bot.store.git_journal import GitJournal
from bot.store.receipt_refs import Issuer, ReceiptRefs
from bot.store.sealing import StateKey
from bot.store.thread_refs import Remote, ThreadRefs
from bot.testing.github import code_changes, conversation
from bot.testing.github.code_changes import LineNote
from bot.testing.github.faults import Fault, Logged, Plan
from bot.testing.github.person import Person
from bot.workspace.remote import RemoteRepository
from tests.github.conftest import HOME, Ground, Signed, no_fence


@dataclass(frozen=True, slots=True)
class Case:
    """An effect about to happen: `act` makes it happen, as often as it is called; `made` counts what came of it."""

    act: Callable[[], Awaitable[object]]
    made: Callable[[], int]


@dataclass(frozen=True, slots=True)
class Effect:
    """One kind of request that changes something."""

    request: str
    """``METHOD /path``, with wildcards."""
    site: str
    """Where the code sends it: ``file:function:verb``."""
    prepare: Callable[[Ground, int], Awaitable[Case]] | None = None
    """Makes a case on a thread with so many comments; None for what only whole stories do."""
    containing: str = ""
    once: bool = False
    """Whether sending it twice would make two: then it is never sent while a look-up fails."""


async def crowded(ground: Ground, size: int) -> ThreadNumber:
    """Open an issue that has so many comments of others."""
    thread = ground.issue()
    issue, person = ground.github.world.issue(HOME, thread), ground.person("rea")
    for number in range(size):
        conversation.comment(person, issue, f"comment {number}")
    return thread


# The effects on issues that no comment is: labels, states, and the switch of the sweep (E1, MT7)


async def an_open_label(ground: Ground, size: int) -> Case:
    thread = await crowded(ground, size)

    def made() -> int:
        return ground.github.world.issue(HOME, thread).labels.count(OPEN_LABEL)

    return Case(lambda: label_as_open(ground.client, ground.address, thread), made)


async def no_open_label(ground: Ground, size: int) -> Case:
    thread = await crowded(ground, size)
    ground.person("ada").label(HOME, thread, OPEN_LABEL)

    def made() -> int:
        return int(OPEN_LABEL not in ground.github.world.issue(HOME, thread).labels)

    return Case(lambda: unlabel_as_open(ground.client, ground.address, thread), made)


def an_operation(kind: OperationKind, text: str = "") -> Callable[[Ground, int], Awaitable[Case]]:
    """Carry out an approved operation on an issue that has the label ``bug``."""

    async def prepare(ground: Ground, size: int) -> Case:
        thread, signer = await crowded(ground, size), Signed()
        ground.person("ada").label(HOME, thread, "bug")
        operations = IssueOperations(
            ground.client, ground.address, ground.bot, Key(signer.key_id, signer.mac), no_fence
        )
        target = await operations.target(thread)
        assert target is not None
        operation, seen = Operation(kind, thread, text), target.digest

        def made() -> int:
            issue = ground.github.world.issue(HOME, thread)
            wanted = target.after(operation)
            return int((frozenset(issue.labels), issue.state == "open") == (wanted.labels, wanted.is_open))

        return Case(lambda: operations.apply(operation, seen, "plan/0"), made)

    return prepare


_PERFORM: Final = "bot/github/tasks.py:_perform"
ISSUE_EFFECTS: Final = {
    "open label": Effect(
        "POST */issues/*/labels", "bot/github/tasks.py:label_as_open:post", an_open_label, containing=OPEN_LABEL
    ),
    "no open label": Effect(
        "DELETE */issues/*/labels/plangate*", "bot/github/tasks.py:unlabel_as_open:delete", no_open_label
    ),
    "added label": Effect(
        "POST */issues/*/labels", f"{_PERFORM}:post", an_operation(OperationKind.ADD_LABEL, "stale"), containing="stale"
    ),
    "removed label": Effect(
        "DELETE */issues/*/labels/*", f"{_PERFORM}:delete", an_operation(OperationKind.REMOVE_LABEL, "bug")
    ),
    "closed issue": Effect(
        "PATCH */issues/[0-9]*", f"{_PERFORM}:change", an_operation(OperationKind.CLOSE), containing='"state"'
    ),
    "sweep on": Effect("PUT */actions/workflows/*/enable", "bot/github/repository.py:enable:put"),
    "sweep off": Effect("PUT */actions/workflows/*/disable", "bot/github/repository.py:disable:put"),
}
"""Part of the matrix of tests/github/effects.py."""


# The effects of receipts on GitHub: the ref of a commit's receipt, its check run, and the ref of keys (RC5, RC6)


_COMMIT: Final = CommitId("c" * 40)
_KEY: Final = ReceiptKey.of(b"k" * 32)
_PUSH: Final = "POST /*.git/git-receive-pack"
_SITE: Final = "bot/store/plumbing.py:_push:push"


async def _receipts(ground: Ground) -> ReceiptRefs:
    token = await ground.client.credentials.token()
    source = RemoteRepository(ground.github.clone_url(HOME), lambda: token)
    remote = Remote(source.location, environment=source.environment)
    refs = ThreadRefs(remote, ground.github.world.folder / "mine", ground.clock)
    issuer = Issuer(
        partial(sign_statement, key=_KEY),
        partial(is_receipt_of, key=_KEY.public),
        partial(with_current_key_file, current=_KEY.public),
    )
    return ReceiptRefs(refs, issuer, ground.clock, ground.github.world.folder / "receipts")


async def a_receipt(ground: Ground, _: int) -> Case:
    """Issue a receipt; a process that died has it issued again."""
    receipts = await _receipts(ground)

    async def act() -> None:
        await receipts.issue({"subject": 1}, _COMMIT)

    return Case(act, lambda: _commits(ground, receipt_ref(_COMMIT)))


async def a_list_of_keys(ground: Ground, _: int) -> Case:
    """Publish the key with a receipt; where that failed, the next receipt does."""
    receipts, made = await _receipts(ground), iter(range(10))

    async def act() -> None:
        await receipts.issue({"subject": 1}, CommitId(f"{next(made):040x}"))

    return Case(act, lambda: _commits(ground, KEYS_REF))


async def a_check_run(ground: Ground, _: int) -> Case:
    """Have the check run on a commit; a process that died has it made again."""
    (installation,) = ground.github.world.installations
    may = {"checks": "write", "contents": "read"}
    ground.client.credentials = AppTokens(ground.app, installation, RepositoryId(ground.repository), may)
    checks, commit = ApprovalChecks(ground.client, ground.address), ground.head
    statement = {"predicate": _predicate()}

    def made() -> int:
        return sum(run.name == NAME for run in ground.github.world.check_runs.values())

    return Case(lambda: checks.ensure(statement, commit), made)


def _predicate() -> dict[str, object]:
    return {
        "plan": {"digest": "d" * 64, "version": 2},
        "repository": {"host": "github.com", "name": HOME},
        "thread": 1,
        "approvals": [{"by": [{"login": "mia"}, {"login": "mia"}]}],
    }


def _commits(ground: Ground, ref: str) -> int:
    bare = ground.github.world.bare(ground.github.world.repository(HOME))
    return len(bare.text("rev-list", ref).split()) if ref in bare.refs() else 0


RECEIPT_EFFECTS: Final = {
    "receipt": Effect(_PUSH, _SITE, a_receipt, "refs/plangate/receipts/"),
    "check run": Effect("POST */check-runs", "bot/github/pulls.py:ensure:post_once", a_check_run, once=True),
    "keys": Effect(_PUSH, _SITE, a_list_of_keys, KEYS_REF),
}


# Every way in which the bot changes GitHub, how each is made to happen, and what can go wrong with it (E1)


SOURCES: Final = Path(__file__).parents[2] / "bot"
SILENCE: Final = 1
"""Seconds after which a client of the matrix gives an answer up."""
MISHAPS: Final = {
    "done, then 502": Fault("lost", 502),
    "done, then 500": Fault("lost", 500),
    "done, then reset": Fault("reset", done=True),
    "done, then cut": Fault("truncate"),
    "done, then silence": Fault("reset", done=True, seconds=1.5 * SILENCE),
    "not done, 502": Fault("status", 502),
    "not done, reset": Fault("reset"),
}
GRAPHQL: Final = "POST /graphql"
WRITES: Final = {name for name in vars(GitHubClient) if name[0] != "_"} - {
    *("get", "scopes", "page", "pages", "redirect", "graphql", "node", "read_until", "close")
}
"""Whatever the client can do but read."""
FOR_EVER: Final = 1_000_000
BLIND: Final = (
    Plan("GET /*", Fault("status", 502), FOR_EVER),
    Plan("POST /graphql", Fault("status", 502), FOR_EVER, containing="query ("),
)
"""No look-up succeeds any more."""


async def a_comment(ground: Ground, size: int) -> Case:
    thread = await crowded(ground, size)
    plan = ground.plan(thread)
    return Case(lambda: ground.dialogue(thread).propose(plan, 1), lambda: len(ground.comments(thread)))


async def an_edit(ground: Ground, size: int) -> Case:
    thread = await crowded(ground, size)
    await ground.dialogue(thread).comments.put("waits", 1, "Before.")

    def made() -> int:
        (comment,) = ground.comments(thread)
        return int(comment.text.body.startswith("After."))

    return Case(lambda: ground.dialogue(thread).comments.put("waits", 1, "After."), made)


async def a_fold(ground: Ground, size: int) -> Case:
    thread = await crowded(ground, size)
    asking = permission(ToolUseId("t"), "Bash", "make", "a rule asks")
    node = (await ground.dialogue(thread).ask(asking, 4, who="maya")).id

    def made() -> int:
        return sum(comment.minimized == "outdated" for comment in ground.comments(thread))

    return Case(lambda: ground.dialogue(thread).fold_question(node), made)


Said = Callable[[Ground, ThreadNumber], tuple[str, str]]
"""Lets somebody say something on a thread, and gives the key of the turn and the node that a sign goes under."""


def an_issue(ground: Ground, thread: ThreadNumber) -> tuple[str, str]:
    return "issue", ground.github.world.issue(HOME, thread).node_id


def said_in_a_comment(ground: Ground, thread: ThreadNumber) -> tuple[str, str]:
    said = ground.person("mia").comment(HOME, thread, "@plangate more")
    return f"comment-{said.id}", said.node_id


def said_in_a_review(ground: Ground, thread: ThreadNumber) -> tuple[str, str]:
    said = ground.person("mia").review(HOME, thread, "@plangate more")
    return f"review-{said.id}", said.node_id


def said_at_a_line(ground: Ground, thread: ThreadNumber) -> tuple[str, str]:
    ground.person("mia").review(HOME, thread, notes=[LineNote("src/a.py", 1, "@plangate more")])
    (said,) = ground.github.world.review_comments_of(ground.github.world.issue(HOME, thread))
    return f"review-comment-{said.id}", said.node_id


def a_sign(says: Said) -> Callable[[Ground, int], Awaitable[Case]]:
    """Put the sign that it was seen under what somebody said."""

    async def prepare(ground: Ground, size: int) -> Case:
        reviewed = says in {said_in_a_review, said_at_a_line}
        thread = await (pull_request if reviewed else crowded)(ground, size)
        key, node = says(ground, thread)

        async def sign() -> None:
            await ground.dialogue(thread).comments.sign(key, Acknowledgment.SEEN)

        return Case(sign, lambda: len(ground.github.world.reactions_to(node)))

    return prepare


async def pull_request(ground: Ground, size: int) -> ThreadNumber:
    """Open a pull request that has so many comments of others."""
    ground.person("will").push(HOME, {"src/a.py": "a = 3\n"}, branch="topic")
    pull, person = ground.person("will").open_pull(HOME, "Topic", head="topic"), ground.person("rea")
    for number in range(size):
        conversation.comment(person, pull, f"comment {number}")
    return ThreadNumber(pull.number)


async def a_reply(ground: Ground, size: int) -> Case:
    """Reply in a review's thread that so many have replied in."""
    thread = await pull_request(ground, 0)
    world, note = ground.github.world, LineNote("src/a.py", 1, "@plangate more")
    review = ground.person("mia").review(HOME, thread, notes=[note])
    (first,) = world.review_comments_of(world.issue(HOME, thread))
    for _ in range(size):
        code_changes.add_line_comment(ground.person("will"), review, note, reply_to=first.id)

    def made() -> int:
        every = world.review_comments_of(world.issue(HOME, thread))
        return sum((each.author, each.in_reply_to) == (ground.bot.id, first.id) for each in every)

    return Case(lambda: ground.dialogue(thread).reply([f"review-comment-{first.id}"], "Dealt with.", 4), made)


async def a_review(ground: Ground, size: int) -> Case:
    """Review a pull request that so many have reviewed."""
    thread = await pull_request(ground, 0)
    world = ground.github.world
    issue = world.issue(HOME, thread)
    for number in range(size):
        code_changes.review(ground.person("will"), issue, body=f"review {number}")
    assert issue.pull is not None
    review = Review("Good.", (ReviewFinding("src/a.py", 1, Severity.LOW, "Why?"),), CommitId(issue.pull.head_sha))

    def made() -> int:
        return sum(each.author == ground.bot.id for each in world.reviews_of(issue))

    return Case(lambda: ground.dialogue(thread).review(review, 4), made)


ORDER: Final = PullOrder("plangate/1-fix", "main", "Fix it", "What and why.", labels=("by bot",), reviewers=("mia",))


async def a_pull_request(ground: Ground, size: int) -> Case:
    """Order a pull request of a branch that had so many, all of them closed."""
    will: Person = ground.person("will")
    will.push(HOME, {"src/a.py": "a = 2\n"}, branch=ORDER.branch)
    for number in range(size):
        will.close(HOME, will.open_pull(HOME, f"Earlier {number}", head=ORDER.branch).number)

    def made() -> int:
        every = ground.github.world.issues.values()
        return sum(issue.author == ground.bot.id for issue in every if issue.pull is not None)

    return Case(lambda: _ordered(ground), made)


async def _ordered(ground: Ground) -> object:
    return await GitHubPulls(ground.client, ground.address, ground.bot).ensure(ORDER)


async def labels(ground: Ground, size: int) -> Case:
    case = await a_pull_request(ground, size)
    return Case(case.act, lambda: sum(issue.labels == ("by bot",) for issue in ground.github.world.issues.values()))


async def a_tracking_issue(ground: Ground, size: int) -> Case:
    await crowded(ground, size)
    issues = tracking(ground)

    def made() -> int:
        return sum(TRACKED in issue.labels for issue in ground.github.world.issues.values())

    return Case(lambda: issues.open("deps", "Update the pins", "What it found."), made)


async def a_tracking_text(ground: Ground, _size: int) -> Case:
    issues = tracking(ground)
    number = await issues.open("deps", "Update the pins", "Before.")

    def made() -> int:
        return int(ground.github.world.issue(HOME, number).text.body.startswith("After."))

    shown = (await issues.read(number)).body
    return Case(lambda: issues.show(number, "deps", "After.", shown=shown), made)


async def a_tracking_warning(ground: Ground, _size: int) -> Case:
    issues = tracking(ground)
    number = await issues.open("deps", "Update the pins", "Before.")

    def made() -> int:
        return ground.github.world.issue(HOME, number).text.body.count("line 3 is wrong")

    return Case(lambda: issues.warn(number, "line 3 is wrong"), made)


def tracking(ground: Ground) -> TrackingIssues:
    signer = Signed()

    async def bot() -> Actor:
        return ground.bot

    return TrackingIssues(ground.client, ground.address, bot, Key(signer.key_id, signer.mac))


async def a_label(ground: Ground, size: int) -> Case:
    """Make a label in a repository."""

    async def act() -> None:
        await make_label(ground.client, ground.address, "plangate", "Calls Plangate")

    return Case(act, lambda: int("plangate" in ground.github.world.labels[ground.repository]))


async def reviewers(ground: Ground, size: int) -> Case:
    case, mia = await a_pull_request(ground, size), ground.github.world.user("mia").id

    def made() -> int:
        pulls = [issue.pull for issue in ground.github.world.issues.values() if issue.pull]
        return sum(pull.requested_reviewers == (mia,) for pull in pulls)

    return Case(case.act, made)


async def an_entry(ground: Ground, size: int) -> Case:
    """Append an entry to a journal that has so many, as the engine does: read, and write what is not there yet."""
    token = await ground.client.credentials.token()
    source = RemoteRepository(ground.github.clone_url(HOME), lambda: token)
    remote, thread = Remote(source.location, environment=source.environment), ThreadNumber(1)
    refs = ThreadRefs(remote, ground.github.world.folder / "mine", ground.clock)
    journal = GitJournal(refs, RepositoryId(ground.repository), key=StateKey(b"key"), clock=ground.clock)
    if size:
        await journal.append(thread, 0, [("requested", {})] * size)

    async def act() -> None:
        if len(await journal.read(thread)) == size:
            await journal.append(thread, size, [("proposed", {})])

    def made() -> int:
        bare = ground.github.world.bare(ground.github.world.repository(HOME))
        names = bare.text("ls-tree", "--name-only", thread_ref(thread), "journal/").split()
        return sum(name == f"journal/{size + 1:08d}" for name in names)

    return Case(act, made)


def _tokens(ground: Ground) -> AppTokens:
    (installation,) = ground.github.world.installations
    return AppTokens(ground.app, installation, RepositoryId(ground.repository), {"issues": "read"})


async def a_token(ground: Ground, size: int) -> Case:
    """Make a token; one that was made and whose answer was lost ends within its hour."""
    tokens, held = _tokens(ground), set[str]()

    async def act() -> None:
        held.add(await tokens.token())

    return Case(act, lambda: len(held & {token.value for token in ground.github.world.tokens.values()}))


async def a_revocation(ground: Ground, size: int) -> Case:
    """Revoke a token as at the end of a process: what GitHub does not know any more is gone."""
    tokens = _tokens(ground)
    token = await tokens.token()

    async def act() -> None:
        with suppress(Refused):
            await tokens.revoke()

    return Case(act, lambda: int(token not in {each.value for each in ground.github.world.tokens.values()}))


async def none_known(guids: Collection[str]) -> Collection[str]:
    """Know of no delivery that arrived."""
    return ()


async def a_redelivery(ground: Ground, size: int) -> Case:
    """Have GitHub deliver again what failed; a second copy of a delivery is thrown away when it comes (W2)."""
    hooks = ground.github.webhooks
    hooks.hook_app(ground.github.app, "http://127.0.0.1:9/")
    since = ground.clock.now()
    ground.issue()
    hooks.drain()
    ground.clock.advance(120)

    def made() -> int:
        return int(any(delivery.redelivery for delivery in hooks.deliveries))

    return Case(lambda: redeliver_failed(ground.app, none_known, since), made)


JOURNAL: Final = "refs/plangate/threads/"
BRANCH: Final = "refs/heads/plangate/"
PUSH: Final = "POST /*.git/git-receive-pack"
_REACTIONS: Final = "bot/github/comments.py:sign:post"
EFFECTS: Final = {
    **ISSUE_EFFECTS,
    "comment": Effect("POST */issues/*/comments", "bot/github/comments.py:_post:post", a_comment, once=True),
    "edit": Effect("PATCH */issues/comments/*", "bot/github/comments.py:edit:change", an_edit),
    "fold": Effect(GRAPHQL, "bot/github/comments.py:minimize:mutate", a_fold, "minimizeComment"),
    "reply": Effect("POST */pulls/*/comments/*/replies", "bot/github/reviews.py:_create:post_once", a_reply, once=True),
    "sign on a comment": Effect("POST */issues/comments/*/reactions", _REACTIONS, a_sign(said_in_a_comment)),
    "sign on a line": Effect("POST */pulls/comments/*/reactions", _REACTIONS, a_sign(said_at_a_line)),
    "sign on an issue": Effect("POST */issues/*/reactions", _REACTIONS, a_sign(an_issue)),
    "sign on a review": Effect(GRAPHQL, "bot/github/comments.py:sign:mutate", a_sign(said_in_a_review), "addReaction"),
    "review": Effect("POST */pulls/*/reviews", "bot/github/reviews.py:_create:post_once", a_review, once=True),
    "pull request": Effect("POST */pulls", "bot/github/pulls.py:_post:post", a_pull_request, once=True),
    "labels": Effect("POST */issues/*/labels", "bot/github/pulls.py:_label_and_request_reviews:post", labels),
    "tracking issue": Effect("POST */issues", "bot/github/tasks.py:open:post", a_tracking_issue, once=True),
    "tracking text": Effect("PATCH */issues/[0-9]*", "bot/github/tasks.py:show:change", a_tracking_text),
    "tracking warning": Effect("PATCH */issues/[0-9]*", "bot/github/tasks.py:warn:change", a_tracking_warning),
    "label": Effect("POST /repos/*/labels", "bot/github/tasks.py:make_label:post", a_label),
    "reviewers": Effect("POST */requested_reviewers", "bot/github/pulls.py:_label_and_request_reviews:post", reviewers),
    **RECEIPT_EFFECTS,
    "journal": Effect(PUSH, "bot/store/plumbing.py:_push:push", an_entry, JOURNAL),
    "branch": Effect(PUSH, "bot/workspace/publish.py:_push_commit:push", None, BRANCH),
    "token": Effect("POST */access_tokens", "bot/github/tokens.py:_make:post", a_token),
    "revocation": Effect("DELETE /installation/token", "bot/github/tokens.py:revoke:delete", a_revocation),
    "redelivery": Effect("POST /app/hook/deliveries/*", "bot/github/app.py:redeliver:post", a_redelivery),
}
"""All of them: tests hold this against the code and against what whole stories send."""


def named(logged: Logged) -> str:
    """Name the effect that a request is; "" for one that only reads, and its own name for one that nobody knows."""
    reads = logged.method == "GET" or logged.path.endswith("/git-upload-pack")
    if reads or (logged.path == "/graphql" and b"mutation" not in logged.body):
        return ""
    for name, effect in EFFECTS.items():
        if fnmatchcase(logged.name, effect.request) and effect.containing.encode() in logged.body:
            return name
    return logged.name


def sites() -> Iterator[str]:
    """List where the code sends what changes something: ``file:function:verb``."""
    for path in sorted(SOURCES.rglob("*.py")):
        text = path.read_text()
        elsewhere = path.relative_to(SOURCES).parts[0] in {"agent", "testing"}  # neither speaks to GitHub
        # Experiments of a person, in a repository to throw away.
        by_hand = path.parent.name == "live" or path.name == "live_repository.py"
        if re.search("client|push", text) and not elsewhere and not by_hand:
            for function in ast.walk(ast.parse(text)):
                if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                    at = f"{path.relative_to(SOURCES.parent).as_posix()}:{function.name}"
                    yield from (f"{at}:{verb}" for node in ast.walk(function) if (verb := _verb(node)))


def _verb(node: ast.AST) -> str:
    """Return the verb of a call that writes: a client's, or git's."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return ""
    if node.func.attr in {"git", "run", "ask", "reach"}:
        words = (word.value for word in ast.walk(node) if isinstance(word, ast.Constant))
        return "push" if "push" in words else ""
    if node.func.attr not in WRITES:
        return ""
    return node.func.attr if re.fullmatch(r"(.*\.)?\w*(client|app)", ast.unparse(node.func.value)) else ""
