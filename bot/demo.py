"""The whole way on this machine: sample repository, plan, approval, sub-agents, branch, tests. SHELL.

The model is the simulated one of bot/testing, over real HTTP, unless the real one is asked for; git, sandbox and
everything else are real.
"""

import asyncio
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Final

from bot.compose.local import RunOptions, checked, run_local
from bot.config import Secret, Settings, settings
from bot.core.errors import Misconfigured
from bot.core.names import CommitId
from bot.summary import exit_code, lines
from bot.testing.sample import CHECK, REQUEST, make
from bot.workflow.record import Record

LATENCY: Final = 0.15
"""Seconds that the simulated model thinks, so that side by side can be seen."""


def play(folder: Path | None, *, headless: bool, real_model: bool) -> int:
    """Play the story and give 0 only if the branch is there and its tests pass, which failed before."""
    with _kept(folder) as kept, _model(kept, real=real_model) as with_model:
        sample = make(next(each for n in count(1) if not (each := kept / f"sample-{n}").exists()))
        print(f"● A sample repository in {sample}\n● Somebody asks: {REQUEST}\n", flush=True)
        made = asyncio.run(run_local(RunOptions(sample, REQUEST, yes=headless), with_model, sys.stdout))
        print("\n".join(lines(made)))
        if not made.record.fact("branch"):
            return exit_code(made, dry_run=False)
        return _proven(sample, made.record, with_model)


def _proven(sample: Path, record: Record, with_model: Settings) -> int:
    """Run the sample's tests before and after, each in a sandbox."""
    branch = record.fact("branch")
    before = asyncio.run(checked(sample, record.plan.base, CHECK, with_model))
    after = asyncio.run(checked(sample, CommitId(record.fact("commit")), CHECK, with_model))
    print(f"\n● {CHECK} on main: exit code {before}; on {branch}: exit code {after}")
    print(f"● Look at it: git -C {sample} diff main {branch}")
    good = before != 0 and after == 0
    print("✓ The failing test passes." if good else "✗ The tests do not tell the story that they should.")
    return 0 if good else 1


@contextmanager
def _kept(folder: Path | None) -> Iterator[Path]:
    """Give the folder that was asked for, else one under the system's temporary folder; both stay."""
    chosen = folder.absolute() if folder else Path(tempfile.mkdtemp(prefix="plangate-demo-"))
    chosen.mkdir(parents=True, exist_ok=True)
    yield chosen


@contextmanager
def _model(folder: Path, *, real: bool) -> Iterator[Settings]:
    """Give settings for the real model, or start the simulated one and give settings for that."""
    own = replace(settings(), data_dir=folder / "data", state_key=Secret(""))
    if real:
        if not own.api_key:
            raise Misconfigured(
                "no key for the model", where="ANTHROPIC_API_KEY", mend="set it, or leave out --real-model"
            )
        yield own
        return
    from bot.testing.model.server import ScriptedModel
    from bot.testing.story import policy

    with ScriptedModel(policy, latency=LATENCY) as server:
        yield replace(own, api_key=Secret("simulated"), base_url=server.base_url, output_cap=None, extra_body={})
