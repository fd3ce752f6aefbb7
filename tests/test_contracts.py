"""The import contracts of pyproject.toml: the tree keeps them, and each of them catches what it forbids.

Every contract has a planted violation below. All are planted in one copy of the tree, which is linted once: the report
names each planted import under its very contract, and no other import.
"""

import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.rows import every_row

ROOT = Path(__file__).parents[1]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


@dataclass(frozen=True, slots=True)
class Plant:
    """An import that breaks a contract: ``importer -> imported`` is how the report writes it."""

    contract: str
    importer: str
    imported: str

    @property
    def edge(self) -> str:
        return f" {self.importer} -> {self.imported} ("

    def put(self, tree: Path) -> None:
        """Append the import, lazily as most heavy imports here are, to the importer's file."""
        if self.imported.startswith(("bot.", "webhooks.")):
            file_of(self.imported, tree).touch()
        with file_of(self.importer, tree).open("a") as out:
            out.write(f"\n\ndef _planted() -> None:\n    import {self.imported}\n")

    def line(self, tree: Path) -> int:
        """Return the number of the line of the import in the importer's file."""
        lines = file_of(self.importer, tree).read_text().splitlines()
        return len(lines) - lines[::-1].index(f"    import {self.imported}")


def file_of(module: str, tree: Path) -> Path:
    """Find a module's file in a tree; for a module that is not there yet, its folders are made."""
    place = tree.joinpath(*module.split("."))
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    file.parent.mkdir(parents=True, exist_ok=True)
    for folder in file.relative_to(tree).parents[:-1]:
        (tree / folder / "__init__.py").touch()
    return file


PURE = "core imports core and the pure part of the standard library"
SERVICE = "service imports what it keeps moving, and settings"
SHELLS = "shells stand on compose and know no other shell, but for the command line"
REACH = "shells reach rooms through compose, but for what they read and show"
SERVERS = "web servers are imported by testing and webhooks alone"
TOOLHOST = "toolhost imports nothing of the bot and opens no socket, but for the tunnel"
PLANTS = (
    Plant(SERVICE, "bot.service.planted", "bot.compose.parts"),
    Plant(SERVICE, "bot.service.planted", "bot.agent.loop"),
    Plant(SERVICE, "bot.service.planted", "bot.config.environment"),
    Plant(SERVICE, "bot.service.planted", "webhooks.app"),
    Plant(PURE, "bot.core.gate", "os"),
    Plant(PURE, "bot.core.gate", "time"),
    Plant(PURE, "bot.core.gate", "asyncio"),
    Plant(PURE, "bot.core.gate", "logging"),
    Plant(PURE, "bot.core.gate", "random"),
    Plant(PURE, "bot.core.gate", "pydantic"),
    Plant(PURE, "bot.core.gate", "bot.ports"),
    Plant("ports imports core", "bot.ports", "bot.store"),
    Plant("agent imports core and ports", "bot.agent", "bot.github.client"),
    Plant(TOOLHOST, "bot.toolhost", "bot.core.gate"),
    Plant(TOOLHOST, "bot.toolhost", "socket"),
    Plant(TOOLHOST, "bot.toolhost.main", "asyncio"),
    Plant("github imports core and ports", "bot.github.client", "bot.workflow"),
    Plant("workspace imports core and ports", "bot.workspace", "bot.agent"),
    Plant("store imports core and ports", "bot.store", "bot.config.environment"),
    Plant("receipts imports core", "bot.receipts.envelope", "bot.ports"),
    Plant("testing imports core and ports", "bot.testing", "bot.agent"),
    Plant("workflow imports core, ports and agent", "bot.workflow", "bot.workspace"),
    Plant("clock, telemetry and terminal import core, ports and session events", "bot.clock", "bot.config.environment"),
    Plant("clock, telemetry and terminal import core, ports and session events", "bot.telemetry", "bot.store"),
    Plant("clock, telemetry and terminal import core, ports and session events", "bot.terminal", "bot.agent.loop"),
    Plant("config imports core", "bot.config.repository_file", "bot.ports"),
    Plant("logs and disk import core", "bot.logs", "bot.config.environment"),
    Plant("action.runner, the runner's dialect, imports core", "bot.action.runner", "bot.compose.local"),
    Plant(SHELLS, "webhooks", "bot.demo"),
    Plant(SHELLS, "bot.config.environment", "bot.compose.local"),
    Plant(REACH, "bot.cli.main", "bot.workflow.engine"),
    Plant(REACH, "webhooks", "bot.github.client"),
    Plant("testing is imported by the demo alone", "bot.compose.local", "bot.testing"),
    Plant("anthropic is imported by agent.model alone", "bot.agent", "anthropic"),
    Plant("PyGithub is imported by github alone", "bot.workflow", "github"),
    Plant("GitPython is imported by workspace alone", "bot.store", "git"),
    Plant(SERVERS, "bot.demo", "uvicorn"),
    Plant(SERVERS, "bot.cli.main", "fastapi"),
)
ALLOWED = (
    Plant("agent imports core and ports", "bot.agent.planted", "bot.core.plan"),
    Plant("anthropic is imported by agent.model alone", "bot.agent.model.planted", "anthropic"),
    Plant(REACH, "webhooks.planted", "bot.github.deliveries"),
    Plant(SERVERS, "webhooks.planted", "fastapi"),
)


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on the packages of a folder with this repository's contracts."""
    program = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [program, "--no-logo", "--no-cache", "--config", ROOT / "pyproject.toml"],
        cwd=folder,
        env={**os.environ, "COLUMNS": "200", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the tree with every plant in it."""
    tree = tmp_path_factory.mktemp("planted")
    for source in (*ROOT.glob("bot/**/*.py"), *ROOT.glob("webhooks/**/*.py")):
        copy = tree / source.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(source.read_bytes())
    for plant in (*PLANTS, *ALLOWED):
        plant.put(tree)
    return tree


@pytest.fixture(scope="module")
def planted(tree: Path) -> dict[str, str]:
    """Lint the copy: the report of each broken contract, by the contract's name."""
    report = lint(tree)
    assert report.returncode == 1, report.stdout + report.stderr
    names = "|".join(re.escape(contract["name"]) for contract in CONTRACTS)
    _, *sections = re.split(rf"^({names})\n-+\n", report.stdout, flags=re.MULTILINE)
    return dict(zip(sections[::2], sections[1::2], strict=True))


def test_the_tree_keeps_its_contracts(tree: Path, planted: dict[str, str]) -> None:
    expected = {f"{plant.edge}l.{plant.line(tree)})" for plant in PLANTS}
    reported = {edge for report in planted.values() for edge in re.findall(r" [\w.]+ -> [\w.]+ \(.*?\)", report)}
    assert reported - expected == set()


@every_row("plant", PLANTS)
def test_a_planted_import_breaks_its_contract(plant: Plant, planted: dict[str, str]) -> None:
    assert plant.edge in planted[plant.contract]


@every_row("plant", ALLOWED)
def test_an_allowed_import_breaks_nothing(plant: Plant, planted: dict[str, str]) -> None:
    assert not [name for name, report in planted.items() if plant.edge in report]


def test_every_contract_has_a_plant() -> None:
    assert {contract["name"] for contract in CONTRACTS} == {plant.contract for plant in PLANTS}


def test_every_room_has_a_contract() -> None:
    subjects = re.findall(r"bot\.(\w+)", str([[c.get("source_modules"), c.get("layers")] for c in CONTRACTS]))
    rooms = {file.stem for file in ROOT.glob("bot/*") if file.suffix == ".py" or (file / "__init__.py").exists()}
    assert rooms - {"__init__"} <= set(subjects)
