"""docs/sandbox.md says what is so."""

import os
import re
from pathlib import Path
from typing import Final

from bot.config.environment import settings
from bot.core.network import open_to_writes
from bot.toolhost.processes import MOST_PROCESSES
from bot.workflow.verification import MOST
from bot.workspace.sandbox import SandboxProfile, cure, environment
from bot.workspace.workspace import PROXY_SETTINGS, SandboxLimits

PAGE: Final = (Path(__file__).parents[2] / "docs" / "sandbox.md").read_text()
WORDS: Final = " ".join(PAGE.split())


def test_the_whole_environment_is_there() -> None:
    """Every variable that a program has is named, and no other."""
    told = PAGE[PAGE.index("Its whole environment") : PAGE.index("What it leaves")]
    named = set(re.findall(r"`([A-Z_]+)`", told))
    assert named == {*environment(SandboxProfile("/")), *(name for name in PROXY_SETTINGS if name.isupper())}


def test_figures() -> None:
    """Bounds, and from where on a repository is fetched in part."""
    bounds = SandboxLimits()
    assert bounds.tmp_mb is None
    written = "written to the checkout and to a private `/tmp` on the same disk"
    assert f"{bounds.disk_mb // 1024} GB and a million files {written}" in WORDS
    assert bounds.files == 1_000_000
    assert f"{MOST_PROCESSES - 32 * (os.cpu_count() or 1)} processes, and 32 more for each processor" in WORDS
    assert f"at most {MOST} other files" in WORDS
    assert f"more than {settings({}).partial_clone_mb} MB on GitHub" in WORDS


def test_hosts_that_weigh_more() -> None:
    """A registry that takes uploads where it serves from weighs more; one with another host for them does not (N1a)."""
    heavy = re.search(r"that they serve from, such as (.*?): inside TLS", WORDS)
    assert heavy is not None
    assert all(map(open_to_writes, re.findall(r"`(.*?)`", heavy[1])))
    assert not open_to_writes("pypi.org")
    assert not open_to_writes("files.pythonhosted.org")
    assert open_to_writes("upload.pypi.org")


def test_the_cure_is_the_programs_own() -> None:
    """What the page says against a machine that allows no namespaces is what the program says."""
    assert "user namespaces" in WORDS
    assert "the system calls unshare and mount" in cure("bwrap: No permissions to create a new namespace")
