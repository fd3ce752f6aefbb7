"""The accounts that logins in the configuration file name, looked up once for each version of the file (A7).

Anybody can register a login that its owner gave up. So the numeric id of each login is stored, sealed, when a version
of the file, by its git blob id, is seen first, on a ref of its own. A login without an account at that moment names
nobody as long as that version is in force.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, TypeAlias

from bot.core.errors import Transient, Unreadable
from bot.core.names import RepositoryId
from bot.store.keys import StateKey
from bot.store.sealed import seal, unseal
from bot.store.thread_refs import ThreadRefs

Pins: TypeAlias = Mapping[str, int | None]
"""Login in lower case -> numeric id, or None if no account had that login."""
ConfigurationVersion: TypeAlias = tuple[RepositoryId, str]
"""A repository, and the git blob id of its configuration file."""
_FILE: Final = "accounts"


async def pin_accounts(
    refs: ThreadRefs,
    version: ConfigurationVersion,
    key: StateKey,
    *,
    logins: Iterable[str],
    find: Callable[[str], Awaitable[int | None]],
) -> Pins:
    """Return the accounts of the logins in a version of the file, as they were when it was seen first.

    `find` looks one up. Raises what it raises, and Transient if the ref cannot be written; nothing is stored then.
    """
    ref, where = f"refs/plangate/accounts/{version[1]}", f"{version[0]}/{_FILE}/{version[1]}"
    stored, tip = await asyncio.to_thread(refs.read_ref, ref, _FILE)
    with suppress(Unreadable):  # nothing is there, or something of others
        known: Pins = json.loads(unseal(stored or b"", key.encryption, where))
        return known
    pins = {login: await find(login) for login in sorted({login.lower() for login in logins})}
    content = seal(json.dumps(pins).encode(), key.encryption, where)
    write = partial(refs.write_ref, ref, {_FILE: content}, note=f"accounts of configuration {version[1]}", before=tip)
    if refusal := await asyncio.to_thread(write):  # another process may have been first
        raise Transient("the accounts in the configuration cannot be stored", where=ref, fix=refusal)
    return pins
