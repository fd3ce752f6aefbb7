"""The accounts that a version of the configuration names: looked up once, and changed by nobody afterward (A7)."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from bot.core.errors import PlangateError, Transient
from bot.core.names import RepositoryId
from bot.store.receipt_refs import Pins, pin_accounts
from bot.store.sealing import StateKey, seal
from bot.store.thread_refs import ThreadRefs
from tests.store.conftest import Repository
from tests.store.test_receipt_refs import push_file

pytestmark = pytest.mark.req("A7")

BLOB = "b" * 40
REF = f"refs/plangate/accounts/{BLOB}"
HOME, KEY = RepositoryId(7), StateKey(b"k" * 32)


@dataclass
class Accounts:
    """The logins of today, and who asked for them."""

    ids: dict[str, int]
    asked: list[str] = field(default_factory=list)

    async def find(self, login: str) -> int | None:
        self.asked.append(login)
        return self.ids.get(login)


async def pins(refs: ThreadRefs, accounts: Accounts, *, blob: str = BLOB) -> Pins:
    return await pin_accounts(refs, (HOME, blob), KEY, logins=["Ann", "gone"], find=accounts.find)


async def test_a_login_names_whoever_had_it_when_the_file_was_new(refs_on: Callable[[str], ThreadRefs]) -> None:
    """A later owner of a login, or one who registers it first, is not meant, whichever machine asks; a changed file is
    looked at anew."""
    accounts = Accounts({"ann": 7})
    assert await pins(refs_on("one"), accounts) == {"ann": 7, "gone": None}
    accounts.ids = {"ann": 8, "gone": 9}
    for machine in ("one", "two"):
        assert await pins(refs_on(machine), accounts) == {"ann": 7, "gone": None}
    assert accounts.asked == ["ann", "gone"]
    assert await pins(refs_on("two"), accounts, blob="c" * 40) == {"ann": 8, "gone": 9}


@pytest.mark.parametrize(
    "content",
    (
        b"",
        b"null",
        b'{"ann": 666}',
        seal(b'{"ann": 666}', StateKey(b"x" * 32).encryption, f"7/accounts/{BLOB}"),
        seal(b'{"ann": 666}', KEY.encryption, f"8/accounts/{BLOB}"),
    ),
    ids=("nothing", "no object", "plain text", "of another key", "of another repository"),
)
async def test_what_others_put_in_its_place_names_nobody(
    refs_on: Callable[[str], ThreadRefs], repository: Repository, content: bytes
) -> None:
    """Whoever can push can write there, and cannot seal it."""
    push_file(repository, REF, "accounts", content)
    accounts = Accounts({"ann": 7})
    assert await pins(refs_on("one"), accounts) == {"ann": 7, "gone": None}
    assert await pins(refs_on("two"), Accounts({})) == {"ann": 7, "gone": None}


async def test_the_file_of_another_version_or_repository_does_not_count(
    refs_on: Callable[[str], ThreadRefs], repository: Repository
) -> None:
    await pins(refs_on("one"), Accounts({"ann": 7}), blob="c" * 40)
    repository.git("update-ref", REF, f"refs/plangate/accounts/{'c' * 40}")
    assert await pins(refs_on("two"), Accounts({"ann": 8})) == {"ann": 8, "gone": None}


async def test_nothing_is_stored_while_a_login_cannot_be_looked_up(
    refs_on: Callable[[str], ThreadRefs], repository: Repository
) -> None:
    async def fail(login: str) -> int | None:
        raise Transient("GitHub is down", where=login)

    with pytest.raises(PlangateError, match="GitHub is down"):
        await pin_accounts(refs_on("one"), (HOME, BLOB), KEY, logins=["ann"], find=fail)
    assert repository.git("for-each-ref", "refs/plangate/") == ""


async def test_of_two_that_are_first_one_decides(refs_on: Callable[[str], ThreadRefs]) -> None:
    """The other one is told to look again, and finds what was stored."""
    other = refs_on("two")

    async def find(login: str) -> int | None:
        await pins(other, Accounts({"ann": 7}))
        return 8

    with pytest.raises(Transient, match="cannot be stored"):
        await pin_accounts(refs_on("one"), (HOME, BLOB), KEY, logins=["ann"], find=find)
    assert await pins(refs_on("one"), Accounts({})) == {"ann": 7, "gone": None}
