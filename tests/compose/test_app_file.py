"""The file of the App's credentials: one process at a time, complete or not there, and nothing is replaced."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from bot.compose.app_file import PREPARED, prepare_app_file
from bot.config.saved_app import FILE
from bot.core.errors import Misconfigured

pytestmark = pytest.mark.req("W4a", "E3")
APP = {"PLANGATE_APP_ID": "7", "PLANGATE_PRIVATE_KEY": "-----BEGIN"}


def test_nothing_is_left_where_nothing_was_begun(tmp_path: Path) -> None:
    """A set-up that nobody finishes leaves an empty folder, which others cannot open."""
    with prepare_app_file(tmp_path / "data") as file:
        assert (file.left_over, file.path.exists()) == ("", False)
    assert list((tmp_path / "data").iterdir()) == []
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700


def test_the_space_is_taken_first(tmp_path: Path) -> None:
    """Before GitHub is asked, in a file that nobody else can read, whatever the umask and an earlier mode say."""
    (tmp_path / PREPARED).touch(0o666)
    before = os.umask(0)
    try:
        with prepare_app_file(tmp_path) as file:
            file.prepare("where")
            facts = (tmp_path / PREPARED).stat()
            assert (facts.st_size, facts.st_mode & 0o777) == (16 * 1024, 0o600)
            file.save(APP)
    finally:
        os.umask(before)
    assert json.loads((tmp_path / FILE).read_text()) == APP
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == [FILE]


def test_one_process_at_a_time(tmp_path: Path) -> None:
    """The second is told how to go on, and the first is not disturbed."""
    with prepare_app_file(tmp_path) as file:
        with pytest.raises(Misconfigured, match="PLANGATE_DATA_DIR"), prepare_app_file(tmp_path):
            pass
        file.save(APP)
    assert (tmp_path / FILE).exists()


def test_other_credentials_are_kept(tmp_path: Path) -> None:
    """Also those that appeared meanwhile."""
    with prepare_app_file(tmp_path) as file:
        (tmp_path / FILE).write_text("mine")
        with pytest.raises(Misconfigured, match="kept"):
            file.save(APP)
    assert (tmp_path / FILE).read_text() == "mine"


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    """What it leads to is neither written nor made private."""
    (tmp_path / "target").write_text("theirs")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / PREPARED).symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="symbolic"), prepare_app_file(tmp_path / "data"):
        pass
    assert (tmp_path / "target").read_text() == "theirs"


def die_after(folder: Path, *steps: str) -> None:
    """Run steps in a process of their own, which then dies at once."""
    if child := os.fork():
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        return
    try:
        with prepare_app_file(folder) as file:
            if "prepare" in steps:
                file.prepare("https://github.com/settings/apps")
            if "write" in steps:
                (folder / PREPARED).write_text(json.dumps(APP))
            if "half" in steps:
                (folder / PREPARED).write_text(json.dumps(APP)[:20])
            os.kill(os.getpid(), signal.SIGKILL)
    finally:
        sys.exit(1)


def test_death_before_the_credentials_were_written(tmp_path: Path) -> None:
    """The next process knows where GitHub may list an App whose key nobody has."""
    die_after(tmp_path, "prepare")
    with prepare_app_file(tmp_path) as file:
        assert file.left_over == "https://github.com/settings/apps"


def test_death_in_the_middle_of_writing(tmp_path: Path) -> None:
    """Half of the credentials are none, and it is known that an App may be left."""
    die_after(tmp_path, "prepare", "half")
    with prepare_app_file(tmp_path) as file:
        assert (bool(file.left_over), file.path.exists()) == (True, False)


def test_death_before_the_file_got_its_name(tmp_path: Path) -> None:
    """Complete credentials are not lost: the next process saves them."""
    die_after(tmp_path, "prepare", "write")
    with prepare_app_file(tmp_path) as file:
        assert json.loads(file.path.read_text()) == APP
    assert [each.name for each in tmp_path.iterdir()] == [FILE]
