"""One event in, its thread checked until it rests, then every other; outputs, summary, receipts, exit code."""

import io
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from bot.action.main import ActionJob, Preparation, run_job, thread_in
from bot.action.report import OUTPUTS
from bot.action.runner import Runner
from bot.config.action_inputs import ActionSettings
from bot.config.action_inputs import action as inputs
from bot.config.settings import RECEIPTS
from bot.core.errors import Conflict, Misconfigured, Transient
from bot.core.events import JournalEvent
from bot.core.gate import Stage, Thread
from bot.core.moves import Failed, JournaledTurn, Noted, Published
from bot.core.names import CommitId, ThreadAddress
from bot.core.notes import OtherTurn
from bot.core.thread.request import RequestState
from bot.core.thread.state import ThreadState
from bot.core.thread.turns import TurnState, UnpostedText
from bot.core.thread.work import CostState, WorkState
from bot.core.turn import Actor
from bot.receipts.envelope import ReceiptKey, sign_statement
from tests.core.receipt_story import COMMIT, statement_of

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
EARLIER = NOW - timedelta(hours=1)
LATELY = NOW - timedelta(minutes=1)
SAID = JournaledTurn("t", Actor(7, "ada"), "More.", EARLIER)
READY, HELP = Failed(text_to_post="No."), OtherTurn(said=SAID, text_to_post="Help.")


def at(number: int, owner: str = "o") -> ThreadAddress:
    return ThreadAddress(None, 1, owner, "r", number)


def standing(stage: Stage, **facts: Any) -> ThreadState:
    """Return a thread that stands at a stage."""
    return ThreadState(Thread(stage=stage), 1, **facts)


def owed(event: JournalEvent, when: datetime) -> TurnState:
    """Return a text that is owed to people since that time."""
    return TurnState(unposted_texts=(UnpostedText(1, when, event),))


@dataclass
class Time:
    """A clock that moves only when somebody sleeps."""

    passed: float = 0.0

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.passed)

    def monotonic(self) -> float:
        return self.passed

    async def sleep(self, seconds: float) -> None:
        self.passed += seconds


@dataclass
class Host:
    """Threads that stand somewhere, each check giving the next of its records; what was asked for is kept."""

    records: dict[int, list[ThreadState | Exception]]
    others: tuple[ThreadAddress, ...] = ()
    moved: Callable[[int], bool] = lambda _: False
    gone: frozenset[str] = frozenset()
    waiting: bool = False
    asked: list[str] = field(default_factory=list)

    async def check_thread(self, address: ThreadAddress) -> ThreadState:
        self.asked.append(f"check {address.number}")
        mine = self.records[address.number]
        value = mine.pop(0) if len(mine) > 1 else mine[0]
        if isinstance(value, Exception):
            raise value
        return value

    async def read_comments(self, address: ThreadAddress) -> ThreadState:
        self.asked.append(f"read {address.number}")
        value = self.records[address.number][0]
        if isinstance(value, Exception):
            raise value
        return value

    async def is_abandoned(self, address: ThreadAddress, run: str) -> bool:
        assert address in self.others
        return run in self.gone

    async def open_threads(self) -> tuple[ThreadAddress, ...]:
        self.asked.append("open")
        return self.others

    async def waits(self) -> bool:
        return self.waiting

    async def changed_threads(self, addresses: Sequence[ThreadAddress]) -> tuple[ThreadAddress, ...]:
        self.asked.append("changed")
        return tuple(addresses) if self.moved(self.asked.count("changed")) else ()


@dataclass
class Ran:
    """How one run ended."""

    code: int
    host: Host
    log: str
    outputs: dict[str, str]
    summary: str
    seconds: float


def given(folder: Path, **variables: str) -> ActionSettings:
    return inputs(
        {
            "GITHUB_EVENT_NAME": "issue_comment",
            "GITHUB_EVENT_PATH": str(folder / "event.json"),
            "GITHUB_REPOSITORY": "o/r",
            "GITHUB_OUTPUT": str(folder / "output"),
            "GITHUB_STEP_SUMMARY": str(folder / "summary"),
            "INPUT_ANTHROPIC_API_KEY": "key-of-the-model",
            "PLANGATE_POLL_SECONDS": "15",
            "HOME": str(folder),
        }
        | variables
    )


Run = Callable[..., Awaitable[Ran]]


@pytest.fixture
def ran(tmp_path: Path) -> Run:
    """Return a function that runs the Action on a written host."""

    async def doing(host: Host, number: int = 0, **variables: str) -> Ran:
        log, clock = io.StringIO(), Time()
        job = ActionJob(cast("Any", host), given(tmp_path, **variables), Runner(log), clock)
        code = await run_job(job, at(number) if number else None)
        lines = (tmp_path / "output").read_text().splitlines()
        summary = tmp_path / "summary"
        said = summary.read_text() if summary.exists() else ""
        return Ran(code, host, log.getvalue(), dict(line.split("=", 1) for line in lines), said, clock.passed)

    return doing


async def test_the_events_thread_comes_first_then_the_others(ran: Run) -> None:
    """The thread of the event is carried on, and so is every other one that waits for approval."""
    waits = standing(Stage.AWAITING_APPROVAL)
    done = await ran(Host({3: [waits], 4: [waits], 5: [waits]}, (at(3), at(4), at(5))), 3)
    assert done.host.asked == ["check 3", "open", "read 4", "check 4", "read 5", "check 5"]
    assert done.outputs["thread"] == "3"
    assert done.outputs["stage"] == "awaiting_approval"
    assert set(done.outputs) == set(OUTPUTS)
    assert done.code == 0


LEFT: dict[str, tuple[ThreadState, bool]] = {
    "work of a job that is at it": (standing(Stage.EXECUTING, work=WorkState(run="8")), False),
    "work of a job that is gone": (standing(Stage.EXECUTING, work=WorkState(run="7")), True),
    "work of nobody knows who": (standing(Stage.EXECUTING), False),
    "what this job took in": (standing(Stage.PLANNING, work=WorkState(run="9")), True),
    "a plan that waits": (standing(Stage.AWAITING_APPROVAL, work=WorkState(run="8")), True),
    "nothing to do": (standing(Stage.FAILED, work=WorkState(run="7")), False),
    "an outcome to be told": (standing(Stage.FAILED, work=WorkState(run="7"), turns=owed(READY, LATELY)), True),
    "an outcome that somebody is about to tell": (
        standing(Stage.FAILED, work=WorkState(run="8"), turns=owed(READY, LATELY)),
        False,
    ),
    "a reply that somebody is about to give": (
        standing(Stage.DONE, work=WorkState(run="7"), turns=owed(HELP, LATELY)),
        False,
    ),
    "a reply that was left behind": (standing(Stage.DONE, work=WorkState(run="7"), turns=owed(HELP, EARLIER)), True),
    "a turn that was kept": (
        standing(
            Stage.IN_REVIEW, work=WorkState(run="7"), request=RequestState(kept_turns=(Noted(said=SAID, kept=True),))
        ),
        True,
    ),
}


@pytest.mark.req("E3", "PR3")
@pytest.mark.parametrize("name", LEFT)
async def test_a_sweep_takes_over_what_is_nobodys(ran: Run, name: str) -> None:
    """What was begun or is owed is carried on where its job is gone; running work is not begun a second time."""
    now, taken = LEFT[name]
    done = await ran(Host({1: [now]}, (at(1),), gone=frozenset({"7"})), 0, GITHUB_RUN_ID="9")
    assert done.host.asked == ["open", "read 1", *(["check 1"] if taken else [])]


async def test_where_no_run_has_a_number(ran: Run) -> None:
    """A job that is no run of GitHub's takes over what no run began: there is nobody else."""
    done = await ran(Host({1: [standing(Stage.EXECUTING)]}, (at(1),)), 0)
    assert done.host.asked[-1] == "check 1"


@pytest.mark.req("W3")
@pytest.mark.parametrize("number", (0, 3))
async def test_what_no_event_told_is_for_the_schedule(tmp_path: Path, number: int) -> None:
    """A run about no thread reads what was said and not heard, each thread once; where it cannot, it goes on."""
    waits = standing(Stage.AWAITING_APPROVAL)
    found: list[tuple[ThreadAddress, ...] | Transient] = [(at(4), at(5)), Transient("GitHub is down")]

    async def unreported_threads() -> tuple[ThreadAddress, ...]:
        value = found.pop(0)
        if isinstance(value, Transient):
            raise value
        return value

    log = io.StringIO()
    for threads in ([4, 5], [4]):
        host = Host({each: [waits] for each in (3, 4, 5)}, (at(4),))
        job = ActionJob(cast("Any", host), given(tmp_path), Runner(log), Time(), unreported_threads)
        assert await run_job(job, at(number) if number else None) == 0
        checked = [int(asked.removeprefix("check ")) for asked in host.asked if asked.startswith("check")]
        assert checked == ([3, 4] if number else threads)
    assert (
        "::warning title=Plangate::threads that no event reported cannot be read: GitHub is down" in log.getvalue()
    ) != bool(number)


async def test_other_repositories_are_left_alone(ran: Run) -> None:
    """An App may see many repositories; the job serves its own."""
    done = await ran(Host({}, (at(1, "elsewhere"),)), 0)
    assert (done.host.asked, done.code, done.outputs["stage"]) == (["open"], 0, "")


@dataclass
class Switch:
    """Keeps how the sweep was switched."""

    turned: list[bool] = field(default_factory=list)

    async def turn(self, *, on: bool) -> None:
        self.turned.append(on)


@pytest.mark.parametrize("waiting", (True, False))
@pytest.mark.parametrize(("variables", "switched"), (({}, True), ({"PLANGATE_ONLY_LISTEN": "true"}, False)))
async def test_a_job_leaves_the_sweep_as_the_threads_need_it(
    tmp_path: Path, variables: dict[str, str], switched: bool, waiting: bool
) -> None:
    """On while anything waits, off while nothing does; a job that only listens leaves that to the others."""
    runner, switch = Runner(io.StringIO()), Switch()
    settings = given(tmp_path, **variables)
    host = Host({3: [standing(Stage.IN_REVIEW)]}, waiting=waiting)
    prepared = Preparation(settings, runner, cast("Any", switch))
    job = ActionJob(cast("Any", host), settings, runner, Time(), preparation=prepared)
    assert await run_job(job, at(3)) == 0
    assert switch.turned == ([waiting] if switched else [])


async def test_a_listening_job_only_listens(ran: Run) -> None:
    """Beside a running job nothing is carried on and nothing is swept."""
    host = Host({3: [standing(Stage.EXECUTING)]}, (at(4),))
    assert (await ran(host, 3, PLANGATE_ONLY_LISTEN="true")).host.asked == ["read 3"]


@pytest.mark.parametrize(
    ("stage", "asked"),
    (
        (Stage.PLANNING, ["read 3", "check 3"]),
        (Stage.AWAITING_APPROVAL, ["read 3"]),
        (Stage.EXECUTING, ["read 3"]),
    ),
)
async def test_a_dry_run_ends_with_the_plan(ran: Run, stage: Stage, asked: list[str]) -> None:
    """A plan is made and shown, and an approved one is not worked on."""
    done = await ran(Host({3: [standing(stage)]}, (at(4),)), 3, INPUT_DRY_RUN="true")
    assert done.host.asked == asked


async def test_it_waits_for_the_approval(ran: Run) -> None:
    """A reaction is seen at the next poll, and the work goes on in the same job."""
    records = [
        standing(Stage.AWAITING_APPROVAL),
        standing(Stage.IN_REVIEW, work=WorkState(pull_request_url="https://g/o/r/pull/9")),
    ]
    host = Host({3: list(records)}, moved=lambda polls: polls == 2)
    done = await ran(host, 3, INPUT_APPROVAL_WAIT_MINUTES="5")
    assert (done.host.asked, done.seconds) == (["check 3", "changed", "changed", "check 3", "open"], 30)
    assert done.outputs["pull_request_url"] == "https://g/o/r/pull/9"
    assert "https://g/o/r/pull/9" in done.summary


async def test_what_it_used(ran: Run) -> None:
    """Cost and tokens are those of the whole thread, over all its sessions; empty where the journal has none."""
    used = standing(
        Stage.IN_REVIEW, costs=CostState(1.25, tokens_by_session={"plan-1": (12_000, 340), "work-1": (345, 6)})
    )
    done = await ran(Host({3: [used]}), 3)
    assert [done.outputs[name] for name in ("cost_usd", "tokens_input", "tokens_output")] == ["1.2500", "12345", "346"]
    done = await ran(Host({3: [standing(Stage.IN_REVIEW)]}), 3)
    assert [done.outputs[name] for name in ("cost_usd", "tokens_input", "tokens_output")] == ["", "", ""]


async def test_it_does_not_wait_for_ever(ran: Run) -> None:
    """After the minutes that were given the job ends well, having looked for words now and then."""
    done = await ran(Host({3: [standing(Stage.AWAITING_APPROVAL)]}), 3, INPUT_APPROVAL_WAIT_MINUTES="2")
    assert (done.code, done.seconds) == (0, 120)
    assert (done.host.asked.count("changed"), done.host.asked.count("check 3")) == (8, 3)


async def test_a_conflict_is_a_reason_to_check_again(ran: Run) -> None:
    """A listening job that wrote first does not fail the work."""
    records: list[ThreadState | Exception] = [Conflict("moved"), Conflict("moved"), standing(Stage.IN_REVIEW)]
    done = await ran(Host({3: records}), 3)
    assert (done.code, done.outputs["stage"]) == (0, "in_review")


async def test_a_conflict_that_stays_is_an_error(ran: Run) -> None:
    """It is not tried for ever."""
    host = Host({3: [Conflict("moved")]})
    with pytest.raises(Conflict):
        await ran(host, 3)
    assert host.asked == ["check 3"] * 5


async def test_one_thread_that_fails_does_not_stop_the_sweep(ran: Run) -> None:
    """The others are carried on; the failure is a warning."""
    waits = standing(Stage.AWAITING_APPROVAL)
    done = await ran(Host({1: [Transient("GitHub is down")], 2: [waits]}, (at(1), at(2))), 0)
    assert done.host.asked[-1] == "check 2"
    assert "::warning title=Plangate::#1: GitHub is down" in done.log
    assert done.code == 0


@pytest.mark.parametrize(("when", "code"), ((NOW, 5), (EARLIER, 0)))
async def test_failed_work_fails_the_job_once(ran: Run, when: datetime, code: int) -> None:
    """The job in which the work failed is red; a later one that meets the same failure is not."""
    failed = standing(
        Stage.FAILED,
        work=WorkState(failed_at=when),
        request=RequestState(detail="no `way`\n::error::x"),
    )
    done = await ran(Host({3: [failed]}), 3)
    assert done.code == code
    assert ("::error" in done.log) == (code == 5)
    assert "\n::" not in done.summary
    assert "no `way` ::error::x" in done.summary


SPOKEN: dict[str, object] = {"issue": {"number": 3}, "comment": {"id": 2**31}, "repository": {}, "action": "created"}
EVENTS: dict[str, tuple[str, dict[str, object], int]] = {
    "a comment": ("issue_comment", {"issue": {"number": 3}, "repository": {}}, 3),
    "a comment that is new": ("issue_comment", SPOKEN, 3),
    "a review": ("pull_request_review", {"pull_request": {"number": 4}, "repository": {}}, 4),
    "a tick in a tracking issue": ("issues", {"issue": {"number": 3}, "repository": {}, "action": "edited"}, 0),
    "the schedule": ("schedule", {"schedule": "*/10 * * * *"}, 0),
    "by hand": ("workflow_dispatch", {"inputs": None}, 0),
    "by hand with a thread": ("workflow_dispatch", {"inputs": {"thread": "7"}}, 7),
    "by hand with an empty thread": ("workflow_dispatch", {"inputs": {"thread": ""}}, 0),
    "something else": ("push", {"ref": "refs/heads/main"}, 0),
}


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_names_its_thread(tmp_path: Path, name: str) -> None:
    """Every event that starts the Action says which thread to check, or that there is none, and what is new there."""
    event, payload, number = EVENTS[name]
    if "repository" in payload:
        payload = payload | {"repository": {"id": 1, "name": "r", "owner": {"id": 2, "login": "o"}}}
    (tmp_path / "event.json").write_text(json.dumps(payload))
    told = f"comment-{2**31}" if "comment" in payload else ""
    assert thread_in(given(tmp_path, GITHUB_EVENT_NAME=event)) == (number, told)


@pytest.mark.parametrize("text", ("", "{", "[]", '{"inputs": {"thread": "x"}}'))
def test_an_event_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    """What cannot be read is an error with a cure, not a traceback."""
    (tmp_path / "event.json").write_text(text)
    with pytest.raises(Misconfigured, match="GITHUB_EVENT_PATH"):
        thread_in(given(tmp_path, GITHUB_EVENT_NAME="workflow_dispatch"))


__all__ = ("ran",)


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


@pytest.mark.req("RC1")
async def test_the_receipt_and_its_predicate(ran: Run, receipt: Path) -> None:
    """Both are files, and the predicate is the one that the receipt states."""
    done = await ran(Host({3: [published()]}), 3)
    assert done.outputs["receipt"] == str(receipt)
    assert json.loads(Path(done.outputs["predicate"]).read_bytes()) == statement_of()["predicate"]


@pytest.mark.req("RC1")
async def test_a_sweep_reports_what_it_published(ran: Run, receipt: Path) -> None:
    """Of several threads that a scheduled run checks, the one with a receipt of this job; an event has its own."""
    waits, ready = standing(Stage.AWAITING_APPROVAL), replace(published(), gate=Thread(Stage.AWAITING_APPROVAL))
    done = await ran(Host({4: [waits], 5: [ready]}, (at(4), at(5))))
    assert (done.outputs["thread"], done.outputs["receipt"]) == ("5", str(receipt))
    done = await ran(Host({3: [waits], 5: [ready]}, (at(5),)), 3)
    assert done.outputs["thread"] == "3"


@pytest.mark.req("RC1")
async def test_no_receipt_of_this_job(ran: Run) -> None:
    """A pull request of an earlier job leaves nothing to attest."""
    done = await ran(Host({3: [published()]}), 3)
    assert (done.outputs["receipt"], done.outputs["predicate"]) == ("", "")
