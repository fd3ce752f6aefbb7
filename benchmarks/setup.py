"""Where a job of the Action spends its first seconds, in one table: 👀, the set-up, and the first request to the model.

It runs the real action.yml in a root of its own, which holds the distribution's base, Python, pip, git and curl, as a
runner's image does, and neither bubblewrap nor ripgrep. GitHub and the model are simulated on this machine, so that
the network takes no time but for the registry's. Needs root and mmdebstrap; takes some minutes, most of them for
making the root once.

`setup.py` measures this tree, `--before FOLDER` an older one beside it. Each way of setting up is measured twice: in a
fresh root (cold), and once more in the same root (warm), where pip finds its own cache. On a machine that does other
work as well, the CPU seconds say more than the others.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from ruamel.yaml import YAML

from bot.clock import SystemClock
from bot.compose.sweep import SWEEP
from bot.testing.github.credentials import job_token
from bot.testing.github.simulated_github import SimulatedGitHub
from bot.testing.model.reply import Fault, Reply
from bot.testing.model.request_view import ModelRequest
from bot.testing.model.server import ScriptedModel
from bot.testing.sample import REQUEST, make, policy

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = "python3,python3-venv,python3-pip,git,curl,ca-certificates,procps"
PERMISSIONS: Final = {"contents": "write", "issues": "write", "pull_requests": "write", "actions": "write"}
GROUPS: Final = {
    "make the environment": r" -m venv ",
    "download, check, and unpack the archive": r"curl |sha256sum|^tar |^mv unpacked",
    "install from the registry": r"pip |uv ",
    "compile and copy the program": r"compileall|^wait|^cp ",
}
"""The commands of the set-up, by what they do; the rest is shown together."""
GOALS: Final = {"eyes": (5.0, 5.0), "sum": (20.0, 10.0)}
"""Seconds that 👀, and the first request to the model, may take: cold and warm."""
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
    """The simulated model's policy, which notes when it was first asked, and the CPU seconds of the job until then."""

    asked: list[float] = field(default_factory=list)
    cpu: float = 0.0

    def __call__(self, request: ModelRequest) -> Reply | Fault:
        """Answer a request."""
        if not self.asked:
            self.cpu = _cpu_of_children()
        self.asked.append(time.time())
        return policy(request)


def _cpu_of_children() -> float:
    """Return the CPU seconds of all processes below this one, and of those that they have waited for."""
    parents, ticks = dict[int, int](), dict[int, int]()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents[int(path.parent.name)], ticks[int(path.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    below = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    return sum(ticks[pid] for pid in below - {os.getpid()}) / os.sysconf("SC_CLK_TCK")


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


@dataclass(slots=True)
class Measured:
    """One way of setting up: seconds by step, and what it took besides."""

    title: str
    warm: bool
    seconds: dict[str, float] = field(default_factory=dict)
    cpu: float = 0.0
    program_cpu: float = 0.0
    megabytes_fetched: float = 0.0
    megabytes_of_apt: float = 0.0
    megabytes_installed: float = 0.0
    packages: int = 0


def _set_up(machine: Machine) -> tuple[dict[str, str], dict[str, float]]:
    """Run the set-up, and return its outputs and the seconds of its steps."""
    (machine.root / "runner").mkdir(exist_ok=True)
    (machine.root / "runner/output").write_text("")
    # Bash takes no PS4 from root's environment.
    script = "exec 9> /runner/trace; BASH_XTRACEFD=9 PS4='+$EPOCHREALTIME '; set -x; . /action/.github/action.sh"
    paths = {"RUNNER_TEMP": "/runner", "GITHUB_OUTPUT": "/runner/output", "GITHUB_ACTION_PATH": "/action"}
    done = machine.run(script, paths | {"ACTION": "/action"})  # as older versions name it
    ended = time.time()
    if done.returncode != 0:
        sys.exit(f"the set-up failed:\n{done.stdout}{done.stderr}")
    trace = re.findall(r"^\++(\d+[.,]\d+) (.*)", (machine.root / "runner/trace").read_text(), re.MULTILINE)
    began = [float(at.replace(",", ".")) for at, _ in trace]
    seconds = dict.fromkeys((*GROUPS, "everything else"), 0.0)
    for (_, command), at, until in zip(trace, began, [*began[1:], ended], strict=True):
        group = next((name for name, form in GROUPS.items() if re.search(form, command)), "everything else")
        seconds[group] += until - at
    outputs = (machine.root / "runner/output").read_text().splitlines()
    return dict(line.split("=", 1) for line in outputs), seconds


def _acknowledge(machine: Machine, github: SimulatedGitHub) -> float:
    """Run the step that puts 👀, and return its seconds; 0 where an older action has no such step."""
    step = YAML(typ="safe", pure=True).load((machine.action / "action.yml").read_text())["runs"]["steps"][0]
    if step["name"] != "Acknowledge":
        return 0.0
    world = github.world
    number = world.person("ann").open_issue("o/r", "Eyes").number
    said = world.person("ann").comment("o/r", number, "@plangate")
    token = job_token(world, world.repository("o/r"), PERMISSIONS).value
    variables = {"TOKEN": token, "COMMENT": str(said.id), "GITHUB_REPOSITORY": "o/r"}
    began = time.time()
    machine.run(step["run"], variables | {"GITHUB_API_URL": github.api_url, "GITHUB_ACTION_PATH": "/action"})
    if [each.content for each in world.reactions.values()] != ["eyes"]:
        sys.exit("no 👀 was put")
    return time.time() - began


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


@contextmanager
def _repository(folder: Path) -> Iterator[SimulatedGitHub]:
    """Serve the sample repository as o/r on a simulated GitHub, with ann as its maintainer."""
    made = Path(tempfile.mkdtemp(dir=folder))
    make(made / "repository")
    with SimulatedGitHub(made / "github", clock=SystemClock()) as github:
        github.world.add_repository("o/r", source=made / "repository")
        github.world.add_workflow("o/r", SWEEP)
        github.world.add_user("ann")
        github.world.set_role("o/r", "ann", "maintain")
        yield github


def _measure(machine: Machine, title: str, folder: Path, *, warm: bool) -> Measured:
    """Acknowledge, set up, and do the work of one mention."""
    measured = Measured(title, warm)
    apt = ("var/cache/apt/archives", "var/lib/apt/lists")
    before, apt_before = machine.megabytes("root/.cache"), machine.megabytes(*apt)
    asked = Model()
    with _repository(folder) as github, ScriptedModel(asked) as model:
        measured.seconds["eyes"] = _acknowledge(machine, github)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        outputs, steps = _set_up(machine)
        since = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.time()
        log = _work(machine, outputs["home"], github, model)
    if not asked.asked:
        sys.exit(f"no model was asked:\n{log}")
    steps["the program, to its first request to the model"] = asked.asked[0] - began
    measured.seconds |= steps
    measured.seconds["sum"] = sum(measured.seconds.values())
    measured.cpu = since.ru_utime + since.ru_stime - used.ru_utime - used.ru_stime
    measured.program_cpu = asked.cpu
    measured.megabytes_fetched = machine.megabytes("root/.cache") - before
    measured.megabytes_of_apt = machine.megabytes(*apt) - apt_before
    home = outputs["home"].lstrip("/")
    measured.packages = len(list(machine.root.glob(f"{home}/venv/lib/*/*/*.dist-info")))
    measured.megabytes_installed = machine.megabytes(f"{home}/venv")
    shutil.rmtree(machine.root / home)
    return measured


def _show(columns: Sequence[Measured]) -> None:
    """Print the table: one column for each way, one row for each step, and whether the goals are reached."""
    names = {"eyes": "👀, before the set-up", "sum": "sum"}
    print(f"\n| seconds | {' | '.join(each.title for each in columns)} |\n|---|{'---|' * len(columns)}")
    for row in columns[0].seconds:
        print(f"| {names.get(row, row)} | {' | '.join(f'{each.seconds.get(row, 0.0):.1f}' for each in columns)} |")
    for row, goals in GOALS.items():
        reached = [
            f"{goals[each.warm]:.0f}: {'yes' if each.seconds[row] < goals[each.warm] else 'no'}" for each in columns
        ]
        print(f"| goal for {names[row]} | {' | '.join(reached)} |")
    besides: Mapping[str, Callable[[Measured], float]] = {
        "CPU of the set-up": lambda each: each.cpu,
        "CPU of the program, to its first request": lambda each: each.program_cpu,
        "MB more in pip's cache, or of the archive": lambda each: each.megabytes_fetched,
        "MB of the lists and packages of apt-get": lambda each: each.megabytes_of_apt,
        "MB installed": lambda each: each.megabytes_installed,
        "packages": lambda each: each.packages,
    }
    for row, value in besides.items():
        print(f"| {row} | {' | '.join(f'{value(each):.1f}' for each in columns)} |")


def _with_archive(tree: Path, folder: Path, machine: Machine, url: str) -> float:
    """Build the release's archive in the root, and name it in the tree. Return its megabytes."""
    done = machine.run("apt-get -qq update && bash /action/.github/archive.sh /runner/archive", {})
    if done.returncode != 0:
        sys.exit(f"the archive was not built:\n{done.stderr}")
    (built,) = (machine.root / "runner/archive").iterdir()
    shutil.copy(built, folder)
    soabi = built.name.removeprefix("plangate-packages-").removesuffix(".tar.gz")
    digest = hashlib.sha256(built.read_bytes()).hexdigest()
    (tree / "requirements/archives.txt").write_text(f"{soabi} {digest} {url}/{built.name}\n")
    return built.stat().st_size / 1e6


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Stay silent."""


def _measure_tree(tree: Path, name: str, folder: Path) -> list[Measured]:
    """Measure one tree: from the registry, and from an archive if it knows archives, each cold and warm."""
    action = folder / name
    shutil.copytree(tree, action, ignore=shutil.ignore_patterns(".venv", ".git", "__pycache__", ".*_cache"))

    def fresh(kind: str) -> Machine:
        root = folder / f"{name} {kind}"
        subprocess.run(["cp", "-a", KEPT, root], check=True)
        return Machine(root, action)

    def twice(machine: Machine, kind: str) -> list[Measured]:
        return [
            _measure(machine, f"{name}: {kind}, {state}", folder, warm=state == "warm") for state in ("cold", "warm")
        ]

    measured = twice(fresh("registry"), "registry")
    if not (action / ".github/archive.sh").exists():
        return measured
    served = folder / "served"
    served.mkdir(exist_ok=True)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(served))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        megabytes = _with_archive(action, served, fresh("builder"), f"http://127.0.0.1:{server.server_port}")
        archived = twice(fresh("archive"), "archive")
        server.shutdown()
    for each in archived:
        each.megabytes_fetched += megabytes
    return measured + archived


def _main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--before", type=Path, help="an older tree to measure as well")
    before: Path | None = parser.parse_args(arguments).before
    _make_root(KEPT)
    with tempfile.TemporaryDirectory() as made:
        columns = _measure_tree(before, "before", Path(made)) if before else []
        _show([*columns, *_measure_tree(ROOT, "now", Path(made))])


if __name__ == "__main__":
    _main()
