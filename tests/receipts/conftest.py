"""A real clone with a commit that approved work made, and the receipt that belongs to it."""

import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from bot.compose.receipt_check import ReceiptRepository
from bot.core.moves import Planned, Proposed
from bot.core.names import CommitId
from bot.core.plan import PlanDocument
from bot.core.receipt import KEYS_FILE, KEYS_REF, RECEIPT_FILE, receipt_ref
from bot.core.transcript import Json
from bot.receipts.envelope import ReceiptKey, encode_keys, sign_statement
from bot.receipts.verdicts import CommitFacts
from bot.testing.github.git_objects import read_object, write_commit, write_ref
from tests.core.receipt_story import PLAN, REQUESTED, SUBJECT, approved, executed, statement_of

KEY = ReceiptKey.of(b"k" * 32)
PERSONS = "".join(f"{role} p <p@example.com> 1795000000 +0000\n" for role in ("author", "committer"))
OTHER_KEY = ReceiptKey.of(b"o" * 32)


@dataclass(frozen=True, slots=True)
class Clone:
    """A clone, and what it is used for."""

    path: Path
    keys: Path

    def git(self, *arguments: str, stdin: bytes = b"") -> str:
        identity = ["-c", "user.name=p", "-c", "user.email=p@example.com"]
        command = ["git", "-C", str(self.path), *identity, *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, check=True).stdout.decode().strip()

    def commit(self, content: str, message: str, path: str = "a.py") -> str:
        """Commit a file on the current branch, and return the commit."""
        (self.path / path).write_text(content)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.head

    @property
    def head(self) -> str:
        """The commit that is checked out, read from git's files: asking git would take a process."""
        head = (self.path / ".git" / "HEAD").read_text().strip()
        return (self.path / ".git" / head.removeprefix("ref: ")).read_text().strip() if " " in head else head

    def keep(self, ref: str, name: str, content: bytes) -> None:
        """Have a ref hold one file, as the bot does."""
        git = self.path / ".git"
        if b"sha256" not in (git / "config").read_bytes():
            assert write_ref(
                git, ref, write_commit(git / "objects", None, {name: content}, persons=PERSONS, message="")
            )
            return
        blob = self.git("hash-object", "-w", "--stdin", stdin=content)
        tree = self.git("mktree", stdin=f"100644 blob {blob}\t{name}\n".encode())
        self.git("update-ref", ref, self.git("commit-tree", tree, "-m", ""))

    def work(self, content: str = "two\n") -> tuple[str, Json]:
        """Commit approved work on the newest commit. Return the commit and its statement."""
        base = CommitId(self.head)
        plan = replace(PLAN, base=base)
        commit = self.commit(content, f"Do it\n\nPlangate-Plan: {plan.digest}")
        return commit, self.statement(plan, commit)

    def statement(self, plan: PlanDocument, commit: str) -> Json:
        """Return the statement about a commit that carries out a plan."""
        tree = read_object(self.path / ".git/objects", commit)[1].split()[1].decode()
        subject = replace(SUBJECT, commit=CommitId(commit), tree=tree)
        planned = Planned(plan=plan, digest=plan.digest, cost_usd=0.02)
        shown = Proposed(shown="c1", digest=plan.digest)
        done = replace(executed(plan), tree=tree)
        return statement_of(REQUESTED, planned, shown, approved(plan=plan), done, subject=subject)

    def issue(self, commit: str, statement: Json, key: ReceiptKey = KEY) -> bytes:
        """Keep the signed receipt of a commit in its ref, and return it."""
        envelope = sign_statement(statement, key)
        self.keep(receipt_ref(commit), RECEIPT_FILE, envelope)
        return envelope

    def facts(self, commit: str) -> CommitFacts:
        """Return what git says about a commit."""
        clone = self.opened()
        return next(clone.facts([commit], clone.read_files([commit]), [commit]))

    def opened(self, *, pinned: bool = True, repository: str = "") -> ReceiptRepository:
        return ReceiptRepository.at(self.path, keys=self.keys if pinned else None, repository=repository)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("receipts")
    return make_clone(folder / "clone", folder / KEYS_FILE).path


@pytest.fixture
def clone(tmp_path: Path, template: Path) -> Clone:
    """Return a clone with one commit, whose keys are in its ref and in a file."""
    keys = tmp_path / KEYS_FILE
    keys.write_bytes(encode_keys([KEY.public]))
    return Clone(shutil.copytree(template, tmp_path / "clone", symlinks=True), keys)


def make_clone(path: Path, keys: Path) -> Clone:
    """Make a clone with one commit, whose keys are in its ref and in a file."""
    subprocess.run(["git", "init", "-q", "-b", "main", "--template=", str(path)], check=True)
    keys.write_bytes(encode_keys([KEY.public]))
    made = Clone(path, keys)
    made.git("remote", "add", "origin", "https://github.com/Acme/site.git")
    made.commit("one\n", "Begin")
    made.keep(KEYS_REF, KEYS_FILE, encode_keys([KEY.public]))
    return made
