"""The command line as a person uses it."""

import asyncio
import gc
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bot.cli.main import _parser, main
from bot.store.postgres.database import Database
from bot.store.postgres.migrations import migrate
from tests import forks
from tests.github.script import Reply, scripted
from tests.rows import every_row
from tests.stories.ground import bare

PROGRAM = Path(sys.executable).with_name("plangate")
COMMANDS = {"run", "serve", "sweep", "demo", "replay", "doctor", "init", "schema", "version"} | {
    "threads",
    "show",
    "watch",
    "reindex",
}
HEAVY = (
    "anthropic",
    "pydantic",
    "git",
    "github",
    "cryptography",
    "starlette",
    "uvicorn",
    "ruamel",
    "httpx2",
    "tree_sitter",
)


def program(*arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run the command line in a process of its own, with nobody at its standard input."""
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **variables}
    return forks.plangate().run(*arguments, env=env)


def test_every_command_is_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    """--help lists each documented command, and each has a help of its own."""
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert {word for line in said.splitlines() for word in line.split()[:1]} >= COMMANDS
    for command in COMMANDS:
        with pytest.raises(SystemExit):
            main([command, "--help"])
        assert f"plangate {command}" in capsys.readouterr().out


@pytest.mark.parametrize("flag", ("--yes", "--dry-run", "--json", "--model", "--max-cost-usd", "--unsafe-no-sandbox"))
def test_run_has_its_flags(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The documented flags are in the help of `run`."""
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    assert flag in capsys.readouterr().out


def test_no_command_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing to do is exit code 2, and says where the commands stand."""
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 2
    assert capsys.readouterr().err == "plangate: the following arguments are required: COMMAND: see plangate --help\n"


def test_help_loads_nothing_heavy() -> None:
    """`plangate --help` imports no library but the standard one, in isolated mode too."""
    code = (
        "import sys\nfrom bot.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print('\\n'.join(sorted({name.partition('.')[0] for name in sys.modules})), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stderr.split()) & set(HEAVY) == set()
    assert "usage: plangate" in done.stdout


def test_the_folder_one_stands_in_is_never_on_the_import_path(tmp_path: Path) -> None:
    """A repository with a module called `anthropic` or `bot` cannot bring its own code in."""
    for name in ("bot.py", "anthropic.py", "json.py", "asyncio.py"):
        (tmp_path / name).write_text("print('owned')\nraise SystemExit(99)\n")
    done = subprocess.run(
        [str(PROGRAM), "version"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert (done.returncode, "owned" in done.stdout) == (0, False)
    assert done.stdout.startswith("plangate ")


def test_the_schema_is_json_of_all_keys() -> None:
    """`plangate schema` prints one JSON schema that knows the documented keys and refuses others."""
    done = program("schema")
    schema = json.loads(done.stdout)
    assert done.returncode == 0
    assert schema["additionalProperties"] is False
    keys = {"mention", "ask", "approve", "models", "budget", "execution", "sandbox", "tools", "plan", "paths"}
    assert set(schema["properties"]) >= keys | {"pull_request", "maintenance"}


def test_secrets_are_in_no_output(tmp_path: Path) -> None:
    """Neither an error nor a traceback shows a key."""
    variables = {"ANTHROPIC_API_KEY": "sk-very-secret", "PLANGATE_STATE_KEY": "state-very-secret"}
    command = ("run", "--repo", str(tmp_path), "--prompt", "x")
    for arguments in (command, ("--debug", *command)):
        done = program(*arguments, PLANGATE_DATA_DIR=str(tmp_path / "data"), **variables)
        assert done.returncode != 0
        assert "very-secret" not in done.stdout + done.stderr


@every_row(
    ("arguments", "variables", "said"),
    (
        ("run o/r#1", {"GITHUB_API_URL": "nonsense"}, "not an address: 'nonsense' (GITHUB_API_URL): write"),
        ("run o/r#1", {"GITHUB_API_URL": "https://host:x"}, "not an address: 'https://host:x' (GITHUB_API_URL): write"),
        ("run --repo . --prompt x", {"ANTHROPIC_BASE_URL": "nonsense"}, "(ANTHROPIC_BASE_URL): write something like"),
        ("run o/r#1 --dry-run", {}, "on a thread, people ask and approve (--dry-run): use it only with --repo"),
        ("run o/r#1 --yes", {}, "on a thread, people ask and approve (--yes): use it only with --repo"),
        (
            "doctor --repo o/r --no-checks",
            {},
            "plangate doctor runs checks only for a local project (--no-checks): leave it out",
        ),
        ("run o/r#1 --prompt x", {}, "on a thread, people ask and approve (--prompt): use it only with --repo"),
        ("sweep", {"PLANGATE_LOG_LEVEL": "loud"}, "(PLANGATE_LOG_LEVEL): set it to debug or info or"),
        ("sweep", {"PLANGATE_GITHUB_TOKEN": "x", "PLANGATE_DATA_DIR": "/etc/passwd"}, "Not a directory (/etc/passwd/"),
        ("sweep", {"PLANGATE_APP_ID": "1", "PLANGATE_PRIVATE_KEY_PATH": sys.executable}, "not text (PLANGATE_"),
        ("demo --dir /etc/passwd", {}, "File exists (/etc/passwd): let this user write there, or"),
    ),
)
def test_wrong_usage_is_one_line_with_its_cure(arguments: str, variables: dict[str, str], said: str) -> None:
    """What, where and how to fix it, with exit code 2; also where the machine denies what is needed."""
    ended = program(*arguments.split(), **variables)
    assert ended.returncode == 2
    assert ended.stderr.startswith("plangate: ")
    assert ended.stderr.count("\n") == 1
    assert said in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    (
        ("run --repo . --max-cost-usd inf", "not a positive number of dollars: 'inf'"),
        ("run --repo . --max-cost-usd x", "not a positive number of dollars: 'x'"),
        ("serve --port 65536", "not a port between 0 and 65535: '65536'"),
        ("demo --port -1", "not a port between 0 and 65535: '-1'"),
        ("rum", "invalid choice: 'rum'"),
        ("serve --prot 1", "unrecognized arguments: --prot 1: see plangate serve --help"),
        ("run --repo . o/r#1", "not allowed with argument --repo: see plangate run --help"),
        ("replay", "required: FILE: see plangate replay --help"),
    ),
)
def test_a_wrong_value_is_named(arguments: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line with the flag's own words and where the right ones stand; what nobody types is not offered."""
    with pytest.raises(SystemExit) as ended:
        main(arguments.split())
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.startswith("plangate: ")
    assert told.count("\n") == 1
    assert "'action'" not in told


@pytest.mark.parametrize("arguments", ("--debug run o/r#1 --yes", "run o/r#1 --yes --debug", "run o/r#1 --yes"))
def test_a_traceback_is_shown_on_request(arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    """--debug counts before the command and after it."""
    assert main(arguments.split()) == 2
    assert ("Traceback" in capsys.readouterr().err) == ("--debug" in arguments)


@pytest.mark.parametrize("debug", ((), ("--debug",)))
def test_what_nobody_expected_is_one_line(debug: tuple[str, ...]) -> None:
    """A server that is not GitHub answers something else: what and where, and all of it with --debug."""
    with scripted(Reply(200, {})) as (_, server, _clock):
        done = program("doctor", "--repo", "o/r", *debug, GITHUB_API_URL=server.url, GH_TOKEN="x")
    assert done.returncode == 1
    assert ("Traceback" in done.stderr) == bool(debug)
    assert debug or done.stderr.startswith("plangate: unexpected error: KeyError('private') (repository.py:")
    assert debug or done.stderr.count("\n") == 1


def test_a_check_of_a_thread_collects_its_litter() -> None:
    """Memory is given back in what may run for hours: `run OWNER/REPO#N` leaves the garbage collector on."""
    assert main(["run", "octo/demo#1", "--unsafe-no-sandbox"]) == 2
    assert gc.isenabled()


@pytest.mark.long
def test_a_terminal_that_lacks_a_sign_is_no_end() -> None:
    """Where the encoding of the output has no ⏸ or ✓, something else is shown, and the command goes on."""
    variables = {"PYTHONIOENCODING": "ascii", "PLANGATE_DATA_DIR": "/nonexistent/plangate", "PATH": os.environ["PATH"]}
    done = subprocess.run([str(PROGRAM), "doctor"], env=variables, capture_output=True, text=True, check=False)
    assert "? bwrap: " in done.stdout
    assert "Traceback" not in done.stderr


def test_an_output_that_nobody_reads_any_more_ends_quietly() -> None:
    """`plangate schema | head` shows no traceback; here the reader is gone before the first line."""
    line = f"{PROGRAM} schema | true; {PROGRAM} doctor | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert done.stdout == "130\n"
    assert done.stderr == "plangate: nobody reads the output anymore; run the same command again to continue\n"


STABLE = (
    "demo --port 8484 --headless --face service --dir DIR --real-model",
    "demo --face action",
    "serve --host 127.0.0.1 --port 8000 --no-worker",
    "worker --concurrency 3",
    "run --repo DIR --prompt TEXT --yes --dry-run --json --model ID --max-cost-usd 2.5 --unsafe-no-sandbox",
    "run OWNER/REPO#7 --json",
    "sweep --repo OWNER/REPO",
    "migrate",
    "reindex",
    "threads",
    "show OWNER/REPO#7",
    "watch OWNER/REPO#7",
    "maintenance list --repo OWNER/REPO",
    "maintenance run NAME --repo OWNER/REPO --dry-run",
    "verify COMMIT",
    "sign COMMIT --key KEY",
    "audit OWNER/REPO --since 2026-11-01",
    "doctor --fix --repo OWNER/REPO",
    "doctor --live OWNER/REPO",
    "init DIR",
    "init",
    "replay FILE",
    "schema",
    "version --debug",
)


@pytest.mark.parametrize("line", STABLE)
def test_stable_command_lines(line: str) -> None:
    """A change of one of them needs a deprecation."""
    assert _parser().parse_args(line.split()).command == line.split(maxsplit=1)[0]


def test_concurrency_of_a_worker() -> None:
    """Is how many sessions it runs side by side."""
    assert _parser().parse_args(["worker", "--concurrency", "3"]).sessions == 3
    assert _parser().parse_args(["worker", "--sessions", "3"]).sessions == 3


@pytest.mark.parametrize("command", ("worker", "migrate"))
def test_without_a_database(tmp_path: Path, command: str) -> None:
    """Refused with the variable to set: files have one process."""
    ended = forks.plangate().run(command, env=bare(tmp_path))
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "no database (PLANGATE_DATABASE_URL): set it" in ended.stderr


@pytest.mark.parametrize(
    ("library", "command"),
    (
        ("psycopg", ("worker",)),
        ("psycopg", ("serve", "--no-worker", "--port", "0")),
        ("psycopg", ("migrate",)),
        pytest.param("psycopg", ("doctor",), marks=pytest.mark.long),
        ("psycopg", ("reindex",)),
        pytest.param("psycopg", ("serve", "--port", "0"), marks=pytest.mark.long),
        pytest.param("psycopg_pool", ("worker",), marks=pytest.mark.long),
    ),
)
def test_without_the_extra(tmp_path: Path, library: str, command: tuple[str, ...]) -> None:
    """A database without its driver is refused with the command that installs it."""
    given = {"PLANGATE_DATABASE_URL": "postgresql://nobody@127.0.0.1:9/away", "PLANGATE_WEBHOOK_SECRET": "y"}
    env = bare(tmp_path) | given | {"PLANGATE_GITHUB_TOKEN": "x", "GITHUB_API_URL": "http://127.0.0.1:9"}
    halted = f"sys.modules[{library!r}] = None"  # as if it were not installed
    program = replace(forks.plangate(), code=f"{halted}; {forks.plangate().code}")
    ended = program.run(*command, env=env)
    said = ended.stdout + ended.stderr
    assert ended.returncode == 2, said
    assert f"{library} is not installed" in said
    assert "pip install 'plangate[cluster]'" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("command", (("worker",), ("serve", "--no-worker", "--port", "0"), ("reindex",)))
async def test_a_database_of_the_release_before(tmp_path: Path, database_url: str, command: tuple[str, ...]) -> None:
    """Refused before anything begins, with the migration that is missing and the command that applies it."""
    async with Database(database_url).open() as database:
        newest = [name for name in await migrate(database) if "_post_" not in name][-1]
        await database.rows("DELETE FROM plangate_migrations WHERE name = %(name)s", name=newest)
    given = {"PLANGATE_DATABASE_URL": database_url, "PLANGATE_GITHUB_TOKEN": "x", "PLANGATE_WEBHOOK_SECRET": "y"}
    env = bare(tmp_path) | given | {"GITHUB_API_URL": "http://127.0.0.1:9", "ANTHROPIC_API_KEY": "z"}
    ended = await asyncio.to_thread(forks.plangate().run, *command, env=env)
    assert ended.returncode == 2, ended.stderr
    expected = f"plangate: the database lacks {newest} (PLANGATE_DATABASE_URL): run plangate migrate\n"
    assert ended.stderr.endswith(expected), ended.stderr


@pytest.mark.parametrize("number", ("0", "-1", "many"))
def test_a_worker_has_at_least_one_of_each(tmp_path: Path, number: str) -> None:
    """Of sessions and looks."""
    ended = forks.plangate().run("worker", f"--sessions={number}", env=bare(tmp_path))
    assert (ended.returncode, "not a positive whole number" in ended.stderr) == (2, True)
