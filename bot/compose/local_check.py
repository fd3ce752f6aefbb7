"""Runs the check of a scheduled task on a local repository, as an occurrence would, without GitHub or a model (MT4)."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from bot.compose.parts import egress_route_of, sandbox_limits_of
from bot.config.environment import redactor_for
from bot.config.settings import Settings
from bot.core.errors import PlangateError
from bot.core.maintenance import CheckResult
from bot.core.network import Network, NetworkDecision
from bot.ports import Access
from bot.workflow.task_check import run_shell_check
from bot.workspace.local_repository import LocalRepository
from bot.workspace.workspace import GitWorkspace

if TYPE_CHECKING:
    from bot.config.repository_file import Configuration

_HOSTS_NAMED: Final = 3


async def try_check(folder: Path, check: str, keys: "Configuration", settings: Settings) -> CheckResult:
    """Run a shell command as the check of a task: on the newest commit, on a checkout that is discarded.

    The limits and hosts are those of the key `sandbox`. A problem names hosts that the command could not reach. Raises
    Misconfigured if the folder is in no repository with a commit.
    """
    source = await LocalRepository.open(folder)
    workspace = GitWorkspace.on(source, settings.data_dir, sandbox_limits_of(keys), route=egress_route_of(settings))
    decisions: list[NetworkDecision] = []
    network = Network(tuple(keys.sandbox.hosts), decisions.append)
    redact, minutes = redactor_for(settings).redact, keys.sandbox.minutes
    try:
        tree = await workspace.checkout(f"doctor-{source.head}", source.head, fresh=True)
        try:
            host = await workspace.open(tree, Access.WRITE, network=network)
            result = await run_shell_check(host, check, minutes=minutes, redact=redact)
        finally:
            await workspace.discard(tree)
    except PlangateError as error:
        return CheckResult(problem=str(error))
    finally:
        await workspace.close()
    refused = list(dict.fromkeys(decision.host for decision in decisions if not decision.allowed))
    if not result.problem or not refused:
        return result
    return CheckResult(problem=f"{result.problem}; it could not reach {', '.join(refused[:_HOSTS_NAMED])}")
