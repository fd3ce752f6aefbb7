"""Changed: which files that were read are no longer as they were (T7)."""

from pathlib import Path

import pytest

from tests.toolhost.client import Client


@pytest.mark.req("T7")
def test_files_that_changed_or_lead_outside_are_told(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    root.mkdir()
    for name in ("same", "other", "gone", "moved"):
        (root / name).write_text("a\n")
    client = Client(root)
    try:
        stamps: dict[str, str] = {}
        for name in ("same", "other", "gone", "moved"):
            stamps |= client.call("Read", file_path=name).stamps
        (root / "same").write_text("a\n")
        (root / "other").write_text("b\n")
        (root / "gone").unlink()
        (root / "moved").unlink()
        (root / "moved").symlink_to(tmp_path)
        changed = client.call("Changed", stamps=stamps).details["changed"]
        assert set(changed) == {"other", "gone", "moved"}
        assert changed["gone"] == changed["moved"] == ""
        assert changed["other"].startswith("2-")
    finally:
        client.close()
