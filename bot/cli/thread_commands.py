"""The commands that show a service's threads: their arguments, and what each calls. SHELL. Heavy modules are imported
on use."""

import argparse
import re
import sys
from typing import TYPE_CHECKING, Any, Final

from bot.core.errors import Misconfigured

if TYPE_CHECKING:
    from bot.cli.service_client import ServiceClient

_THREAD: Final = re.compile(r"[\w.-]+/[\w.-]+#[1-9][0-9]{0,14}")


def add_commands(commands: "argparse._SubParsersAction[Any]") -> None:
    """Add `plangate threads`, `show`, and `watch`, with their arguments."""
    threads = commands.add_parser("threads", help="list the threads of a running service")
    threads.add_argument("--repo", default="", metavar="OWNER/REPO", help="only those of this repository")
    threads.add_argument(
        "--stage", action="append", default=[], metavar="STAGE", help="only those in this stage (may be repeated)"
    )
    threads.add_argument("--json", action="store_true", help="print one JSON array")
    show = commands.add_parser("show", help="show one thread of a running service: plan, agents, decisions, timeline")
    show.add_argument("--json", action="store_true", help="print one JSON object")
    watch = commands.add_parser("watch", help="print what happens on a thread, until its request is finished")
    for command in (show, watch):
        command.add_argument("thread", metavar="OWNER/REPO#N", help="the issue or pull request")
    for command in (threads, show, watch):
        command.add_argument("--url", default="", help="the service (PLANGATE_URL, else http://127.0.0.1:8000)")


def run_threads(arguments: argparse.Namespace) -> int:
    """Print the threads, and return the exit code."""
    from urllib.parse import urlencode

    from bot.cli.thread_output import print_threads

    filters = [("repository", arguments.repo), *(("stage", stage) for stage in arguments.stage), ("limit", "100")]
    path = f"/api/threads?{urlencode([(name, value) for name, value in filters if value])}"
    return print_threads(_client(arguments), path, sys.stdout, as_json=arguments.json)


def run_show(arguments: argparse.Namespace) -> int:
    """Print one thread, and return the exit code."""
    from bot.cli.thread_output import print_thread

    return print_thread(_client(arguments), _thread(arguments), sys.stdout, as_json=arguments.json)


def run_watch(arguments: argparse.Namespace) -> int:
    """Print the entries of a thread as they come, and return the exit code of its round."""
    from bot.cli.thread_output import watch_thread

    return watch_thread(_client(arguments), _thread(arguments), sys.stdout)


def _client(arguments: argparse.Namespace) -> "ServiceClient":
    from bot.cli.service_client import ServiceClient
    from bot.config.environment import service_access

    return ServiceClient(*service_access(arguments.url))


def _thread(arguments: argparse.Namespace) -> str:
    thread = str(arguments.thread)
    if _THREAD.fullmatch(thread) is None:
        raise Misconfigured(f"not a thread: {thread!r}", where="OWNER/REPO#N", fix="write something like octo/hello#7")
    return thread
