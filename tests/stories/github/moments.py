"""Moments at which the bot can die, as the outside sees them, and what must be true afterwards, whenever it died."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

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
from bot.testing.github.faults import Fault
from tests.stories.github.ground import HOME, PATIENCE, Hub, Model
from tests.stories.github.receipt_reader import ReceiptReader

REACTIONS: Final = f"POST /repos/{HOME}/issues/1/reactions"
COMMENTS: Final = f"POST /repos/{HOME}/issues/1/comments"
READ_BACK: Final = f"GET /repos/{HOME}/issues/comments/*"
PULLS: Final = f"POST /repos/{HOME}/pulls"
REVIEWERS: Final = f"POST /repos/{HOME}/pulls/*/requested_reviewers"
PUSH: Final = f"POST /{HOME}.git/git-receive-pack"
JOURNAL: Final = "refs/plangate/threads"
RECEIPTS: Final = "refs/plangate/receipts/"
READY: Final = "is ready for review"


@dataclass(frozen=True, slots=True)
class Moment:
    """A request, the words in it, and how many such are spared; or a step at which the model is waiting."""

    requests: str = ""
    containing: str = ""
    after: int = 0
    done: bool = True
    """Whether GitHub carried the request out before the bot died."""
    step: str = ""


MOMENTS: Final[dict[str, Moment]] = {
    "before the sign": Moment(REACTIONS, done=False),
    "after the sign": Moment(REACTIONS),
    "before the request is journaled": Moment(PUSH, JOURNAL, done=False),
    "after the request is journaled": Moment(PUSH, JOURNAL),
    "while the model plans": Moment(step="p0"),
    "before the plan is journaled": Moment(PUSH, JOURNAL, 1, done=False),
    "after the plan is journaled": Moment(PUSH, JOURNAL, 1),
    "before the plan is shown": Moment(COMMENTS, "plan mode", done=False),
    "after the plan is shown": Moment(COMMENTS, "plan mode"),
    "after it is journaled that the plan is shown": Moment(PUSH, JOURNAL, 2),
    "before the approval is journaled": Moment(PUSH, JOURNAL, 3, done=False),
    "after the approval is journaled": Moment(PUSH, JOURNAL, 3),
    "before the progress is shown": Moment(COMMENTS, "Executing", done=False),
    "after the progress is shown": Moment(COMMENTS, "Executing"),
    "when the model begins to work": Moment(step="w0"),
    "while the model works": Moment(step="w1"),
    "when the model is done": Moment(step="w2"),
    "before the work is journaled": Moment(PUSH, JOURNAL, 4, done=False),
    "after the work is journaled": Moment(PUSH, JOURNAL, 4),
    "before the branch is pushed": Moment(PUSH, "refs/heads/plangate", done=False),
    "after the branch is pushed": Moment(PUSH, "refs/heads/plangate"),
    "before the receipt is kept": Moment(PUSH, RECEIPTS, done=False),
    "after the receipt is kept": Moment(PUSH, RECEIPTS),
    "before the pull request is made": Moment(PULLS, done=False),
    "after the pull request is made": Moment(PULLS),
    "after the pull request is journaled": Moment(PUSH, JOURNAL, 5),
    "before it is told": Moment(COMMENTS, READY, done=False),
    "after it is told": Moment(COMMENTS, READY),
    "after it is journaled that it is told": Moment(PUSH, JOURNAL, 6),
}


def strike(hub: Hub, model: Model, moment: Moment) -> Callable[[], bool]:
    """Plan for a moment, and give the question whether it has come; nobody is answered until the bot is dead."""
    if moment.step:
        pause = model.pause(moment.step)
        return lambda: pause.there
    fault = Fault("reset", done=moment.done, seconds=PATIENCE)
    hub.github.faults.plan(moment.requests, fault, containing=moment.containing, after=moment.after)
    return lambda: hub.github.faults.remaining_strikes == 0


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
