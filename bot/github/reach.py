"""Which repositories the bot can reach, and through which installation."""

from collections.abc import AsyncIterator

from bot.github.door import Door
from bot.github.repository import Address


async def installations(app: Door) -> AsyncIterator[int]:
    """Yield the numbers of the App's installations that are not suspended; `app` is a door opened as the App itself.

    https://docs.github.com/en/rest/apps/apps#list-installations-for-the-authenticated-app
    """
    async for found in app.pages("/app/installations"):
        if not found.get("suspended_at"):
            yield int(found["id"])


async def installed(door: Door) -> AsyncIterator[tuple[int, Address]]:
    """Yield the repositories (number, name) of the installation that a door's token is of.

    https://docs.github.com/en/rest/apps/installations#list-repositories-accessible-to-the-app-installation
    """
    async for found in door.pages("/installation/repositories", items="repositories"):
        yield int(found["id"]), Address(str(found["owner"]["login"]), str(found["name"]))


async def owned(door: Door) -> AsyncIterator[tuple[int, Address]]:
    """Yield the repositories that a machine account can push to.

    https://docs.github.com/en/rest/repos/repos#list-repositories-for-the-authenticated-user
    """
    async for found in door.pages("/user/repos"):
        if (found.get("permissions") or {}).get("push"):
            yield int(found["id"]), Address(str(found["owner"]["login"]), str(found["name"]))
