"""`plangate init` as a newcomer meets it: the whole screen, with the questions at a terminal, and by flags."""

import os
import pty
import select
import subprocess
from pathlib import Path

import pytest

from bot.cli.main import main
from tests import forks

FREE = "Is the repository private, and its owner on GitHub's Free plan? [y/N] "
PIN = "Does its organization require that actions are pinned to a commit? [y/N] "
FOLLOWS = "action: follows its major version; --pin names the commit of a release instead"
WROTE = """\
wrote .github/workflows/plangate.yml
wrote .github/workflows/plangate-sweep.yml
wrote .github/plangate.yml
What remains:"""
PAGE = "https://github.com/acme/shop"
TICK = '2. Tick "Allow GitHub Actions to create and approve pull requests": {}/settings/actions'
ASK = (
    "3. Commit these files and push them to the default branch. "
    "Then open an issue that begins with @plangate and says what you want: {}/issues/new"
)
CHECK = "With your token in GH_TOKEN, this checks all of it: plangate doctor --repo acme/shop"
PRIVATE = f"""\
{FREE}y
{PIN}n
secret ANTHROPIC_API_KEY: in the repository: \
whoever can push a branch can run a workflow that reads it (as you answered)
{FOLLOWS}
{WROTE}
1. Add the secret ANTHROPIC_API_KEY: {PAGE}/settings/secrets/actions/new
{TICK.format(PAGE)}
{ASK.format(PAGE)}
{CHECK}
"""
ENVIRONMENT = (
    "Make the environment plangate, limit it to the default branch, and put the secret ANTHROPIC_API_KEY there"
)
PUBLIC = f"""\
{FREE}n
{PIN}n
secret ANTHROPIC_API_KEY: in environment plangate (as you answered)
{FOLLOWS}
{WROTE}
1. {ENVIRONMENT}: {PAGE}/settings/environments/new
{TICK.format(PAGE)}
{ASK.format(PAGE)}
{CHECK}
"""
UNANSWERED = (
    "secret ANTHROPIC_API_KEY: in environment plangate "
    "(the default; --secret repository where there are no environments)"
)
OWN_ACCOUNT = f"""\
{UNANSWERED}
{FOLLOWS}
{WROTE}
1. {ENVIRONMENT}: {PAGE}/settings/environments/new
2. Add the secret PLANGATE_TOKEN, a token of acme-helper, at the same place. \
What it may do: https://github.com/plangate/plangate/blob/main/docs/tokens.md
{ASK.format(PAGE)}
{CHECK}
"""
SERVER = "https://git.acme.example"
ENTERPRISE = f"""\
server: {SERVER}, a GitHub Enterprise Server: the workflows leave out queue and deployment, \
which older servers do not know, and run on self-hosted (--runner)
{UNANSWERED}
{FOLLOWS}
{WROTE}
1. {ENVIRONMENT}: {SERVER}/acme/shop/settings/environments/new
{TICK.format(f"{SERVER}/acme/shop")}
{ASK.format(f"{SERVER}/acme/shop")}
The server must offer plangate/plangate (GitHub Connect, or a copy of it), and its runners git, gh, python3, \
bubblewrap, and ripgrep.
With your token in GH_TOKEN, this checks all of it: \
GITHUB_SERVER_URL={SERVER} GITHUB_API_URL={SERVER}/api/v3 plangate doctor --repo acme/shop
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Make a clone of acme/shop."""
    for command in (["init", "-q"], ["remote", "add", "origin", f"{PAGE}.git"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


@pytest.mark.parametrize(
    ("answers", "screen"), ((("y", "n"), PRIVATE), (("n", "n"), PUBLIC)), ids=["private on Free", "public"]
)
def test_at_a_terminal(project: Path, answers: tuple[str, str], screen: str) -> None:
    """Two questions, then what was written, and three steps with their pages."""
    control, terminal = pty.openpty()
    env = {"PATH": os.environ["PATH"], "HOME": str(project)}
    process = forks.plangate().start(
        "init", env=env, cwd=project, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True
    )
    os.close(terminal)
    waiting, seen = dict(zip((FREE, PIN), answers, strict=True)), ""
    while select.select([control], [], [], 60)[0]:
        try:
            seen += os.read(control, 1 << 16).decode()
        except OSError:  # the program has ended
            break
        for question in [each for each in waiting if each in seen]:
            os.write(control, f"{waiting.pop(question)}\n".encode())
    os.close(control)
    assert seen.replace("\r\n", "\n") == screen
    assert process.wait(60) == 0


def test_the_configured_name(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A project that calls the bot by another name reads that name in the last step."""
    (project / ".github").mkdir()
    (project / ".github/plangate.yml").write_text('mention: "@robot"\n')
    assert main(["init", str(project), "--secret", "environment", "--server", "https://github.com"]) == 0
    assert "Then open an issue that begins with @robot and says" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "screen"),
    ((("--account", "acme-helper"), OWN_ACCOUNT), (("--server", SERVER), ENTERPRISE)),
    ids=["an account of its own", "Enterprise Server"],
)
def test_by_flags(project: Path, flags: tuple[str, str], screen: str) -> None:
    """Without a terminal nothing is asked, and the defaults are named as such."""
    log = project / "log"
    with log.open("wb") as out, Path(os.devnull).open("rb") as nothing:
        process = forks.plangate().start(
            "init",
            *flags,
            env={"PATH": os.environ["PATH"], "HOME": str(project)},
            cwd=project,
            stdin=nothing.fileno(),
            stdout=out.fileno(),
            stderr=out.fileno(),
        )
        assert process.wait(60) == 0
    assert log.read_text() == screen
