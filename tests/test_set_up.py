"""Setting up from a lock file: packages that appear after the lock was written change nothing."""

import hashlib
import os
import subprocess
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

BACKEND = """
import pathlib, zipfile
def build_editable(directory, settings=None, metadata=None):
    name = "plangate-0-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(directory, name), "w") as wheel:
        wheel.writestr("plangate-0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: plangate\\nVersion: 0\\n")
        tag = "Root-Is-Purelib: true\\nTag: py3-none-any\\n"
        wheel.writestr("plangate-0.dist-info/WHEEL", "Wheel-Version: 1.0\\n" + tag)
        wheel.writestr("plangate-0.dist-info/RECORD", "")
    return name
"""


def write_wheel(folder: Path, name: str, version: str, *more: str) -> Path:
    """Write a wheel without code, and return its path."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    metadata = "\n".join(("Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *more, ""))
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}-{version}.dist-info/METADATA", metadata)
        wheel.writestr(
            f"{name}-{version}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{name}-{version}.dist-info/RECORD", "")
    return path


@pytest.mark.long
def test_a_newer_release_of_an_extra_changes_nothing(tmp_path: Path) -> None:
    """A locked package wants another one with an extra, which has a release newer than the locked one: pip takes the
    locked release, and does not ask for the hash of the newer one."""
    wheels, tree = tmp_path / "wheels", tmp_path / "tree"
    for folder in (wheels, tree / ".github", tree / "requirements", tree / "bot", tree / "webhooks", tmp_path / "bin"):
        folder.mkdir(parents=True)
    wanting = write_wheel(wheels, "wanting", "1", "Requires-Dist: holder[more]>=1")
    holder = write_wheel(wheels, "holder", "1", "Provides-Extra: more")
    write_wheel(wheels, "holder", "2", "Provides-Extra: more")
    lock = [
        f"{wheel.name.split('-')[0]}==1 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}"
        for wheel in (holder, wanting)
    ]
    (tree / "requirements" / "run.txt").write_text("\n".join(lock))
    (tree / ".github" / "setup.sh").write_bytes((ROOT / ".github" / "setup.sh").read_bytes())
    (tree / "backend.py").write_text(BACKEND)
    (tree / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    no_uv = tmp_path / "bin" / "uv"
    no_uv.write_text("#!/bin/sh\nexit 1\n")
    no_uv.chmod(0o755)
    pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "PIP_CONFIG_FILE": os.devnull}
    env = os.environ | pip | {"PATH": f"{no_uv.parent}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run(["bash", tree / ".github" / "setup.sh", "run"], env=env, check=True, timeout=120)
    listed = subprocess.run(
        [tree / ".venv" / "bin" / "python", "-m", "pip", "list", "--format=freeze"],
        env=env,
        check=True,
        capture_output=True,
        text=True,
    )
    assert {"holder==1", "wanting==1"} <= set(listed.stdout.split())
