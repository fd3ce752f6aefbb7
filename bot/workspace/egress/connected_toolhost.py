"""A sandbox with network access: the proxy's socket is mounted, and its toolhost listens on the sandbox's loopback
(N1a).

Rules: the proxy starts before the sandbox and ends with it. If no host is open, there is neither socket nor variable.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from bot.core.network import Network
from bot.core.transcript import Json
from bot.ports import Toolhost, ToolOutput
from bot.workspace.egress.route import EgressRoute
from bot.workspace.sandbox import Mount

if TYPE_CHECKING:
    from bot.workspace.egress.proxy import Proxy

SOCKET: Final = "/run/plangate/egress"
"""Where a sandbox sees the proxy's socket."""
_ADDRESS: Final = "http://127.0.0.1:3128"  # bot/toolhost/tunnel.py listens there


def proxy_environment() -> dict[str, str]:
    """Return the environment variables that direct a sandbox's programs to the proxy."""
    here = "localhost,127.0.0.1,::1"
    return {"HTTPS_PROXY": _ADDRESS, "https_proxy": _ADDRESS, "NO_PROXY": here, "no_proxy": here}


async def start_connected_toolhost(
    network: Network, route: EgressRoute, start: Callable[[tuple[Mount, ...]], Awaitable[Toolhost]]
) -> "ConnectedToolhost":
    """Start a proxy, and a toolhost with the proxy's socket mounted."""
    from bot.workspace.egress.proxy import Proxy  # late: most work has no way out

    proxy = await Proxy.start(network, route)
    try:
        return ConnectedToolhost(await start((Mount(str(proxy.path), SOCKET),)), proxy)
    except BaseException:
        await proxy.close()
        raise


class ConnectedToolhost:
    """A toolhost whose sandbox can reach the network through a proxy; closing the toolhost ends the proxy."""

    def __init__(self, host: Toolhost, proxy: "Proxy") -> None:
        self._host, self._proxy = host, proxy

    async def call(
        self, operation: str, arguments: Json, *, progress: Callable[[str], None] | None = None, timeout: float = 660.0
    ) -> ToolOutput:
        """Run one operation, as the toolhost does."""
        return await self._host.call(operation, arguments, progress=progress, timeout=timeout)

    async def close(self) -> None:
        """End the sandbox, then the proxy."""
        try:
            await self._host.close()
        finally:
            await self._proxy.close()
