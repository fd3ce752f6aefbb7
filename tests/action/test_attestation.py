"""What a job leaves for the step that has GitHub attest a receipt: the receipt's file, and its predicate (RC1)."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bot.config.settings import RECEIPTS
from bot.core.gate import Stage, Thread
from bot.core.moves import Published
from bot.core.names import CommitId
from bot.core.thread.state import ThreadState
from bot.core.thread.work import WorkState
from bot.receipts.envelope import ReceiptKey, sign_statement
from tests.action.test_main import Host, Run, at, given, ran, standing
from tests.core.receipt_story import COMMIT, statement_of

__all__ = ("ran",)
pytestmark = pytest.mark.req("RC1")


def published(commit: CommitId = COMMIT) -> ThreadState:
    """Return a thread with a pull request."""
    made = Published(branch="b", commit=commit, pull_request="https://g/o/r/pull/9", pull_number=9)
    return standing(Stage.IN_REVIEW, work=WorkState(published=made))


@pytest.fixture
def receipt(tmp_path: Path) -> Path:
    """The receipt that this job made."""
    folder = given(tmp_path).settings.data_dir / RECEIPTS
    folder.mkdir(parents=True)
    path = folder / f"{COMMIT}.json"
    path.write_bytes(sign_statement(statement_of(), ReceiptKey.of(b"k" * 32)))
    return path


async def test_the_receipt_and_its_predicate(ran: Run, receipt: Path) -> None:
    """Both are files, and the predicate is the one that the receipt states."""
    done = await ran(Host({3: [published()]}), 3)
    assert done.outputs["receipt"] == str(receipt)
    assert json.loads(Path(done.outputs["predicate"]).read_bytes()) == statement_of()["predicate"]


async def test_a_sweep_reports_what_it_published(ran: Run, receipt: Path) -> None:
    """Of several threads that a scheduled run looks at, the one with a receipt of this job; an event has its own."""
    waits, ready = standing(Stage.AWAITING_APPROVAL), replace(published(), gate=Thread(Stage.AWAITING_APPROVAL))
    done = await ran(Host({4: [waits], 5: [ready]}, (at(4), at(5))))
    assert (done.outputs["thread"], done.outputs["receipt"]) == ("5", str(receipt))
    done = await ran(Host({3: [waits], 5: [ready]}, (at(5),)), 3)
    assert done.outputs["thread"] == "3"


async def test_no_receipt_of_this_job(ran: Run) -> None:
    """A pull request of an earlier job leaves nothing to attest."""
    done = await ran(Host({3: [published()]}), 3)
    assert (done.outputs["receipt"], done.outputs["predicate"]) == ("", "")
