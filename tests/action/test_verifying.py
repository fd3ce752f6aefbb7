"""The input `verify`: a job that fails if an agent's commit of a pull request has no valid receipt."""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from bot.action.main import run
from bot.core.receipt import KEYS_FILE
from bot.receipts.envelope import encode_keys
from tests.receipts.conftest import KEY, OTHER_KEY, Clone, make_clone


@dataclass(frozen=True)
class Pull:
    """A pull request in a checkout, on a branch that holds the keys."""

    clone: Clone
    base: str

    def verify(self, **variables: str) -> tuple[int, str, str]:
        """Run the Action on the newest commit; return its exit code, its log, and the job's summary."""
        event, summary = self.clone.path.parent / "event.json", self.clone.path.parent / "summary"
        head = self.clone.head
        event.write_text(json.dumps({"pull_request": {"base": {"sha": self.base}, "head": {"sha": head}}}))
        summary.write_text("")
        given = {
            "GITHUB_EVENT_NAME": "pull_request",
            "GITHUB_EVENT_PATH": str(event),
            "GITHUB_REPOSITORY": "Acme/site",
            "GITHUB_STEP_SUMMARY": str(summary),
            "GITHUB_WORKSPACE": str(self.clone.path),
            "HOME": str(self.clone.path.parent),
            "INPUT_VERIFY": "true",
            "INPUT_KEYS": KEYS_FILE,
        }
        log = io.StringIO()
        return run(log, given | variables), log.getvalue(), summary.read_text()


@pytest.fixture
def pull(tmp_path: Path) -> Pull:
    """Return a pull request without commits yet. No key of a model is needed for it."""
    clone = make_clone(tmp_path / "clone", tmp_path / "pinned.json")
    clone.commit(encode_keys([KEY.public]).decode(), "Trust a key", KEYS_FILE)
    return Pull(clone, clone.head)


@pytest.mark.req("RC3")
def test_valid_receipts_and_people_pass(pull: Pull) -> None:
    """A commit of the agent with its receipt, and one of a person, which needs none."""
    pull.clone.issue(*pull.clone.work())
    pull.clone.commit("three\n", "By hand")
    code, log, summary = pull.verify()
    assert code == 0, log
    assert ("valid receipt" in summary, "not made by Plangate" in summary) == (True, True)


def _no_receipt(clone: Clone) -> None:
    clone.work()


def _amended(clone: Clone) -> None:
    clone.issue(*clone.work())
    clone.git("commit", "-q", "--amend", "-m", "Plangate-Plan: reworded")


def _own_key(clone: Clone) -> None:
    """Sign with a key that the pull request itself declares trusted."""
    commit, statement = clone.work()
    clone.issue(commit, statement, OTHER_KEY)
    clone.commit(encode_keys([OTHER_KEY.public]).decode(), "Trust another key", KEYS_FILE)


@pytest.mark.req("RC4")
@pytest.mark.parametrize(
    ("make", "why"),
    ((_no_receipt, "has no receipt"), (_amended, "has no receipt"), (_own_key, "trust")),
    ids=("no receipt", "amended", "a key of its own"),
)
def test_what_is_not_allowed_fails(pull: Pull, make: Callable[[Clone], None], why: str) -> None:
    """The job fails, and an annotation says why; what the pull request changes in the file of keys counts nothing."""
    make(pull.clone)
    code, log, _ = pull.verify()
    assert code == 5
    assert "::error title=Plangate::" in log
    assert why in log


def test_keys_from_an_earlier_step(pull: Pull) -> None:
    """An absolute path is read from the disk."""
    pull.clone.issue(*pull.clone.work())
    assert pull.verify(INPUT_KEYS=str(pull.clone.keys))[0] == 0


@pytest.mark.parametrize("keys", ("", "elsewhere.json", "/nowhere/keys.json", "../pinned.json"))
def test_no_keys(pull: Pull, keys: str) -> None:
    """Without keys that are trusted nothing is checked: the job says what to give."""
    code, log, _ = pull.verify(INPUT_KEYS=keys)
    assert (code, "keys: " in log) == (2, True)


def test_a_shallow_checkout(pull: Pull, tmp_path: Path) -> None:
    """It may lack commits in the middle, which would go unchecked: it is refused."""
    pull.clone.work()
    pull.clone.issue(*pull.clone.work("three\n"))
    shallow = tmp_path / "shallow"
    pull.clone.git("clone", "-q", "--depth", "2", f"file://{pull.clone.path}", str(shallow))
    code, log, _ = pull.verify(GITHUB_WORKSPACE=str(shallow))
    assert (code, "fetch-depth: 0" in log) == (2, True)


def test_a_merge_queue(pull: Pull) -> None:
    """A required check must answer there as well: what the group adds to its base is checked."""
    pull.clone.issue(*pull.clone.work())
    event, head = pull.clone.path.parent / "group.json", pull.clone.head
    event.write_text(
        json.dumps({"action": "checks_requested", "merge_group": {"base_sha": pull.base, "head_sha": head}})
    )
    queue = {"GITHUB_EVENT_NAME": "merge_group", "GITHUB_EVENT_PATH": str(event)}
    assert pull.verify(**queue)[0] == 0
    pull.clone.git("update-ref", "-d", f"refs/plangate/receipts/{head}")
    code, log, _ = pull.verify(**queue)
    assert (code, "has no receipt" in log) == (5, True)


def test_another_event(pull: Pull) -> None:
    """It needs a pull request."""
    event = pull.clone.path.parent / "other.json"
    event.write_text('{"issue": {}}')
    code, log, _ = pull.verify(GITHUB_EVENT_PATH=str(event))
    assert (code, "run it on: pull_request" in log) == (2, True)
