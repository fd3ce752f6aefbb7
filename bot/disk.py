"""Makes changes on a disk survive a loss of power."""

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Sync the entries of a folder to disk, so that they survive a loss of power. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
