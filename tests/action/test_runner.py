"""The runner obeys what the program says, and nothing that others wrote; secrets are in none of it."""

import io
import re
from pathlib import Path

import pytest

from bot.action.runner import Runner

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
