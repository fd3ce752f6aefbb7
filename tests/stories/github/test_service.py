"""The real service: deliveries mishandled, keys replaced, sessions finished early, and what people see of it."""

import random
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from bot.agent.loop import ENDED_EARLY, LAST_REQUESTS
from bot.cli.threads import ServiceClient, watch_thread
from bot.compose.github import HostSetup
from bot.compose.worker_process import recorder_of, reindex
from bot.config.settings import Secret
from bot.core.gate import Stage
from bot.core.moves import Entry
from bot.core.names import ThreadAddress
from bot.core.reporting import notifications
from bot.core.secrets.redaction import Redactor
from bot.service.overview.agent_tree import JournalStep, add_up, bookings, journal_steps
from bot.service.overview.recorder import JournalReader
from bot.service.overview.thread_index import ThreadQuery
from bot.service.overview.thread_views import describe
from bot.service.overview.views import ThreadDetail, ThreadSummary, WaitsFor
from bot.testing.github import credentials
from bot.testing.model.reply import call, say
from tests.marks import soak
from tests.stories.github.ground import FIX, FIXED, HOME, WISH, Hub, Model, Story
from tests.stories.github.outcome import receipt_is_true
from tests.stories.github.runner import SCHEDULE, Runs
from tests.stories.github.service import Served
from tests.stories.ground import Ended, Person, until
from tests.stories.test_run import RESULT


@pytest.mark.req("PR2", "W2", "W3")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", (pytest.param(0, marks=pytest.mark.long), *map(soak, range(1, 50))))
def test_lost_doubled_and_reordered_webhooks_leave_one_of_everything(served: Served, seed: int) -> None:
    served.outlast_mishaps(random.Random(seed), 5)


STATE_KEY = "0123456789abcdef" * 4


def restart(served: Served) -> None:
    """Restart the service with what GitHub holds now."""
    served.stop()
    served.start()


def approve(served: Served) -> None:
    served.says("maya", "@plangate approve")
    served.end_well()


@pytest.mark.long
@pytest.mark.req("W1", "W3")
def test_what_came_under_an_old_webhook_secret_is_refused_and_read_afterwards(served: Served) -> None:
    served.variables["PLANGATE_RECONCILE_SECONDS"] = "99999"  # only the reading at each start
    served.begin_with_a_plan()
    served.rest()
    served.github.app = credentials.change_webhook_secret(served.world, served.github.app)
    served.hook()
    second = served.opens("will", title="Between").number
    served.github.webhooks.drain()
    assert served.github.webhooks.deliveries[-1].status_code == 401
    assert not served.plans(second)
    restart(served)
    until(lambda: served.plans(second), "a plan")
    approve(served)


@pytest.mark.long
@pytest.mark.req("A4")
@pytest.mark.parametrize("has_state_key", (True, False))
def test_threads_go_on_under_a_new_private_key(served: Served, *, has_state_key: bool) -> None:
    """Without a state key of its own, the text of the old private key becomes it."""
    if has_state_key:
        served.variables["PLANGATE_STATE_KEY"] = STATE_KEY
    served.begin_with_a_plan()
    served.rest()
    old, served.github.app = served.github.app, credentials.add_private_key(served.world, served.github.app)
    assert served.github.app.pem != old.pem
    if not has_state_key:
        served.variables["PLANGATE_STATE_KEY"] = old.pem.replace("\n", "\\n")
    restart(served)
    served.github.app = credentials.delete_older(served.world, served.github.app)
    approve(served)


@pytest.mark.req("W4")
def test_from_the_restart_on_only_the_new_api_token_counts(served: Served) -> None:
    served.variables["PLANGATE_API_TOKEN"] = "old-token"
    served.begin()
    assert [metrics(served, token) for token in ("old-token", "new-token")] == [200, 401]
    served.variables["PLANGATE_API_TOKEN"] = "new-token"
    restart(served)
    assert [metrics(served, token) for token in ("old-token", "new-token")] == [401, 200]


def metrics(served: Served, token: str) -> int:
    """Return the status with which /metrics answers to a token."""
    url, headers = f"http://127.0.0.1:{served.port}/metrics", {"Authorization": f"Bearer {token}"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def read_forever(model: Model) -> None:
    """Have the model fix the file, pause, and read it forever, slowly: a session looks every 5 seconds for words."""
    model.work, model.seconds = (*FIX[:2], call("Read", file_path=FIXED)), 0.5
    model.pause("w2")


def order_to_finish(hub: Hub, model: Model, hear: Callable[[], object]) -> None:
    """Comment `finish` while the session waits for the model, have the bot hear it, and let the model go on."""
    until(lambda: model.pauses["w2"].there, "the model works")
    hub.says("will", "@plangate finish")
    hear()
    until(lambda: any("Finishing early, as will asked" in each for each in hub.said("tell")), "the bot says so")
    model.go_on()


def is_published(hub: Hub, model: Model) -> None:
    """Hold that what is there is in a pull request that says so, with a true receipt, a few requests later."""
    (branch,), (pull,) = hub.branches(), hub.pulls()
    assert "total >= FREE_FROM" in hub.file(branch, FIXED)
    assert ENDED_EARLY in pull.text.body
    told = [request for request in model.works if any("People asked you to finish" in text for text in request.texts())]
    assert len(told) == LAST_REQUESTS
    receipt_is_true(hub, pull)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.req("PR3", "PR6", "RC1")
def test_finish_reaches_the_session_of_a_service(served: Served) -> None:
    read_forever(served.model)
    served.begin_with_a_plan()
    served.reacts("maya", "+1")
    order_to_finish(served, served.model, lambda: None)
    until(served.pulls, "the pull request")
    served.rest()
    is_published(served, served.model)


@pytest.mark.timeout(300)
@pytest.mark.req("PR3", "PR6", "RC1")
@pytest.mark.soak
def test_finish_in_a_job_of_its_own_ends_the_session_of_another(runs: Runs) -> None:
    read_forever(runs.model)
    runs.opens("will")
    assert runs.ran(runs.next()).process.returncode == 0
    runs.reacts("maya", "+1")
    working = runs.start(SCHEDULE)
    order_to_finish(runs, runs.model, lambda: runs.ran(runs.next(), PLANGATE_ONLY_LISTEN="true"))
    assert working.wait() == 0, working.log
    assert runs.record().stage is Stage.IN_REVIEW
    is_published(runs, runs.model)


@pytest.mark.long
async def test_the_list_of_a_check_equals_one_made_again_from_the_journals(story: Story, tmp_path: Path) -> None:
    given = replace(story.host.settings, data_dir=tmp_path / "seen")
    recorder = recorder_of(given, Redactor())

    def rows() -> tuple[ThreadSummary, ...]:
        return recorder.index.page(ThreadQuery()).threads

    story.opens("will")
    async with HostSetup(given, clock=story.clock, recorder=recorder) as host:
        other = replace(story, host=host)
        await other.rests()
        (waiting,) = rows()
        assert (waiting.repository, waiting.number, waiting.requester) == (HOME, 1, "will")
        assert (waiting.stage, waiting.waiting_for) == (Stage.AWAITING_APPROVAL, WaitsFor.APPROVER)
        assert str(waiting.plan_digest).startswith(story.digest)
        story.reacts("ada", "rocket")
        await other.rests()
        (done,) = rows()
        assert (done.stage, done.waiting_for) == (Stage.IN_REVIEW, WaitsFor.REVIEWER)
        assert done.pull_request
        before = len(story.github.requests)
        entries = await JournalReader(host.thread_journal).entries(story.address())
        steps = [*journal_steps(entries)]
        detail = describe(story.address(), steps, given.github.server_url)
        asked = [each.name for each in story.github.requests[before:]]
        assert [name for name in asked if "git-upload-pack" not in name and "info/refs" not in name] == []
    assert detail.summary == done
    check_detail(detail, steps)
    again = replace(given, data_dir=tmp_path / "again")
    assert await reindex(again, Redactor()) == {HOME: 1}
    assert recorder_of(again, Redactor()).index.page(ThreadQuery()).threads == (done,)


def check_detail(detail: ThreadDetail, steps: Sequence[JournalStep]) -> None:
    """Compare what is shown of the thread with what happened on it."""
    assert [agent.name for agent in detail.agents] == ["plan-1", "work-1"]
    assert {agent.model for agent in detail.agents} == {"claude-opus-5-5"}
    assert [line.name for line in add_up(bookings(HOME, steps)).models] == ["claude-opus-5-5"]
    assert detail.plan is not None
    assert (detail.plan.decision, detail.approvals[-1].login, detail.approvals[-1].way) == (
        "approved",
        "ada",
        "reaction",
    )


@pytest.mark.long
@pytest.mark.timeout(120)
def test_a_watcher_sees_every_entry_once_across_a_kill_of_the_service(served: Served) -> None:
    served.begin()
    base, out, codes = f"http://127.0.0.1:{served.port}", StringIO(), list[int]()
    served.opens("will", f"@plangate {WISH}")
    client = ServiceClient(base, Secret(""))
    until(lambda: client.read("/api/threads")[0], "the thread is listed")
    watching = threading.Thread(target=lambda: codes.append(watch_thread(client, f"{HOME}#1", out)))
    watching.start()
    until(served.plans, "the plan comment")
    served.die(alone=True)
    served.says("ada", f"@plangate approve {served.digest}")
    watching.join(90)
    assert codes == [0], served.log()
    found, _ = client.read(f"/api/threads/{HOME}/1")
    shown = [entry for entry in found["timeline"] if entry["stage"] != "in_review"]
    assert found["stage"] == "in_review"
    assert len(out.getvalue().splitlines()) == len(shown) + 1


def check(served: Served, *options: str) -> Ended:
    served.home.mkdir(parents=True, exist_ok=True)
    person = Person(served.home, served.api.base_url, served.home, served.environment())
    return person.call("run", f"{HOME}#1", *options)


@pytest.mark.long
def test_exit_codes_and_json_of_one_check_from_nothing_to_the_pull_request(served: Served) -> None:
    served.opens("will", "Shipping is wrong.")
    nothing = check(served, "--json")
    assert (nothing.code, nothing.result["stage"]) == (0, "listening"), nothing.err
    assert set(RESULT) <= set(nothing.result)
    assert [nothing.result[name] for name in ("plan", "answer", "branch", "cost_usd", "steps")] == [None] * 4 + [0]

    served.says("will", "@plangate ship orders of exactly 50 for free")
    waits = check(served)
    assert (waits.code, waits.out.splitlines()[-1]) == (3, f"{HOME}#1: awaiting_approval"), waits.err
    served.says("ada", f"@plangate approve {served.digest}")
    done = check(served, "--json")
    assert done.code == 0, done.err
    result = done.result
    assert {name: type(result[name]) for name in RESULT} == RESULT
    assert result["stage"] == "in_review"
    assert f"\n{served.model.plan}\n" in result["plan"]
    assert result["plan_digest"].startswith(served.digest)
    assert served.branches()[result["branch"]] == result["commit"]
    assert result["usage"]["output"] > 0
    assert FIXED in done.err

    again = check(served, "--json").result
    kept = ("stage", "plan", "plan_digest", "branch", "commit", "answer", "cost_usd")
    assert [again[name] for name in kept] == [result[name] for name in kept]


@pytest.mark.long
def test_a_limit_has_its_own_exit_code(served: Served) -> None:
    served.model.before = (call("Read", file_path=FIXED),)
    served.opens("will")
    ended = check(served, "--max-cost-usd", "0.000001")
    assert ended.code == 4, ended.out
    assert ended.err.startswith("plangate: ")
    assert ended.err.count("\n") == 1


Told = dict[str, tuple[object, object, object]]


async def told_by(story: Story, *, checks: bool = False) -> Told:
    """Return what a new process reports, which only lists threads, or checks the first one: type, stage, and URL."""
    told: Told = {}

    def observe(address: ThreadAddress, entries: Sequence[Entry]) -> None:
        for each in notifications(address, entries, entries[0].at):
            payload = each.payload("https://github.example")
            told[each.id] = payload["type"], payload["data"]["stage"], payload["data"]["url"]

    async with HostSetup(story.host.settings, clock=story.clock, observe=observe) as host:
        await (host.check_thread(story.address()) if checks else host.open_threads())
    return told


@pytest.mark.long
async def test_what_a_process_could_not_report_is_reported_after_its_restart(story: Story) -> None:
    story.model.before = (say("They do so already."),)
    story.opens("will")
    assert (await story.rests(1)).stage is Stage.ANSWERED
    answered = await told_by(story)
    where = f"{story.address().owner}/{story.address().name}"
    assert [*answered.values()] == [("done", "answered", f"https://github.example/{where}/issues/1")]
    assert await told_by(story, checks=True) == answered
    story.model.before = ()
    story.says("will", "@plangate then do it for 49", 1)
    waiting = (await story.rests(1)).plan.comment_url
    later = await told_by(story)
    assert [each for key, each in later.items() if key not in answered] == [("waiting", "awaiting_approval", waiting)]
