"""Groups of the kernel's, on this machine's own: what they bound, and that nothing of them is left (S9)."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.workspace import sandbox

WAIT = "import sys; sys.stdin.readline(); "
HOG = f"{WAIT}x = bytearray(800 << 20); print(len(x))"
BOMB = f"""{WAIT}
import threading
made = 0
try:
    while made < 10_000:
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        made += 1
except RuntimeError:
    pass
print(made)
"""


@pytest.fixture
def groups(waiting: "subprocess.Popen[str]") -> Iterator[tuple[Path, ...]]:
    """The groups around a program that waits; skipped where there can be none."""
    made = sandbox.enclose([waiting.pid], memory_mb=100)
    if not made:
        pytest.skip("this user may make no groups here")
    yield made
    waiting.kill()
    waiting.wait()
    sandbox.remove(made)
    assert not [group for group in made if group.exists()]


@pytest.fixture
def waiting(request: pytest.FixtureRequest) -> Iterator["subprocess.Popen[str]"]:
    """A program that goes on when it is told to."""
    command = [sys.executable, "-S", "-c", request.param]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def bounded(groups: tuple[Path, ...], *names: str) -> bool:
    return any((group / name).exists() for group in groups for name in names)


@pytest.mark.req("S9")
@pytest.mark.parametrize("waiting", (HOG,), indirect=True)
def test_memory(waiting: "subprocess.Popen[str]", groups: tuple[Path, ...]) -> None:
    """Whoever takes more than the bound, and what is beyond it for the watch, is killed."""
    if not bounded(groups, "memory.max", "memory.limit_in_bytes"):
        pytest.skip("no group bounds memory here")
    said, _ = waiting.communicate("go\n", 30)
    assert (said, waiting.returncode) == ("", -9)


@pytest.mark.req("S9")
@pytest.mark.parametrize("waiting", (BOMB,), indirect=True)
def test_tasks(waiting: "subprocess.Popen[str]", groups: tuple[Path, ...]) -> None:
    """No more than so many are begun, threads included."""
    if not bounded(groups, "pids.max"):
        pytest.skip("no group bounds tasks here")
    said, _ = waiting.communicate("go\n", 30)
    assert int(said) == sandbox.MOST_TASKS - 1


def test_no_groups(tmp_path: Path) -> None:
    """Where none can be made nothing fails."""
    assert sandbox.enclose([1], memory_mb=100, top=tmp_path / "none") == ()


@pytest.mark.parametrize("waiting", (HOG,), indirect=True)
def test_groups_of_the_dead_are_removed(waiting: "subprocess.Popen[str]", groups: tuple[Path, ...]) -> None:
    """What a killed program left is removed with the next group in that place."""
    assert waiting.poll() is None
    place = groups[0].parent
    left = place / "plangate-4194305-1"
    left.mkdir()
    sandbox.remove(sandbox.enclose([], memory_mb=100))
    assert not left.exists()
