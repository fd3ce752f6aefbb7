"""The service as a process, killed and restarted; 'plangate serve' as people start it; and its socket."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import pytest

from bot.clock import SystemClock
from bot.core.errors import Misconfigured
from bot.service.inbox import Inbox
from bot.testing.github.credentials import install
from bot.testing.github.simulated_github import SimulatedGitHub
from tests import forks
from tests.service.ground import call, deliver, delivery
from tests.stories.ground import until
from webhooks.app import BACKLOG, bind_listener


class Process:
    """A service in a process of its own."""

    def __init__(self, fork: forks.Fork, lines: TextIO) -> None:
        self.fork = fork
        self.lines = lines
        self.base = f"http://127.0.0.1:{self.line()}"

    def line(self) -> str:
        return self.lines.readline().strip()

    def end(self, number: int) -> int:
        self.fork.send_signal(number)
        return self.fork.wait(timeout=30)


@contextmanager
def started(folder: Path, how: str, cut: str = "600") -> Iterator[Process]:
    said, written = os.pipe()
    with (folder / "log").open("ab") as log, os.fdopen(said) as lines:
        fork = forks.service().start(str(folder), how, cut, stdout=written, stderr=log.fileno())
        os.close(written)
        try:
            yield Process(fork, lines)
        finally:
            fork.kill()


@pytest.mark.req("W2", "E3")
def test_a_delivery_answered_202_survives_kill_9_and_is_checked_once(tmp_path: Path) -> None:
    with started(tmp_path, "hangs") as first:
        assert deliver(first.base, 3).status == 202
        assert first.line() == "began 3"
        assert deliver(first.base, 3, "guid-2").status == 202
        assert first.end(signal.SIGKILL) == -signal.SIGKILL
    assert len(Inbox(tmp_path / "inbox").list_stored()) == 2
    with started(tmp_path, "ends") as second:
        assert (second.line(), second.line()) == ("began 3", "ended 3")
        until(lambda: Inbox(tmp_path / "inbox").list_stored() == (), "the inbox is empty")
        assert second.end(signal.SIGTERM) == 0
        assert second.line() == "down"


@pytest.mark.parametrize("number", (signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)))
def test_a_signal_cancels_checks_and_keeps_the_delivery_for_the_next_start(
    tmp_path: Path, number: signal.Signals
) -> None:
    with started(tmp_path, "hangs") as process:
        deliver(process.base, 1)
        assert process.line() == "began 1"
        assert process.end(number) == 0
        assert (process.line(), process.line()) == ("cancelled 1", "down")
    assert Inbox(tmp_path / "inbox").waiting()[0].guid == delivery(1).guid
    log = (tmp_path / "log").read_text()
    assert '"what": "listening"' in log
    assert "Traceback" not in log


def test_what_cannot_be_cancelled_is_cut_off(tmp_path: Path) -> None:
    with started(tmp_path, "stuck", "0.5") as process:
        deliver(process.base, 1)
        assert process.line() == "began 1"
        assert process.end(signal.SIGTERM) == 0
        assert process.line() in {"cancelled 1", ""}
    assert len(Inbox(tmp_path / "inbox").waiting()) == 1


def test_a_service_logs_one_line_for_a_delivery_and_one_for_its_check(tmp_path: Path) -> None:
    with started(tmp_path, "ends") as process:
        deliver(process.base, 7)
        assert (process.line(), process.line()) == ("began 7", "ended 7")
        assert call(process.base, "GET", "/readyz").body["github"] == "ok"
        process.end(signal.SIGTERM)
    lines = (tmp_path / "log").read_text().splitlines()
    assert sum('"what": "delivery"' in line and '"status": 202' in line for line in lines) == 1
    assert sum('"what": "check"' in line and '"stage": "listening"' in line for line in lines) == 1
    assert "sender" not in "".join(lines)


NAME = "acme/shop"


@pytest.fixture
def github(tmp_path: Path) -> Iterator[SimulatedGitHub]:
    """acme/shop with the App installed; dave may only read."""
    with SimulatedGitHub(tmp_path / "github", clock=SystemClock()) as github:
        github.world.add_user("acme", "Organization")
        github.world.add_user("dave")
        github.world.add_repository(NAME, {"README.md": "# Shop\n"})
        github.world.set_role(NAME, "dave", "read")
        install(github.world, github.app, "acme")
        yield github


def environment(github: SimulatedGitHub, folder: Path) -> dict[str, str]:
    return dict(os.environ) | {
        "HOME": str(folder),
        "PLANGATE_DATA_DIR": str(folder / "data"),
        "PLANGATE_APP_ID": str(github.app.id),
        "PLANGATE_PRIVATE_KEY": github.app.pem,
        "PLANGATE_WEBHOOK_SECRET": github.app.webhook_secret,
        "PLANGATE_WRITE_PAUSE_SECONDS": "0",
        "PLANGATE_LOG": "json",
        "GITHUB_API_URL": github.api_url,
        "GITHUB_GRAPHQL_URL": github.graphql_url,
        "GITHUB_SERVER_URL": github.server_url,
        "ANTHROPIC_API_KEY": "sk-no-such-key",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
    }


class Log:
    """The lines of a service's log, as they come."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.text = ""

    def until(self, what: str, **facts: object) -> dict[str, Any]:
        """Read on to the first line of that kind with these facts."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.text += line
            found: dict[str, Any] = json.loads(line)
            if found["what"] == what and facts.items() <= found.items():
                return found
        raise AssertionError(f"no {what} in the log:\n{self.text}")


@contextmanager
def command(*arguments: str, variables: dict[str, str]) -> Iterator[tuple["subprocess.Popen[str]", Log]]:
    program = [str(Path(sys.executable).with_name("plangate")), *arguments]
    process = subprocess.Popen(program, env=variables, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        try:
            yield process, Log(process)
        finally:
            process.kill()


@pytest.mark.req("PR3", "W2")
def test_a_mention_is_answered_and_secrets_stay_out_of_the_log(github: SimulatedGitHub, tmp_path: Path) -> None:
    variables = environment(github, tmp_path)
    with command("serve", "--port", "0", variables=variables) as (process, log):
        port = log.until("listening")["port"]
        github.webhooks.hook_app(github.app, f"http://127.0.0.1:{port}/webhooks/github")
        assert log.until("delivery", event="ping")["status"] == 200
        issue = github.world.person("dave").open_issue(NAME, "Help", "@plangate do it")
        assert log.until("delivery", event="issues")["status"] == 202
        assert log.until("check")["thread"] == f"{NAME}#{issue.number}"
        process.send_signal(signal.SIGTERM)
        log.until("stopping")
        assert process.wait(timeout=30) == 0
    assert [each.content for each in github.world.reactions_to(issue.node_id)] == ["confused"]
    assert github.app.webhook_secret not in log.text
    assert "PRIVATE KEY" not in log.text


def test_a_service_whose_key_cannot_sign_does_not_start(github: SimulatedGitHub, tmp_path: Path) -> None:
    variables = environment(github, tmp_path) | {"PLANGATE_PRIVATE_KEY": "no key"}
    ended = forks.plangate().run("serve", "--port", "0", env=variables, cwd=tmp_path, timeout=30)
    assert ended.returncode == 2
    assert ended.stderr == (
        "plangate: the App's private key cannot be read (PLANGATE_PRIVATE_KEY, PLANGATE_PRIVATE_KEY_PATH): "
        "set one of them to the PEM file from GitHub\n"
    )
    assert github.requests == ()


@pytest.mark.long
def test_a_delivery_that_came_without_a_worker_is_swept(github: SimulatedGitHub, tmp_path: Path) -> None:
    variables = environment(github, tmp_path)
    with command("serve", "--port", "0", "--no-worker", variables=variables) as (process, log):
        port = log.until("listening", worker=False)["port"]
        github.webhooks.hook_app(github.app, f"http://127.0.0.1:{port}/webhooks/github")
        issue = github.world.person("dave").open_issue(NAME, "Help", "@plangate do it")
        log.until("delivery", event="issues")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0
    assert github.world.reactions_to(issue.node_id) == []
    with command("sweep", "--repo", NAME, variables=variables) as (process, log):
        assert log.until("scheduled check")["exit_code"] == 0
        assert process.wait(timeout=30) == 0
    assert [each.content for each in github.world.reactions_to(issue.node_id)] == ["confused"]


HOST = "127.0.0.1"


def port_of(listener: socket.socket) -> int:
    found: int = listener.getsockname()[1]
    return found


def connect(port: int) -> socket.socket:
    return socket.create_connection((HOST, port), timeout=5)


@pytest.mark.parametrize(
    ("first", "second", "cure"),
    (
        (False, False, "set PLANGATE_DATABASE_URL so that several can share it"),
        (False, True, "which shares no port or belongs to another user"),
        (True, False, "choose another --port"),
    ),
)
def test_an_address_that_is_taken_is_refused_with_the_cure(*, first: bool, second: bool, cure: str) -> None:
    with bind_listener(HOST, 0, shares=first) as taken:
        taken.listen()
        with pytest.raises(Misconfigured, match=cure):
            bind_listener(HOST, port_of(taken), shares=second)


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(Misconfigured, match="choose another --host or --port"):
        bind_listener("192.0.2.1", 0)


def test_a_process_that_starts_gets_no_connection_before_it_can_answer() -> None:
    with bind_listener(HOST, 0, shares=True) as first:
        first.listen(BACKLOG)
        port = port_of(first)
        with bind_listener(HOST, port, shares=True) as second:
            for _ in range(16):
                with connect(port), first.accept()[0]:
                    pass
            second.listen(BACKLOG)
            first.close()
            with connect(port), second.accept()[0]:
                pass


def test_connections_wait_for_a_process_that_is_alone() -> None:
    with bind_listener(HOST, 0) as alone, connect(port_of(alone)), alone.accept()[0]:
        pass
