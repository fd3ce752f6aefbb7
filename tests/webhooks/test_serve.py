"""`plangate serve` and `plangate sweep` as people start them, against the simulated GitHub."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bot.clock import SystemClock
from bot.testing.github.credentials import install
from bot.testing.github.simulated_github import SimulatedGitHub
from tests import forks

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
def test_a_mention_is_answered(github: SimulatedGitHub, tmp_path: Path) -> None:
    """A webhook of GitHub's ends in a sign under the issue: this person may not ask. Secrets stay out of the log."""
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


def test_a_key_that_cannot_sign_is_told_at_once(github: SimulatedGitHub, tmp_path: Path) -> None:
    """The service does not start, instead of failing at each delivery."""
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
    """`serve --no-worker` only stores; `sweep` looks."""
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
