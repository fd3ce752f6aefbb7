"""What a process loads of the vendor's library, seen in a process of its own."""

import json
import subprocess
import sys

PROGRAM = """
import ast, json, sys
from pathlib import Path
from bot.agent.model.connection import direct_connection
direct_connection("none", "http://127.0.0.1:9", None, 90.0).open()
import anthropic
loaded = sum(name.startswith("anthropic.types") for name in sys.modules)
parts = ast.parse(Path(anthropic.__file__).read_text()).body
listed = next(part.value for part in parts if isinstance(part, ast.Assign) and part.targets[0].id == "__all__")
missing = [name for name in ast.literal_eval(listed) if not hasattr(anthropic, name)]
from anthropic import AsyncAnthropicBedrock, AsyncAnthropicVertex, WorkloadIdentityError, resources
from anthropic.types.beta import BetaMessage
print(json.dumps([loaded, missing, hasattr(anthropic, "no_such_name"), anthropic.__version__]))
"""


def test_a_client_loads_a_part_of_the_types_and_every_public_name_stays_importable() -> None:
    """A client needs under 1,000 of the library's 2,600 modules of types; all names of `__all__` resolve."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded, missing, invented, version = json.loads(done.stdout)
    assert (loaded < 1_000, missing, invented) == (True, [], False), loaded
    assert version
