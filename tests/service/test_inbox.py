"""The inbox: durable, whole, bounded, each guid once; what dead processes and older releases leave in its files."""

import json
import threading
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from bot.core.errors import Misconfigured, Transient
from bot.service.inbox import CAPACITY, Delivery, Inbox
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
    """Only what a check has covered goes; removing twice is no error."""
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


def logs(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def guids(inbox: Inbox) -> set[str]:
    return {waiting.guid for waiting in inbox.waiting()}


@pytest.mark.req("W2")
def test_half_a_line_of_a_dead_process(tmp_path: Path) -> None:
    """Nobody was told that it is stored. What follows it is read."""
    inbox = Inbox(tmp_path)
    inbox.store_all([delivery(1), delivery(2)])
    inbox.close()
    (log,) = logs(tmp_path)
    log.write_bytes(log.read_bytes() + b'{"guid": "guid-3", "eve')
    inbox = Inbox(tmp_path)
    assert inbox.waiting() == (delivery(1), delivery(2))
    inbox.remove(["guid-1"])
    inbox.close()
    assert Inbox(tmp_path).waiting() == (delivery(2),)


@pytest.mark.parametrize(
    "line", (b"", b"{", b"[1]", b'{"guid": "x"}', b"\xff\xfe", b'{"guid":1,"event":2,"address":3}')
)
def test_a_line_that_cannot_be_read_is_set_aside(tmp_path: Path, line: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged once, kept for people, and stops nothing else."""
    inbox = Inbox(tmp_path)
    inbox.store(delivery(2))
    inbox.close()
    (log,) = logs(tmp_path)
    log.write_bytes(line + b"\n" + log.read_bytes())
    log.rename(tmp_path / "broken.log")
    for _ in range(2):
        inbox = Inbox(tmp_path)
        assert inbox.waiting() == (delivery(2),)
        inbox.close()
    assert (tmp_path / "unreadable" / "broken-1").read_bytes() == line
    assert [record.getMessage() for record in caplog.records] == ["inbox"]
    assert [name for name, _ in Inbox(tmp_path).list_unreadable()] == ["broken-1"]


def test_a_folder_in_the_place_of_a_file_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, and what can be read is read."""
    (tmp_path / "a.log").mkdir()
    (tmp_path / "b.json").mkdir()
    inbox = Inbox(tmp_path)
    inbox.store(delivery(1))
    assert inbox.waiting() == (delivery(1),)
    assert [record.getMessage() for record in caplog.records] == ["inbox", "inbox"]
    assert (tmp_path / "unreadable" / "b.json").is_dir()


@pytest.mark.req("W2")
def test_what_was_covered_stays_covered(tmp_path: Path) -> None:
    """A file that holds both is read by the next process, and it is gone once all of it was covered."""
    inbox = Inbox(tmp_path)
    inbox.store_all([delivery(1), delivery(2), delivery(3)])
    inbox.remove(["guid-2"])
    inbox.close()
    inbox = Inbox(tmp_path)
    assert inbox.waiting() == (delivery(1), delivery(3))
    assert not inbox.store(delivery(2))
    inbox.remove(["guid-1", "guid-3"])
    assert inbox.waiting() == ()
    assert logs(tmp_path) == []


def test_many_deliveries_are_in_several_files(tmp_path: Path) -> None:
    """One that waits long keeps its own file only."""
    inbox = Inbox(tmp_path)
    found = [delivery(number) for number in range(1, 2 * CAPACITY + 11)]
    for start in range(0, len(found), 100):
        inbox.store_all(found[start : start + 100])
    assert len(logs(tmp_path)) == 3
    inbox.remove([each.guid for each in found[1:]])
    assert inbox.waiting() == (found[0],)
    assert len(logs(tmp_path)) == 2
    inbox.close()
    assert Inbox(tmp_path).waiting() == (found[0],)
    assert len(logs(tmp_path)) == 1


@pytest.mark.req("W2")
def test_two_processes_store_and_one_works(tmp_path: Path) -> None:
    """A file that another process writes is read, and left to it."""
    receiver, worker = Inbox(tmp_path), Inbox(tmp_path)
    receiver.store(delivery(1))
    worker.store(delivery(2))
    assert guids(worker) == {"guid-1", "guid-2"}
    worker.remove(["guid-1", "guid-2"])
    receiver.store(delivery(3))
    receiver.close()
    assert "guid-3" in guids(worker)
    assert "guid-2" not in guids(worker)


def test_what_was_refused_when_there_was_no_room_can_be_stored_and_covered(tmp_path: Path) -> None:
    """Another process made room: what is stored then is covered like everything else."""
    receiver = Inbox(tmp_path, limit=1)
    receiver.store(delivery(1))
    receiver.close()
    worker = Inbox(tmp_path)
    worker.waiting()
    worker.remove(["guid-1"])
    assert receiver.store(delivery(2))
    receiver.remove(["guid-2"])
    assert Inbox(tmp_path).list_stored() == ()


def test_a_file_that_somebody_emptied_is_deleted(tmp_path: Path) -> None:
    """A check covers what waits there no longer."""
    inbox = Inbox(tmp_path)
    inbox.store_all([delivery(1), delivery(2)])
    inbox.close()
    logs(tmp_path)[0].write_bytes(b"")
    inbox.remove(["guid-1"])
    inbox.remove(["guid-2"])
    assert logs(tmp_path) == []


@pytest.mark.req("W2")
def test_a_deleted_file_keeps_nothing(tmp_path: Path) -> None:
    """Somebody empties the folder while the service runs: the next delivery is in a file that is there."""
    inbox = Inbox(tmp_path)
    inbox.store(delivery(1))
    (log,) = logs(tmp_path)
    log.unlink()
    assert inbox.store(delivery(2))
    assert Inbox(tmp_path).waiting() == (delivery(2),)


@pytest.mark.req("W2")
def test_a_worker_that_begins_takes_no_file_away(tmp_path: Path) -> None:
    """A worker deletes empty files of dead processes, and never one that is being made."""
    is_over, folders = threading.Event(), [tmp_path / str(number) for number in range(20)]

    def begin() -> None:
        while not is_over.is_set():
            worker = Inbox(current)
            worker.waiting()
            worker.close()

    current = folders[0]
    beginning = threading.Thread(target=begin)
    beginning.start()
    try:
        for current in folders:  # few files in each, so that workers begin often
            for number in range(5):
                receiver = Inbox(current)
                assert receiver.store(delivery(number))
                receiver.close()
    finally:
        is_over.set()
        beginning.join()
    for folder in folders:
        assert guids(Inbox(folder)) == {f"guid-{number}" for number in range(5)}


STORES_AND_COVERS = """
import sys
from pathlib import Path
from bot.service.inbox import Inbox
from tests.service.ground import delivery

inbox, begin = Inbox(Path(sys.argv[1])), int(sys.argv[2])
inbox.waiting()
for number in range(begin, begin + 100_000):
    inbox.store(delivery(number))
    print("stored", f"guid-{number}", flush=True)
    if number % 3:
        print("covers", f"guid-{number}", flush=True)
        inbox.remove([f"guid-{number}"])
"""


@pytest.mark.req("W2", "E3")
def test_nothing_is_lost_when_processes_are_killed(tmp_path: Path) -> None:
    """Kill -9 again and again: what was stored waits, and at most the last one that was covered waits as well."""
    stored, covered, doubtful = set[str](), set[str](), set[str]()
    for turn in range(3):
        program = forks.script(STORES_AND_COVERS)
        with program.read_lines(str(tmp_path), str(turn * 100_000 + 1)) as (process, printed):
            lines = [printed.readline().split() for _ in range(200 + turn)]
            process.kill()
            lines += [line.split() for line in printed.read().split("\n")[:-1]]
        stored |= {guid for what, guid in lines if what == "stored"}
        covers = [guid for what, guid in lines if what == "covers"]
        covered |= set(covers[:-1])
        doubtful |= set(covers[-1:])
    found = guids(Inbox(tmp_path))
    assert stored - covered - doubtful <= found
    assert not found & covered


def store_as_before(folder: Path, *deliveries: Delivery) -> None:
    """Store deliveries as the release before did: lines of one file, which has the name of each."""
    content = "\n".join(json.dumps(asdict(stored)) for stored in deliveries)
    for stored in deliveries:
        (folder / f"{stored.guid}.json").write_text(content)


@pytest.mark.req("W2")
def test_what_the_release_before_stored(tmp_path: Path) -> None:
    """It is taken over once, and covered like everything else."""
    store_as_before(tmp_path, delivery(1), delivery(2), delivery(None))
    store_as_before(tmp_path, delivery(3))
    inbox = Inbox(tmp_path)
    assert guids(inbox) == {"guid-1", "guid-2", "guid-3", "guid-None"}
    assert not inbox.store(delivery(3))
    assert list(tmp_path.glob("*.json")) == []
    inbox.remove(["guid-1", "guid-2", "guid-None"])
    inbox.close()
    assert Inbox(tmp_path).waiting() == (delivery(3),)


@pytest.mark.parametrize("content", (b"", b"{", b"[1]", b'{"guid": "x"}', b"\xff\xfe"))
def test_a_file_of_the_release_before_that_cannot_be_read(tmp_path: Path, content: bytes) -> None:
    """It is kept for people, and stops nothing else."""
    store_as_before(tmp_path, delivery(2))
    (tmp_path / "broken.json").write_bytes(content)
    assert Inbox(tmp_path).waiting() == (delivery(2),)
    assert (tmp_path / "unreadable" / "broken.json").read_bytes() == content
