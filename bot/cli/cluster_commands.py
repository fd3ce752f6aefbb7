"""The commands of a service with its queue in PostgreSQL: `worker`, `migrate`, and `reindex`. SHELL. Heavy modules are
imported on use."""

import argparse
import asyncio
from dataclasses import replace
from typing import Any


def add_commands(commands: "argparse._SubParsersAction[Any]") -> None:
    """Add the commands and their flags."""
    worker = commands.add_parser("worker", help="check threads, with the queue in PLANGATE_DATABASE_URL")
    worker.add_argument(
        "--concurrency",
        "--sessions",
        type=_count,
        metavar="N",
        dest="sessions",
        help="sessions with the model side by side",
    )
    worker.add_argument("--looks", type=_count, metavar="N", help="short checks of threads at the same time")
    migrate = commands.add_parser("migrate", help="bring the database of PLANGATE_DATABASE_URL up to date")
    migrate.add_argument(
        "--finish",
        action="store_true",
        help="also apply migrations that workers of the previous release cannot run with",
    )
    commands.add_parser("reindex", help="rebuild the list of threads, and have workers check every open one")


def work(arguments: argparse.Namespace) -> int:
    """Run a worker until it is told to stop. Returns the exit code."""
    from bot.compose.local import try_sandbox
    from bot.compose.worker_process import run_worker
    from bot.config.environment import log_style, settings

    try_sandbox()
    configured = settings()
    sessions, looks = arguments.sessions or configured.service.sessions, arguments.looks or configured.service.looks
    service = replace(configured.service, sessions=sessions, looks=looks)
    return run_worker(replace(configured, service=service), log=log_style())


def migrate(arguments: argparse.Namespace) -> int:
    """Apply the migrations that the database lacks. Returns the exit code."""
    from bot.compose.worker_process import migrate_database
    from bot.config.environment import settings

    applied = asyncio.run(migrate_database(settings(), finish=arguments.finish))
    print("\n".join(f"applied {name}" for name in applied) or "nothing to do")
    return 0


def reindex(_: argparse.Namespace) -> int:
    """Make the list of threads again from the journals and, with a database, wake every open thread.

    Returns the exit code.
    """
    from bot.compose import worker_process
    from bot.config.environment import redactor_for, settings

    configured = settings()
    for name, count in sorted(asyncio.run(worker_process.reindex(configured, redactor_for(configured))).items()):
        print(f"{name}: {count} thread{'s' if count != 1 else ''}")
    if configured.database:
        print(f"{asyncio.run(worker_process.reindex_threads(configured))} open threads will be checked")
    return 0


def _count(text: str) -> int:
    """Return a positive number."""
    if not (text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"not a positive whole number: {text!r}")
    return int(text)
