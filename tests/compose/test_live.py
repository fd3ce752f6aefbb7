"""The experiments of `plangate doctor --live`, made on the simulated GitHub: the same rows hold for it.

What needs Actions to run is not made there, and says so; tests that play the job say that they do.
"""

import asyncio
import json
import os
import re
import signal
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bot.cli.doctor import repository_findings, table
from bot.cli.main import main
from bot.compose.live.experiments import ExperimentOutcome, run_live
from bot.compose.live.testbed import COMMITS, EXPECTATIONS, SWITCHED, WORDS, Console, Patience
from bot.config.environment import settings_of_person
from bot.core.errors import Misconfigured
from bot.ports import Clock
from bot.service.connections import JOB_ID
from bot.testing.github import credentials
from bot.testing.github.entities import RulesetSettings
from bot.testing.github.faults import Fault
from bot.testing.github.simulated_github import SimulatedGitHub
from bot.testing.github.world import ACTIONS_BOT, TurnedClock
from tests import forks
from tests.compose.experiment_jobs import ExperimentJobs
from tests.github.test_oracles import oracle, problems
from tests.stories.github.clocks import RealClock
from tests.stories.ground import until

HOME = "ada/scratch"
RUNNER = {"refs of a job", "identity", "words of a job", "schedule", "review", "switch of a job", "secret"}
AT_ONCE = Patience(0.0, 600.0, 0.0)


@dataclass
class Bench:
    """A simulated GitHub with a repository to throw away, and a person who does what is asked."""

    github: SimulatedGitHub
    clock: Clock
    said: list[str] = field(default_factory=list)
    on_line: Callable[[str], None] = lambda _: None
    confirmed: bool = True
    patience: Patience = AT_ONCE

    def tell(self, line: str) -> None:
        self.said.append(line)
        if found := re.search(r"tick the box in \S+#issuecomment-(\d+)", line):
            self.github.world.person("mia").tick(int(found[1]))
        self.on_line(line)

    async def run(self, skipped: Collection[int] = (), **given: str) -> dict[str, ExperimentOutcome]:
        console = Console(self.tell, lambda _: self.confirmed, patience=self.patience, clock=self.clock)
        token = credentials.personal_token(self.github.world, given.get("login", "ada")).value
        urls = {"GITHUB_API_URL": self.github.api_url, "GITHUB_SERVER_URL": self.github.server_url}
        settings = settings_of_person({**urls, "GH_TOKEN": token, "HOME": "/x", "PLANGATE_WRITE_PAUSE_SECONDS": "0"})
        outcomes = await run_live(settings, HOME, console, skipped)
        return {outcome.expectation.key: outcome for outcome in outcomes}

    async def until(self, happened: Callable[[], bool]) -> None:
        """Wait for something in the world."""
        while not happened():  # noqa: ASYNC110 - the other side is a server
            await asyncio.sleep(0.01)

    def state(self) -> object:
        """Everything of the repository that the experiments change, but for what GitHub keeps of pull requests."""
        world = self.github.world
        home = world.repository(HOME)
        opened = [issue.number for issue in world.issues.values() if issue.state == "open"]
        settings = world.settings_of(home)
        refs = {ref: at for ref, at in world.bare(home).refs().items() if not ref.startswith("refs/pull/")}
        return refs, settings.rulesets, dict(settings.environments), opened


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    clock = TurnedClock()  # time stands still but for who waits: no figure depends on this machine
    with SimulatedGitHub(tmp_path / "github", clock=clock) as github:
        github.world.add_repository(HOME, {"README.md": "# Scratch\n"})
        github.world.set_role(HOME, "mia", "write")
        yield Bench(github, clock)


def test_the_table_is_whole() -> None:
    """Nine experiments, each row with its answers, what follows from others, and what GitHub publishes about it."""
    assert sorted({row.experiment for row in EXPECTATIONS}) == list(range(1, 10))
    assert len({row.key for row in EXPECTATIONS}) == len(EXPECTATIONS)
    assert all(row.expected and row.consequence and row.sources for row in EXPECTATIONS)
    pages = ("https://docs.github.com/en/", "https://github.com/actions/")
    assert all(source.startswith(pages) for row in EXPECTATIONS for source in row.sources)


async def test_the_simulated_github_answers_as_expected(bench: Bench) -> None:
    """Each row that needs no runner holds for it; the others say what they need; nothing stays behind."""
    before = bench.state()
    outcomes = await bench.run()
    assert list(outcomes) == [row.key for row in EXPECTATIONS]
    pushes = outcomes.pop("pushes")  # a busy machine may take longer than a minute for them
    assert pushes.seen.startswith("20 of 20 accepted")
    assert {key: outcome.seen for key, outcome in outcomes.items() if outcome.differs} == {}
    assert {key for key, outcome in outcomes.items() if not outcome.seen} == RUNNER
    assert all(outcomes[key].reason.startswith("needs a runner: ") for key in RUNNER)
    assert bench.state() == before
    assert not any("could not be removed" in line for line in bench.said)


@pytest.mark.long
@pytest.mark.timeout(60)
async def test_the_simulated_github_answers_jobs_as_expected(bench: Bench, tmp_path: Path) -> None:
    """With a runner every row holds for it: the jobs' own scripts answer, and what people write there is none."""
    jobs, before = ExperimentJobs(bench.github, HOME, tmp_path / "runner"), bench.state()

    async def play() -> None:
        await bench.until(jobs.is_dispatched)
        bench.github.world.person("mia").comment(HOME, 1, "plangate-live end: yes\nplangate-live refs: all is well")
        await asyncio.to_thread(jobs.run_dispatched)

    bench.patience = Patience(1e6, 600.0, 1e6)
    outcomes, _ = await asyncio.gather(bench.run(skipped=(2, 9)), play())
    assert {key: outcome.seen for key, outcome in outcomes.items() if outcome.differs} == {}
    assert {key for key, outcome in outcomes.items() if not outcome.seen} == {"tick", "pushes"}
    assert outcomes["identity"].seen == f"{JOB_ID} {ACTIONS_BOT} Bot"
    assert bench.state() == before


REFUSALS: dict[str, Callable[[Bench], object]] = {
    "it has 3 stars": lambda bench: bench.github.world.set_settings(HOME, stars=3),
    "it is archived": lambda bench: bench.github.world.change_repository(HOME, archived=True),
    "open issues": lambda bench: bench.github.world.person("mia").open_issue(HOME, "A bug"),
    "10 commits or more": lambda bench: [
        bench.github.world.person("ada").push(HOME, {"a.txt": f"{number}\n"}) for number in range(COMMITS)
    ],
    "the bot's state is there": lambda bench: bench.github.world.bare(bench.github.world.repository(HOME)).move(
        "refs/plangate/threads/1", str(bench.github.world.bare(bench.github.world.repository(HOME)).resolve("main"))
    ),
    "rules for branches": lambda bench: bench.github.world.set_settings(
        HOME, rulesets=(RulesetSettings("mine", ("creation",)),)
    ),
    "not confirmed": lambda bench: setattr(bench, "confirmed", False),
}


@pytest.mark.parametrize("reason", REFUSALS)
async def test_a_repository_in_use_is_left_alone(bench: Bench, reason: str) -> None:
    """Whatever tells that somebody uses it: it is refused before anything is written."""
    REFUSALS[reason](bench)
    with pytest.raises(Misconfigured, match=reason):
        await bench.run()
    assert {each.method for each in bench.github.requests} <= {"GET"}


async def test_who_may_run_them(bench: Bench) -> None:
    """Nobody who does not administer the repository, and no App."""
    with pytest.raises(Misconfigured, match="does not administer"):
        await bench.run(login="mia")
    app = {"PLANGATE_APP_ID": "1", "PLANGATE_PRIVATE_KEY": bench.github.app.pem, "HOME": "/x"}
    with pytest.raises(Misconfigured, match="token of a person"):
        await run_live(settings_of_person(app), HOME, Console(bench.tell, lambda _: True))


async def test_an_experiment_that_fails_ends_no_other(bench: Bench) -> None:
    """GitHub fails in the middle of one: that is what was seen, and what it had made is removed."""
    before = bench.state()
    bench.github.faults.plan(f"POST /repos/{HOME}/pulls", Fault("status", 422), times=99)
    outcomes = await bench.run(skipped=(2, 9))
    assert outcomes["words"].seen.startswith("failed: ")
    assert outcomes["words"].differs
    assert outcomes["switch"].seen == SWITCHED
    assert outcomes["tick"].reason == "skipped"
    assert bench.state() == before


@pytest.mark.timeout(60)
async def test_an_interrupted_run_removes_what_it_made(bench: Bench) -> None:
    """Ctrl-C when GitHub has made a ruleset and has not answered yet: it is gone afterwards, with everything else."""
    before = bench.state()
    bench.github.faults.plan(f"POST /repos/{HOME}/rulesets", Fault("reset", done=True, seconds=1.0))
    running = asyncio.ensure_future(bench.run())
    world = bench.github.world
    while not world.settings_of(world.repository(HOME)).rulesets:
        assert not running.done()
        await asyncio.sleep(0.005)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert bench.state() == before


async def test_what_cannot_be_removed_is_named(bench: Bench) -> None:
    """GitHub refuses to delete the ruleset: the person is told which one to remove, and the rest is removed."""
    bench.github.faults.plan(f"DELETE /repos/{HOME}/rulesets/1", Fault("status", 403), times=99)
    await bench.run(skipped=range(2, 10))
    named = [line for line in bench.said if line.startswith("could not be removed: ruleset plangate-live")]
    assert len(named) >= 1
    assert bench.github.world.bare(bench.github.world.repository(HOME)).resolve("refs/plangate/live") is None


def test_the_table_says_what_follows(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """A row that differs says so with its consequence; one that was not seen says why."""
    rows = {row.key: row for row in EXPECTATIONS}
    unseen, other = (
        ExperimentOutcome(rows["tick"], reason="skipped"),
        ExperimentOutcome(rows["identity"], "7 other[bot] Bot"),
    )
    lines = list(table([other, unseen, ExperimentOutcome(rows["words"], WORDS)]))
    assert lines[0] == "✗ 3. who the token of a job is"
    assert lines[2:4] == ["    seen:     7 other[bot] Bot", f"    so:       {rows['identity'].consequence}"]
    assert lines[4] == f"    see:      {rows['identity'].sources[0]}"
    assert lines[7] == "    seen:     nothing: skipped"
    assert lines[-1] == "2 of 3 rows seen, 1 of them different."
    for arguments in (["--yes"], ["--live", HOME, "--skip", "two"]):
        code = 0
        try:
            code = main(["doctor", *arguments])
        except SystemExit as ended:
            code = int(str(ended.code))
        assert code == 2
        assert "plangate: " in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.skipif(oracle("api.github.com.json") is None, reason="PLANGATE_ORACLES names no folder with the OpenAPI")
async def test_every_request_is_documented(bench: Bench) -> None:
    """Path, parameters and body of each REST request stand in GitHub's OpenAPI, those of `doctor --repo` included."""
    path = oracle("api.github.com.json")
    assert path is not None
    await bench.run()
    token = credentials.personal_token(bench.github.world, "ada", scopes=("repo", "user")).value
    given = {"GITHUB_API_URL": bench.github.api_url, "GH_TOKEN": token, "HOME": "/x"}
    await repository_findings(settings_of_person(given), HOME, fix=True)
    logged = [each for each in bench.github.requests if each.path != "/graphql" and ".git/" not in each.path]
    names = " ".join(each.name for each in logged)
    for part in ("rulesets", "public-key", "dispatches", "replies", "actions/permissions", "rules/branches"):
        assert part in names
    description = json.loads(path.read_text())
    assert {problem for each in logged for problem in problems(description, each)} == set()


@pytest.mark.long
@pytest.mark.timeout(60)
def test_ctrl_c_at_the_terminal(tmp_path: Path) -> None:
    """The command waits for a runner that never comes; Ctrl-C ends it with 130, and leaves nothing behind."""
    with SimulatedGitHub(tmp_path / "github", clock=RealClock()) as github:
        github.world.add_repository(HOME, {"README.md": "# Scratch\n"})
        bench = Bench(github, RealClock())
        before = bench.state()
        token = credentials.personal_token(github.world, "ada").value
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GH_TOKEN": token}
        env |= {
            "PLANGATE_WRITE_PAUSE_SECONDS": "0",
            "GITHUB_API_URL": github.api_url,
            "GITHUB_SERVER_URL": github.server_url,
        }
        with (tmp_path / "log").open("wb") as log:
            process = forks.plangate().start(
                *("doctor", "--live", HOME, "--yes", "--skip", "2,9"),
                env=env,
                cwd=tmp_path,
                stdout=log.fileno(),
                stderr=log.fileno(),
            )
        until(lambda: bool(github.world.workflow_runs), "the job is asked for")
        assert github.world.settings_of(github.world.repository(HOME)).rulesets
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130, (tmp_path / "log").read_text()
        assert bench.state() == before
        assert "could not be removed" not in (tmp_path / "log").read_text()
