"""Checks receipts against the commits of a local clone, offline (RC2, RC3)."""

import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Final

from bot.core.errors import Misconfigured, Refused, Transient, Unreadable
from bot.core.receipt import KEYS_FILE, KEYS_REF, RECEIPT_FILE, SIGNATURE_FILE, SIGNATURES, receipt_ref, signature_ref
from bot.core.transcript import Json
from bot.receipts.approvers import (
    AllowedSigners,
    Approver,
    ApproverSignature,
    ApproverVerdict,
    approver_verdict,
    approvers,
    check_signature,
    make_signature,
)
from bot.receipts.envelope import SIZE_LIMIT, DsseEnvelope, PublicKey, decode_keys, parse_envelope
from bot.receipts.verdicts import CommitFacts, ReceiptCheck, ReceiptVerdict, Trust, moment, verify_receipt
from bot.store.plumbing import Plumbing

# --- Receipts of a local clone's commits ------------------------------------------------------------------------------
# Any number of receipts costs a few git processes, and no network.
# The clone may be somebody else's work. Git only reads objects in it, so that its configuration cannot influence git.

_RECEIPTS: Final = "refs/plangate/receipts/"
_SHA1_DIGITS: Final = 40
_TRAILER: Final = "Plangate-Plan: "
# https://git-scm.com/docs/git-fetch#_git_urls; the user and the port are no part of a repository's name
_URL: Final = re.compile(r"(?:[a-z+]+://)?(?:[^@/]+@)?([^:/]+)(?::\d+)?[:/](.+?)(?:\.git)?/?")
_REPOSITORY: Final = re.compile(r"(?:[^/\s]+/)?[^/\s]+/[^/\s]+")
_HEAD: Final = re.compile(r"(?:HEAD|@)(?:[~^][0-9]*)*")
_SHORT_ID: Final = re.compile(r"[0-9a-fA-F]{7,64}")
_RANGE: Final = re.compile(r"(?P<start>.*?)(?P<dots>\.{2,3})(?P<end>.*)")
_EVERY_PATH: Final = ("-r", "-z", "--name-status", "--no-renames", "--ignore-submodules=none")
_AT_ONCE: Final = 100
"""Commits and receipts that are in memory at once. Whoever can push can make each of them large."""
_UNSHALLOW: Final = "fetch them: git fetch --unshallow; in a job, set fetch-depth: 0 in the step that checks out"
_NO_RECEIPT: Final = (
    f"it names a plan and has no receipt. Fetch the receipts: git fetch origin '+{_RECEIPTS}*:{_RECEIPTS}*'. A commit "
    "that was rebased, squashed, or amended has none: nobody approved that one. The original keeps its receipt"
)
_CONFIGURATION: Final = MappingProxyType(
    {
        # A cache of parents that nothing compares with the commits.
        "core.commitGraph": "false",
        # A program that git starts whenever it reads the index, as diff-tree does.
        "core.fsmonitor": "false",
        # `find_commit` reads these warnings.
        "core.warnAmbiguousRefs": "true",
    }
)
# The clone's configuration may name programs that fetch what is missing, and its refs what git shows in place of a
# commit. Git before 2.45 does not know GIT_NO_LAZY_FETCH, so no protocol is allowed either.
# https://git-scm.com/docs/git#_environment_variables
OFFLINE: Final = MappingProxyType(
    {
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_GRAFT_FILE": os.devnull,
        "GIT_CONFIG_COUNT": str(len(_CONFIGURATION)),
        **{f"GIT_CONFIG_KEY_{n}": key for n, key in enumerate(_CONFIGURATION)},
        **{f"GIT_CONFIG_VALUE_{n}": value for n, value in enumerate(_CONFIGURATION.values())},
    }
)


@dataclass(frozen=True, slots=True)
class CheckedCommit:
    commit: str
    by_agent: bool
    """Whether its message says that Plangate made it."""
    verdicts: tuple[ReceiptVerdict, ...] = ()
    note: str = ""
    """Why there is no receipt, if a reason is known."""
    receipt: bytes = b""
    """The receipt that the verdicts are about."""


@dataclass(frozen=True, slots=True)
class ReceiptRepository:
    """A local clone, with the receipts that were fetched into it."""

    git: Plumbing
    expected: str
    """``HOST/OWNER/NAME`` that receipts must be made for; "" for any."""
    pinned: tuple[PublicKey, ...]

    @classmethod
    def at(cls, folder: Path, *, keys: Path | None, repository: str) -> "ReceiptRepository":
        """Return the clone around a folder.

        `repository` is ``OWNER/NAME`` or ``HOST/OWNER/NAME``; "" stands for that of the remote origin. Raises
        Misconfigured if there is no clone, if the key file cannot be read, or if `repository` has another form.
        """
        pinned = decode_keys(_read(keys), where=str(keys)) if keys else ()
        git = Plumbing(_git_directory(folder.absolute()), lambda: OFFLINE)
        # The directory of a linked worktree has a HEAD of its own.
        directory = git.ask("rev-parse", "--absolute-git-dir").decode().strip()
        git = Plumbing(Path(directory), lambda: OFFLINE)
        return cls(git, _repository_name(git, repository), pinned)

    def check_commit(self, revision: str, content: bytes | None, now: datetime) -> CheckedCommit:
        """Return the verdicts on one commit's receipt: the given one, or the one in the clone.

        Raises Misconfigured if the clone has no such commit.
        """
        commit = self.find_commit(revision)
        if commit is None:
            raise Misconfigured("the clone has no such commit", where=revision, fix="fetch it, or name another")
        receipts = {} if content is None else {commit: content}
        return next(self._check([commit], receipts, now))

    def find_commit(self, revision: str) -> str | None:
        """Return the id of the commit that a revision names; None if there is none.

        Raises Misconfigured for an ambiguous name, such as one that a branch has and also a tag, or one that also
        begins the id of a commit. Otherwise, whoever can push a tag could have another commit checked. A complete id
        always names its commit, and HEAD that of the clone, whatever else has that name.
        """
        ran = self.git.run("rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")
        commit = ran.out.decode().strip()
        if not commit or commit == revision.lower() or _HEAD.fullmatch(revision):
            return commit or None
        is_other = bool(_SHORT_ID.fullmatch(revision)) and not commit.startswith(revision.lower())
        if is_other or b" is ambiguous" in ran.err:
            fix = "give all digits of the commit, or a name such as refs/heads/main or refs/remotes/origin/main"
            raise Misconfigured("more than one branch, tag, or commit has this name", where=revision, fix=fix)
        return commit

    def require_history(self) -> None:
        """Raise Misconfigured in a shallow clone, where commits of a range would be left out."""
        if self.git.ask("rev-parse", "--is-shallow-repository").strip() != b"false":
            raise Misconfigured("the clone does not have all commits", where=str(self.git.directory), fix=_UNSHALLOW)

    def check_range(self, revisions: str, now: datetime) -> Iterator[CheckedCommit]:
        """Yield every commit of a range such as ``main..topic``, newest first.

        Raises Misconfigured for what is not a range, and in a shallow clone.
        """
        self.require_history()
        parts = _RANGE.fullmatch(revisions)
        ends = [self.find_commit(parts[side] or "HEAD") for side in ("start", "end")] if parts else [None]
        if parts is None or None in ends:
            raise Misconfigured("this is not a range of commits", where=revisions, fix="give two, such as main..topic")
        commits = self.git.ask("rev-list", f"{ends[0]}{parts['dots']}{ends[1]}").decode().split()
        return self._check(commits, {}, now)

    def _check(self, commits: Sequence[str], receipts: Mapping[str, bytes], now: datetime) -> Iterator[CheckedCommit]:
        for start in range(0, len(commits), _AT_ONCE):
            yield from self._check_batch(commits[start : start + _AT_ONCE], receipts, now)

    def _check_batch(
        self, commits: Sequence[str], extra: Mapping[str, bytes], now: datetime
    ) -> Iterator[CheckedCommit]:
        refs = [f"{receipt_ref(commit)}:{RECEIPT_FILE}" for commit in commits]
        keys, *files = self.read_files([f"{KEYS_REF}:{KEYS_FILE}", *refs, *commits])
        own = zip(commits, files[: len(commits)], strict=True)
        receipts = {**{commit: content for commit, content in own if content is not None}, **extra}
        trust = Trust(self.pinned, _found_keys(keys))
        for facts in self.facts(commits, files[len(commits) :], receipts.keys()):
            by_agent = any(line.startswith(_TRAILER) for line in facts.message.split("\n"))
            if facts.commit in receipts:
                receipt = receipts[facts.commit]
                verdicts = verify_receipt(receipt, facts, trust, now)
                yield CheckedCommit(facts.commit, by_agent, verdicts, receipt=receipt)
            else:
                yield CheckedCommit(facts.commit, by_agent, note=_NO_RECEIPT if by_agent else "")

    def facts(
        self, commits: Sequence[str], objects: Sequence[bytes | None], compared: Collection[str]
    ) -> Iterator[CommitFacts]:
        """Yield what git says about commits, given by id and with their objects as `read_files` returns them.

        Only the commits in `compared` have their changed paths.
        """
        if not all(map(_is_named, commits, objects)):
            fix = "clone it from the server: this one has another object in a commit's place, or one that is too large"
            raise Misconfigured("the clone is damaged", where=str(self.git.directory), fix=fix)
        headers = [parse_commit(data or b"") for data in objects]
        parents_of = {
            commit: parents for commit, (_, parents, _) in zip(commits, headers, strict=True) if commit in compared
        }
        paths = self._changed_paths(parents_of)
        for commit, (tree, parents, message) in zip(commits, headers, strict=True):
            yield CommitFacts(commit, tree, parents, paths.get(commit, ()), message, self.expected)

    def _changed_paths(self, parents: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """Return the paths in which each commit differs from its first parent."""
        pairs = "".join(f"{commit} {first[0]}\n" for commit, first in parents.items() if first)
        # .gitmodules can have git leave out submodules that changed.
        ran = self.git.run("diff-tree", *_EVERY_PATH, "--stdin", stdin=pairs.encode())
        if ran.code:
            what = f"the clone lacks files of a commit or of its parent: git said {ran.reason}"
            raise Misconfigured(what, where=str(self.git.directory), fix=_UNSHALLOW)
        changed: dict[str, list[str]] = {}
        paths_of_commit: list[str] = []
        fields = iter(ran.out.decode("utf-8", "surrogateescape").split("\0"))
        for field in fields:  # a commit id, or one letter and then a path, which may resemble an id
            if field.strip("\n") in parents:
                paths_of_commit = changed.setdefault(field.strip("\n"), [])
            elif field:
                paths_of_commit.append(next(fields))
        return {commit: tuple(paths) for commit, paths in changed.items()}

    def read_files(self, names: Sequence[str]) -> list[bytes | None]:
        lines = "".join(f"{name}\n" for name in names).encode()
        sizes = self.git.ask("cat-file", "--batch-check=%(objectsize)", stdin=lines).decode("utf-8", "replace")
        fits = [size.isdecimal() and int(size) <= SIZE_LIMIT for size in sizes.split("\n")[: len(names)]]
        contents = iter(self._blobs([name for name, is_small in zip(names, fits, strict=True) if is_small]))
        return [next(contents) if is_small else None for is_small in fits]

    def _blobs(self, names: Sequence[str]) -> list[bytes | None]:
        """Return objects by name, in order; None for one that the clone does not have."""
        out = self.git.ask("cat-file", "--batch", stdin="".join(f"{name}\n" for name in names).encode())
        blobs: list[bytes | None] = []
        start = 0
        for _ in names:
            end = out.index(b"\n", start)
            head = out[start:end].rsplit(b" ", 2)
            if head[-1] == b"missing":
                blobs.append(None)
                start = end + 1
            else:
                size = int(head[-1])
                blobs.append(out[end + 1 : end + 1 + size])
                start = end + size + 2
        return blobs


def _git_directory(folder: Path) -> Path:
    """Return the git directory of the clone around a folder, or of a bare one. Raises Misconfigured if there is none.

    A bare repository among the files of a clone is ignored.
    """
    for parent in (folder, *folder.parents):
        if (parent / ".git").exists():
            return parent / ".git"
    if (folder / "HEAD").is_file() and (folder / "objects").is_dir():
        return folder
    raise Misconfigured("this is not a git clone", where=str(folder), fix="run it inside one, or give --dir")


def _found_keys(content: bytes | None) -> tuple[PublicKey, ...]:
    """Return the keys in the repository; none if they cannot be read, since whoever can push can write them."""
    try:
        return decode_keys(content) if content is not None else ()
    except Unreadable:
        return ()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise Misconfigured(f"the file cannot be read: {why}", where=str(path), fix="name another one") from error


def _repository_name(git: Plumbing, repository: str) -> str:
    """Return ``HOST/OWNER/NAME``: the given one, or that of the remote origin; "" if there is none.

    Raises Misconfigured if the given one is no name of a repository.
    """
    if repository:
        if not _REPOSITORY.fullmatch(repository):
            raise Misconfigured("not a repository", where=repository, fix="write OWNER/REPO or HOST/OWNER/REPO")
        return repository if repository.count("/") == 2 else f"github.com/{repository}"
    try:
        url = git.ask("config", "--local", "--get", "remote.origin.url").decode("utf-8", "replace").strip()
    except Transient:
        return ""
    match = _URL.fullmatch(url)
    return f"{match[1]}/{match[2]}" if match and match[2].count("/") == 1 else ""


def parse_commit(content: bytes) -> tuple[str, tuple[str, ...], str]:
    head, _, message = content.decode("utf-8", "replace").partition("\n\n")
    lines = [line.split(" ", 1) for line in head.split("\n") if not line.startswith(" ")]
    tree = next((line[1] for line in lines if line[0] == "tree"), "")
    return tree, tuple(line[1] for line in lines if line[0] == "parent"), message


def _is_named(commit: str, content: bytes | None) -> bool:
    """Return whether a commit object has the id by which git found it. Git itself does not check that."""
    if content is None:
        return False
    algorithm = hashlib.sha1 if len(commit) == _SHA1_DIGITS else hashlib.sha256
    return algorithm(b"commit %d\0%b" % (len(content), content)).hexdigest() == commit


# --- Approvers' own signatures of receipts (RC2) ----------------------------------------------------------------------

_ACTOR: Final = re.compile(r"[1-9][0-9]{0,17}")
_MOST_SIGNATURES: Final = 50
"""Maximum number of signatures that are read for one commit: everybody who can push can add some."""
_GIT_IDENTITY: Final = {
    f"GIT_{role}_{name}": value
    for role in ("AUTHOR", "COMMITTER")
    for name, value in (("NAME", "Plangate"), ("EMAIL", "plangate@localhost"), ("DATE", "@0 +0000"))
}
_MAY_FAIL: Final = frozenset({ReceiptCheck.COMPLETENESS})
"""Checks that a receipt may fail and still be signed: the receipt itself states what it lacks."""


@dataclass(frozen=True, slots=True)
class SignableReceipt:
    """A receipt that one of its approvers can sign."""

    commit: str
    approver: Approver
    statement: Json
    payload: bytes

    @property
    def ref(self) -> str:
        """The ref that keeps the approver's signature."""
        return signature_ref(self.commit, self.approver.actor_id)


@dataclass(frozen=True, slots=True)
class ApproverCheck:
    """Checks the approvers' signatures in a clone, with no git process for a commit that has none."""

    clone: ReceiptRepository
    signers: AllowedSigners | None
    """None: signatures are listed and not checked."""
    actors: Mapping[str, Sequence[str]]
    """Commit -> the numbers of the accounts whose signatures of it are kept."""

    @classmethod
    def of(cls, clone: ReceiptRepository, signers: AllowedSigners | None) -> "ApproverCheck":
        """Return the check of all signatures that were fetched into a clone."""
        refs = clone.git.ask("for-each-ref", "--format=%(refname)", SIGNATURES).decode("utf-8", "replace")
        actors = defaultdict[str, list[str]](list)
        for ref in refs.split():
            commit, _, actor = ref.removeprefix(SIGNATURES).partition("/")
            if _ACTOR.fullmatch(actor) and len(actors[commit]) < _MOST_SIGNATURES:
                actors[commit].append(actor)
        return cls(clone, signers, actors)

    def verdict(self, checked: CheckedCommit) -> ApproverVerdict:
        """Return the verdict on the approvers' signatures of a commit's well-formed receipt."""
        envelope = parse_envelope(checked.receipt)
        people = {person.actor_id: person for person in approvers(envelope.statement)}
        signed_by = [
            self._signature(actor_id, content, people.get(actor_id), envelope)
            for actor_id, content in self._signatures(checked.commit)
        ]
        if self.signers is None:
            return ApproverVerdict(tuple(signed_by), is_checked=False)
        return approver_verdict(envelope.statement, signed_by)

    def _signature(
        self, actor_id: int, content: bytes, person: Approver | None, envelope: DsseEnvelope
    ) -> ApproverSignature:
        if person is None:
            return ApproverSignature(actor_id, "", "the receipt names no such approver")
        if self.signers is None:
            return ApproverSignature(actor_id, person.login, "not checked")
        at = moment(envelope.statement["predicate"]["journal"]["at"])
        answer = check_signature(envelope.payload, content, person.login, signers=self.signers, at=at)
        return ApproverSignature(actor_id, person.login, answer.problem, answer.key)

    def _signatures(self, commit: str) -> Iterator[tuple[int, bytes]]:
        """Yield the signatures that are kept for a commit, each with the number of the account in its ref."""
        actors = self.actors.get(commit, ())
        if not actors:
            return
        files = self.clone.read_files([f"{SIGNATURES}{commit}/{actor}:{SIGNATURE_FILE}" for actor in actors])
        yield from ((int(name), content) for name, content in zip(actors, files, strict=True) if content is not None)


def signable_receipt(clone: ReceiptRepository, revision: str, *, login: str, now: datetime) -> SignableReceipt:
    """Return the receipt of a commit, to be signed by the approver `login`; "" if only one person approved.

    Raises Refused for a receipt that is not valid, and Misconfigured for a commit without one, and for somebody who did
    not approve.
    """
    checked = clone.check_commit(revision, None, now)
    if not checked.verdicts:
        raise Misconfigured("the commit has no receipt", where=checked.commit, fix=checked.note or "name another one")
    _require_valid(clone, checked)
    envelope = parse_envelope(checked.receipt)
    person = _approver(approvers(envelope.statement), login)
    return SignableReceipt(checked.commit, person, envelope.statement, envelope.payload)


def sign_receipt(clone: ReceiptRepository, receipt: SignableReceipt, key: Path) -> None:
    """Sign a receipt and keep the signature in the clone. Raises Refused if ssh-keygen makes none."""
    _store(clone, receipt.ref, make_signature(receipt.payload, key))


def _require_valid(clone: ReceiptRepository, checked: CheckedCommit) -> None:
    """Raise Refused if a check fails that a signer relies on. Trust counts only with pinned keys."""
    may_fail = _MAY_FAIL if clone.pinned else _MAY_FAIL | {ReceiptCheck.TRUST}
    failing = [verdict for verdict in checked.verdicts if not verdict.passes and verdict.check not in may_fail]
    if failing:
        reasons = "; ".join(f"{verdict.check}: {', '.join(verdict.objections)}" for verdict in failing)
        raise Refused(f"the receipt is not valid: {reasons}", where=checked.commit, fix="sign only what is valid")


def _approver(people: tuple[Approver, ...], login: str) -> Approver:
    matching = [person for person in people if not login or person.login.lower() == login.lower()]
    names = ", ".join(person.login for person in people) or "nobody"
    if login and not matching:
        raise Misconfigured(f"{login} did not approve this plan; {names} did", where="--as", fix="name an approver")
    if len(matching) != 1:
        raise Misconfigured(f"{names} approved this plan", where="--as", fix="name the one that you are")
    return matching[0]


def _store(clone: ReceiptRepository, ref: str, signature: bytes) -> None:
    git = replace(clone.git, environment=lambda: {**OFFLINE, **_GIT_IDENTITY})
    blob = git.ask("hash-object", "-w", "--stdin", stdin=signature).decode().strip()
    tree = git.ask("mktree", stdin=f"100644 blob {blob}\t{SIGNATURE_FILE}\n".encode()).decode().strip()
    commit = git.ask("commit-tree", tree, "-m", "signature of an approval").decode().strip()
    git.ask("update-ref", ref, commit)


# --- Receipts of a pull request's commits, for a job ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VerifiedCommit:
    """A commit of a pull request, and the problem with its receipt."""

    commit: str
    has_receipt: bool
    problem: str
    """Why it may not be merged; "" for a valid receipt, and for a commit that Plangate did not make."""


def verified_commits(checkout: Path, base: str, head: str, *, keys: str, repository: str) -> Iterator[VerifiedCommit]:
    """Yield the commits of a pull request, the newest first. `base` and `head` are ids of commits.

    A relative path of `keys` is read from the base commit, so that the pull request cannot change the keys. An absolute
    path is read from the disk. `repository` is ``HOST/OWNER/NAME``. Raises Misconfigured for a checkout that lacks
    commits or keys.
    """
    clone = ReceiptRepository.at(checkout, keys=None, repository=repository)
    clone.require_history()
    clone = replace(clone, pinned=_trusted_keys(clone, keys, base))
    for commit in clone.check_range(f"{base}..{head}", datetime.now(UTC)):
        failing = [
            f"{verdict.check}: {'; '.join(verdict.objections)}" for verdict in commit.verdicts if not verdict.passes
        ]
        missing = commit.note if commit.by_agent and not commit.verdicts else ""
        yield VerifiedCommit(commit.commit, bool(commit.verdicts), "; ".join(failing) or missing)


def _trusted_keys(clone: ReceiptRepository, keys: str, base: str) -> tuple[PublicKey, ...]:
    """Return the keys of the file. Raises Misconfigured if there is none."""
    path = Path(keys)
    if keys and path.is_absolute():
        if not path.is_file():
            raise Misconfigured("there is no such file", where=f"keys: {keys}", fix="write it in an earlier step")
        return decode_keys(path.read_bytes())
    result = clone.git.run("cat-file", "blob", f"{base}:{path.as_posix()}") if keys else None
    if result is None or result.code:
        fix = "give the path of plangate-keys.json on the branch that the pull request goes into"
        raise Misconfigured("the base commit has no such file", where=f"keys: {keys}", fix=fix)
    return decode_keys(result.out)
