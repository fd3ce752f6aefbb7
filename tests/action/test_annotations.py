"""How a job reports an error: an annotation and a summary, without secrets or commands to the runner."""

import io
from pathlib import Path

import pytest

from bot.action.main import run
from bot.logs import say


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
