"""Jobs of the Action that run at the same time, or are cancelled, on threads whose memory is the repository alone."""

from pathlib import Path

import pytest

from bot.core.gate import Stage
from bot.core.pull_text import WAITS_FOR_APPROVAL
from tests.marks import soak
from tests.stories.github.ground import FIXED
from tests.stories.github.outcome import exactly_one
from tests.stories.github.runner import SCHEDULE, Run, Runs
from tests.stories.ground import until
from tests.test_no_sandbox import programs

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


def _planned(runs: Runs, threads: int = 1) -> None:
    """Bring threads to where their plans are approved, by a 👍 that no job has seen."""
    for _ in range(threads):
        runs.opens("will")
        assert runs.ran(runs.next()).process.returncode == 0
    for number in range(1, threads + 1):
        runs.reacts("maya", "+1", runs.plans(number)[0])


def _working(runs: Runs, step: str) -> Run:
    """Start a scheduled job, and be there when the model waits before that step."""
    pause = runs.model.pause(step)
    run = runs.start(SCHEDULE)
    until(lambda: pause.there or run.over, f"the model comes to {step}")
    assert not run.over, run.log
    return run


def _go_on(runs: Runs) -> None:
    runs.model.go_on()


@pytest.mark.soak
@pytest.mark.req("L9", "E4", "PR3")
def test_stop_in_a_job_of_its_own_ends_the_work_of_another_which_retry_continues(runs: Runs) -> None:
    _planned(runs)
    working = _working(runs, "w2")
    runs.says("will", "@plangate stop")
    assert runs.ran(runs.next(), PLANGATE_ONLY_LISTEN="true").process.returncode == 0
    until(lambda: working.over, "the job ends")
    _go_on(runs)
    assert runs.record().stage is Stage.STOPPED
    assert runs.nothing_done()
    asked = runs.model.worked
    runs.says("will", "@plangate retry")
    assert runs.ran(runs.next()).process.returncode == 0
    assert runs.model.worked == asked + 1  # only the step that was under way
    (branch,) = runs.branches()
    assert "total >= FREE_FROM" in runs.file(branch, FIXED)
    (pull,) = runs.pulls()
    assert WAITS_FOR_APPROVAL in pull.text.body


@pytest.mark.req("E4", "PR2")
def test_two_sweeps_that_find_one_approval_leave_one_of_everything(runs: Runs) -> None:
    _planned(runs)
    both = [runs.start(SCHEDULE) for _ in range(2)]
    until(lambda: all(run.over for run in both), "both end")
    runs.says("rita", "Any news?")
    runs.ran(runs.next())
    exactly_one(runs)
    assert runs.record().stage is Stage.IN_REVIEW


@pytest.mark.req("E3", "PR3")
def test_the_next_sweep_ends_the_work_on_each_thread_of_one_that_died(runs: Runs) -> None:
    _planned(runs, 3)
    _working(runs, "w1").kill(alone=False)
    _go_on(runs)
    assert runs.ran(SCHEDULE).process.returncode == 0
    for number in (1, 2, 3):
        exactly_one(runs, number)


@pytest.mark.req("E3", "E4", "PR2")
def test_a_sweep_waits_with_the_work_of_a_dead_job_until_github_says_that_it_ended(runs: Runs) -> None:
    _planned(runs)
    working = _working(runs, "w1")
    working.kill(alone=False)
    _go_on(runs)
    runs.unknown.add(working.number)
    asked = runs.model.worked
    assert runs.ran(SCHEDULE).process.returncode == 0
    assert (runs.record().stage, runs.model.worked) == (Stage.EXECUTING, asked)
    assert runs.nothing_done()
    runs.unknown.clear()
    assert runs.ran(SCHEDULE).process.returncode == 0
    assert runs.record().stage is Stage.IN_REVIEW
    exactly_one(runs)


@pytest.mark.soak
@pytest.mark.req("L6", "L9", "PR3")
@pytest.mark.parametrize("step", (soak("p0"), soak("w0"), "w1", soak("w2")))
def test_a_cancelled_job_ends_by_itself_and_keeps_its_work(runs: Runs, step: str) -> None:
    if step == "p0":
        runs.opens("will")
        pause = runs.model.pause(step)
        run = runs.start(runs.next())
        until(lambda: pause.there, "the model is asked")
    else:
        _planned(runs)
        run = _working(runs, step)
    code = run.cancel()
    assert code == 130, run.log
    run.nothing_left()
    _go_on(runs)
    runs.says("rita", "Any news?")
    assert runs.ran(runs.next()).process.returncode == 0
    if step == "p0":
        runs.reacts("maya", "+1")
        assert runs.ran(SCHEDULE).process.returncode == 0
        assert runs.model.worked == len(runs.model.work)
    else:
        assert runs.model.worked == len(runs.model.work) + 1  # only the step that was under way is asked for again
    exactly_one(runs)


@pytest.mark.req("D1", "PR3")
def test_a_runner_without_a_sandbox_ends_with_the_cure_in_log_and_thread(runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    path = programs(tmp_path / "bin", blocked=True)
    runs.opens("will")
    run = runs.ran(runs.next(), PATH=path)
    assert run.process.returncode == 6
    assert "user namespaces" in run.log
    (told,) = runs.said("tell")
    assert "user namespaces" in told
    assert runs.nothing_done()
