"""Container files and set-up: what can be held without a container engine."""

import hashlib
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from bot.cli.main import _parser
from webhooks.client_limits import ClientLimits

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".github" / "container"
DOCKERFILE = (FOLDER / "Dockerfile").read_text()


def manifests() -> list[dict[str, Any]]:
    return list(YAML(typ="safe", pure=True).load_all((FOLDER / "kubernetes.yaml").read_text()))


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = YAML(typ="safe", pure=True).load((FOLDER / "compose.yaml").read_text())
    return loaded


def pods() -> dict[str, dict[str, Any]]:
    return {
        each["metadata"]["name"]: each["spec"]["template"]["spec"] for each in manifests() if each["kind"] != "Service"
    }


def test_the_image_is_locked_and_unprivileged() -> None:
    assert re.search(r"--no-deps .*--require-hashes \\\n +--requirement requirements/container.txt", DOCKERFILE)
    assert "USER 10001:10001" in DOCKERFILE
    assert not re.search(r"^ADD |https?://|index-url", DOCKERFILE, re.M)
    ignored = (FOLDER / "Dockerfile.dockerignore").read_text().splitlines()
    for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.M):
        for source in [part for part in line.split()[:-1] if not part.startswith("--")]:
            assert (ROOT / source).exists()
            assert f"!{source}" in ignored
    for package in ("psycopg", "uvicorn", "hatchling"):
        assert re.search(rf"^{package}==", (ROOT / "requirements" / "container.txt").read_text(), re.M)


def test_the_vendors_schema_takes_compose() -> None:
    checker = Path(sys.executable).parent / "check-jsonschema"
    subprocess.run([checker, "--builtin-schema", "vendor.compose-spec", FOLDER / "compose.yaml"], check=True)


def test_containers_run_commands_that_exist() -> None:
    services = [each for each in compose()["services"].values() if each["image"] == "plangate"]
    commands = [each["command"] for each in services] + [pod["containers"][0]["args"] for pod in pods().values()]
    assert sorted(map(tuple, commands)) == sorted(
        [("migrate",), ("serve", "--no-worker", "--host", "0.0.0.0"), ("worker",)] * 2  # noqa: S104 - in a container
    )
    for command in commands:
        _parser().parse_args(command)


def test_only_workers_get_what_the_sandbox_needs() -> None:
    """All others are confined as usual, and nobody is privileged."""
    unconfined = {"seccomp=unconfined", "apparmor=unconfined", "systempaths=unconfined"}
    for name, each in compose()["services"].items():
        options = set(each.get("security_opt", ()))
        assert (options & unconfined == unconfined) == (name == "worker"), name
        if name != "database":
            assert (each["read_only"], each["cap_drop"], "no-new-privileges:true" in options) == (True, ["ALL"], True)
    for name, pod in pods().items():
        context = pod["containers"][0]["securityContext"]
        assert (
            (context.get("procMount") == "Unmasked") == (pod.get("hostUsers") is False) == (name == "plangate-worker")
        )
        assert (context["allowPrivilegeEscalation"], context["capabilities"]) == (False, {"drop": ["ALL"]})
        assert pod["securityContext"]["runAsNonRoot"] is True


def test_the_database_is_healthy_only_once_it_is_reachable() -> None:
    """By its Unix socket it would already be while the server initializes itself, and `migrate` would fail."""
    assert "--host=127.0.0.1" in compose()["services"]["database"]["healthcheck"]["test"]


def test_all_connections_may_come_from_one_address() -> None:
    """To a service in a container, the proxy has the address of a bridge or an ingress."""
    environment = compose()["services"]["service"]["environment"]
    pod = {each["name"]: each["value"] for each in pods()["plangate-service"]["containers"][0]["env"]}
    assert environment.keys() == pod.keys() == {"PLANGATE_APP_ID", "PLANGATE_CONNECTIONS_PER_ADDRESS"}
    assert int(environment["PLANGATE_CONNECTIONS_PER_ADDRESS"]) == ClientLimits().connections
    assert environment["PLANGATE_CONNECTIONS_PER_ADDRESS"] == pod["PLANGATE_CONNECTIONS_PER_ADDRESS"]


def test_git_ignores_the_secrets() -> None:
    assert ".github/container/secrets/" in (ROOT / ".gitignore").read_text().splitlines()


def test_secrets_are_read_from_files(tmp_path: Path) -> None:
    secrets, program = tmp_path / "secrets", tmp_path / "bin" / "plangate"
    secrets.mkdir()
    program.parent.mkdir()
    for name, text in {
        "PLANGATE_A": "one\ntwo\n",
        "PLANGATE_B": "file",
        "ANTHROPIC_C": "$(false) '",
        "OTHER": "x",
    }.items():
        (secrets / name).write_text(text)
    program.write_text('#!/bin/sh\nprintf "%s|" "$PLANGATE_A" "$PLANGATE_B" "$ANTHROPIC_C" "${OTHER-unset}" "$@"\n')
    program.chmod(0o755)
    command: list[str | Path] = [
        "bwrap",
        "--ro-bind",
        "/",
        "/",
        "--tmpfs",
        "/run",
        "--ro-bind",
        secrets,
        "/run/secrets",
        "--tmpfs",
        "/opt",
        "--dev",
        "/dev",
    ]
    command += ["--ro-bind", program.parent, "/opt/plangate/bin", "sh", FOLDER / "entrypoint.sh", "serve", "--port"]
    env = {"PATH": os.environ["PATH"], "PLANGATE_B": "set"}
    answer = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert answer.stdout == "one\ntwo|set|$(false) '|unset|serve|--port|"


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
