"""Finds the people who own everything that a plan may change, from the repository's CODEOWNERS; core/owners.py decides.

https://docs.github.com/en/repositories/managing-your-repositorys-settings-and-features/customizing-your-repository/about-code-owners#codeowners-file-location
"""

from collections.abc import Collection, Sequence
from typing import Final

from bot.core.actor import Actor
from bot.core.errors import PlangateError
from bot.core.owners import is_plain, owners
from bot.github.client import GitHubClient
from bot.github.permissions import Roles
from bot.github.repository import Address, file, is_file

PLACES: Final = (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS")
"""Paths of the file. The first one that exists counts."""


async def owner_ids(roles: Roles, branch: str, scope: Sequence[str], people: Collection[Actor]) -> frozenset[int]:
    """Return the numeric ids of the people who own everything in a scope; empty if CODEOWNERS cannot be read (A3)."""
    if not people:
        return frozenset()
    try:
        names = await _owners(roles.client, roles.address, branch, scope)
    except PlangateError:
        return frozenset()
    teams = [name for name in names if "/" in name]
    ids = set[int]()
    for who in people:
        if who.login.lower() in names or True in [await roles.is_member(team, who) for team in teams]:
            ids.add(who.id)
    return frozenset(ids)


async def _owners(client: GitHubClient, address: Address, branch: str, scope: Sequence[str]) -> frozenset[str]:
    """Return the owners of a scope. A path that is no file on the branch may be a folder, or become one.

    GitHub is asked about the paths only if that makes a difference.
    """
    text = await _text(client, address, branch)
    files = {glob for glob in scope if is_plain(glob)}
    if owners(text, scope) != owners(text, [f"{glob}/" if glob in files else glob for glob in scope]):
        files = {glob for glob in files if await is_file(client, address, glob.strip("/"), branch)}
    return owners(text, [f"{glob}/" if is_plain(glob) and glob not in files else glob for glob in scope])


async def _text(client: GitHubClient, address: Address, branch: str) -> str:
    """Return the text of the file on a branch, or ""."""
    for place in PLACES:
        if (content := await file(client, address, place, branch)) is not None:
            return content.decode(errors="replace")
    return ""
