"""Bash: what a command may do, how it ends, and that nothing outlives it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bot.core.transcript import commands_of
from tests.rows import every_row
from tests.toolhost.client import Client
from tests.toolhost.test_protocol import alive


@pytest.mark.req("T4")
@every_row(
    ("command", "text", "is_error"),
    (
        ("echo a; echo b >&2; echo c", "a\nb\nc", False),
        ("true", "(no output)", False),
        ("false", "exit code 1", True),
        ("echo a; exit 3", "a\nexit code 3", True),
        ("printf a; exit 3", "a\nexit code 3", True),
        ("kill -9 $$", "killed by SIGKILL: exit code 137", True),
        ("no-such-program", "bash: line 1: no-such-program: command not found\nexit code 127", True),
        ("cat", "(no output)", False),
        ("cat <<X\n$((1+1))\nX", "2", False),
        ("# a remark\necho a", "a", False),
        ("echo a # a remark", "a", False),
        ("set -x; :", "+ :", False),
        ("set -eu; echo a; false; echo b", "a\nexit code 1", True),
        ("(echo a; exit 4) || echo $?", "a\n4", False),
        ("printf 'caf\\xe9\\0'", "caf\ufffd\ufffd", False),
        ("printf '\\355\\240\\200'", "\ufffd\ufffd\ufffd", False),
        ("exec echo a", "a", False),
        ("trap 'echo bye' EXIT; echo a", "a\nbye", False),
        ("exec >&- 2>&-; sleep 0.3; exit 5", "exit code 5", True),
    ),
)
def test_both_outputs_come_in_order_with_the_exit_code(host: Client, command: str, text: str, is_error: bool) -> None:
    got = host.bash(command)
    assert (got.text, got.is_error) == (text, is_error)


def test_the_harness_gets_exit_code_and_seconds(host: Client) -> None:
    details = host.bash("exit 9").details
    assert details["exit_code"] == 9
    assert 0 <= details["seconds"] < 60


@pytest.mark.req("PR6")
@pytest.mark.parametrize(
    ("command", "code"),
    (("echo exit code 7", 0), ("echo exit code 0; exit 3", 3), ("kill -9 $$", 137), ("cd /; false", 1)),
)
def test_a_transcript_tells_the_exit_code(host: Client, command: str, code: int) -> None:
    got = host.bash(command)
    call = {"type": "tool_use", "id": "c", "name": "Bash", "input": {"command": command}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": got.text, "is_error": got.is_error}
    said = [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    assert [run[:2] for run in commands_of(said)] == [(command, code)]


@pytest.mark.req("T4")
def test_the_next_command_starts_where_the_last_ended(host: Client, root: Path) -> None:
    (root / "two\nlines").mkdir()
    assert host.bash("cd two*; exit 1").text == "(the working directory is now two\nlines)\nexit code 1"
    assert host.bash("pwd -P").text == f"{root.resolve()}/two\nlines"
    assert host.bash("(cd ..; pwd -P)").text == f"{root.resolve()}"
    assert "two\nlines" in host.bash("pwd").text
    host.bash("cd ..; rmdir two*")
    assert host.bash("pwd -P").text == f"{root.resolve()}"


def test_the_working_directory_stays_inside(host: Client, root: Path) -> None:
    assert "stays ." in host.bash("cd /").text
    host.bash("mkdir d; cd d")
    host.bash("rm -r ../d")
    assert host.bash("pwd -P").text.startswith(f"{root.resolve()}\n") or host.bash("pwd -P").text == f"{root.resolve()}"


@pytest.mark.req("T5")
def test_the_middle_of_long_output_is_left_out_and_counted(host: Client) -> None:
    got = host.bash("echo first; yes 0123456 | head -c 100M; echo; echo last")
    assert got.text.startswith("first\n0123456\n")
    assert got.text.endswith("\nlast")
    assert f"[... {100 * 2**20 + 12 - 30_000:,} characters left out ...]" in got.text
    assert len(got.text) < 30_100
    assert host.peak_mb() < 58


def test_characters_of_output_are_counted_whole(host: Client) -> None:
    got = host.bash("python3 -c \"print('ж' * 50_000, end='')\"")
    assert got.text == "ж" * 20_000 + "\n\n[... 20,000 characters left out ...]\n\n" + "ж" * 10_000


def test_a_long_command_tells_its_last_line(host: Client) -> None:
    id_ = host.start("Bash", command="echo one; echo two; sleep 300")
    assert host.wait_progress(id_) == "two"
    host.send({"cancel": id_})
    assert host.wait(id_).text == "one\ntwo\ncancelled: all of it was ended"


@pytest.mark.req("T4")
@pytest.mark.parametrize(
    "command",
    (
        "sleep 300",
        "trap '' TERM; sleep 300 & sleep 300; sleep 300",
        "setsid sleep 300",
        "exec >&- 2>&-; sleep 300",
        "while :; do :; done",
        "yes",
        "kill -STOP $$",
        "(trap '' TERM; env -i setsid bash -c 'sleep 300 & sleep 300 & wait') & wait",
    ),
)
def test_a_timeout_ends_all_that_a_command_started(host: Client, root: Path, command: str) -> None:
    got = host.bash(f"echo $$ > pid; {command}", timeout=300)
    assert got.is_error
    assert got.text.endswith("timed out after 0.3 s: all of it was ended (timeout can be at most 30000 ms)")
    assert got.details["ended"] == "timeout"
    assert not alive(int((root / "pid").read_text()))
    assert not below(host)


def test_no_timeout_is_above_the_cap(open_host: Callable[..., Client]) -> None:
    got = open_host(seconds=0.2).bash("sleep 300", timeout=600_000)
    assert "timed out after 0.2 s" in got.text


@pytest.mark.req("L6")
def test_cancelling_ends_a_command_and_keeps_its_output(host: Client) -> None:
    id_ = host.start("Bash", command="echo a; (setsid sleep 300 &); sleep 300")
    host.wait_progress(id_)
    host.send({"cancel": id_})
    got = host.wait(id_)
    assert (got.text, got.is_error) == ("a\ncancelled: all of it was ended", True)
    assert not below(host)


@pytest.mark.parametrize(
    ("command", "count"),
    (
        ("sleep 300 &", 1),
        ("nohup sleep 300 >/dev/null 2>&1 & disown", 1),
        ("setsid sleep 300 & setsid sleep 300 &", 2),
        ("(setsid bash -c 'setsid sleep 300 & disown' &)", 1),
        ("env -i setsid sleep 300 &", 1),
        ("yes &", 1),
    ),
)
def test_daemons_of_a_command_are_ended_and_counted(host: Client, command: str, count: int) -> None:
    got = host.bash(f"echo a; {command}")
    assert not got.is_error
    assert f"(left {count} background process{'es' * (count > 1)}, ended)" in got.text
    assert not below(host)


def test_a_command_ends_no_daemon_of_another(host: Client) -> None:
    slow = host.start("Bash", command="(setsid sleep 300 &); echo up; sleep 300")
    host.wait_progress(slow)
    assert "left 1 background process" in host.bash("setsid sleep 301 & echo").text
    assert sorted(below(host)) == ["bash", "sleep", "sleep"]
    host.send({"cancel": slow})
    host.wait(slow)
    assert not below(host)


@pytest.mark.req("S9")
def test_a_command_above_its_memory_is_ended(open_host: Callable[..., Client]) -> None:
    host = open_host(memory_mb=100)
    hog = "python3 -c 'import time; x = bytearray(60 << 20); time.sleep(300)'"
    got = host.bash(f"{hog} & {hog}")
    assert got.text.endswith("used more than 100 MB of memory: all of it was ended")
    assert not below(host)
    assert host.bash("python3 -c 'x = bytearray(20 << 20); print(len(x))'").text == str(20 << 20)


@pytest.mark.req("S9")
def test_core_files_file_sizes_and_processor_time_are_bounded(host: Client) -> None:
    got = host.bash("ulimit -c; ulimit -f; ulimit -v; ulimit -t", timeout=10_000)
    assert got.text.split() == ["0", str(1 << 20), "unlimited", str(10 * (os.cpu_count() or 1) + 1)]


def test_a_command_that_is_too_long_says_what_to_do(host: Client) -> None:
    got = host.bash("true " + "x" * 200_000)
    assert got.is_error
    assert "goes into a file" in got.text
    assert "NUL" in got.text or "cannot be started" in host.bash("echo \0").text


def below(host: Client) -> list[str]:
    """List the programs that run below a toolhost."""
    parents, names = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, rest = stat.read_text().rpartition(")")
        except OSError:
            continue
        pid = int(head.partition(" ")[0])
        if rest.split()[0] not in {"Z", "X"}:
            names[pid], parents[pid] = head.partition("(")[2], int(rest.split()[1])
    found, queue = [], [host.process.pid]
    while queue:
        above = queue.pop()
        children = [pid for pid, parent in parents.items() if parent == above]
        found += [names[pid] for pid in children]
        queue += children
    return found
