"""The command line. SHELL: parses, calls, and renders. Each command imports the heavy modules that it needs."""

import argparse
import asyncio
import errno
import json
import math
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, TextIO

from bot.cli import commands as subcommands
from bot.config.environment import redactor_for
from bot.core.errors import Broken, Misconfigured, PlangateError
from bot.logs import redirect_output, unredacted_stream

if TYPE_CHECKING:
    from bot.compose.local import TerminalRun

INTERRUPTED: Final = 130
_DEBUG: Final = "show a traceback when something fails"
_NO_SUCCESS: Final = frozenset({4, 5})
_CURES: Final = {
    errno.ENOSPC: "make room where PLANGATE_DATA_DIR is",
    errno.EDQUOT: "make room where PLANGATE_DATA_DIR is",
    errno.EADDRINUSE: "choose another --port",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Errors are one line on stderr, unless --debug is given.

    Secrets are redacted from standard output and standard error, including tracebacks (PR4).
    """
    with redirect_output(redactor_for()):
        return _run_command(_parse_arguments(sys.argv[1:] if argv is None else argv))


def _run_command(arguments: argparse.Namespace) -> int:
    """Run the command, report errors on standard error, and return the exit code."""
    try:
        return int(_COMMANDS[arguments.command](arguments))
    except BrokenPipeError:
        # https://docs.python.org/3/library/signal.html#note-on-sigpipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print("plangate: nobody reads the output anymore; run the same command again to continue", file=sys.stderr)
        return INTERRUPTED
    except (PlangateError, OSError) as error:
        described = error if isinstance(error, PlangateError) else _describe_os_error(error)
        if arguments.debug:
            traceback.print_exc()
        else:
            print(f"plangate: {described}", file=sys.stderr)
        return described.exit_code
    except Exception as error:  # noqa: BLE001 - the outermost shell
        if arguments.debug or arguments.command == "action":  # a job cannot be repeated with another flag
            traceback.print_exc()
        else:
            print(f"plangate: {_describe_bug(error)}", file=sys.stderr)
        return Broken.exit_code
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("\nplangate: interrupted; run the same command again to continue", file=sys.stderr)
        return INTERRUPTED


def _describe_bug(error: Exception) -> Broken:
    """Return an error that names an unexpected exception, and the line that raised it."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    what = f"unexpected error: {' '.join(repr(error).split())}"
    fix = "report it with what the same command shows with --debug"
    return Broken(what, where=f"{Path(frame.filename).name}:{frame.lineno}", fix=fix)


def _describe_os_error(error: OSError) -> Misconfigured:
    """Return an error that names what is missing on this machine: disk space, a writable folder, or a program."""
    where = str(error.filename or "")
    missing = isinstance(error, FileNotFoundError) and where and "/" not in where
    folder = "let this user write there, or set PLANGATE_DATA_DIR to your own folder"
    cure = "install it" if missing else _CURES.get(error.errno or 0, folder if where else "")
    return Misconfigured(error.strerror or str(error) or type(error).__name__, where=where, fix=cure)


class _ArgumentParser(argparse.ArgumentParser):
    """Reports wrong usage in one line with its cure, as for every other mistake."""

    def error(self, message: str) -> NoReturn:
        """Exit with the mistake and a pointer to --help."""
        self.exit(Misconfigured.exit_code, f"plangate: {' '.join(message.split())}: see {self.prog} --help\n")


def _parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    if list(argv) == ["action"]:  # only action.yml runs this command, so help and errors do not mention it
        return argparse.Namespace(command="action", debug=False)
    arguments, unknown = _parser().parse_known_args(argv)
    if unknown:  # argparse itself would point to the help of the whole program
        _ArgumentParser(prog=f"plangate {arguments.command}").error(f"unrecognized arguments: {' '.join(unknown)}")
    return arguments


def _parser() -> argparse.ArgumentParser:
    parser = _ArgumentParser(
        prog="plangate",
        description="A coding bot that plans first and works only after a person has approved the plan.",
    )
    parser.add_argument("--debug", action="store_true", help=_DEBUG)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="one request from the terminal: plan, approval, work, branch")
    _run_flags(run)
    serve = commands.add_parser("serve", help="the webhook service, with a worker inside")
    serve.add_argument("--host", default="127.0.0.1", help="the address to listen on (127.0.0.1)")
    serve.add_argument("--port", type=_port, default=8000, help="its port (8000)")
    serve.add_argument("--no-worker", action="store_true", help="only accept deliveries, and run no worker")
    subcommands.add_cluster_commands(commands)
    sweep = commands.add_parser(
        "sweep", help="the scheduled check: every waiting thread once, and the scheduled tasks that are due"
    )
    sweep.add_argument("--repo", metavar="OWNER/REPO", help="only those of this repository")
    _maintenance_flags(commands.add_parser("maintenance", help="list scheduled tasks, or run one now"))
    _demo_flags(commands.add_parser("demo", help="run everything on a sample repository, without an API key"))
    replay = commands.add_parser("replay", help="show a transcript or journal as a tree")
    replay.add_argument(
        "file", type=Path, metavar="FILE", help="the file that a run prints at its end, or the folder of a journal"
    )
    subcommands.add_receipt_commands(commands)
    subcommands.add_thread_commands(commands)
    doctor = commands.add_parser("doctor", help="check what Plangate needs here, and show how to fix what is missing")
    subcommands.add_doctor_flags(doctor)
    subcommands.add_init_flags(
        commands.add_parser("init", help="write the workflows and the configuration into a project")
    )
    commands.add_parser("schema", help="print the JSON schema of .github/plangate.yml")
    commands.add_parser("version", help="print the version")
    for command in commands.choices.values():  # also after the command, without overriding one before it
        command.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=_DEBUG)
    return parser


def _maintenance_flags(maintenance: argparse.ArgumentParser) -> None:
    maintenance.add_argument("action", choices=("list", "run"), help="list tasks with their due times, or run one")
    maintenance.add_argument("name", nargs="?", metavar="NAME", help="the task to run")
    maintenance.add_argument("--repo", required=True, metavar="OWNER/REPO", help="the repository")
    maintenance.add_argument("--dry-run", action="store_true", help="only show what the task would do now")


def _demo_flags(demo: argparse.ArgumentParser) -> None:
    demo.add_argument("--headless", action="store_true", help="play the story without waiting for you")
    demo.add_argument(
        "--face", choices=("service", "action", "local"), default="service", help="which way the bot runs"
    )
    demo.add_argument(
        "--story", choices=("request", "maintenance"), default="request", help="a request, or a scheduled task"
    )
    demo.add_argument("--port", type=_port, default=8484, help="the port of the page (8484)")
    demo.add_argument("--dir", type=Path, metavar="DIR", help="where to keep it (a temporary folder)")
    demo.add_argument("--real-model", action="store_true", help="use the model of ANTHROPIC_API_KEY")


def _run_flags(run: argparse.ArgumentParser) -> None:
    where = run.add_mutually_exclusive_group(required=True)
    where.add_argument("--repo", type=Path, metavar="DIR", help="a local git repository, at HEAD")
    where.add_argument("thread", nargs="?", metavar="OWNER/REPO#N", help="check this thread once, as the service would")
    run.add_argument("--prompt", metavar="TEXT", help="what to do (with --repo); - reads it from standard input")
    run.add_argument("--yes", action="store_true", help="approve the plan without asking")
    run.add_argument("--dry-run", action="store_true", help="stop after the plan")
    run.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    model = (
        "the model of the main agent and of sub-agents, instead of models.main and models.subagent; an alias or an id"
    )
    run.add_argument("--model", metavar="ID", help=model)
    run.add_argument("--max-cost-usd", type=_dollars, metavar="X", help="stop at this cost")
    run.add_argument("--unsafe-no-sandbox", action="store_true", help="run tools without a sandbox (own code only)")


def _dollars(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"not a positive number of dollars: {text!r}")
    return value


def _port(text: str) -> int:
    """Return a port number; 0 means any free port."""
    if not (text.isdecimal() and int(text) <= 65_535):
        raise argparse.ArgumentTypeError(f"not a port between 0 and 65535: {text!r}")
    return int(text)


def _run(arguments: argparse.Namespace) -> int:
    from bot.compose.local import RunOptions, run_local
    from bot.config.environment import settings
    from bot.core.codepoints import with_visible_codepoints as readable
    from bot.summary import summary_lines

    if arguments.repo is None:
        return _check_thread(arguments)
    _log_warnings()
    if arguments.unsafe_no_sandbox:
        print("plangate: no sandbox: the model's commands run with your rights", file=sys.stderr)
    options = RunOptions(
        arguments.repo,
        _prompt(arguments.prompt),
        yes=arguments.yes,
        dry_run=arguments.dry_run,
        model=arguments.model,
        max_cost_usd=arguments.max_cost_usd,
        unsafe=arguments.unsafe_no_sandbox,
    )
    out, began = _event_stream(arguments), time.monotonic()
    run = asyncio.run(run_local(options, settings(), out))
    print(readable("\n".join(summary_lines(run))), file=out)
    return _print_result(arguments, run, time.monotonic() - began)


def _check_thread(arguments: argparse.Namespace) -> int:
    from bot.compose.github import check_once
    from bot.config.environment import settings
    from bot.summary import cost

    for flag in ("prompt", "yes", "dry_run", "unsafe_no_sandbox"):
        if getattr(arguments, flag):
            option = f"--{flag.replace('_', '-')}"
            raise Misconfigured("on a thread, people ask and approve", where=option, fix="use it only with --repo")
    _log_warnings()
    _require_sandbox()
    configured = settings()
    overrides = replace(configured.overrides, model=arguments.model, max_cost_usd=arguments.max_cost_usd)
    out, began = _event_stream(arguments), time.monotonic()
    run = asyncio.run(check_once(replace(configured, overrides=overrides), arguments.thread, out))
    if run.printer.steps:
        print(cost(run), file=out)
    print(f"{arguments.thread}: {run.state.stage}", file=out)
    return _print_result(arguments, run, time.monotonic() - began)


def _log_warnings() -> None:
    """Log warnings, or from the level of PLANGATE_LOG_LEVEL on, to standard error. The run itself prints its events."""
    from bot.config.environment import log_style
    from bot.logs import setup

    setup(*log_style(level="warning"), redactor=redactor_for())


def _event_stream(arguments: argparse.Namespace) -> TextIO:
    """Return the stream for the events of a run: standard output, unless --json uses that."""
    return sys.stderr if arguments.json else sys.stdout


def _print_result(arguments: argparse.Namespace, run: "TerminalRun", seconds: float) -> int:
    """Print the object of --json, or the reason for a failure, and return the exit code."""
    from bot.summary import exit_code, result

    if arguments.json:
        print(json.dumps(result(run, seconds)))
    code = exit_code(run, dry_run=arguments.dry_run)
    if code in _NO_SUCCESS and not (arguments.json or sys.stdout.isatty()):  # a terminal has shown the reason already
        print(f"plangate: {run.state.request.detail}", file=sys.stderr)
    return code


def _serve(arguments: argparse.Namespace) -> int:
    from bot.config.environment import log_style, settings
    from webhooks.app import serve

    if not arguments.no_worker:
        _require_sandbox()
    return serve(settings(), arguments.host, arguments.port, worker=not arguments.no_worker, log=log_style())


def _require_sandbox() -> None:
    """Raise NoSandbox if no sandbox works. Call it before work that would fail without one (D1)."""
    from bot.compose.local import try_sandbox

    try_sandbox()


def _sweep(arguments: argparse.Namespace) -> int:
    from bot.compose.sweep import sweep
    from bot.config.environment import log_style, settings

    _require_sandbox()
    return sweep(settings(), arguments.repo, log=log_style())


def _maintenance(arguments: argparse.Namespace) -> int:
    from bot.compose.sweep import maintain_by_hand
    from bot.config.environment import settings

    running = arguments.action == "run"
    if running != bool(arguments.name):
        problem = "run needs the NAME of a task" if running else "list takes no NAME"
        raise Misconfigured(problem, where="maintenance", fix="see plangate maintenance --help")
    _log_warnings()
    if running:
        _require_sandbox()
    name, dry_run = arguments.name or "", arguments.dry_run
    for line in asyncio.run(maintain_by_hand(settings(), arguments.repo, task=name, dry_run=dry_run)):
        print(line)
    return 0


def _prompt(text: str | None) -> str:
    """Return the prompt; ``-`` reads it from standard input."""
    prompt = (sys.stdin.read() if text == "-" else text or "").strip()
    if not prompt:
        raise Misconfigured("the prompt is empty", where="--prompt", fix="say what to do")
    return prompt


def _demo(arguments: argparse.Namespace) -> int:
    from bot.demo.play import Demo, play

    _require_sandbox()
    return play(
        Demo(
            face=arguments.face,
            story=arguments.story,
            headless=arguments.headless,
            folder=arguments.dir,
            port=arguments.port,
            real_model=arguments.real_model,
        )
    )


def _replay(arguments: argparse.Namespace) -> int:
    from bot.cli.replay import show

    _end_with_the_reader()
    return show(arguments.file, sys.stdout)


def _action(_: argparse.Namespace) -> int:
    from bot.action.main import run

    return run(unredacted_stream(sys.stdout))


def _schema(_: argparse.Namespace) -> int:
    from bot.core.configuration import Configuration

    _end_with_the_reader()
    print(json.dumps(Configuration.model_json_schema(), indent=2))
    return 0


def _end_with_the_reader() -> None:
    """Let this process end silently when the reader of its output does, such as ``head``."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def _version(_: argparse.Namespace) -> int:
    from importlib.metadata import version

    print(f"plangate {version('plangate')}")
    return 0


_COMMANDS: Final[dict[str, Callable[[argparse.Namespace], int]]] = {
    "run": _run,
    "serve": _serve,
    "sweep": _sweep,
    "worker": subcommands.work,
    "migrate": subcommands.migrate,
    "reindex": subcommands.reindex,
    "maintenance": _maintenance,
    "demo": _demo,
    "replay": _replay,
    "verify": subcommands.verify,
    "sign": subcommands.sign,
    "audit": subcommands.audit,
    "threads": subcommands.run_threads,
    "show": subcommands.run_show,
    "watch": subcommands.run_watch,
    "doctor": subcommands.run_doctor,
    "init": subcommands.run_init,
    "action": _action,
    "schema": _schema,
    "version": _version,
}
