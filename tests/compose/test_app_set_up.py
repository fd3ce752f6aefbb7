"""The file of the App's credentials: complete or not there, for this user only, and nothing is replaced."""

import json
import os
from pathlib import Path

import pytest

from bot.compose.app_set_up import save_app

pytestmark = pytest.mark.req("W4a", "E3")
APP = {"PLANGATE_APP_ID": "7", "PLANGATE_PRIVATE_KEY": "-----BEGIN"}


def test_nobody_else_can_read_it(tmp_path: Path) -> None:
    """Whatever the umask says."""
    before = os.umask(0)
    try:
        save_app(tmp_path / "app.json", APP)
    finally:
        os.umask(before)
    assert json.loads((tmp_path / "app.json").read_text()) == APP
    assert (tmp_path / "app.json").stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["app.json"]


@pytest.mark.parametrize("kind", ("file", "link"))
def test_what_is_there_is_kept(tmp_path: Path, kind: str) -> None:
    """Neither a file nor what a link leads to is written."""
    path, target = tmp_path / "app.json", tmp_path / "target"
    target.write_text("theirs")
    if kind == "link":
        path.symlink_to(target)
    else:
        target.rename(path)
    with pytest.raises(FileExistsError):
        save_app(path, APP)
    assert path.read_text() == "theirs"
    assert len(list(tmp_path.iterdir())) == 1 + (kind == "link")
