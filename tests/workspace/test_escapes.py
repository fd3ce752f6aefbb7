"""No way out: every probe of escapes.py in the real sandbox; those that are harmless bare get out there."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.ports import Access
from bot.workspace.sandbox import python
from bot.workspace.workspace import GitWorkspace
from tests.workspace.escapes import DRIVER, PROBES, filled
from tests.workspace.ground import Repository
from tests.workspace.machine import CANARY, attackers_machine

EVERY_DAY = list(PROBES)[::6]


@pytest.fixture
def values(tmp_path: Path, workspace: GitWorkspace) -> Iterator[dict[str, str]]:
    """The machine as an attacker would like to find it."""
    with attackers_machine(tmp_path) as found:
        yield found | {"CHECKOUT": str(tmp_path / "repo"), "MIRROR": str(workspace.mirror.path)}


def got_out(said: str, count: int) -> list[str]:
    """Read the driver's last line: how many probes ran, none of them in an odd way, and which got out."""
    found = re.search(r"ran (\d+) OUT (\[.*\]) ODD (\{.*\})", said)
    assert found is not None, said
    assert int(found[1]) == count
    assert json.loads(found[3]) == {}
    names: list[str] = json.loads(found[2])
    return names


async def escaped(
    workspace: GitWorkspace, repository: Repository, values: dict[str, str], access: Access, names: list[str]
) -> list[str]:
    """Run probes as the model would, in one command, and give those that got out."""
    repository.commit(driver_dot_py=DRIVER, probes_dot_json=filled(values, names))
    host = await workspace.open(await workspace.checkout("main", repository.head), access)
    command = f"{python()} -I -S driver.py probes.json"
    output = await host.call("Bash", {"command": command, "timeout": 200_000})
    await host.close()
    return got_out(output.text, len(names))


@pytest.mark.req("D1")
@pytest.mark.parametrize("access", Access)
async def test_sample(access: Access, workspace: GitWorkspace, repository: Repository, values: dict[str, str]) -> None:
    """A sixth of the probes, every day."""
    assert await escaped(workspace, repository, values, access, EVERY_DAY) == []


@pytest.mark.long
@pytest.mark.req("D1")
@pytest.mark.parametrize("access", Access)
async def test_every_way_out(
    access: Access, workspace: GitWorkspace, repository: Repository, values: dict[str, str]
) -> None:
    """None of more than 150 probes gets out, with a checkout that may be written and with one that may not."""
    assert len(PROBES) > 150
    assert await escaped(workspace, repository, values, access, list(PROBES)) == []


def test_control(values: dict[str, str], tmp_path: Path) -> None:
    """Without a sandbox at least 20 of the probes get out: they are alive."""
    names = [name for name in PROBES if name.startswith("+")]
    (tmp_path / "driver.py").write_text(DRIVER)
    (tmp_path / "probes.json").write_text(filled(values, names))
    Path(values["CHECKOUT"]).mkdir(exist_ok=True)
    command = [sys.executable, "-I", "-S", str(tmp_path / "driver.py"), str(tmp_path / "probes.json")]
    environment = {"PATH": os.environ["PATH"], "ANTHROPIC_API_KEY": CANARY}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    out = got_out(done.stdout, len(names))
    assert len(out) >= 20, set(names) - set(out)
    for left in Path("/tmp").glob("plangate-[lr]"):
        shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
