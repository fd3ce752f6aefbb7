"""Where a job of the Action spends its first seconds: the set-up by steps, and the program to its first model request.

It runs the real action.yml in a root of its own, which holds the distribution's base, Python, pip, git and curl, as a
runner's image does, and neither bubblewrap nor ripgrep. GitHub and the model are simulated on this machine, so that
the network takes no time but for the registry's. Needs root and mmdebstrap; takes some minutes, most of them for
making the root once.

`setup.py` measures this tree, `setup.py --tree FOLDER` another one. Each way of setting up is measured twice: in a
fresh root, and once more in the same root, where pip finds its own cache.
"""

import argparse
import hashlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from ruamel.yaml import YAML

from bot.clock import SystemClock
from bot.compose.sweep_switch import SWEEP
from bot.testing.github.credentials import job_token
from bot.testing.github.simulated_github import SimulatedGitHub
from bot.testing.model.reply import Fault, Reply
from bot.testing.model.request_view import ModelRequest
from bot.testing.model.server import ScriptedModel
from bot.testing.sample import REQUEST, make
from bot.testing.story import policy

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = "python3,python3-venv,python3-pip,git,curl,ca-certificates,procps"
PERMISSIONS: Final = {"contents": "write", "issues": "write", "pull_requests": "write", "actions": "write"}
SHOWN: Final = 0.1
"""Steps shorter than this many seconds are shown together."""
ENTER: Final = """
root=$1 action=$2 script=$3
shift 3
mount --make-rprivate /
mount --bind "$root" "$root"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount --bind "$action" "$root/action"
for path in "$@"; do mount --bind -o ro "$path" "$root$path"; done
cd "$root"
mkdir -p old
pivot_root . old
umount --lazy old
exec bash -c "$script"
"""
"""Enters a root for good, as a container does: from a plain chroot no sandbox could be made."""
KEPT: Final = Path(tempfile.gettempdir()) / "plangate-setup-root"


@dataclass(slots=True)
class Machine:
    """A root like a fresh runner's, with the action at /action."""

    root: Path
    action: Path

    def run(self, script: str, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """Run a script in the root, as its root user, on this machine's network."""
        for path in _registry_files():
            place = self.root / path.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.mkdir(exist_ok=True) if Path(path).is_dir() else place.touch()
        values = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", **variables}
        values |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        (self.root / "action").mkdir(exist_ok=True)
        arguments = [str(self.root), str(self.action), script, *_registry_files()]
        command = ["unshare", "--mount", "--pid", "--fork", "bash", "-euc", ENTER, "enter", *arguments]
        return subprocess.run(command, env=values, capture_output=True, text=True, errors="replace", check=False)

    def megabytes(self, *folders: str) -> float:
        """Return how much these folders of the root hold."""
        paths = [path for folder in folders for path in self.root.glob(folder)]
        files = (each for path in paths for each in [path, *path.rglob("*")])
        return sum(each.stat().st_size for each in files if each.is_file() and not each.is_symlink()) / 1e6


@dataclass(slots=True)
class Model:
    """The simulated model's policy, which notes when it was first asked."""

    asked: list[float] = field(default_factory=list)

    def __call__(self, request: ModelRequest) -> Reply | Fault:
        """Answer a request."""
        self.asked.append(time.time())
        return policy(request)


def _registry_files() -> list[str]:
    """List the files and folders of this machine that lead to its registries: name service, certificates, pip's."""
    pip = subprocess.run([sys.executable, "-m", "pip", "config", "debug"], capture_output=True, text=True, check=True)
    configured = re.findall(r"^\s*(/\S+), exists: True", pip.stdout, re.MULTILINE)
    folders = re.findall(r"(?:file://|: )(/opt/[\w-]+)", pip.stdout)
    known = ["/etc/resolv.conf", "/etc/hosts", "/etc/ssl", *configured, *folders]
    return [path for path in dict.fromkeys(known) if Path(path).exists()]


def _make_root(folder: Path) -> None:
    """Make a root from the package sources of this machine, unless it is there already."""
    if folder.exists():
        return
    sources = [each for each in Path("/etc/apt").rglob("*.[sl]*") if "debian" in each.name or "ubuntu" in each.name]
    release = dict(re.findall(r"^(\w+)=\"?([^\"\n]*)", Path("/etc/os-release").read_text(), re.MULTILINE))
    command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", release["VERSION_CODENAME"]]
    subprocess.run([*command, f"{folder}.part", *sources], check=True)
    Path(f"{folder}.part").rename(folder)


def _set_up(machine: Machine) -> tuple[dict[str, str], list[tuple[str, float]]]:
    """Run the set-up, and return its outputs and the seconds of each of its commands, in their order."""
    (machine.root / "runner").mkdir(exist_ok=True)
    (machine.root / "runner/output").write_text("")
    # Bash takes no PS4 from root's environment.
    script = "exec 9> /runner/trace; BASH_XTRACEFD=9 PS4='+$EPOCHREALTIME '; set -x; . /action/.github/action.sh"
    paths = {"RUNNER_TEMP": "/runner", "GITHUB_OUTPUT": "/runner/output", "GITHUB_ACTION_PATH": "/action"}
    done = machine.run(script, paths)
    ended = time.time()
    if done.returncode != 0:
        sys.exit(f"the set-up failed:\n{done.stdout}{done.stderr}")
    trace = re.findall(r"^\++(\d+[.,]\d+) (.*)", (machine.root / "runner/trace").read_text(), re.MULTILINE)
    began = [float(at.replace(",", ".")) for at, _ in trace]
    steps = [(command, until - at) for (_, command), at, until in zip(trace, began, [*began[1:], ended], strict=True)]
    outputs = (machine.root / "runner/output").read_text().splitlines()
    return dict(line.split("=", 1) for line in outputs), steps


def _work(machine: Machine, home: str, github: SimulatedGitHub, model: ScriptedModel) -> str:
    """Run the action's working step for one mention, and return its log."""
    step = YAML(typ="safe", pure=True).load((machine.action / "action.yml").read_text())["runs"]["steps"][-1]
    world = github.world
    issue = world.person("ann").open_issue("o/r", "Shipping", f"@plangate {REQUEST}")
    sender = {"id": issue.author, "login": "ann", "type": "User"}
    event: Mapping[str, Any] = {"action": "opened", "issue": {"number": issue.number}, "sender": sender}
    home_of = world.repository("o/r")
    repository = {"id": home_of.id, "name": "r", "full_name": "o/r", "default_branch": "main"}
    repository |= {"owner": {"id": home_of.owner, "login": "o"}}
    (machine.root / "runner/event.json").write_text(json.dumps({"repository": repository, **event}))
    token = job_token(world, world.repository("o/r"), PERMISSIONS).value
    variables = {
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_EVENT_NAME": "issues",
        "GITHUB_EVENT_PATH": "/runner/event.json",
        "GITHUB_OUTPUT": "/runner/output",
        "GITHUB_STEP_SUMMARY": "/runner/summary",
        "GITHUB_API_URL": github.api_url,
        "GITHUB_GRAPHQL_URL": github.graphql_url,
        "GITHUB_SERVER_URL": github.server_url,
        "ANTHROPIC_BASE_URL": model.base_url,
        "GITHUB_ACTION_PATH": "/action",
        "PLANGATE_HOME": home,
        "PLANGATE_JOB_TOKEN": token,
        "INPUT_GITHUB_TOKEN": token,
        "INPUT_ANTHROPIC_API_KEY": "sk-ant-key-of-the-benchmark",
        "INPUT_APPROVAL_WAIT_MINUTES": "0",
        "INPUT_DRY_RUN": "false",
    }
    done = machine.run(step["run"], variables)
    return done.stdout + done.stderr


def _measure(machine: Machine, title: str, folder: Path) -> None:
    """Set up, do the work of one mention, and print the table."""
    before = machine.megabytes("root/.cache", "var/cache/apt/archives", "var/lib/apt/lists")
    asked, used = Model(), resource.getrusage(resource.RUSAGE_CHILDREN)
    made = Path(tempfile.mkdtemp(dir=folder))
    make(made / "repository")
    with SimulatedGitHub(made / "github", clock=SystemClock()) as github, ScriptedModel(asked) as model:
        github.world.add_repository("o/r", source=made / "repository")
        github.world.add_workflow("o/r", SWEEP)
        github.world.add_user("ann")
        github.world.set_role("o/r", "ann", "maintain")
        outputs, steps = _set_up(machine)
        since = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.time()
        log = _work(machine, outputs["home"], github, model)
    if not asked.asked:
        sys.exit(f"no model was asked:\n{log}")
    rest = sum(seconds for _, seconds in steps if seconds < SHOWN)
    shown = [(_label(command), seconds) for command, seconds in steps if seconds >= SHOWN]
    program = asked.asked[0] - began
    rows = [*shown, ("all shorter commands", rest), ("the program, to its first model request", program)]
    print(f"\n{title}\n")
    for name, seconds in (*rows, ("sum", sum(seconds for _, seconds in rows))):
        print(f"{seconds:8.1f} s  {name}")
    cpu = since.ru_utime + since.ru_stime - used.ru_utime - used.ru_stime
    print(f"{cpu:8.1f} s  of CPU time in the set-up")
    fetched = machine.megabytes("root/.cache", "var/cache/apt/archives", "var/lib/apt/lists") - before
    home = outputs["home"].lstrip("/")
    packages, size = len(list(machine.root.glob(f"{home}/venv/lib/*/*/*.dist-info"))), machine.megabytes(f"{home}/venv")
    print(f"{size:8.1f} MB in {packages} packages; {fetched:.1f} MB more in the caches of pip and apt-get")
    print(f"          {', '.join(re.findall('plangate: #.*', log)) or log[-2000:]}")
    shutil.rmtree(machine.root / home)


def _label(command: str) -> str:
    words = re.sub(r"/\S*/", "", command)
    return words if len(words) < 90 else f"{words[:87]}..."


def _with_archive(tree: Path, folder: Path, machine: Machine, url: str) -> None:
    """Build the release's archive in the root, and name it in the tree."""
    done = machine.run("apt-get -qq update && bash /action/.github/archive.sh /runner/archive", {})
    if done.returncode != 0:
        sys.exit(f"the archive was not built:\n{done.stderr}")
    (built,) = (machine.root / "runner/archive").iterdir()
    shutil.copy(built, folder)
    soabi = built.name.removeprefix("plangate-packages-").removesuffix(".tar.gz")
    digest = hashlib.sha256(built.read_bytes()).hexdigest()
    (tree / "requirements/archives.txt").write_text(f"{soabi} {digest} {url}/{built.name}\n")
    print(f"\nThe archive has {built.stat().st_size / 1e6:.1f} MB.")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Stay silent."""


def _main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tree", type=Path, default=ROOT, help="the action to measure")
    tree: Path = parser.parse_args(arguments).tree
    _make_root(KEPT)
    with tempfile.TemporaryDirectory() as made:
        folder, action = Path(made), Path(made) / "action"
        shutil.copytree(tree, action, ignore=shutil.ignore_patterns(".venv", ".git", "__pycache__", ".*_cache"))

        def fresh(name: str) -> Machine:
            subprocess.run(["cp", "-a", KEPT, folder / name], check=True)
            return Machine(folder / name, action)

        machine = fresh("registry")
        _measure(machine, "From the registry, fresh", folder)
        _measure(machine, "From the registry, again", folder)
        if not (action / ".github/archive.sh").exists():
            return
        served = folder / "served"
        served.mkdir()
        with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(served))) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            _with_archive(action, served, fresh("builder"), f"http://127.0.0.1:{server.server_port}")
            machine = fresh("archive")
            _measure(machine, "From the release's archive, fresh", folder)
            _measure(machine, "From the release's archive, again", folder)
            server.shutdown()


if __name__ == "__main__":
    _main()
