"""The story of `plangate run`: a sample repository, a plan at the terminal, a branch whose tests pass. SHELL."""

import asyncio
import sys
from itertools import count
from pathlib import Path

from bot.compose.local import RunOptions, run_check, run_local
from bot.compose.terminal_run import TerminalRun
from bot.config.settings import Settings
from bot.core.names import CommitId
from bot.summary import exit_code, summary_lines
from bot.testing.sample import CHECK, REQUEST, make


def play_locally(folder: Path, with_model: Settings, *, headless: bool) -> int:
    """Play the story. Return 0 only if the branch exists and its tests pass, which failed before."""
    sample = make(next(path for n in count(1) if not (path := folder / f"sample-{n}").exists()))
    print(f"● A sample repository in {sample}\n● Somebody asks: {REQUEST}\n", flush=True)
    run = asyncio.run(run_local(RunOptions(sample, REQUEST, yes=headless), with_model, sys.stdout))
    print("\n".join(summary_lines(run)))
    if not run.state.request.branch:
        return exit_code(run, dry_run=False)
    return _check_result(sample, run, with_model)


def _check_result(sample: Path, run: TerminalRun, with_model: Settings) -> int:
    """Run the sample's tests before and after, each in a sandbox. Return 0 if they failed before and pass now."""
    branch, commit = run.state.request.branch, CommitId(run.state.request.commit)
    before = asyncio.run(run_check(sample, run.state.plan.current.base, CHECK, with_model))
    after = asyncio.run(run_check(sample, commit, CHECK, with_model))
    print(f"\n● {CHECK} on main: exit code {before}; on {branch}: exit code {after}")
    print(f"● See it: git -C {sample} diff main {branch}")
    good = before != 0 and after == 0
    print("✓ The failing test passes." if good else "✗ The tests should fail before and pass after.")
    return 0 if good else 1
