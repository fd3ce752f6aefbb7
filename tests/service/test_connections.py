"""The ways to GitHub of one process: what they leave behind."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from bot.compose.github import HostSetup
from bot.compose.parts import committer_of
from bot.compose.worker_process import recorder_of
from bot.config.settings import GitHubSettings, Secret, Settings
from bot.core.errors import Refused, Transient
from bot.core.names import ThreadAddress, ThreadNumber
from bot.core.secrets.redaction import Redactor
from bot.github.repository import Address
from bot.github.responses import RateLimited, Unprocessable
from bot.service.connections import Connections, speaks_as_job
from bot.service.overview.recorder import thread_record
from bot.service.overview.thread_index import ThreadQuery
from bot.testing.github.credentials import install, job_token, personal_token
from bot.testing.github.simulated_github import SimulatedGitHub
from bot.testing.model.reply import say
from bot.testing.model.server import ScriptedModel
from bot.workspace.mirror import Mirror
from bot.workspace.publish import Committer
from bot.workspace.workspace import GitWorkspace
from tests.core.journal_histories import histories
from tests.service.overview.ground import SERVER
from tests.stories.github.clocks import QuickClock
from tests.stories.github.ground import HOME, settings, settle
from tests.workspace.ground import approved, order


def tokens(github: SimulatedGitHub) -> list[str]:
    return [token.value for token in github.world.tokens.values() if token.kind == "installation"]


@pytest.mark.req("W4")
@pytest.mark.parametrize("failing", (False, True))
async def test_tokens_end_with_the_host(tmp_path: Path, failing: bool) -> None:
    """After the host is closed none of its tokens opens anything; where GitHub fails the host closes all the same."""
    clock = QuickClock()
    with ScriptedModel(lambda _: say("Nothing.")) as api, SimulatedGitHub(tmp_path / "hub", clock=clock) as github:
        settle(github.world, github)
        github.world.person("will").open_issue(HOME, "Quiet", "Nobody is asked.")
        async with HostSetup(settings(github, api.base_url, tmp_path / "data"), clock=clock) as host:
            await host.open_threads()
            assert len(tokens(github)) == 2  # one polls, one works on the repository
            if failing:
                github.faults.fail("DELETE /installation/token", 500, times=99)
    assert len(tokens(github)) == (2 if failing else 0)


@pytest.mark.req("E2")
async def test_a_limit_holds_for_all_that_speak_for_one_installation(tmp_path: Path) -> None:
    """What GitHub says of its limits at one repository is obeyed at every other one, and by what polls."""
    clock = QuickClock()
    with SimulatedGitHub(tmp_path / "hub", clock=clock) as github:
        settle(github.world, github)
        ways = Connections(settings(github, "", tmp_path / "data"), clock)
        served = await ways.repository_by_name(Address(*HOME.split("/")))
        installation, at = served.installation, served.at
        one, other = [await ways.reach(installation, served.id, each) for each in (at, Address(at.owner, "other"))]
        github.faults.limit("GET */collaborators", seconds=300)
        with pytest.raises(RateLimited):
            await one.client.get(f"{at.path}/collaborators")
        for client in (other.client, ways.poller(installation)):
            with pytest.raises(RateLimited):
                await client.get(at.path)
        await ways.app().get("/app")
        await ways.close()


@pytest.mark.req("PR3")
async def test_a_token_that_may_only_read_is_told(tmp_path: Path) -> None:
    """What remembers a thread says which permission the token lacks, not that an answer was lost."""
    clock = QuickClock()
    with SimulatedGitHub(tmp_path / "hub", clock=clock) as github:
        settle(github.world, github)
        token = job_token(github.world, github.world.repository(HOME), {"contents": "read"}).value
        reads = GitHubSettings(github.api_url, github.graphql_url, github.server_url, token=Secret(token))
        ways = Connections(Settings(data_dir=tmp_path / "data", github=reads), clock)
        reached = await ways.reach(None, github.world.repository(HOME).id, Address(*HOME.split("/")))
        with pytest.raises(Transient, match="contents: write"):
            await asyncio.to_thread(reached.refs.commit, ThreadNumber(1), lambda _: {"a": b"1"}, "first")


@pytest.mark.req("E1", "W4")
async def test_git_gets_a_new_token_after_the_old_one_was_refused(tmp_path: Path) -> None:
    clock = QuickClock()
    with SimulatedGitHub(tmp_path / "hub", clock=clock) as github:
        settle(github.world, github)
        ways = Connections(settings(github, "", tmp_path / "data"), clock)
        served = await ways.repository_by_name(Address(*HOME.split("/")))
        reached = await ways.reach_served(served)
        workspace = GitWorkspace.on(reached.remote, tmp_path / "data")
        thread, used = ThreadNumber(1), list[str]()

        def refuse() -> None:
            used.append(reached.token.newest())
            github.world.tokens.clear()

        refuse()
        base = await workspace.mirror.head("main")
        refuse()
        await asyncio.to_thread(reached.refs.read_tip, thread)
        refuse()
        await asyncio.to_thread(reached.refs.commit, thread, lambda _: {"a": b"1"}, "first")
        checkout = await workspace.checkout("main", base)
        (Path(checkout.path) / "new").write_text("x")
        refuse()
        published = await workspace.publish(approved(base), checkout, order())
        assert github.world.bare(github.world.repository(HOME)).resolve(published.branch) == published.commit
        assert len({*used, reached.token.newest()}) == 5
        await ways.close()


async def test_a_fixed_token_is_asked_for_once(tmp_path: Path) -> None:
    clock = QuickClock()
    with SimulatedGitHub(tmp_path / "hub", clock=clock) as github:
        settle(github.world, github)
        refused = GitHubSettings(github.api_url, github.graphql_url, github.server_url, token=Secret("ghp_refused"))
        ways = Connections(Settings(data_dir=tmp_path / "data", github=refused), clock)
        reached = await ways.reach(None, github.world.repository(HOME).id, Address(*HOME.split("/")))
        with pytest.raises(Transient, match="rejects the token"):
            await Mirror.of(reached.remote, tmp_path / "mirrors").head("main")
        with pytest.raises(Transient, match="cannot be listed"):
            await asyncio.to_thread(reached.refs.read_tip, ThreadNumber(1))


async def test_a_token_that_reaches_nothing_is_told(tmp_path: Path) -> None:
    """Where the one token that there is opens nothing, the list of threads is not empty but cannot be had."""
    clock = QuickClock()
    with SimulatedGitHub(tmp_path / "hub", clock=clock) as github:
        reached = GitHubSettings(github.api_url, github.graphql_url, github.server_url, token=Secret("ghp_of_nobody"))
        async with HostSetup(Settings(data_dir=tmp_path, github=reached, api_key=Secret("x")), clock=clock) as host:
            with pytest.raises(Refused):
                await host.open_threads()


@pytest.mark.req("W5", "A7")
async def test_a_pass_forgets_what_is_not_served_any_more(tmp_path: Path) -> None:
    clock = QuickClock()
    with SimulatedGitHub(tmp_path / "hub", clock=clock) as github:
        settle(github.world, github)
        github.world.add_user("other", "Organization")
        other = install(github.world, github.app, "other").id
        github.faults.fail(f"POST /app/installations/{other}/access_tokens", 503, times=99)
        given, home = settings(github, "", tmp_path / "data"), github.world.repository(HOME).id
        recorder = recorder_of(given, Redactor())
        (entries,) = histories(1, 5)
        for installation, repository in ((7, home), (7, 998), (other, 999)):
            address = ThreadAddress(installation, repository, "octo", f"repository-{repository}", 1)
            recorder.index.put(thread_record(address, entries, SERVER))
        async with HostSetup(given, clock=clock, recorder=recorder) as host:
            await host.open_threads()
        named = {row.repository for row in recorder.index.page(ThreadQuery()).threads}
        assert named == {"octo/repository-999"}  # the thread of HOME has no journal; 999 could not be listed


@pytest.mark.req("A7")
async def test_a_repository_that_took_a_name_is_reached_by_a_token_of_its_own(tmp_path: Path) -> None:
    clock = QuickClock()
    with SimulatedGitHub(tmp_path / "hub", clock=clock) as github:
        settle(github.world, github)
        ways = Connections(settings(github, "", tmp_path / "data"), clock)
        served = await ways.repository_by_name(Address(*HOME.split("/")))
        installation, at = served.installation, served.at
        assert await ways.reach(installation, served.id, at) is await ways.reach(installation, served.id, at)
        with pytest.raises(Unprocessable, match="not accessible"):
            await ways.reach(installation, 99, at)
        await ways.close()


@pytest.mark.req("G3")
async def test_whose_commits_are(tmp_path: Path) -> None:
    """An App's and a job's are attributed to their accounts, by the server's own addresses of them."""
    clock = QuickClock()
    with SimulatedGitHub(tmp_path / "hub", clock=clock) as github:
        settle(github.world, github)
        app, own = settings(github, "", tmp_path / "data"), GitHubSettings().server_url
        public, inside = (
            replace(app, github=replace(app.github, server_url=url)) for url in (own, "https://ghe.example.org:8443")
        )
        ways = Connections(app, clock)
        bot = await ways.bot((await ways.reach_served(await ways.repository_by_name(Address(*HOME.split("/"))))).client)
        assert committer_of(public, bot) == Committer(bot.login, f"{bot.id}+plangate[bot]@users.noreply.github.com")
        assert committer_of(inside, bot).address == f"{bot.id}+plangate[bot]@users.noreply.ghe.example.org"
        token = Secret(job_token(github.world, github.world.repository(HOME)).value)
        job = replace(public, github=replace(public.github, app_id="", token=token))
        ways = Connections(job, clock)
        assert not speaks_as_job(bot)
        bot = await ways.bot(ways.poller(None))
        assert speaks_as_job(bot)
        assert committer_of(job, bot).address == "41898282+github-actions[bot]@users.noreply.github.com"


@pytest.mark.req("CL1", "W4")
@pytest.mark.parametrize(("scopes", "may_push"), ((("repo",), False), (("repo", "workflow"), True)))
async def test_classic_token_pushes_workflows_only_with_their_scope(
    tmp_path: Path, scopes: tuple[str, ...], may_push: bool
) -> None:
    clock = QuickClock()
    with SimulatedGitHub(tmp_path / "hub", clock=clock) as github:
        settle(github.world, github)
        token = Secret(personal_token(github.world, "robot", scopes=scopes).value)
        ours = GitHubSettings(github.api_url, github.graphql_url, github.server_url, token=token)
        ways = Connections(Settings(data_dir=tmp_path / "data", github=ours), clock)
        client = ways.poller(None)
        bot = await ways.bot(client)
        asked = len(github.requests)
        assert [await ways.may_push_workflows(client, bot) for _ in range(2)] == [may_push] * 2
        assert len(github.requests) == asked + 1
