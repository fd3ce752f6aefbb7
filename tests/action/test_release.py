"""A release: what is refused, what its tag holds, and that a step that failed can be repeated."""

import io
import os
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.action.ground import ROOT

ARCHIVE: Final = "plangate-packages-cpython-312-x86_64-linux-gnu.tar.gz"
GH: Final = """#!/bin/bash
echo "$*" >> calls
case "$1 $2 $6" in
    "release view --jq") cat draft ;;
    "release view "*) [[ -e draft ]] ;;
    "release create "*) echo true > draft ;;
    "release edit "*) echo false > draft ;;
esac
"""
"""Keeps one release: `draft` says whether it is one."""
DOCKER: Final = """#!/bin/bash
echo "docker $*" >> calls
case "$1" in
    run) echo "plangate ${IMAGE_VERSION:-1.2.3}" ;;
    save) : > "$3" ;;
    login) [[ $(cat) == secret ]] ;;
esac
"""
REGISTRY: Final = """#!/bin/bash
echo "${0##*/} $*" >> calls
case "$1 $2" in
    "manifest push") : > pushed ;;
    "inspect --format") [[ -e pushed ]] && echo sha256:abc ;;
esac
"""
"""Stands in for buildah and skopeo, with a registry that has the version once it was pushed."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """A clone of main in a job of the release."""

    folder: Path

    def run(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run one step of the release, with more variables."""
        programs = self.folder.parent / "programs"
        variables = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "GITHUB_SERVER_URL": "https://github.example",
            "GITHUB_REPOSITORY": "O/R",
            "GITHUB_SHA": "0" * 40,
            "GITHUB_ACTOR": "ann",
            "GITHUB_OUTPUT": str(self.folder / "output"),
            "GH_TOKEN": "secret",
            **more,
        }
        command = ["bash", ".github/release.sh", *arguments]
        return subprocess.run(command, cwd=self.folder, env=variables, capture_output=True, text=True, check=False)

    def git(self, *arguments: str) -> str:
        """Run git and return what it prints."""
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        command = ["git", *identity, *arguments]
        return subprocess.run(command, cwd=self.folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def main(tmp_path: Path) -> Checkout:
    """Make a repository with what the release reads, and a server for it."""
    folder = tmp_path / "main"
    for name in (".github/release.sh", "bot/cli/workflow.yml", "bot/cli/sweep.yml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    (folder / "requirements").mkdir()
    (folder / "requirements/action.txt").touch()
    (folder / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    (folder / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.3 (today)\n\n- New.\n\n## 1.2.2\n\n- Old.\n")
    (tmp_path / "programs").mkdir()
    for name, text in {"gh": GH, "docker": DOCKER, "buildah": REGISTRY, "skopeo": REGISTRY}.items():
        (tmp_path / "programs" / name).write_text(text)
        (tmp_path / "programs" / name).chmod(0o755)
    checkout = Checkout(folder)
    checkout.git("init", "-q", "--bare", "../origin")
    checkout.git("init", "-q", "-b", "main")
    checkout.git("add", ".")
    checkout.git("commit", "-qm", "x")
    checkout.git("remote", "add", "origin", "../origin")
    checkout.git("push", "-q", "origin", "main")
    return checkout


def built(folder: Path) -> str:
    """Put what other jobs built into a folder."""
    folder.mkdir()
    for name in ("plangate-1.2.3.tar.gz", "plangate-1.2.3-py3-none-any.whl", ARCHIVE):
        (folder / name).write_text(name)
    return str(folder)


@pytest.mark.parametrize(
    ("path", "old", "new", "told"),
    (
        ("pyproject.toml", "1.2.3", "1.2", "the version 1.2 in pyproject.toml is not MAJOR.MINOR.PATCH"),
        ("CHANGELOG.md", "## 1.2.3", "## 1.2.4", "CHANGELOG.md has no section '## 1.2.3'"),
        ("bot/cli/sweep.yml", "plangate@v1", "plangate@v2", "bot/cli/sweep.yml does not use @v1"),
    ),
)
def test_a_release_that_misses_something_is_refused(main: Checkout, path: str, old: str, new: str, told: str) -> None:
    """A version, its changes, and workflows that use its major tag: without one of them nothing is built."""
    assert main.run("check").returncode == 0
    text = (main.folder / path).read_text()
    (main.folder / path).write_text(text.replace(old, new))
    done = main.run("check")
    assert (done.returncode, done.stderr) == (1, f"release: {told}\n")


def test_the_tag_pins_what_was_built(main: Checkout, tmp_path: Path) -> None:
    """Its commit is main's and one file, which names each archive by kind, checksum and address; it is no branch's."""
    folder = built(tmp_path / "dist")
    assert main.run("tag", folder).returncode == 0
    assert main.git("diff", "--name-only", "origin/main", "v1.2.3") == "requirements/archives.txt\n"
    soabi, digest, address = main.git("show", "v1.2.3:requirements/archives.txt").split()
    assert soabi == "cpython-312-x86_64-linux-gnu"
    assert address == f"https://github.example/O/R/releases/download/v1.2.3/{ARCHIVE}"
    sums = (tmp_path / "dist/SHA256SUMS").read_text()
    assert f"{digest}  {ARCHIVE}\n" in sums
    assert len(sums.splitlines()) == 3
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=folder, check=True)


def test_a_failed_step_is_repeated(main: Checkout, tmp_path: Path) -> None:
    """The job dies after the tag went out: the next try makes the same commit, and publishes what is still a draft."""
    folder = built(tmp_path / "dist")
    main.git("clone", "-q", "../origin", "../again", "-b", "main")
    again = Checkout(tmp_path / "again")
    (main.folder / "draft").write_text("true\n")
    assert main.run("tag", folder).returncode == 0
    main.git("push", "-q", "origin", "v1.2.3")
    assert again.run("tag", folder).returncode == 0
    shutil.copy(main.folder / "draft", again.folder)
    assert again.run("publish", folder).returncode == 0
    calls = (again.folder / "calls").read_text()
    assert "create" not in calls
    assert calls.index("release upload v1.2.3") < calls.index("release edit v1.2.3 --draft=false")
    assert again.git("ls-remote", "origin", "v1").split()[0] == main.git("rev-parse", "v1.2.3").strip()


def test_the_major_tag_moves_last(main: Checkout, tmp_path: Path) -> None:
    """What everybody uses is moved once the release is public; publishing a published release only does that."""
    folder = built(tmp_path / "dist")
    main.git("push", "-q", "origin", "main:refs/tags/v1")
    assert main.run("tag", folder).returncode == 0
    for _ in range(2):
        done = main.run("publish", folder)
        assert done.returncode == 0, done.stderr
    released = main.git("rev-parse", "v1.2.3").strip()
    tags = main.git("ls-remote", "--tags", "origin").splitlines()
    assert tags == [f"{released}\trefs/tags/v1", f"{released}\trefs/tags/v1.2.3"]
    calls = (main.folder / "calls").read_text()
    assert (calls.count("create"), calls.count("upload"), calls.count("edit")) == (1, 1, 1)
    assert "--notes \n- New." in calls
    assert "Old" not in calls


def test_an_image_is_tried_before_it_is_kept(main: Checkout, tmp_path: Path) -> None:
    """It names its source and version, starts without rights, and prints its version; another one is no release's."""
    done = main.run("image", str(tmp_path / "images"))
    assert done.returncode == 0, done.stderr
    (image,) = (tmp_path / "images").iterdir()
    assert image.name == f"image-{os.uname().machine}.tar"
    build, started, _ = (main.folder / "calls").read_text().splitlines()
    assert "--label org.opencontainers.image.source=https://github.example/O/R " in build
    assert "--label org.opencontainers.image.version=1.2.3 " in build
    assert started == "docker run --rm --read-only --cap-drop=ALL plangate:1.2.3 version"
    done = main.run("image", str(tmp_path / "other"), IMAGE_VERSION="1.2.2")
    assert (done.returncode, done.stderr) == (1, "release: plangate:1.2.3 does not start\n")
    assert not list((tmp_path / "other").iterdir())


def test_a_version_of_the_image_is_pushed_once(main: Checkout, tmp_path: Path) -> None:
    """One list of all kinds of machines, as the version and the major one; a repetition leaves the version alone."""
    folder = tmp_path / "images"
    folder.mkdir()
    for machine in ("aarch64", "x86_64"):
        (folder / f"image-{machine}.tar").touch()
    name = "ghcr.io/o/r"
    for _ in range(2):
        done = main.run("push", str(folder))
        assert done.returncode == 0, done.stderr
        assert (main.folder / "output").read_text() == f"name={name}\ndigest=sha256:abc\n"
        (main.folder / "output").unlink()
    calls = [call for call in (main.folder / "calls").read_text().splitlines() if not call.startswith("skopeo inspect")]
    login = "docker login ghcr.io --username ann --password-stdin"
    moved = f"skopeo copy --all --preserve-digests docker://{name}:1.2.3 docker://{name}:1"
    pushed = [
        f"buildah manifest create {name}",
        *(f"buildah manifest add {name} docker-archive:{folder}/image-{each}.tar" for each in ("aarch64", "x86_64")),
        f"buildah manifest push --all --format oci {name} docker://{name}:1.2.3",
    ]
    assert calls == [login, *pushed, moved, login, moved]


def test_a_job_downloads_only_what_it_needs() -> None:
    """GitHub's archive of a commit, which each job fetches first, holds the program and its set-up alone."""
    command = ["git", "archive", "--worktree-attributes", "--format=tar", "HEAD"]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(made)) as archive:
        folders = {name.partition("/")[0] for name in archive.getnames()}
    needed = {"action.yml", "bot", ".github", "requirements", "pyproject.toml"}
    assert needed <= folders
    assert not folders & {"benchmarks", "docs", "tests"}
