"""The commands about receipts: their arguments, and what each calls. SHELL. Heavy modules are imported on use."""

import argparse
import sys
from pathlib import Path
from typing import Any


def add_commands(commands: "argparse._SubParsersAction[Any]") -> None:
    """Add `plangate verify`, `plangate sign`, and `plangate audit`, with their arguments."""
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
    """Print the verdicts on receipts, and return the exit code."""
    from bot.cli.verify import VerifyOptions, print_verdicts

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
    """Sign a receipt as its approver, and return the exit code."""
    from bot.cli.sign import print_signature
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
    """Print who asked, approved, refused, and what was pushed, and return the exit code."""
    import asyncio

    from bot.cli.audit import parse_moment, print_rows, unreadable_text
    from bot.compose.audit import read_audit
    from bot.config.environment import settings

    export = asyncio.run(read_audit(settings(), arguments.repo, parse_moment(arguments.since)))
    print_rows(export.rows, sys.stdout, as_lines=arguments.jsonl)
    if export.unreadable:
        print(unreadable_text(export.unreadable), file=sys.stderr)
    return 0
