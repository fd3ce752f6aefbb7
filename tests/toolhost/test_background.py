"""Commands in the background: they hold nothing up, tell only what is new, and end with the toolhost."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bot.core.transcript import commands_of
from bot.toolhost.processes import TimedQueries
from bot.toolhost.shell import RECENT, RecentOutput
from tests.toolhost.client import Client, Got
from tests.toolhost.test_bash import below
from tests.toolhost.test_protocol import alive


def start(host: Client, command: str, **arguments: object) -> str:
    got = host.call("StartShell", command=command, run_in_background=True, **arguments)
    assert got.text.startswith(f"Runs in the background as {got.details['bash_id']}: ")
    return str(got.details["bash_id"])


def read_to_the_end(host: Client, shell: str, **arguments: str) -> str:
    """Return all that a command writes until it has ended, and how it ended."""
    said = ""
    while True:
        got = host.call("BashOutput", bash_id=shell, **arguments)
        new, _, state = got.text.rpartition("\n")
        said += "" if new == "(no new output)" else f"{new}\n"
        if not got.details["running"]:
            return said + state


def wait_until_all_ended(host: Client) -> None:
    """Wait until no command runs any more, without reading from any."""
    while "running for" in host.call("BashOutput", bash_id="none").text:
        host.bash("sleep 0.05")


def said_and_state(got: Got) -> list[str]:
    return ["running" if line.startswith("running for ") else line for line in got.text.split("\n")]


@pytest.mark.req("T4")
def test_only_what_is_new_is_told(host: Client, root: Path) -> None:
    shell = start(host, "echo one; until [ -e go ]; do sleep 0.01; done; echo two; exit 3")
    assert said_and_state(host.call("BashOutput", bash_id=shell)) == ["one", "running"]
    (root / "go").touch()
    assert read_to_the_end(host, shell) == "two\nexit code 3"
    assert host.call("BashOutput", bash_id=shell).text == "(no new output)\nexit code 3"


@pytest.mark.req("T4")
def test_other_calls_go_on_beside_a_command(host: Client, root: Path) -> None:
    (root / "sub").mkdir()
    shell = start(host, "cd sub; echo up; sleep 300")
    assert host.call("BashOutput", bash_id=shell).text.startswith("up\n")
    assert host.bash("basename $PWD; (setsid sleep 301 &)").text.startswith(root.name)
    assert sorted(below(host)) == ["bash", "sleep"]
    assert host.call("KillShell", shell_id=shell).text == f"{shell}: cancelled: all of it was ended"
    assert host.bash("pwd -P").text == str(root.resolve())
    assert not below(host)


@pytest.mark.req("T4")
def test_the_end_of_much_output_is_kept(host: Client) -> None:
    shell = start(host, "yes 0123456 | head -c 20M; echo; echo last")
    wait_until_all_ended(host)
    got = host.call("BashOutput", bash_id=shell)
    head, _, rest = got.text.partition("\n")
    assert head == f"[... {20 * 2**20 + 6 - RECENT:,} characters left out ...]"
    assert rest.endswith("\nlast\nexit code 0")
    assert len(rest) < RECENT + 30
    assert host.peak_mb() < 60


@pytest.mark.req("T4")
def test_recent_output_keeps_characters_whole() -> None:
    output = RecentOutput()
    for byte in ("ж" * 40_000).encode():
        output.add(bytes([byte]))
    unread = output.unread()
    assert (unread.text, unread.left_out, unread.end) == ("ж" * RECENT, 40_000 - RECENT, 40_000)
    output.mark_read(unread.end)
    output.add(b"ab")
    assert output.unread() == ("ab", 0, 40_002)


@pytest.mark.req("T4")
@pytest.mark.parametrize(
    ("pattern", "said"), (("^b", ["b1", "b2"]), ("nothing", ["(no new output)"]), ("", ["a", "b1", "c", "b2", "b3"]))
)
def test_only_lines_that_match_a_filter_are_told(host: Client, root: Path, pattern: str, said: list[str]) -> None:
    (root / "lines").write_text("a\nb1\nc\nb2\nb3")
    shell = start(host, "cat lines; until [ -e go ]; do sleep 0.01; done; echo x")
    assert said_and_state(host.call("BashOutput", bash_id=shell, filter=pattern)) == [*said, "running"]
    (root / "go").touch()
    if pattern == "^b":
        assert read_to_the_end(host, shell, filter=pattern) == "b3x\nexit code 0"


@pytest.mark.req("T4")
def test_a_filter_that_is_no_pattern_loses_nothing(host: Client) -> None:
    shell = start(host, "echo a")
    got = host.call("BashOutput", bash_id=shell, filter="(")
    assert (got.is_error, got.text.startswith("filter: ")) == (True, True)
    assert read_to_the_end(host, shell) == "a\nexit code 0"


@pytest.mark.req("T4")
def test_a_few_commands_run_at_once_and_one_more_is_refused(host: Client) -> None:
    shells = [start(host, "sleep 300") for _ in range(4)]
    refused = host.call("StartShell", command="sleep 300")
    assert refused.is_error
    assert refused.text.startswith("4 commands run in the background: end one with KillShell.")
    assert all(shell in refused.text for shell in shells)
    host.call("KillShell", shell_id=shells[0])
    start(host, "sleep 300")
    assert "had ended already.\ncancelled" in host.call("KillShell", shell_id=shells[0]).text


@pytest.mark.req("T4")
def test_the_last_16_that_ended_are_remembered(host: Client) -> None:
    first, *_, last = [(shell := start(host, "true"), read_to_the_end(host, shell))[0] for _ in range(17)]
    assert host.call("BashOutput", bash_id=first).is_error
    assert not host.call("BashOutput", bash_id=last).is_error


@pytest.mark.req("T4")
@pytest.mark.parametrize("call", (("BashOutput", "bash_id"), ("KillShell", "shell_id")))
def test_an_unknown_id_says_what_to_do(host: Client, call: tuple[str, str]) -> None:
    shell = start(host, "sleep 300")
    got = host.call(call[0], **{call[1]: "bash_000000"})
    assert got.is_error
    assert shell in got.text
    assert got.text.endswith("commands have ended: start what is needed again, with run_in_background.")


@pytest.mark.req("T4")
@pytest.mark.req("L6")
def test_cancelling_a_read_ends_the_read_alone(host: Client) -> None:
    shell = start(host, "sleep 300")
    id_ = host.start("BashOutput", bash_id=shell)
    host.send({"cancel": id_})
    assert said_and_state(host.wait(id_)) == ["(no new output)", "running"]
    assert "sleep" in below(host)


@pytest.mark.req("T4")
@pytest.mark.req("S9")
def test_limits_hold_in_the_background(open_host: Callable[..., Client]) -> None:
    host = open_host(memory_mb=60, seconds=0.2)
    shell = start(host, "python3 -c 'import time; x = bytearray(90 << 20); time.sleep(300)'")
    assert read_to_the_end(host, shell).endswith("used more than 60 MB of memory: all of it was ended")
    shell = start(host, "sleep 300", timeout=300)
    assert "timed out after 0.3 s" in read_to_the_end(host, shell)
    assert not below(host)


@pytest.mark.req("T4")
def test_commands_in_the_background_end_with_the_toolhost(open_host: Callable[..., Client], root: Path) -> None:
    host = open_host()
    start(host, "trap '' TERM; echo $$ > one; setsid bash -c 'echo $$ > two; sleep 300' & sleep 300")
    host.bash("until [ -s one ] && [ -s two ]; do sleep 0.01; done")
    pids = [int((root / name).read_text()) for name in ("one", "two")]
    assert all(map(alive, pids))
    host.close()
    assert not any(map(alive, pids))


@pytest.mark.req("T4")
@pytest.mark.req("PR6")
def test_a_start_is_no_evidence_of_how_a_command_ended() -> None:
    call = {"type": "tool_use", "id": "c", "name": "Bash", "input": {"command": "make", "run_in_background": True}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": "Runs in the background as bash_1."}
    assert commands_of([{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]) == []


def test_answers_in_time_are_given() -> None:
    queries = TimedQueries(5.0)
    assert [queries.answer(lambda n=n: n) for n in (1, 2)] == [1, 2]  # type: ignore[misc]


def test_a_question_that_is_held_up_is_given_up() -> None:
    held = threading.Event()
    queries = TimedQueries(0.1)
    began = time.monotonic()
    assert queries.answer(held.wait) is None
    asked: list[int] = []
    assert queries.answer(lambda: asked.append(1)) is None
    assert not asked
    assert time.monotonic() - began < 2
    held.set()
    while (answer := queries.answer(lambda: "free")) is None:
        time.sleep(0.01)
    assert answer == "free"
