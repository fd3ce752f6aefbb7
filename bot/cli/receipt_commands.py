"""The commands about receipts: their arguments, and what each calls. SHELL. Heavy modules are imported on use."""

import argparse
import sys
from pathlib import Path


def add_verify_flags(verify: argparse.ArgumentParser) -> None:
    """Add the arguments of `plangate verify`."""
    verify.add_argument("subject", nargs="?", default="", metavar="COMMIT|FILE", help="a commit, or a receipt's file")
    verify.add_argument("--range", dest="revisions", default="", metavar="A..B", help="every commit of a range instead")
    verify.add_argument("--keys", type=Path, metavar="FILE", help="the keys that you trust (plangate-keys.json)")
    verify.add_argument("--repo", default="", metavar="OWNER/REPO", help="the repository it must be for (origin's)")
    verify.add_argument("--commit", default="", metavar="COMMIT", help="the commit that a FILE must be for (HEAD)")
    verify.add_argument("--dir", type=Path, default=Path(), metavar="DIR", help="the clone (.)")
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
    )
    return print_verdicts(options, sys.stdout)
