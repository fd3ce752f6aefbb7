"""Runs a command that the configuration allows while planning, on a throw-away copy of the checkout (P4a).

Rules: the copy has a sandbox of its own, without network. It is removed with everything the command did, whatever the
outcome; a copy left by a killed process is swept with the forks. The checkout itself stays unchanged. Where the
configuration names set-up commands, they run once in a session, on a copy that all others are made from.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from shlex import quote
from typing import TypeVar

from bot.core.markdown.elements import code
from bot.core.transcript import Json
from bot.core.work import Checkout
from bot.ports import Access, Toolhost, ToolOutput, Workspace

_SHOWN = 500
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class PreparedCheckout:
    """A checkout after its set-up."""

    checkout: Checkout
    remark: str = ""
    """Which set-up command failed, and how; "" where none did."""


@dataclass(slots=True)
class Rehearsal:
    """Runs each command on its own copy of one checkout."""

    workspace: Workspace
    checkout: Checkout
    setup: tuple[str, ...] = ()
    """Commands that make the checkout ready."""
    seconds: float = 600.0
    """Time of one set-up command."""
    _preparing: "asyncio.Task[PreparedCheckout] | None" = field(default=None, init=False)

    async def run(self, arguments: Json) -> ToolOutput:
        """Run one Bash call on a new copy, and remove the copy afterward.

        Set-up that takes longer than the call goes on, and a later call finds it done.
        """
        prepared = await self._prepare_once()
        copy = await self.workspace.fork(prepared.checkout, f"rehearsal-{secrets.token_hex(4)}")
        try:
            output = await self._with_host(copy, lambda host: host.call("Bash", arguments))
        finally:
            await self.workspace.discard(copy)
        return replace(output, text=f"{prepared.remark}{output.text}") if prepared.remark else output

    async def aclose(self) -> None:
        """Cancel a set-up that still runs, and remove the copy that was set up."""
        if self._preparing is not None:
            self._preparing.cancel()
            (outcome,) = await asyncio.gather(self._preparing, return_exceptions=True)
            if isinstance(outcome, PreparedCheckout):
                await self.workspace.discard(outcome.checkout)

    async def _prepare_once(self) -> PreparedCheckout:
        if not self.setup:
            return PreparedCheckout(self.checkout)
        if self._preparing is None or (self._preparing.done() and self._preparing.exception() is not None):
            self._preparing = asyncio.ensure_future(self._prepare())
        return await asyncio.shield(self._preparing)

    async def _prepare(self) -> PreparedCheckout:
        """Return a copy on which the set-up commands ran, up to the first that failed."""
        copy = await self.workspace.fork(self.checkout, f"rehearsal-{secrets.token_hex(4)}")
        try:
            return PreparedCheckout(copy, await self._with_host(copy, lambda host: self._set_up(host, copy)))
        except BaseException:
            await self.workspace.discard(copy)
            raise

    async def _set_up(self, host: Toolhost, copy: Checkout) -> str:
        """Run the set-up commands up to the first that fails, and return a note about that one; "" if none fails."""
        for command in self.setup:
            line = {"command": f"cd {quote(copy.shown_as)}\n{command}", "timeout": int(self.seconds * 1000)}
            output = await host.call("Bash", line, timeout=self.seconds + 30.0)
            if output.is_error:
                message = " ".join(output.text.split())[-_SHOWN:]
                return f"(The set-up command {code(command)} failed; nothing reaches the network here: {message})\n\n"
        return ""

    async def _with_host(self, copy: Checkout, use: Callable[[Toolhost], Awaitable[_T]]) -> _T:
        """Return the result of a function that gets a toolhost on a copy."""
        host = await self.workspace.open(copy, Access.WRITE)
        try:
            return await use(host)
        finally:
            await host.close()
