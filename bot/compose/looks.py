"""Joins the components for threads known by name, for the Action and `run OWNER/REPO#N`."""

import re
from dataclasses import replace
from datetime import timedelta
from typing import Final, TextIO

from bot.compose.github import HostSetup
from bot.compose.terminal_run import TerminalRun, combine_listeners
from bot.config.settings import Settings
from bot.core.errors import Misconfigured
from bot.core.names import ThreadAddress
from bot.core.reply_text import configuration_error
from bot.github import repository
from bot.github.activity import CHANGED
from bot.github.turns import MARKS
from bot.service.github_host import GitHubHost
from bot.service.reconcile import Reconciler
from bot.terminal import SessionPrinter
from bot.workflow import engine
from bot.workflow.outbox.notices import notice_without_journal

UNHEARD_SPAN: Final = timedelta(days=3)
"""How far back jobs read. While nothing waits one job a day reads, and GitHub may start it late, or not at all."""


async def thread_of(host: GitHubHost, name: str, number: int) -> ThreadAddress:
    """Return the address of one of its threads, looked up live. Raises Refused if there is no such repository."""
    return (await host.connections.repository_by_name(repository_of(name))).thread(number)


async def check_once(settings: Settings, thread: str, out: TextIO) -> TerminalRun:
    """Check one thread, named OWNER/REPO#N, as the service would. Writes what its sessions do to `out`."""
    match = re.fullmatch(r"([\w.-]+/[\w.-]+)#([1-9]\d{0,9})", thread)
    if match is None:
        raise Misconfigured(f"not a thread: {thread!r}", where="OWNER/REPO#N", fix="write something like octo/hello#7")
    async with HostSetup(settings) as host:
        address = await thread_of(host, match[1], int(match[2]))
        printer = SessionPrinter(out, host.connections.redactor)
        async with host.open_context(address) as context:
            final = await engine.check_thread(
                replace(context, listener=combine_listeners(printer.receive, context.listener))
            )
            return TerminalRun(final, context.resources.ledger, printer)


async def refuse_thread(host: GitHubHost, address: ThreadAddress, why: str) -> None:
    """Post on a thread once why nothing can begin there, if somebody who may ask has asked."""
    async with host.open_context(address) as context:
        await notice_without_journal(context, configuration_error(why))


async def unreported_threads(host: GitHubHost) -> tuple[ThreadAddress, ...]:
    """Return the threads of the last days that address the bot with something that no journal holds (W3).

    Call `open_threads` first: it reads the journals. A job keeps no cursor, so a thread whose mark was heard is not
    listed only because it changed.
    """
    threads: list[ThreadAddress] = []

    async def collect(address: ThreadAddress, keys: frozenset[str]) -> None:
        marked = any(key.startswith(MARKS) for key in host.heard_turns(address.repository, address.number))
        if not (marked and all(key.startswith(CHANGED) for key in keys)):
            threads.append(address)

    await Reconciler(host, UNHEARD_SPAN).read(collect)
    return tuple(threads)


def repository_of(name: str) -> repository.Address:
    """Return the address of the repository ``owner/name``. Raises Misconfigured."""
    return repository.Address.parse(name, where="GITHUB_REPOSITORY")
