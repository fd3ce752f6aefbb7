"""The doctor looks at everything that is needed, and names the cure of what is missing."""

import hashlib
import json
import os
import shutil
import subprocess
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bot.cli.doctor import _receipts, _signing, findings
from bot.compose.receipts import published_keys
from bot.config.environment import settings
from bot.testing.github.simulated_github import SimulatedGitHub
from bot.testing.model.reply import say
from bot.testing.model.server import ScriptedModel
from tests import forks


@pytest.fixture
def base_url() -> Iterator[str]:
    with ScriptedModel(lambda request: say("Never asked.")) as model:
        yield model.base_url


def doctor(folder: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8", **variables}
    return forks.plangate().run("doctor", env=env)


def test_all_is_well(tmp_path: Path, base_url: str) -> None:
    """Where nothing is missing each finding is good, and the exit code is 0."""
    done = doctor(tmp_path, ANTHROPIC_API_KEY="test", ANTHROPIC_BASE_URL=base_url)
    assert done.returncode == 0, done.stdout
    assert "✗" not in done.stdout
    assert "GitHub" not in done.stdout  # no credentials, no question
    for what in ("bwrap", "rg", "git", "sandbox", "data directory", "model"):
        assert f"✓ {what}: " in done.stdout


@pytest.mark.req("D1")
def test_without_a_sandbox_it_says_so_with_exit_code_6(tmp_path: Path, base_url: str) -> None:
    """A machine without bubblewrap is told what to install."""
    for name in ("rg", "git"):
        program = shutil.which(name)
        assert program is not None
        (tmp_path / name).symlink_to(program)
    done = doctor(tmp_path, PATH=str(tmp_path), ANTHROPIC_API_KEY="test", ANTHROPIC_BASE_URL=base_url)
    assert done.returncode == 6
    assert "✗ bwrap: not found\n  → install the package bubblewrap" in done.stdout
    assert "ssh-keygen: not found, so approvers cannot sign receipts here" in done.stdout


def test_a_missing_key_is_a_finding(tmp_path: Path) -> None:
    """Without a key nothing is asked; the cure names the variable."""
    done = doctor(tmp_path)
    assert done.returncode == 2
    assert "✗ model: no key\n  → set ANTHROPIC_API_KEY" in done.stdout


def test_a_data_directory_that_cannot_be_made_is_a_finding(tmp_path: Path, base_url: str) -> None:
    """The cure names the variable that moves it."""
    (tmp_path / "file").write_text("")
    given = settings(
        {
            "PLANGATE_DATA_DIR": str(tmp_path / "file" / "data"),
            "ANTHROPIC_API_KEY": "test",
            "ANTHROPIC_BASE_URL": base_url,
        }
    )
    bad = [finding for finding in findings(given) if not finding.good]
    assert [(finding.what.split(":")[0], "PLANGATE_DATA_DIR" in finding.cure) for finding in bad] == [
        ("data directory", True)
    ]


def test_a_signing_key_that_cannot_sign_is_a_finding(tmp_path: Path) -> None:
    """A good one is named; the cure of a bad one says how to make one."""
    key = tmp_path / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    data = {"PLANGATE_DATA_DIR": str(tmp_path / "data")}
    (good,) = _signing(settings({**data, "PLANGATE_SIGNING_KEY_PATH": str(key)}))
    assert (good.good, good.what) == (True, f"signing key: {key}")
    (bad,) = _signing(settings({**data, "PLANGATE_SIGNING_KEY_PATH": f"{key}.gone"}))
    assert (bad.good, "ssh-keygen -t ed25519" in bad.cure) == (False, True)
    assert list(_signing(settings(data))) == []


@pytest.mark.req("RC4")
def test_the_key_that_signs_receipts_is_named(tmp_path: Path) -> None:
    """The same id as in the list of trusted keys: of the state key's own, and of an Ed25519 file in its place. An id
    never changes between versions. Without a key nothing is said, since that key is a finding of its own."""
    data = {"PLANGATE_DATA_DIR": str(tmp_path / "data")}
    derived = settings({**data, "PLANGATE_STATE_KEY": "correct-horse-battery-staple-0123456789"})
    (named,) = _receipts(derived)
    assert (named.good, named.what) == (True, "receipts: signed with the key 23e2c7a2a65737b2")
    assert json.loads(published_keys(derived))["keys"][0]["id"] in named.what
    key = tmp_path / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    given = replace(derived, signing_key=key)
    (named,) = _receipts(given)
    raw = b64decode(Path(f"{key}.pub").read_text().split()[1])[-32:]
    assert named.what == f"receipts: signed with the key {hashlib.sha256(raw).hexdigest()[:16]}"
    assert list(_receipts(settings(data))) == []


@pytest.mark.long
def test_a_service_that_is_not_there_is_a_finding(tmp_path: Path) -> None:
    """What cannot be reached is not called good."""
    done = doctor(tmp_path, ANTHROPIC_API_KEY="test", ANTHROPIC_BASE_URL="http://127.0.0.1:9")
    assert done.returncode == 5
    assert "✗ model: " in done.stdout
    assert "→ try again later; if it keeps failing, check ANTHROPIC_BASE_URL" in done.stdout


@pytest.mark.long
def test_github_is_looked_at_where_there_are_credentials(tmp_path: Path, base_url: str) -> None:
    """A token that GitHub does not take is a finding with its cure and exit code, and is not shown."""
    model = {"ANTHROPIC_API_KEY": "test", "ANTHROPIC_BASE_URL": base_url}
    with SimulatedGitHub(tmp_path / "github") as github:
        done = doctor(tmp_path, **model, GITHUB_API_URL=github.api_url, PLANGATE_GITHUB_TOKEN="ghp_nonsense")
    assert done.returncode == 2
    assert "✗ GitHub: GitHub refused the token" in done.stdout
    assert "ghp_nonsense" not in done.stdout + done.stderr
