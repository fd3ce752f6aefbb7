"""Changed: which files that were read are no longer as they were (T7)."""

from pathlib import Path

import pytest

from tests.toolhost.client import Client


@pytest.mark.req("T7")
def test_what_has_changed_is_told(tmp_path: Path) -> None:
    """Another content, a file that is gone, one that leads outside: changed; the same content written again is not."""
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
