"""Sealed files: they open in their place with their key, as they were, and no other way."""

import pytest

from bot.core.errors import Refused
from bot.core.names import RepositoryId, ThreadNumber
from bot.store.sealing import place, seal, unseal

KEY = b"k" * 32
WHERE = place(RepositoryId(7), ThreadNumber(5), "journal/00000001")


@pytest.mark.parametrize("content", (b"", b"a line", bytes(range(256)) * 5000), ids=("empty", "text", "binary"))
def test_there_and_back(content: bytes) -> None:
    """What was sealed opens as it was."""
    assert unseal(seal(content, KEY, WHERE), KEY, WHERE) == content


@pytest.mark.req("L9")
def test_says_nothing() -> None:
    """A sealed file holds nothing of its content, and sealing twice gives different bytes."""
    first, second = seal(b"the secret plan", KEY, WHERE), seal(b"the secret plan", KEY, WHERE)
    assert first != second
    assert b"secret" not in first
    assert (first[0], len(first[1:13]), first[1:13] != second[1:13]) == (1, 12, True)


@pytest.mark.req("A4")
@pytest.mark.parametrize(
    ("key", "where"),
    (
        (b"K" * 32, WHERE),
        (KEY, place(RepositoryId(8), ThreadNumber(5), "journal/00000001")),
        (KEY, place(RepositoryId(7), ThreadNumber(6), "journal/00000001")),
        (KEY, place(RepositoryId(7), ThreadNumber(5), "journal/00000002")),
    ),
    ids=("key", "repository", "thread", "file"),
)
def test_another(key: bytes, where: str) -> None:
    """Another key, repository, thread or file name is Refused."""
    with pytest.raises(Refused):
        unseal(seal(b"content", KEY, WHERE), key, where)


@pytest.mark.req("A4")
def test_every_byte_counts() -> None:
    """A file with any one byte changed, or cut anywhere, is Refused."""
    sealed = seal(b"content", KEY, WHERE)
    changed = [sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :] for at in range(len(sealed))]
    for spoiled in (*changed, *(sealed[:end] for end in range(len(sealed)))):
        with pytest.raises(Refused):
            unseal(spoiled, KEY, WHERE)
