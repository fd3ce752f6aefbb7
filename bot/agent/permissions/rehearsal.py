"""Runs a command that the configuration allows for planning on a throw-away copy of the checkout (P4a).

Rules: the copy has a sandbox of its own, without network; it is removed with all that the command did, whatever came of
it, and what a killed process leaves is swept with the forks; the checkout itself stays as it is.
"""

import secrets
from dataclasses import dataclass

from bot.core.transcript import Json
from bot.core.work import Checkout
from bot.ports import Access, ToolOutput, Workspace


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """Gives each command a copy of one checkout."""

    workspace: Workspace
    checkout: Checkout

    async def run(self, arguments: Json) -> ToolOutput:
        """Run one Bash call on a new copy; nothing of it is left afterwards."""
        copy = await self.workspace.fork(self.checkout, f"rehearsal-{secrets.token_hex(4)}")
        try:
            host = await self.workspace.open(copy, Access.WRITE)
            try:
                return await host.call("Bash", arguments)
            finally:
                await host.close()
        finally:
            await self.workspace.discard(copy)
