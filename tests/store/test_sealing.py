"""Keys and sealed files: they open in their place with their key, as they were, and no other way."""

import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from bot.core.errors import Misconfigured, Refused
from bot.core.names import RepositoryId, ThreadNumber
from bot.store.sealing import StateKey, key_file, place, seal, unseal


def test_derived_keys() -> None:
    """Each purpose has a key of its own, which stays the same for ever (known answers: stored files depend on them)."""
    key = StateKey(b"k" * 32)
    assert (key.mac.hex()[:16], key.encryption.hex()[:16], key.receipts.hex()[:16], key.id) == (
        "ff8fb218ae809ce3",
        "fddac04b99ed3756",
        "bd62941f5081503c",
        "e0e62477",
    )
    assert len({key.mac, key.encryption, key.receipts}) == 3
    assert [len(each) for each in (key.mac, key.encryption, key.receipts)] == [32, 32, 32]


def test_other_secret() -> None:
    """Another secret gives other keys for every purpose."""
    one, two = StateKey(b"k" * 32), StateKey(b"K" * 32)
    assert not {one.mac, one.encryption, one.receipts, one.id} & {two.mac, two.encryption, two.receipts, two.id}


@pytest.mark.parametrize("show", (repr, str, "{}".format, lambda key: f"{key!r}"))
def test_never_printed(show: object) -> None:
    """Nothing that prints a key shows the secret."""
    assert callable(show)
    assert "very-secret" not in show(StateKey.of("very-secret-very-secret"))


def test_cannot_be_changed() -> None:
    """A key's secret cannot be replaced."""
    with pytest.raises(FrozenInstanceError):
        StateKey.of("very-secret-very-secret").secret = b"other"  # type: ignore[misc]


def test_white_space_around() -> None:
    """White space around a configured key (the newline of `echo`) does not make another key."""
    assert StateKey.of(" 0123456789abcdef\n") == StateKey.of("0123456789abcdef")


@pytest.mark.parametrize("end", ("\n", "\\n", ""))
def test_the_text_of_a_private_key(end: str) -> None:
    """It makes the key that was derived from that private key, to the last newline."""
    pem = f"-----BEGIN RSA PRIVATE KEY-----{end}MIIEpAIBAAKCAQEA{end}-----END RSA PRIVATE KEY-----{end}"
    assert StateKey.of(pem) == StateKey(pem.replace("\\n", "\n").encode())


@pytest.mark.parametrize("text", ("", " " * 20, "short", "0123456789abcde"))
def test_too_short(text: str) -> None:
    """A key that can be guessed is refused with the cure, and without the key."""
    with pytest.raises(Misconfigured, match="PLANGATE_STATE_KEY") as caught:
        StateKey.of(text)
    assert not text.strip() or text not in str(caught.value)


def test_key_file_is_made(tmp_path: Path) -> None:
    """The first use makes the file: 64 hex digits, for its owner alone, nothing beside it; later uses read it."""
    file = tmp_path / "data" / "state.key"
    key = key_file(file)
    assert key_file(file) == key
    assert bytes.fromhex(file.read_text()) == key.secret
    assert len(key.secret) == 32
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert list(file.parent.iterdir()) == [file]


def test_two_machines_two_keys(tmp_path: Path) -> None:
    """Keys are random."""
    assert key_file(tmp_path / "a") != key_file(tmp_path / "b")


def test_race(tmp_path: Path) -> None:
    """Sixteen that make the file at once end with one key."""
    with ThreadPoolExecutor(16) as pool:
        for number in range(20):
            file = tmp_path / str(number) / "state.key"
            keys = list(pool.map(key_file, [file] * 16))
            assert {key.secret for key in keys} == {bytes.fromhex(file.read_text())}
            assert list(file.parent.iterdir()) == [file]


def test_race_of_processes(tmp_path: Path) -> None:
    """Processes that make the file at once print one key."""
    code = "import sys, pathlib; sys.stdin.readline(); from bot.store.sealing import key_file; "
    code += "print(key_file(pathlib.Path(sys.argv[1])).secret.hex())"
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", code, str(tmp_path / "state.key")]
    processes = [
        subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    printed = [process.communicate()[0].strip() for process in processes]
    assert printed == [(tmp_path / "state.key").read_text().strip()] * 4


@pytest.mark.parametrize("mode", (0o640, 0o604, 0o660))
def test_open_to_others(tmp_path: Path, mode: int) -> None:
    """A key file that others can read is refused with the cure."""
    file = tmp_path / "state.key"
    key_file(file)
    file.chmod(mode)
    with pytest.raises(Misconfigured, match="chmod 600"):
        key_file(file)


@pytest.mark.parametrize("text", ("", "abc", "g" * 64, "a" * 63, "a" * 66, "A" * 64))
def test_not_a_key(tmp_path: Path, text: str) -> None:
    """A file that holds something else is refused and left alone: a new key in its place would cost what is stored."""
    file = tmp_path / "state.key"
    file.touch(mode=0o600)
    file.write_text(text)
    with pytest.raises(Misconfigured, match="does not hold a key"):
        key_file(file)
    assert file.read_text() == text


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
