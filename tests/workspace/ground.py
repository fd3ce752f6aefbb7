"""What the tests of the workspace stand on: real repositories, approved plans, probes."""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bot.core.approval import ApprovedPlan, Candidate, Opinion, Policy, ShownPlan, Snapshot, Way, prove
from bot.core.names import CommitId, RepositoryId, ThreadNumber
from bot.core.paths import Further
from bot.core.plan import Contract, PlanDocument
from bot.core.turn import Actor, Role
from bot.core.work import Checkout, CommitOrder, PushedWork
from bot.workspace.workspace import GitWorkspace

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TOKEN = "ghs_4711_eyJhbGciOi.canary"
NAME = "owner/name.git"
"""What the server of a repository takes, and what the repository is called there."""

Work = Callable[[Path], None]
"""Does some work in a tree."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository of somebody, on disk."""

    path: Path

    def git(self, *arguments: str, stdin: str = "") -> str:
        command = ["git", "-c", "user.name=P", "-c", "user.email=p@example.org", *arguments]
        done = subprocess.run(command, cwd=self.path, check=True, capture_output=True, input=stdin.encode())
        return done.stdout.decode().strip()

    def commit(self, **files: str) -> CommitId:
        for name, text in files.items():
            target = self.path / name.replace("__", "/").replace("_dot_", ".")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "work")
        return self.head

    @property
    def head(self) -> CommitId:
        """The commit of HEAD, read from git's files where they tell it: asking git would take a process."""
        git = self.path / ".git"
        folder = git if git.is_dir() else self.path
        text = (folder / "HEAD").read_text().strip() if (folder / "HEAD").exists() else "ref: none"
        ref = folder / text.removeprefix("ref: ")
        if text.startswith("ref: "):
            text = ref.read_text().strip() if ref.exists() else self.git("rev-parse", "HEAD")
        return CommitId(text)


def make_repository(path: Path) -> Repository:
    path.mkdir(parents=True)
    repository = Repository(path)
    repository.git("init", "-q", "-b", "main")
    (path / "run.sh").write_text("#!/bin/sh\necho hi\n")
    (path / "run.sh").chmod(0o755)
    (path / "link").symlink_to("src/a.py")
    repository.commit(src__a_dot_py="a = 1\n", src__b_dot_py="b = 1\n", README_dot_md="# Hi\n")
    return repository


def approved(
    base: CommitId,
    scope: tuple[str, ...] = (),
    dependencies: tuple[str, ...] = (),
    tree: str = "",
    classes: Further = (),
) -> ApprovedPlan:
    document = PlanDocument(
        repository=RepositoryId(1), thread=ThreadNumber(1), plan=1, base=base, markdown="do it",
        contract=Contract(scope=scope, dependencies=dependencies, classes=classes), tier="normal", budget_usd=1.0,
        expires=NOW + timedelta(days=1), tree=tree,
    )  # fmt: skip
    word = Candidate(Actor(5, "p"), Way.TERMINAL, Opinion.APPROVE, NOW + timedelta(seconds=1), Role.ADMIN)
    _, plan = prove(document, Snapshot(ShownPlan(NOW), (word,)), Policy(), NOW + timedelta(seconds=2))
    assert plan is not None
    return plan


def order(branch: str = "plangate/run-x-00000001", message: str = "Do it", requester: str = "") -> CommitOrder:
    return CommitOrder(branch=branch, message=message, at=NOW, requester=requester)


async def begin(workspace: GitWorkspace, repository: Repository, work: Work) -> Checkout:
    checkout = await workspace.checkout("main", repository.head)
    work(Path(checkout.path))
    return checkout


async def publish(
    workspace: GitWorkspace, repository: Repository, work: Work, scope: tuple[str, ...] = ()
) -> PushedWork:
    checkout = await begin(workspace, repository, work)
    return await workspace.publish(approved(checkout.base, scope), checkout, order())


def write(**files: str) -> Work:
    """Write files; a double underscore in a name is a slash."""

    def work(tree: Path) -> None:
        for name, text in files.items():
            target = tree / name.replace("__", "/").replace("_dot_", ".")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)

    return work
