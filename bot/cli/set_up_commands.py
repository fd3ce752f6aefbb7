"""The commands `plangate init` and `plangate doctor`: their options, and what they print. SHELL."""

import argparse
import sys
from pathlib import Path

from bot.core.errors import Misconfigured


def add_doctor_flags(doctor: argparse.ArgumentParser) -> None:
    """Add the options of `plangate doctor`."""
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
    """Add the options of `plangate init`."""
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
    """Run `plangate doctor`, and return its exit code."""
    from bot.cli.doctor import examine, examine_repository

    if arguments.no_checks and (arguments.live or arguments.repo):
        raise Misconfigured(
            "plangate doctor runs checks only for a local project", where="--no-checks", fix="leave it out"
        )
    if arguments.live is not None:
        from bot.cli.doctor_live import try_live

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
    from bot.cli.init import write
    from bot.cli.variant_choice import InitOptions, choose_variant, remaining_steps
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
    """Return the numbers of experiments in a list such as ``2,5``."""
    if not all(part.isdecimal() for part in text.split(",")):
        raise argparse.ArgumentTypeError(f"not numbers of experiments: {text!r}")
    return tuple(map(int, text.split(",")))


def _ask(question: str) -> bool:
    """Ask the person at the terminal. Return and end of input mean no."""
    try:
        return input(f"{question} [y/N] ").strip().casefold() in {"y", "yes"}
    except EOFError:
        return False
