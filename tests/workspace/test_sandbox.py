"""Sandboxes: what they hold, how they end, what bounds them, and what is said where there is none.

The ways out that were tried are in test_escapes.py.
"""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from bot.config.environment import settings
from bot.core.errors import Misconfigured, NoSandbox
from bot.core.network import open_to_writes
from bot.toolhost.processes import MOST_PROCESSES
from bot.workflow.verification import MOST_LEFTOVERS
from bot.workspace import sandbox
from bot.workspace.sandbox import (
    FALLBACK,
    Mount,
    SandboxProfile,
    argv,
    check_git,
    cure,
    environment,
    installed_tools,
    probe,
    shown_path,
)
from bot.workspace.workspace import PROXY_SETTINGS, SandboxLimits
from tests.rows import every_row

ROOT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("as it was")
    return tmp_path


def tell(command: str, checkout: Path, *, writable: bool = True) -> str:
    """Run a command in a sandbox on a checkout, and return its output."""
    profile = SandboxProfile("/home/me/repo", (Mount(str(checkout), "/home/me/repo", writable),))
    done = subprocess.run([*argv(profile), "bash", "-c", command], capture_output=True, timeout=30, check=False)
    return done.stdout.decode(errors="replace")


@pytest.mark.skipif(os.getuid() != 0, reason="only real root owns the kernel's settings")
def test_real_root_writes_kernel_settings_without_the_cover() -> None:
    uncovered = list(argv(SandboxProfile("/tmp")))
    at = uncovered.index("--remount-ro")
    del uncovered[at : at + 2]
    script = "v=$(cat /proc/sys/vm/swappiness); echo $v > /proc/sys/vm/swappiness && echo OUT"
    done = subprocess.run([*uncovered, "bash", "-c", script], capture_output=True, check=False)
    assert b"OUT" in done.stdout


@pytest.mark.req("P4")
def test_nothing_changes_a_read_only_checkout(checkout: Path) -> None:
    script = (
        "echo x > file; echo x > new; rm file; mv file f; chmod 777 file; ln file l; touch -d 2000-01-01 file; cat file"
    )
    assert tell(script, checkout, writable=False) == "as it was"
    assert [path.name for path in checkout.iterdir()] == ["file"]
    assert (checkout / "file").read_text() == "as it was"


def test_what_is_written_belongs_to_the_user_of_the_program(checkout: Path) -> None:
    assert "done" in tell("echo new > made && chmod +x made && echo done", checkout)
    assert (checkout / "made").read_text() == "new\n"
    assert (checkout / "made").stat().st_uid == os.getuid()


def test_a_sandbox_has_what_work_needs(checkout: Path) -> None:
    script = (
        "set -e; test -w $HOME; test $(id -un) = plangate; git --version; rg --version >&2; "
        "python3 -c 'import ssl, sqlite3, json, socket; socket.gethostbyname(\"localhost\")'; "
        "echo all"
    )
    assert tell(script, checkout).endswith("all\n")


def test_tmp_cannot_fill_the_machines_memory() -> None:
    profile = SandboxProfile("/tmp", tmp_mb=1)
    command = [*argv(profile), "bash", "-c", "head -c 5000000 /dev/zero > /tmp/big || stat -c %s /tmp/big"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert int(done.stdout) <= 1 << 20


def test_a_sandbox_dies_with_its_parent() -> None:
    script = "import subprocess, sys, time; subprocess.Popen(sys.argv[1:]); time.sleep(60)"
    beat = [*argv(SandboxProfile("/tmp")), "bash", "-c", "echo alive; exec sleep 60"]
    with subprocess.Popen([sys.executable, "-c", script, *beat], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"alive\n"
        parent.kill()
        waiting = threading.Timer(20, parent.stdout.close)
        waiting.start()
        assert parent.stdout.read() == b""
        waiting.cancel()


KEYS = """
import ctypes, subprocess, sys
sys.path.insert(0, sys.argv[1])
from bot.workspace import run, sandbox
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall(250, 1, None)
if libc.syscall(248, b"user", b"plangate-key", b"canary", 6, -3) < 0:
    print("NO KEYS HERE"); sys.exit()
if sys.argv[2] == "leave":
    run.leave_keyring()
look = "ctypes.CDLL(None).syscall(250, 10, -3, b'user', b'plangate-key', 0)"
probe = f"import ctypes; print('OUT' if {look} > 0 else 'IN')"
command = [*sandbox.argv(sandbox.SandboxProfile("/tmp")), sandbox.python(), "-I", "-S", "-c", probe]
print(subprocess.run(command, capture_output=True, text=True).stdout)
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers of the system calls are this machine's")
@pytest.mark.parametrize(("how", "found"), (("leave", "IN"), ("stay", "OUT")))
def test_a_key_of_the_session_is_seen_unless_it_was_left(how: str, found: str) -> None:
    top = str(ROOT)
    done = subprocess.run([sys.executable, "-c", KEYS, top, how], capture_output=True, text=True, check=True)
    if "NO KEYS HERE" in done.stdout:
        pytest.skip("this kernel has no keyrings")
    assert done.stdout.strip() == found


SHOWN = (
    ("/home/me/proj", "/home/me/proj"), ("/tmp/x/repo", "/tmp/x/repo"), ("/srv/./a/../repo", "/srv/repo"),
    ("/", FALLBACK), ("/tmp", FALLBACK), ("/tmp/home", FALLBACK), ("/usr/src/x", FALLBACK), ("/etc", FALLBACK),
    ("/etc/x", FALLBACK), ("/proc/self", FALLBACK), ("/dev/shm/x", FALLBACK), ("/lib/x", FALLBACK), ("/opt", FALLBACK),
    ("/opt/plangate/x", FALLBACK), ("/root", FALLBACK), ("relative", FALLBACK), (sys.base_prefix, FALLBACK),
    (f"{sys.base_prefix}/lib", FALLBACK), ("/data", FALLBACK),
)  # fmt: skip


@every_row(("path", "shown"), SHOWN)
def test_a_checkout_is_shown_at_its_path_unless_that_hides_what_is_needed(path: str, shown: str) -> None:
    assert shown_path(path, ("/data/mirrors/x.git",)) == shown


def test_the_probe_says_nothing_where_a_sandbox_works() -> None:
    probe()


def test_the_probe_says_how_to_get_bubblewrap(tmp_path: Path) -> None:
    script = "from bot.workspace.sandbox import probe; probe()"
    top = str(ROOT)
    environment = {"PATH": str(tmp_path), "PYTHONPATH": top}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert f"{NoSandbox.__name__}: bubblewrap is missing (bwrap on PATH): apt-get install bubblewrap" in done.stderr


def test_a_ripgrep_from_elsewhere_is_found_inside(tmp_path: Path) -> None:
    (tmp_path / "rg").write_text("#!/bin/sh\necho from elsewhere\n")
    (tmp_path / "rg").chmod(0o755)
    script = """
import subprocess
from bot.workspace.sandbox import PACKAGE, SandboxProfile, argv, environment
profile = SandboxProfile("/tmp")
assert environment(profile)["PATH"].split(":")[-1] == f"{PACKAGE}/programs"
subprocess.run([*argv(profile), f"{PACKAGE}/programs/rg"], check=True)
"""
    top = str(ROOT)
    variables = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": top}
    done = subprocess.run([sys.executable, "-c", script], env=variables, capture_output=True, text=True, check=False)
    assert done.stdout == "from elsewhere\n", done.stderr


@pytest.mark.parametrize(
    ("said", "fix"),
    (
        ("bwrap: No permissions to create a new namespace", "namespace"),
        ("bwrap: setting up uid map: Permission denied", "namespace"),
        ("bwrap: Can't set hostname to sandbox: Operation not permitted", "seccomp=unconfined"),
        ("bwrap: Creating new namespace failed: No space left on device", "user.max_user_namespaces"),
        ("bwrap: Unknown option --disable-userns", "bubblewrap 0.8"),
        ("bwrap: Creating new namespace failed: Invalid argument", "user.max_user_namespaces"),
        ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "systempaths=unconfined"),
        ("bwrap: Something else", "by hand"),
    ),
)
def test_each_complaint_of_bubblewrap_has_a_cure(said: str, fix: str) -> None:
    assert fix in cure(said).replace("userns", "namespace")


def test_the_probe_has_a_cure_for_missing_user_namespaces() -> None:
    without = ("bwrap", "--bind", "/", "/", "--dev", "/dev", "--unshare-user", "--disable-userns", "--cap-drop", "ALL")
    script = "from bot.workspace.sandbox import probe; probe()"
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    command = [*without, sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "NoSandbox: a sandbox cannot be made here (bwrap: " in done.stderr
    assert "user.max_user_namespaces" in done.stderr.rpartition("): ")[2]


@pytest.mark.req("K11")
def test_the_tools_of_a_sandbox_are_told_with_their_versions() -> None:
    told = dict(tool.partition(" ")[::2] for tool in installed_tools().split(", "))
    assert all(told[name][0].isdigit() for name in ("git", "python3"))
    assert "pnpm" not in told


@pytest.mark.req("K11")
def test_no_tools_are_told_where_no_sandbox_starts(tmp_path: Path) -> None:
    assert installed_tools((str(tmp_path / "missing"),)) == ""
    assert "git " in installed_tools(unsafe=True)


def git_that_prints(folder: Path, text: str) -> str:
    program = folder / "git"
    program.write_text(f"#!/bin/sh\necho '{text}'\n")
    program.chmod(0o755)
    return str(program)


@pytest.mark.req("K11")
@pytest.mark.parametrize(("text", "version"), (("git version 2.39.5 (Apple Git-154)", "2.39.5"), ("v3.0", "3.0")))
def test_a_git_that_is_new_enough(text: str, version: str, tmp_path: Path) -> None:
    assert check_git(git_that_prints(tmp_path, text)) == version
    assert check_git()


@pytest.mark.req("K11")
@pytest.mark.parametrize("text", ("git version 2.38.9", "git version 1.40", "out of order"))
def test_an_older_git_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"too old \(.*/git\): install git 2\.39 or newer"):
        check_git(git_that_prints(tmp_path, text))


@pytest.mark.req("K11")
def test_a_missing_git_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"does not run.*install git 2\.39 or newer"):
        check_git(str(tmp_path / "git"))


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
    command = [sys.executable, "-S", "-c", request.param]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def bounded(groups: tuple[Path, ...], *names: str) -> bool:
    return any((group / name).exists() for group in groups for name in names)


@pytest.mark.req("S9")
@pytest.mark.parametrize("waiting", (HOG,), indirect=True)
def test_a_group_kills_what_takes_too_much_memory(waiting: "subprocess.Popen[str]", groups: tuple[Path, ...]) -> None:
    if not bounded(groups, "memory.max", "memory.limit_in_bytes"):
        pytest.skip("no group bounds memory here")
    said, _ = waiting.communicate("go\n", 30)
    assert (said, waiting.returncode) == ("", -9)


@pytest.mark.req("S9")
@pytest.mark.parametrize("waiting", (BOMB,), indirect=True)
def test_a_group_bounds_tasks_and_threads(waiting: "subprocess.Popen[str]", groups: tuple[Path, ...]) -> None:
    if not bounded(groups, "pids.max"):
        pytest.skip("no group bounds tasks here")
    said, _ = waiting.communicate("go\n", 30)
    assert int(said) == sandbox.MOST_TASKS - 1


def test_nothing_fails_where_no_group_can_be_made(tmp_path: Path) -> None:
    assert sandbox.enclose([1], memory_mb=100, top=tmp_path / "none") == ()


@pytest.mark.parametrize("waiting", (HOG,), indirect=True)
def test_groups_of_the_dead_are_removed(waiting: "subprocess.Popen[str]", groups: tuple[Path, ...]) -> None:
    assert waiting.poll() is None
    place = groups[0].parent
    left = place / "plangate-4194305-1"
    left.mkdir()
    sandbox.remove(sandbox.enclose([], memory_mb=100))
    assert not left.exists()


PAGE: Final = (Path(__file__).parents[2] / "docs" / "sandbox.md").read_text()
WORDS: Final = " ".join(PAGE.split())


def test_the_page_names_the_whole_environment() -> None:
    told = PAGE[PAGE.index("Its whole environment") : PAGE.index("What it leaves")]
    named = set(re.findall(r"`([A-Z_]+)`", told))
    assert named == {*environment(SandboxProfile("/")), *(name for name in PROXY_SETTINGS if name.isupper())}


def test_the_page_has_the_figures_of_the_program() -> None:
    bounds = SandboxLimits()
    assert bounds.tmp_mb is None
    written = "written to the checkout and to a private `/tmp` on the same disk"
    assert f"{bounds.disk_mb // 1024} GB and a million files {written}" in WORDS
    assert bounds.files == 1_000_000
    assert f"{MOST_PROCESSES - 32 * (os.cpu_count() or 1)} processes, and 32 more for each processor" in WORDS
    assert f"at most {MOST_LEFTOVERS} other files" in WORDS
    assert f"more than {settings({}).partial_clone_mb} MB on GitHub" in WORDS


def test_the_page_names_hosts_that_take_uploads() -> None:
    heavy = re.search(r"that they serve from, such as (.*?): inside TLS", WORDS)
    assert heavy is not None
    assert all(map(open_to_writes, re.findall(r"`(.*?)`", heavy[1])))
    assert not open_to_writes("pypi.org")
    assert not open_to_writes("files.pythonhosted.org")
    assert open_to_writes("upload.pypi.org")


def test_the_page_has_the_programs_cure() -> None:
    assert "user namespaces" in WORDS
    assert "the system calls unshare and mount" in cure("bwrap: No permissions to create a new namespace")
