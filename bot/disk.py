"""What makes changes on a disk survive a loss of power."""

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Have the names in a folder survive a loss of power. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
