"""A machine that can hold no sandbox: every shell refuses with exit code 6 and says how to get one (D1)."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from bot.testing.sample import make
from tests import forks
from tests.stories.ground import bare

BLOCKED: Final = "bwrap: No permissions to create a new namespace"
MISSING_CURE: Final = "apt-get install bubblewrap"
BLOCKED_CURE: Final = "user namespaces"
LOCAL: Final = ("run", "--repo", "shop", "--prompt", "x", "--yes")
KEYS: Final = {
    "ANTHROPIC_API_KEY": "test",
    "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
    "GITHUB_API_URL": "http://127.0.0.1:9",
    "PLANGATE_GITHUB_TOKEN": "test",
    "PLANGATE_WEBHOOK_SECRET": "test",
}
OTHERS: Final = (
    ("run", "octo/hello#7"),
    ("sweep",),
    ("serve", "--port", "0"),
    ("demo", "--headless"),
    ("demo", "--headless", "--face", "action"),
    ("demo", "--headless", "--face", "local"),
    ("doctor",),
)

pytestmark = pytest.mark.req("D1")


def programs(folder: Path, *, blocked: bool) -> str:
    """Return a PATH with what is needed but bubblewrap, or with one that the machine blocks."""
    for name in ("git", "rg", "env", "sh"):
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    if blocked:
        (folder / "bwrap").write_text(f"#!/bin/sh\necho '{BLOCKED}' >&2\nexit 1\n")
        (folder / "bwrap").chmod(0o755)
    return str(folder)


def cases() -> Iterator[Any]:
    """Yield every shell with both machines: those that differ most each day, all of them in the campaigns."""
    for shell in (LOCAL, *OTHERS):
        for blocked in (False, True):
            mark = () if shell == LOCAL else pytest.mark.soak if blocked else pytest.mark.long
            yield pytest.param(
                shell, blocked, marks=mark, id=f"{' '.join(shell)}, {'blocked' if blocked else 'missing'}"
            )


@pytest.mark.parametrize(("shell", "blocked"), tuple(cases()))
def test_every_shell_refuses_with_the_cure(shell: tuple[str, ...], blocked: bool, tmp_path: Path) -> None:
    make(tmp_path / "shop")
    (tmp_path / "bin").mkdir()
    variables = {
        "PATH": programs(tmp_path / "bin", blocked=blocked),
        **({} if shell == ("doctor",) else KEYS),
    }
    done = forks.plangate().run(*shell, env=bare(tmp_path) | variables, cwd=tmp_path)
    assert done.returncode == 6, done.stdout + done.stderr
    cure = BLOCKED_CURE if blocked else MISSING_CURE
    assert cure in (done.stdout if shell == ("doctor",) else done.stderr)


@pytest.mark.long
def test_a_service_without_a_worker_needs_no_sandbox(tmp_path: Path) -> None:
    """It gets past it, here to the secret that is missing."""
    (tmp_path / "bin").mkdir()
    variables = {"PATH": programs(tmp_path / "bin", blocked=False), "PLANGATE_GITHUB_TOKEN": "test"}
    done = forks.plangate().run("serve", "--no-worker", env=bare(tmp_path) | variables)
    assert (done.returncode, "PLANGATE_WEBHOOK_SECRET" in done.stderr) == (2, True)
