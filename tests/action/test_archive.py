"""Where the Action's packages come from: the archive that the release names, else the registry."""

import hashlib
import io
import os
import shutil
import subprocess
import sysconfig
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Final

import pytest

from tests.action.ground import ROOT

SOABI: Final = str(sysconfig.get_config_var("SOABI"))
RUNS: Final = "#!/bin/sh\nexit 0\n"
REGISTRY: Final = '#!/bin/sh\n[ "$1" = --version ] || { echo "registry: $* $OPENSSL_CONF" >&2; exit 1; }\n'
"""An installer whose registry has nothing."""
ASKED: Final = "--no-deps --only-binary :all: --require-hashes --requirement"
LACKS_A_LIBRARY: Final = "#!/bin/sh\nexit 127\n"


@dataclass(frozen=True, slots=True)
class Release:
    """A release of an action that holds one small module, on a server, and a runner's folder."""

    folder: Path
    url: str

    def publish(self, *, rg: str = RUNS, named: str | None = None, soabi: str = SOABI) -> None:
        """Put an archive on the server, and name it with its checksum, or with another one."""
        files = {"packages/dependency.py": "", "programs/bwrap": RUNS, "programs/rg": rg}
        served = self.folder / "served/archive"
        with tarfile.open(served, "w:gz") as archive:
            for name, text in files.items():
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(text), 0o755
                archive.addfile(entry, io.BytesIO(text.encode()))
        named = named or hashlib.sha256(served.read_bytes()).hexdigest()
        names = self.folder / "action/requirements/archives.txt"
        names.write_text(f"other-soabi {'0' * 64} {self.url}/none\n{soabi} {named} {self.url}/archive\n")

    def set_up(self) -> tuple[Path | None, str]:
        """Set the action up. Return its folder, or None if that failed, and what it said."""
        uv = self.folder / "programs/uv"
        uv.parent.mkdir(exist_ok=True)
        uv.write_text(REGISTRY)
        uv.chmod(0o755)
        variables = {
            "PATH": f"{uv.parent}:{os.environ['PATH']}",
            "RUNNER_TEMP": str(self.folder),
            "GITHUB_OUTPUT": str(self.folder / "output"),
            "GITHUB_ACTION_PATH": str(self.folder / "action"),
            "TAR_OPTIONS": f"--to-command=tee {self.folder}/theirs",  # an earlier step wrote it to GITHUB_ENV
            "OPENSSL_CONF": f"{self.folder}/theirs.cnf",
        }
        done = subprocess.run(
            ["bash", str(ROOT / ".github/action.sh")], env=variables, capture_output=True, text=True, check=False
        )
        home = (self.folder / "output").read_text().strip().removeprefix("home=") if done.returncode == 0 else None
        return Path(home) if home else None, done.stderr


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder, and says nothing."""

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""


@pytest.fixture
def release(tmp_path: Path) -> Iterator[Release]:
    for folder in ("served", "action/bot/cli", "action/requirements", "action/.github"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "action/bot/cli/main.py").write_text(
        "import dependency, sys\nfrom importlib.metadata import version\n"
        "def main():\n    print(dependency.__name__, version('plangate'), sys.flags.isolated)\n"
    )
    (tmp_path / "action/.github/sandbox.sh").touch()
    shutil.copy(ROOT / ".github/environment.sh", tmp_path / "action/.github")
    (tmp_path / "action/pyproject.toml").write_text('[project]\nname = "plangate"\nversion = "1.2.3"\n')
    served = partial(Quiet, directory=str(tmp_path / "served"))
    with ThreadingHTTPServer(("127.0.0.1", 0), served) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield Release(tmp_path, f"http://127.0.0.1:{server.server_port}")
        server.shutdown()


def test_a_release_is_unpacked(release: Release) -> None:
    """Nothing is asked of a registry, the program is the action's own source, and it starts isolated."""
    release.publish()
    home, said = release.set_up()
    assert home is not None, said
    assert said == ""
    command = [f"{home}/venv/bin/python", "-I", f"{home}/venv/bin/plangate"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "dependency 1.2.3 1\n"
    assert sorted(each.name for each in (home / "programs").iterdir()) == ["bwrap", "rg"]
    assert list(home.glob("venv/lib/*/site-packages/bot/cli/__pycache__/main.*.pyc"))


def test_a_program_that_does_not_run_here_is_left_out(release: Release) -> None:
    """The archive was built on another machine: what lacks a library is installed by the distribution later."""
    release.publish(rg=LACKS_A_LIBRARY)
    home, said = release.set_up()
    assert home is not None, said
    assert [each.name for each in (home / "programs").iterdir()] == ["bwrap"]


@pytest.mark.parametrize(
    ("named", "soabi", "told"),
    (
        ("0" * 64, SOABI, "::warning title=Plangate::"),
        (None, "cpython-300-x86_64-linux-gnu", ""),
    ),
    ids=["changed", "another machine's"],
)
def test_any_other_archive_is_not_used(release: Release, named: str | None, soabi: str, told: str) -> None:
    """What is not exactly the named file is reported and not unpacked: the registry is asked, by the lock file."""
    release.publish(named=named, soabi=soabi)
    home, said = release.set_up()
    assert home is None
    assert told in said
    assert ASKED in said
    assert not list(release.folder.glob("plangate.*/unpacked"))


def test_an_archive_that_does_not_arrive(release: Release) -> None:
    """The registry is asked then."""
    release.publish()
    (release.folder / "served/archive").unlink()
    home, said = release.set_up()
    assert home is None
    assert "404" in said
    assert ASKED in said


def test_the_small_lock_holds_the_same_versions() -> None:
    """What the Action installs is what the service and the tests install, less what only they need."""

    def pinned(name: str) -> dict[str, str]:
        entries = (ROOT / "requirements" / name).read_text().replace("\\\n", "").splitlines()
        return {entry.split("==")[0]: entry for entry in entries}

    action, run = pinned("action.txt"), pinned("run.txt")
    assert action.items() < run.items()
    assert {"fastapi", "uvicorn", "hatchling"}.isdisjoint(action)
