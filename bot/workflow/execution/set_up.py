"""Runs the set-up commands of the default branch's configuration, which make a checkout ready for approved work.

Rules
- They run in a sandbox after a plan was approved, and can reach the hosts that both it and the configuration name
  (N1a). The plan always includes the configuration's hosts, so that its approvers see them.
- They run once in each checkout. The session, its sub-agents, and the checks find the files that they leave.
- Files that they leave and that git does not ignore are not published, unless the work changed them too.
"""

import hashlib
import re
from shlex import quote
from typing import Final

from bot.core.errors import Misconfigured
from bot.core.hosts import reachable_hosts
from bot.core.notes import Prepared
from bot.core.thread.state import ThreadState
from bot.core.work import Checkout
from bot.ports import Toolhost
from bot.workflow.execution.command_runs import command_sandbox, run_command
from bot.workflow.journal.writing import append_notes
from bot.workflow.session.main_session import run_until_moved
from bot.workflow.session.saved_work import checkout
from bot.workflow.thread_context import ThreadContext

KEY: Final = "sandbox.setup in .github/plangate.yml"
MOST: Final = 50
"""Files that git does not ignore and that set-up commands may leave."""
SHOWN: Final = 500

_MARK: Final = ".git/plangate-prepared"
"""The file in a checkout that records which commands ran. A session that writes to it harms only that checkout."""
_LEFT: Final = """git ls-files -z --modified --others --exclude-standard | sort -zu | xargs -0r sh -c '
for f; do
  if [ -L "$f" ]; then id=$(readlink -n -- "$f" | git hash-object --stdin)
  else id=$(git hash-object --no-filters -- "$f" 2>/dev/null || echo gone)
  fi
  printf "%s %s\\n" "$id" "$f"
done' sh"""
_LINE: Final = re.compile(r"([0-9a-f]{40}|gone) (.+)")


def hosts(context: ThreadContext, state: ThreadState) -> tuple[str, ...]:
    """List the hosts that approved work may reach: those in both its plan and the configuration (N1a)."""
    return reachable_hosts(state.plan.current.contract.hosts, context.settings.hosts, state.plan.current.tier)


async def prepare(context: ThreadContext, state: ThreadState) -> bool:
    """Prepare the checkout, and return True; False if the thread was moved meanwhile.

    Raises Misconfigured if a command fails, or leaves too many files that git does not ignore.
    """
    if not context.settings.setup:
        return True
    return bool(await run_until_moved(context, state, _run_setup(context, state)))


def leftovers(state: ThreadState) -> dict[str, str]:
    """Return the files that the set-up commands left and git does not ignore: path -> blob id, or ``gone``."""
    return {} if state.request.setup is None else state.request.setup.left


async def _run_setup(context: ThreadContext, state: ThreadState) -> bool:
    """Run the commands in a checkout that has not had them, and return True."""
    tree = await checkout(context, state)
    async with command_sandbox(context, state, tree, "setup", hosts=hosts(context, state)) as host:
        mark = hashlib.sha256("\n".join(context.settings.setup).encode()).hexdigest()
        if await _command_output(host, tree, f"cat {_MARK}") != mark:
            await _run(context, state, host, tree=tree)
            await _command_output(host, tree, f"printf %s {mark} > {_MARK}")
    return True


async def _run(context: ThreadContext, state: ThreadState, host: Toolhost, *, tree: Checkout) -> None:
    """Run the commands one after the other, and journal their results and what they left."""
    results = []
    for command in context.settings.setup:
        facts, _ = await run_command(context, host, command, below=tree.shown_as)
        results.append(facts)
        if facts["exit_code"] != 0:
            output = " ".join(facts["output"].split())[-SHOWN:]
            raise Misconfigured(f"the set-up command {command!r} failed: {output}", where=KEY, fix="fix it, then retry")
    if state.request.setup is None:  # no work was done yet: the set-up commands caused every difference
        lines = _LINE.findall(await _command_output(host, tree, _LEFT))
        leftover = {path: blob for blob, path in lines}
        if len(leftover) > MOST:
            some = ", ".join([*leftover][:3])
            what = f"the set-up commands left {len(leftover)} files that git does not ignore ({some} ...)"
            raise Misconfigured(what, where=KEY, fix="add them to .gitignore, then retry")
        await append_notes(context, state, Prepared(commands=tuple(results), left=leftover))


async def _command_output(host: Toolhost, tree: Checkout, command: str) -> str:
    """Return the output of a command in the checkout's folder."""
    return (await host.call("Bash", {"command": f"cd {quote(tree.shown_as)} && {command}"})).text
