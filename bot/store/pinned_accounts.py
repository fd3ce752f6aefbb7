"""The accounts that logins in the configuration file name, looked up once for each version of the file (A7).

Anybody can register a login that its owner gave up. So the numeric id of each login is stored when a version of the
file, by its git blob id, is seen first, with a MAC, on a ref of its own. A login without an account at that moment
names nobody as long as that version is in force.
"""

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Final, TypeAlias

from bot.core.errors import Transient
from bot.core.marker import Key
from bot.store.thread_refs import ThreadRefs

Pins: TypeAlias = Mapping[str, int | None]
"""Login in lower case -> numeric id, or None if no account had that login."""
_FILE: Final = "accounts.json"


async def pin_accounts(
    refs: ThreadRefs, blob: str, key: Key, *, logins: Iterable[str], find: Callable[[str], Awaitable[int | None]]
) -> Pins:
    """Return the accounts of the logins in a version of the file, as they were when it was seen first.

    `find` looks one up. Raises what it raises, and Transient if the ref cannot be written; nothing is stored then.
    """
    ref = f"refs/plangate/accounts/{blob}"
    stored, tip = await asyncio.to_thread(refs.read_ref, ref, _FILE)
    if (pins := _read(stored, blob, key)) is not None:
        return pins
    pins = {login: await find(login) for login in sorted({login.lower() for login in logins})}
    text = json.dumps(pins)
    content = json.dumps({"accounts": text, "mac": _mac(text, blob, key)}).encode()
    write = partial(refs.write_ref, ref, {_FILE: content}, note=f"accounts of configuration {blob}", before=tip)
    if refusal := await asyncio.to_thread(write):  # another process may have been first
        raise Transient("the accounts in the configuration cannot be stored", where=ref, fix=refusal)
    return pins


def _read(stored: bytes | None, blob: str, key: Key) -> Pins | None:
    """Return the pins in a stored file; None if there is none of ours."""
    try:
        content = json.loads(stored or b"null")
        text, mac = str(content["accounts"]), str(content["mac"])
    except (ValueError, TypeError, KeyError):
        return None
    return json.loads(text) if hmac.compare_digest(mac.encode(), _mac(text, blob, key).encode()) else None


def _mac(text: str, blob: str, key: Key) -> str:
    return key.mac(f"accounts:{blob}:{text}")
