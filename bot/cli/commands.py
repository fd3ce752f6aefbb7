"""The commands' arguments, and what each calls. SHELL. Heavy modules are imported on use."""

import argparse
import asyncio
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bot.core.errors import Misconfigured

if TYPE_CHECKING:
    from bot.cli.threads import ServiceClient

# --- Commands of a service with its queue in PostgreSQL ---------------------------------------------------------------


def add_cluster_commands(commands: "argparse._SubParsersAction[Any]") -> None:
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
    from bot.compose.local import try_sandbox
    from bot.compose.worker_process import run_worker
    from bot.config.environment import log_style, settings

    try_sandbox()
    configured = settings()
    sessions, looks = arguments.sessions or configured.service.sessions, arguments.looks or configured.service.looks
    service = replace(configured.service, sessions=sessions, looks=looks)
    return run_worker(replace(configured, service=service), log=log_style())


def migrate(arguments: argparse.Namespace) -> int:
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
    if not (text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"not a positive whole number: {text!r}")
    return int(text)


# --- Commands that show a service's threads ---------------------------------------------------------------------------

_THREAD: Final = re.compile(r"[\w.-]+/[\w.-]+#[1-9][0-9]{0,14}")


def add_thread_commands(commands: "argparse._SubParsersAction[Any]") -> None:
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
    from urllib.parse import urlencode

    from bot.cli.threads import print_threads

    filters = [("repository", arguments.repo), *(("stage", stage) for stage in arguments.stage), ("limit", "100")]
    path = f"/api/threads?{urlencode([(name, value) for name, value in filters if value])}"
    return print_threads(_client(arguments), path, sys.stdout, as_json=arguments.json)


def run_show(arguments: argparse.Namespace) -> int:
    from bot.cli.threads import print_thread

    return print_thread(_client(arguments), _thread(arguments), sys.stdout, as_json=arguments.json)


def run_watch(arguments: argparse.Namespace) -> int:
    """Print the entries of a thread as they come, and return the exit code of its round."""
    from bot.cli.threads import watch_thread

    return watch_thread(_client(arguments), _thread(arguments), sys.stdout)


def _client(arguments: argparse.Namespace) -> "ServiceClient":
    from bot.cli.threads import ServiceClient
    from bot.config.environment import service_access

    return ServiceClient(*service_access(arguments.url))


def _thread(arguments: argparse.Namespace) -> str:
    thread = str(arguments.thread)
    if _THREAD.fullmatch(thread) is None:
        raise Misconfigured(f"not a thread: {thread!r}", where="OWNER/REPO#N", fix="write something like octo/hello#7")
    return thread


# --- `verify`, `sign`, and `audit`: the commands about receipts -------------------------------------------------------


def add_receipt_commands(commands: "argparse._SubParsersAction[Any]") -> None:
    verdicts = commands.add_parser("verify", help="check who allowed a commit that Plangate made, offline")
    _add_verify_flags(verdicts)
    own = commands.add_parser("sign", help="sign a receipt as the person who approved, with an SSH key of your own")
    _add_sign_flags(own)
    export = commands.add_parser("audit", help="export who asked, approved, refused, what was pushed, and the cost")
    _add_audit_flags(export)


def _add_verify_flags(verify: argparse.ArgumentParser) -> None:
    verify.add_argument("subject", nargs="?", default="", metavar="COMMIT|FILE", help="a commit, or a receipt's file")
    verify.add_argument("--range", dest="revisions", default="", metavar="A..B", help="every commit of a range instead")
    verify.add_argument("--keys", type=Path, metavar="FILE", help="the keys that you trust (plangate-keys.json)")
    verify.add_argument(
        "--repo",
        default="",
        metavar="[HOST/]OWNER/REPO",
        help="the repository it must be for (that of origin); HOST is github.com if you leave it out",
    )
    verify.add_argument("--commit", default="", metavar="COMMIT", help="the commit that a FILE must be for (HEAD)")
    verify.add_argument("--dir", type=Path, default=Path(), metavar="DIR", help="the clone (.)")
    verify.add_argument(
        "--allowed-signers",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="demand signatures of the approvers: their keys, as LOGIN.keys of GitHub or in ssh's format (repeatable)",
    )
    verify.add_argument("--revoked", type=Path, metavar="FILE", help="the approvers' revoked keys, in ssh's format")
    verify.add_argument("--json", action="store_true", help="print the verdicts as JSON")


def verify(arguments: argparse.Namespace) -> int:
    from bot.cli.receipts import VerifyOptions, print_verdicts

    options = VerifyOptions(
        arguments.subject,
        arguments.revisions,
        arguments.dir,
        arguments.keys,
        arguments.repo,
        arguments.commit,
        as_json=arguments.json,
        signers=tuple(arguments.allowed_signers),
        revoked=arguments.revoked,
    )
    return print_verdicts(options, sys.stdout)


def _add_sign_flags(sign: argparse.ArgumentParser) -> None:
    sign.add_argument("commit", metavar="COMMIT", help="a commit whose plan you approved")
    key = "your private SSH key, or the public one of a key in your agent"
    sign.add_argument("--key", type=Path, required=True, metavar="FILE", help=key)
    sign.add_argument("--as", dest="login", default="", metavar="LOGIN", help="who you are, if several approved")
    sign.add_argument("--keys", type=Path, metavar="FILE", help="the service's keys that you trust, checked first")
    sign.add_argument("--repo", default="", metavar="[HOST/]OWNER/REPO", help="the repository (that of origin)")
    sign.add_argument("--dir", type=Path, default=Path(), metavar="DIR", help="the clone (.)")


def sign(arguments: argparse.Namespace) -> int:
    from bot.cli.receipts import print_signature
    from bot.compose.receipt_check import ReceiptRepository

    clone = ReceiptRepository.at(arguments.dir, keys=arguments.keys, repository=arguments.repo)
    return print_signature(clone, arguments.commit, arguments.key, login=arguments.login, out=sys.stdout)


def _add_audit_flags(audit: argparse.ArgumentParser) -> None:
    audit.add_argument("repo", metavar="OWNER/REPO", help="the repository")
    audit.add_argument("--since", required=True, metavar="DATE", help="from this day or time on (UTC)")
    form = audit.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="print CSV (the default)")
    form.add_argument("--jsonl", action="store_true", help="print one JSON object per line")


def audit(arguments: argparse.Namespace) -> int:
    import asyncio

    from bot.cli.receipts import parse_moment, print_rows, unreadable_text
    from bot.compose.github import read_audit
    from bot.config.environment import settings

    export = asyncio.run(read_audit(settings(), arguments.repo, parse_moment(arguments.since)))
    print_rows(export.rows, sys.stdout, as_lines=arguments.jsonl)
    if export.unreadable:
        print(unreadable_text(export.unreadable), file=sys.stderr)
    return 0


# --- `init` and `doctor` ----------------------------------------------------------------------------------------------


def add_doctor_flags(doctor: argparse.ArgumentParser) -> None:
    doctor.add_argument(
        "--fix",
        action="store_true",
        help="install what is missing, and make the labels, where that is possible",
    )
    where = doctor.add_mutually_exclusive_group()
    where.add_argument("--repo", metavar="OWNER/REPO", help="check the set-up of this repository instead")
    where.add_argument(
        "--live",
        metavar="OWNER/REPO",
        help="try what GitHub really does, in this repository, which nobody needs",
    )
    doctor.add_argument("--no-checks", action="store_true", help="do not run the checks of scheduled tasks")
    doctor.add_argument("--yes", action="store_true", help="with --live: do not ask for the name of the repository")
    doctor.add_argument(
        "--skip", type=_numbers, default=(), metavar="N,...", help="with --live: leave out experiments by their numbers"
    )


def add_init_flags(init: argparse.ArgumentParser) -> None:
    init.add_argument("dir", type=Path, nargs="?", default=Path(), metavar="DIR", help="the top of its repository (.)")
    init.add_argument(
        "--secret",
        dest="key_place",
        choices=("environment", "repository"),
        help="where the key of the model is kept; private repositories on GitHub's Free plan have no environments",
    )
    init.add_argument(
        "--pin", nargs="?", const="", metavar="TAG", help="name the commit of this version's release, or of another one"
    )
    init.add_argument("--account", metavar="LOGIN", help="the account of the bot, if it has a token of its own")
    init.add_argument("--server", metavar="URL", help="the server (that of the remote origin, else github.com)")
    init.add_argument("--runner", metavar="LABEL", help="the label of the runners (ubuntu-24.04, or self-hosted)")
    init.add_argument(
        "--attest",
        action=argparse.BooleanOptionalAction,
        help="have GitHub attest each receipt as well (github.com; private repositories need Enterprise Cloud)",
    )
    init.add_argument("--force", action="store_true", help="replace workflows that have edits, and keep a copy")


def run_doctor(arguments: argparse.Namespace) -> int:
    from bot.cli.doctor import examine, examine_repository

    if arguments.no_checks and (arguments.live or arguments.repo):
        raise Misconfigured(
            "plangate doctor runs checks only for a local project", where="--no-checks", fix="leave it out"
        )
    if arguments.live is not None:
        from bot.cli.doctor import try_live

        return try_live(sys.stdout, arguments.live, skipped=arguments.skip, confirmed=arguments.yes)
    if arguments.yes or arguments.skip:
        raise Misconfigured(
            "these options are only for the experiments", where="--yes, --skip", fix="add --live OWNER/REPO"
        )
    if arguments.repo is not None:
        return examine_repository(sys.stdout, arguments.repo, fix=arguments.fix)
    return examine(sys.stdout, fix=arguments.fix, checks=not arguments.no_checks)


def run_init(arguments: argparse.Namespace) -> int:
    """Run `plangate init`, and return its exit code. Raises Misconfigured, and Transient for --pin."""
    from bot.cli.init import InitOptions, choose_variant, remaining_steps, write
    from bot.config.environment import settings_of_person

    options = InitOptions(
        arguments.key_place,
        arguments.pin,
        arguments.server,
        arguments.runner,
        arguments.account,
        attest=arguments.attest,
    )
    choice = choose_variant(arguments.dir, options, settings_of_person(), _ask if sys.stdin.isatty() else None)
    for line in (*choice.reasons, *write(arguments.dir, choice.variant, force=arguments.force)):
        print(line)
    print("What remains:")
    for line in remaining_steps(choice):
        print(line)
    return 0


def _numbers(text: str) -> tuple[int, ...]:
    if not all(part.isdecimal() for part in text.split(",")):
        raise argparse.ArgumentTypeError(f"not numbers of experiments: {text!r}")
    return tuple(map(int, text.split(",")))


def _ask(question: str) -> bool:
    """Ask the person at the terminal. Return and end of input mean no."""
    try:
        return input(f"{question} [y/N] ").strip().casefold() in {"y", "yes"}
    except EOFError:
        return False
