"""The runner obeys what the program says, and nothing that others wrote; errors and a missing key."""

import io
import json
import re
from pathlib import Path

import pytest

from bot.action.main import run
from bot.action.runner import Runner
from bot.clock import SystemClock
from bot.logs import say
from bot.testing.github.credentials import job_token
from bot.testing.github.simulated_github import SimulatedGitHub

KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEFAASC\nQ==\n-----END PRIVATE KEY-----\n"
COMMAND = re.compile(r"::(?P<name>[a-z-]+)[^:]*::(?P<value>.*)")


def obeyed(log: str) -> list[tuple[str, str]]:
    """Read a log as the runner does: which commands it obeys.

    https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands#stopping-and-starting-workflow-commands
    """
    found, stopped = list[tuple[str, str]](), ""
    for line in log.splitlines():
        if stopped:
            stopped = "" if line == f"::{stopped}::" else stopped
        elif match := COMMAND.match(line.lstrip()):
            stopped = match["value"] if match["name"] == "stop-commands" else ""
            found.append((match["name"], match["value"]))
    return [each for each in found if each[0] != "stop-commands"]


def test_foreign_lines_are_not_obeyed() -> None:
    """Whatever others print after the beginning, also on lines of its own, is no command; ours are."""
    out = io.StringIO()
    runner = Runner(out)
    runner.ignore_foreign_commands()
    out.write("::add-path::/evil\n  ::set-env name=X::1\n::stop-commands::guess\n::guess::\n::error::theirs\n")
    runner.say("model says\n::warning::hello")
    runner.error("ours\n::error::inside")
    out.write("::error::theirs again\n")
    runner.warning("100%")
    assert obeyed(out.getvalue()) == [("error", "ours%0A::error::inside"), ("warning", "100%25")]


def test_two_runs_have_two_tokens() -> None:
    """The word that makes the runner listen again cannot be learned from an earlier log."""
    logs = [io.StringIO(), io.StringIO()]
    for log in logs:
        Runner(log).ignore_foreign_commands()
    assert logs[0].getvalue() != logs[1].getvalue()


@pytest.mark.req("PR4")
def test_secrets_are_masked_line_by_line() -> None:
    """The runner hides single lines, so each line of a key is masked; framing and scraps are not."""
    out = io.StringIO()
    Runner(out).mask([KEY, "", "100% secret"])
    values = [value for name, value in obeyed(out.getvalue()) if name == "add-mask"]
    assert {"MIIEvQIBADANBgkq", "hkiG9w0BAQEFAASC", "100%25 secret"} < set(values)
    assert not {"Q==", ""} & set(values)


@pytest.mark.req("PR4", "X3")
def test_no_secret_in_summary_outputs_annotations(tmp_path: Path) -> None:
    """The files that the runner publishes do not hold what is masked."""
    out = io.StringIO()
    runner = Runner(out)
    runner.mask(["hunter2hunter2"])
    masked = len(out.getvalue())
    runner.add_summary("a hunter2hunter2 b", tmp_path / "summary")
    runner.outputs({"stage": "hunter2hunter2"}, tmp_path / "output")
    runner.error("with hunter2hunter2")
    written = (tmp_path / "summary").read_text() + (tmp_path / "output").read_text() + out.getvalue()[masked:]
    assert "hunter2" not in written
    assert "a [redacted: secret] b" in written


def test_an_output_is_one_line(tmp_path: Path) -> None:
    """A value with a line break cannot make a second output."""
    path = tmp_path / "output"
    Runner(io.StringIO()).outputs({"stage": "a\nreceipt=/etc/passwd", "thread": "3"}, path)
    assert path.read_text().splitlines() == ["stage=a receipt=/etc/passwd", "thread=3"]
    Runner(io.StringIO()).outputs({"more": "1"}, path)
    assert path.read_text().splitlines()[-1] == "more=1"


def test_outside_of_a_job_it_says_so() -> None:
    """The hidden command typed by hand ends with exit code 2 and one line."""
    out = io.StringIO()
    assert run(out, {"HOME": "/h"}) == 2
    assert "::error title=Plangate::" in out.getvalue()


@pytest.mark.req("PR4")
def test_an_error_is_an_annotation_and_a_summary(tmp_path: Path) -> None:
    """What went wrong, where and how to fix it stands in both, after the secrets were masked, and without them.

    So does the log, of which the runner obeys nothing.
    """
    out = io.StringIO()
    (tmp_path / "event.json").write_text("{}")
    environ = {
        "GITHUB_EVENT_NAME": "schedule",
        "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
        "GITHUB_REPOSITORY": "key-of-the-model",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
        "INPUT_ANTHROPIC_API_KEY": "key-of-the-model",
        "INPUT_GITHUB_TOKEN": "ghs_1",
        "HOME": str(tmp_path),
    }
    assert run(out, environ) == 2
    say("step", why="::stop-commands::guess\n::error::theirs key-of-the-model")
    last = out.getvalue().splitlines()[-1]
    assert "info step why=" in last
    assert "::" not in last
    assert "key-of-the-model" not in last
    lines = out.getvalue().splitlines()
    assert lines[0] == "::add-mask::key-of-the-model"
    assert (
        "::error title=Plangate::not a repository: '[redacted: model key]' (GITHUB_REPOSITORY): write OWNER/REPO"
        in lines
    )
    assert "not a repository: '[redacted: model key]'" in (tmp_path / "summary").read_text()
    assert not [line for line in lines[1:] if "key-of-the-model" in line]


SAID = "I can't start here: no key for the model (anthropic_api_key): pass the repository's secret."


@pytest.mark.long
@pytest.mark.req("CL1", "PR3")
def test_missing_key_is_told_once_on_the_thread(tmp_path: Path) -> None:
    with SimulatedGitHub(tmp_path / "github", clock=SystemClock()) as github:
        world = github.world
        home = world.add_repository("o/r", {"a.py": "a = 1\n"})
        world.set_role("o/r", "ann", "maintain")
        number = world.person("ann").open_issue("o/r", "Fix it", "@plangate fix it").number
        (tmp_path / "event.json").write_text(json.dumps({"inputs": {"thread": str(number)}}))
        environ = {
            "GITHUB_EVENT_NAME": "workflow_dispatch",
            "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
            "GITHUB_REPOSITORY": "o/r",
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
            "GITHUB_API_URL": github.api_url,
            "GITHUB_GRAPHQL_URL": github.graphql_url,
            "GITHUB_SERVER_URL": github.server_url,
            "INPUT_GITHUB_TOKEN": job_token(world, home).value,
            "PLANGATE_DATA_DIR": str(tmp_path / "data"),
            "PLANGATE_WRITE_PAUSE_SECONDS": "0",
            "HOME": str(tmp_path),
        }
        assert [run(io.StringIO(), environ) for _ in range(2)] == [2, 2]
        (told,) = world.comments_of(world.issue("o/r", number))
        assert told.text.body.startswith(SAID)
        assert "no key for the model" in (tmp_path / "summary").read_text()
        assert not [name for name in world.bare(home).refs() if name.startswith("refs/plangate/")]
