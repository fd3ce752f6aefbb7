"""Looks that `plangate sweep` asks for."""

from pathlib import Path

import pytest

from bot.compose.sweep import sweep
from bot.config.settings import Settings
from bot.core.errors import Misconfigured


def test_a_sweep_of_no_repository(tmp_path: Path) -> None:
    """A name that is none is wrong usage."""
    with pytest.raises(Misconfigured, match="OWNER/REPO"):
        sweep(Settings(data_dir=tmp_path), "hello")
