"""The files of the inbox: what dead processes leave, several processes at once, and what an older release stored."""

import json
import threading
from dataclasses import asdict
from pathlib import Path

import pytest

from bot.service.inbox import CAPACITY, Delivery, Inbox
from tests import forks
from tests.service.ground import delivery


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
    """A look covers what waits there no longer."""
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
