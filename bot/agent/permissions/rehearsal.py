"""Runs a command that the configuration allows while planning, on a throw-away copy of the checkout (P4a).

Rules: the copy has a sandbox of its own, without network. It is removed with everything the command did, whatever the
outcome; a copy left by a killed process is swept with the forks. The checkout itself stays unchanged.
"""

import secrets
from dataclasses import dataclass

from bot.core.transcript import Json
from bot.core.work import Checkout
from bot.ports import Access, ToolOutput, Workspace


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """Runs each command on its own copy of one checkout."""

    workspace: Workspace
    checkout: Checkout

    async def run(self, arguments: Json) -> ToolOutput:
        """Run one Bash call on a new copy, and remove the copy afterwards."""
        copy = await self.workspace.fork(self.checkout, f"rehearsal-{secrets.token_hex(4)}")
        try:
            host = await self.workspace.open(copy, Access.WRITE)
            try:
                return await host.call("Bash", arguments)
            finally:
                await host.close()
        finally:
            await self.workspace.discard(copy)
