"""The inbox: durable, whole, bounded, each guid once."""

from dataclasses import replace
from pathlib import Path

import pytest

from bot.core.errors import Misconfigured, Transient
from bot.service.inbox import Delivery, Inbox
from tests import forks
from tests.service.ground import delivery, thread


@pytest.mark.req("W2")
def test_what_was_stored_is_there_for_the_next_process(tmp_path: Path) -> None:
    """Another inbox on the same folder reads exactly what was stored, oldest first."""
    given = [delivery(3), delivery(1), Delivery("guid-all", "installation", None)]
    for each in given:
        assert Inbox(tmp_path / "inbox").store(each)
    assert list(Inbox(tmp_path / "inbox").waiting()) == given
    assert given[0].address == thread(3)


def test_the_same_guid_is_stored_once(tmp_path: Path) -> None:
    """A second attempt is told apart while the first waits, after it was covered, and by another process."""
    inbox = Inbox(tmp_path)
    assert inbox.store(delivery(1))
    assert not inbox.store(delivery(1))
    assert not Inbox(tmp_path).store(delivery(1))
    inbox.remove(["guid-1"])
    assert not inbox.store(delivery(1))
    assert inbox.waiting() == ()


def test_what_is_stored_together_is_read_and_removed_one_by_one(tmp_path: Path) -> None:
    """Of a guid that comes twice, the first one is new; what another process stored is known."""
    assert Inbox(tmp_path).store(delivery(2))
    inbox = Inbox(tmp_path)
    given = [delivery(3), delivery(1), replace(delivery(1), event="again"), delivery(2), delivery(None)]
    assert inbox.store_all(given) == (True, True, False, False, True)
    assert inbox.store_all(given) == (False,) * 5
    assert len(list(tmp_path.iterdir())) == 2
    found = {each.guid: each for each in Inbox(tmp_path).waiting()}
    assert found == {each.guid: each for each in (delivery(1), delivery(2), delivery(3), delivery(None))}
    inbox.remove(["guid-3"])
    assert {each.guid for each in Inbox(tmp_path).waiting()} == {"guid-1", "guid-2", "guid-None"}


FAILING_SYNCS = """
import ctypes, os, struct, sys
from pathlib import Path
from bot.service.inbox import Inbox
from tests import forks
from tests.service.ground import delivery

inbox = Inbox(Path(sys.argv[1]))
if sys.argv[2] == "file":
    inbox.store(delivery(1))
# seccomp(2): from now on fdatasync fails, or opening a folder does, as on a disk that dies. LOAD number; if it is this
# one: LOAD an argument; if a bit of it is set: return EIO; else allow.
sync, opening = {"x86_64": (75, 257), "aarch64": (83, 56)}[os.uname().machine]
number, argument, mask = (sync, 16, 0xFFFFFFFF) if sys.argv[2] == "file" else (opening, 32, os.O_DIRECTORY)
steps = ((0x20, 0, 0, 0), (0x15, 0, 3, number), (0x20, 0, 0, argument), (0x45, 0, 1, mask), (6, 0, 0, 0x50005))
code = b"".join(struct.pack("HBBI", *step) for step in (*steps, (6, 0, 0, 0x7FFF0000)))
buffer = ctypes.create_string_buffer(code)
program = struct.pack("HxxxxxxQ", len(steps) + 1, ctypes.addressof(buffer))
prctl = ctypes.CDLL(None, use_errno=True).prctl
assert prctl(38, 1, 0, 0, 0) == 0 and prctl(22, 2, ctypes.c_char_p(program), 0, 0) == 0
try:
    inbox.store_all([delivery(2), delivery(3)])
except OSError as error:
    print(error.errno)
print(inbox.knows("guid-2"))
"""


@pytest.mark.req("D2")
@pytest.mark.parametrize(("what", "before"), (("file", (delivery(1),)), ("folder", ())))
def test_what_cannot_be_synced_is_not_kept(tmp_path: Path, what: str, before: tuple[Delivery, ...]) -> None:
    """Whichever sync fails, all of the batch fails, leaves no trace, and can be stored later."""
    made = forks.script(FAILING_SYNCS).run(str(tmp_path), what)
    assert made.stdout.split() == ["5", "False"]  # EIO
    assert Inbox(tmp_path).waiting() == before
    assert Inbox(tmp_path).store_all([delivery(2), delivery(3)]) == (True, True)


def test_a_removed_delivery_is_gone(tmp_path: Path) -> None:
    """Only what a look has covered goes; removing twice is no error."""
    inbox = Inbox(tmp_path)
    inbox.store(delivery(1))
    inbox.store(delivery(2))
    inbox.remove(["guid-1", "guid-1"])
    assert inbox.waiting() == (delivery(2),)


def test_a_full_inbox_refuses(tmp_path: Path) -> None:
    """A flood ends at the limit, and the inbox takes again when there is room."""
    inbox = Inbox(tmp_path, limit=2)
    inbox.store(delivery(1))
    inbox.store(delivery(2))
    with pytest.raises(Transient, match="full"):
        inbox.store(delivery(3))
    with pytest.raises(Transient, match="full"):
        inbox.probe()
    inbox.remove(["guid-1"])
    inbox.probe()
    assert inbox.store(delivery(3))


@pytest.mark.req("D2")
def test_a_full_disk_keeps_nothing(tmp_path: Path) -> None:
    """A delivery that cannot be written whole leaves no trace, and can be stored later (RLIMIT_FSIZE is the disk)."""
    script = """
import resource, sys
from pathlib import Path
from tests import forks
from tests.service.ground import delivery
from bot.service.inbox import Inbox
inbox = Inbox(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
for act in (lambda: inbox.store(delivery(1)), lambda: Inbox(inbox.folder).probe()):
    try:
        act()
    except OSError as error:
        print(error.errno)
print(sorted(file.name for file in inbox.folder.iterdir() if file.stat().st_size))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
print(inbox.store(delivery(1)))
"""
    made = forks.script(script).run(str(tmp_path / "inbox"))
    assert made.stdout.split("\n")[:3] == ["27", "[]", "True"]  # EFBIG


def test_a_folder_that_is_none_refuses(tmp_path: Path) -> None:
    """Where no folder can be, nothing is stored and the probe says so."""
    (tmp_path / "file").write_text("")
    inbox = Inbox(tmp_path / "file" / "inbox")
    with pytest.raises(OSError, match="file"):
        inbox.store(delivery(1))
    with pytest.raises(OSError, match="file"):
        inbox.probe()
    assert inbox.waiting() == ()


def test_probing_leaves_nothing(tmp_path: Path) -> None:
    """Asking whether there is room takes none."""
    Inbox(tmp_path / "a" / "inbox").probe()
    assert list((tmp_path / "a" / "inbox").iterdir()) == []


@pytest.mark.req("E4")
def test_one_worker_holds_an_inbox(tmp_path: Path) -> None:
    """A second worker is refused with the cure, and may begin when the first has ended."""
    with Inbox(tmp_path).lock_workers():
        with pytest.raises(Misconfigured, match="PLANGATE_DATA_DIR"), Inbox(tmp_path).lock_workers():
            raise AssertionError("two workers")
        assert Inbox(tmp_path).store(delivery(1))
    with Inbox(tmp_path).lock_workers():
        pass
