"""What is written to a terminal leaves without secrets, errors and tracebacks included."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bot.config.environment import redactor_for
from bot.config.settings import GitHubSettings, Identity, Secret, Settings
from bot.core.secrets.redaction import Redactor
from bot.logs import outlet, redirect_output, unredacted_stream
from tests import forks

KEY = "sk-ant-api03-" + "Zx9Qw7Lm3Tk5Vb1N" * 5


def program(*arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **variables}
    return forks.plangate().run(*arguments, env=env)


def test_lines_pass_and_secrets_do_not(capsys: pytest.CaptureFixture[str]) -> None:
    """Of what is printed; the stream itself can be had for the masks of a runner."""
    out = io.StringIO()
    through = outlet(out, Redactor(((KEY, "key"),)))
    through.write(f"a {KEY} b\nc\n")
    assert out.getvalue() == "a [redacted: key] b\nc\n"
    assert unredacted_stream(through) is out
    assert not through.isatty()
    with redirect_output(Redactor(((KEY, "key"),))):
        sys.stdout.write(f"{KEY}\n")
        sys.stderr.write(f"{KEY}\n")
    assert (*capsys.readouterr(),) == ("[redacted: key]\n",) * 2


@pytest.mark.req("PR4", "X3")
@pytest.mark.parametrize("variable", ("ANTHROPIC_API_KEY", "PLANGATE_WEBHOOK_SECRET", "GITHUB_TOKEN"))
@pytest.mark.parametrize("debug", ((), pytest.param(("--debug",), marks=pytest.mark.long)))
def test_no_error_shows_a_secret(variable: str, debug: tuple[str, ...]) -> None:
    """Neither its line nor its traceback, though somebody put the secret where it does not belong."""
    done = program(*debug, "replay", f"/tmp/{KEY}", **{variable: KEY})
    assert done.returncode == 2
    assert ("Traceback" in done.stderr) == bool(debug)
    assert "[redacted: " in done.stderr
    assert KEY[20:40] not in done.stdout + done.stderr


@pytest.mark.req("PR4")
def test_every_secret_of_settings_and_environment_is_known(tmp_path: Path) -> None:
    """Whatever is typed as a secret, and what stands in the environment, the file of a key included."""
    words = [f"{number:02d}-a-secret-of-the-settings" for number in range(8)]
    first = [Secret(word) for word in words[:4]]
    github = GitHubSettings(token=first[0], private_key=first[1], webhook_secret=first[2], api_token=first[3])
    identity = Identity("r", "o", "s", "https://example.org", Secret(words[4]))
    given = Settings(api_key=Secret(words[5]), state_key=Secret(words[6]), github=github, identity=identity)
    (tmp_path / "key.pem").write_text(words[7])
    clean = redactor_for(given, {"PLANGATE_PRIVATE_KEY_PATH": str(tmp_path / "key.pem"), "GH_TOKEN": KEY}).redact
    assert not [word for word in (*words, KEY) if clean(word).count("[redacted: ") != 1 or word[3:] in clean(word)]
    assert redactor_for(environ={"PLANGATE_PRIVATE_KEY_PATH": "/nonexistent"}).values == ()
    (tmp_path / "id").write_text(
        f"-----BEGIN OPENSSH PRIVATE KEY-----\n{'q7Zr' * 16}\n-----END OPENSSH PRIVATE KEY-----\n"
    )
    signing = redactor_for(environ={"PLANGATE_SIGNING_KEY_PATH": str(tmp_path / "id")}).redact
    assert signing(f"a {'q7Zr' * 16} b") == "a [redacted: signing key] b"
    assert redactor_for(environ={"PLANGATE_SIGNING_KEY_PATH": "/nonexistent"}).redact("a b") == "a b"


@pytest.mark.req("PR4")
def test_a_key_in_a_header_for_the_model_is_known() -> None:
    """ANTHROPIC_CUSTOM_HEADERS may hold one; values of headers that open nothing are words like any other."""
    lines = (
        "x-api-key: theirs-0123456789\nAuthorization: Bearer their-token-0123456789\nx-team: payments-and-billing\nodd"
    )
    clean = redactor_for(environ={"ANTHROPIC_CUSTOM_HEADERS": lines}).redact
    assert "0123456789" not in clean("theirs-0123456789 and their-token-0123456789")
    assert clean("payments-and-billing") == "payments-and-billing"
