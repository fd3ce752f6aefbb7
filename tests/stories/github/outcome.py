"""What must be true in the end, however often the bot died: exactly one of everything, and a receipt that is true.

An independent reader recomputes what a receipt states from what GitHub and git say, without the bot's code (RC5). It
speaks GitHub's REST API and git, as an auditor would. What GitHub does not have, such as the journal's hash and the
time of observation, it leaves out.
"""

import base64
import hashlib
import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import urlsplit

from bot.core import marker
from bot.core.moves import Entry
from bot.core.names import CommitId
from bot.core.receipt import (
    KEYS_FILE,
    KEYS_REF,
    RECEIPT_FILE,
    Builder,
    ReceiptSubject,
    canonical_statement,
    receipt_ref,
    receipt_statement,
)
from bot.receipts.envelope import decode_keys, parse_envelope
from bot.receipts.verdicts import CommitFacts, Trust, exit_code, verify_receipt
from bot.testing.github import credentials
from bot.testing.github.entities import Issue
from tests.stories.github.ground import Hub

READY: Final = "is ready for review"


def is_ready(hub: Hub, number: int = 1) -> bool:
    """Return whether a thread was told that its pull request is there."""
    return any(READY in text for text in hub.said("tell", number))


def exactly_one(hub: Hub, number: int = 1) -> None:
    """Hold one plan comment, one branch, one pull request, one of each comment."""
    assert len(hub.plans(number)) == 1
    assert [READY in text for text in hub.said("tell", number)] == [True], hub.said("tell", number)
    shown = [found for each in hub.comments(number) if (found := marker.parse(each.text.body))]
    asks = [each.ask for each in shown if each.kind == "progress"]  # planning shows progress if it took long or waited
    assert len(asks) == len(set(asks)) <= 2, hub.said("progress", number)
    assert hub.said("waits", number) == []
    assert len([name for name in hub.branches() if name.startswith(f"plangate/{number}-")]) == 1
    (pull,) = pulls_for(hub, number)
    assert hub.signs(hub.issue(number)) == ["eyes"]
    receipt_is_true(hub, pull)


def pulls_for(hub: Hub, number: int) -> list[Issue]:
    """List the pull requests that close a thread."""
    return [pull for pull in hub.pulls() if re.search(rf"Closes #{number}\b", pull.text.body)]


def receipt_is_true(hub: Hub, pull: Issue) -> None:
    """Hold that the receipt of a pull request states what an independent reader finds on GitHub (RC5)."""
    token = credentials.personal_token(hub.world, "ada").value
    reader = ReceiptReader(hub.github.api_url, hub.github.server_url, hub.repository, token)
    assert reader.stated(pull.number) == reader.recompute(pull.number)


def receipt_is_remade(hub: Hub, commit: str, journal: Sequence[Entry]) -> None:
    """Hold that the journal alone gives the kept receipt of a commit again, byte for byte, whatever happened (RC5).

    The receipt is valid, but that it may say what it lacks.
    """
    bare = hub.world.bare(hub.world.repository(hub.repository))
    content = bare.run("show", f"{receipt_ref(commit)}:{RECEIPT_FILE}")
    kept = parse_envelope(content)
    said = kept.statement["predicate"]
    place, builder = said["repository"], said["builder"]
    tree = kept.statement["subject"][1]["digest"]["gitTree"]
    paths = tuple(bare.text("diff-tree", "-r", "--no-commit-id", "--name-only", commit).split())
    subject = ReceiptSubject(place["host"], place["id"], place["name"], said["branch"], CommitId(commit), tree, paths)
    again = receipt_statement(journal, subject, Builder(builder["version"], builder["run"]))
    assert canonical_statement(again) == kept.payload
    parents, message = bare.text("log", "-1", "--format=%P%n%B", commit).split("\n", 1)
    about = f"{place['host']}/{place['name']}"
    facts = CommitFacts(commit, tree, tuple(parents.split()), paths, message, about)
    trust = Trust(decode_keys(bare.run("show", f"{KEYS_REF}:{KEYS_FILE}")))
    assert exit_code(verify_receipt(content, facts, trust, datetime.max.replace(tzinfo=UTC))) in {0, 26}


_MARKER: Final = re.compile(r"<!-- plangate:1 plan \d+ \d+ ([0-9a-f]{64}) ")
_MENTION: Final = "@plangate "
_MAY_APPROVE: Final = ("maintain", "admin")
_TOKENS: Final = re.compile(r"\(([\d,]+) tokens in, ([\d,]+) out\)")

Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ReceiptReader:
    """Reads one repository."""

    api_url: str
    server_url: str
    repository: str
    token: str

    def recompute(self, pull: int) -> Facts:
        """Return what GitHub and git say about the newest commit of a pull request and the plan behind it."""
        made = self._get(f"/pulls/{pull}")
        home, head = self._get(""), made["head"]["sha"]
        tree, parent, digest, paths = self._commit(head)
        number = int(re.findall(r"^Closes #(\d+)", made["body"], re.MULTILINE)[-1])
        plans = dict(self._plans(number))
        said = plans[digest]["body"]
        version = int(re.findall(rf"plan (\d+) \({digest[:12]}\)", said)[0])
        approved = {each: by for each, plan in plans.items() if (by := self._people(plan, number, "+1"))}
        tokens = _TOKENS.search(made["body"])
        return {
            "commit": {"gitCommit": head, "gitTree": tree},
            "repository": {"host": urlsplit(self.server_url).hostname, "id": home["id"], "name": home["full_name"]},
            "thread": number,
            "branch": made["head"]["ref"],
            "plan": (digest, version, parent, _line(said, "Risk tier")),
            "requests": [self._request(number)],
            "approved": approved[digest],
            "rejected": [each for each, plan in plans.items() if self._people(plan, number, "-1")],
            "planned": re.findall(r"`([^`]+)`", _line(said, "Files")),
            "changed": paths,
            "amendments": len(approved) - 1,
            "tokens": [int(each.replace(",", "")) for each in tokens.groups()] if tokens else [0, 0],
        }

    def stated(self, pull: int) -> Facts:
        """Return the same of the receipt in the repository, and check that the pull request shows that one."""
        made = self._get(f"/pulls/{pull}")
        content = self._git_show(made["head"]["sha"])
        shown = re.findall(r'^\{"payload".*\}$', made["body"], re.MULTILINE)
        assert all(each.encode() + b"\n" == content for each in shown)
        statement = json.loads(base64.b64decode(json.loads(content)["payload"]))
        predicate = statement["predicate"]
        plan, scope, work = predicate["plan"], predicate["scope"], predicate["execution"]
        (decision,) = [each for each in predicate["approvals"] if each["plan"] == plan["digest"]]
        assert predicate["policy"]["requesters"] == sorted({each["actor_id"] for each in predicate["requests"]})
        return {
            "commit": {name: each for subject in statement["subject"] for name, each in subject["digest"].items()},
            "repository": predicate["repository"],
            "thread": predicate["thread"],
            "branch": predicate["branch"],
            "plan": (plan["digest"], plan["version"], plan["base"], plan["tier"]),
            "requests": [{name: each[name] for name in _REQUEST} for each in predicate["requests"]],
            "approved": _sorted({name: each[name] for name in _OPINION} for each in decision["by"]),
            "rejected": [each["plan"] for each in predicate["rejections"]],
            "planned": scope["planned"],
            "changed": scope["changed"],
            "amendments": scope["amendments"],
            "tokens": [work["tokens_input"], work["tokens_output"]],
        }

    def _get(self, path: str) -> Any:
        connection = HTTPConnection(urlsplit(self.api_url).netloc)
        try:
            connection.request(
                "GET", f"/repos/{self.repository}{path}", headers={"authorization": f"Bearer {self.token}"}
            )
            answer = connection.getresponse()
            assert answer.status == 200, path
            return json.load(answer)
        finally:
            connection.close()

    def _plans(self, number: int) -> Iterator[tuple[str, Any]]:
        """Yield the plan comments of a thread, oldest first, each after the digest of its plan."""
        for each in self._get(f"/issues/{number}/comments?per_page=100"):
            if match := _MARKER.search(each["body"]):
                yield match[1], each

    def _request(self, number: int) -> Facts:
        """Return the request that an issue is: its title and its words, without the mention."""
        issue = self._get(f"/issues/{number}")
        words = f"# {issue['title']}\n\n{issue['body'].removeprefix(_MENTION)}"
        digest = hashlib.sha256(words.encode()).hexdigest()
        user = issue["user"]
        facts = (user["id"], user["login"], "issue", _time(issue["created_at"]), digest)
        return dict(zip(_REQUEST, facts, strict=True))

    def _people(self, plan: Any, number: int, content: str) -> list[Facts]:
        """Return whoever may approve and reacted so to a plan, or, for an approval, said so in a comment after it."""
        reactions = self._get(f"/issues/comments/{plan['id']}/reactions?per_page=100")
        comments = self._get(f"/issues/{number}/comments?per_page=100") if content == "+1" else []
        found = [(each["user"], "reaction", each["created_at"]) for each in reactions if each["content"] == content]
        found += [
            (each["user"], "command", each["created_at"])
            for each in comments
            if each["body"] == f"{_MENTION}approve" and each["id"] > plan["id"]
        ]
        people = {}
        for user, way, at in sorted(found, key=lambda each: each[2]):
            role = self._get(f"/collaborators/{user['login']}/permission")["role_name"]
            if role in _MAY_APPROVE:
                facts = (user["id"], user["login"], role, way, _time(at))
                people[user["id"]] = dict(zip(_OPINION, facts, strict=True))
        return _sorted(people.values())

    def _commit(self, commit: str) -> tuple[str, str, str, list[str]]:
        """Return a commit's tree, its parent, the plan that its message names, and its changed paths."""
        with TemporaryDirectory() as folder:
            self._fetch(folder, commit)
            said = _git(folder, "log", "-1", "--format=%T %P%n%(trailers:key=Plangate-Plan,valueonly)", commit)
            first, digest = said.split("\n", 1)
            tree, parent = first.split(" ")
            paths = _git(folder, "diff-tree", "-r", "--no-renames", "--name-only", parent, commit).splitlines()
        return tree, parent, digest.strip(), paths

    def _git_show(self, commit: str) -> bytes:
        ref = f"refs/plangate/receipts/{commit}"
        with TemporaryDirectory() as folder:
            self._fetch(folder, ref)
            assert _git(folder, "rev-list", "--count", "FETCH_HEAD") == "1"
            return _git(folder, "show", "FETCH_HEAD:receipt.dsse.json").encode() + b"\n"

    def _fetch(self, folder: str, what: str) -> None:
        _git(folder, "init", "-q", "--bare")
        secret = base64.b64encode(f"x-access-token:{self.token}".encode()).decode()
        header = f"http.extraHeader=authorization: basic {secret}"
        _git(folder, "-c", header, "fetch", "-q", f"{self.server_url}/{self.repository}.git", what)


_REQUEST: Final = ("actor_id", "login", "turn", "at", "text_sha256")
_OPINION: Final = ("actor_id", "login", "role", "way", "at")


def _sorted(people: Any) -> list[Facts]:
    return sorted(people, key=lambda each: int(each["actor_id"]))


def _line(text: str, name: str) -> str:
    """Return what a plan comment says at a name in its list."""
    return str(re.findall(rf"^- {name}: (.*)$", text, re.MULTILINE)[-1])


def _time(text: str) -> str:
    return text.replace("Z", "+00:00")


def _git(folder: str, *arguments: str) -> str:
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "GIT_TERMINAL_PROMPT": "0"}
    command = ["git", "-C", str(Path(folder)), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, check=True).stdout.decode().strip()
