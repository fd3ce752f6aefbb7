"""What of the library a session imports, and that none of it is missing."""

import subprocess
import sys
from pathlib import Path

import anthropic
import pytest

WARM = """
import sys
from bot.agent.model.client import AnthropicModel
from bot.clock import SystemClock
AnthropicModel(SystemClock(), "key").warm()
"""
COUNT = 'print(sum(name.startswith("anthropic") for name in sys.modules), "anthropic.resources.beta" in sys.modules)'
OTHERS = """
import anthropic.types
from anthropic import AnthropicVertex, resources
print(anthropic.BadRequestError.__module__, AnthropicVertex.__name__, resources.__name__, hasattr(anthropic, "no_such"))
"""
EVERY = """
import random
names = []
for _ in range(5):  # a name brings packages with it, and those bring names
    packages = {name: module for name, module in sys.modules.items() if hasattr(module, "__homes__")}
    names = [(package, name) for package, module in packages.items() for name in module.__homes__]
    random.Random(int(sys.argv[1])).shuffle(names)
    by_need = {(package, name): getattr(packages[package], name) for package, name in names}
for module in packages.values():
    module.__run__(module)
print(len(packages), len(names), [key for key in names if getattr(packages[key[0]], key[1]) is not by_need[key]])
"""


def said(*scripts: str, given: str = "") -> list[str]:
    """What an interpreter of its own prints, where nothing was imported before."""
    command = [sys.executable, "-I", "-c", "".join(scripts), given]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_a_client_needs_less_than_half_of_the_library() -> None:
    """Clouds and betas stay where they are; what somebody asks for beyond that is there, and as it always was."""
    counted, others = said(WARM, COUNT, OTHERS)
    count, beta = counted.split()
    assert int(count) * 2 < len(list(Path(anthropic.__file__).parent.rglob("*.py")))
    assert beta == "False"
    assert others == "anthropic AnthropicVertex anthropic.resources False"


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_every_name_is_what_its_package_would_import(seed: int) -> None:
    """In whatever order names are asked for, each is the object that running its package gives."""
    (printed,) = said(WARM, EVERY, given=str(seed))
    packages, names, different = printed.split(maxsplit=2)
    assert int(packages) > 10
    assert int(names) > 2000
    assert different == "[]"
