"""What a process loads of the vendor's library."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import anthropic

PROGRAM = """
import json, sys
from bot.agent.model.connection import direct_connection
direct_connection("none", "http://127.0.0.1:9", None, 90.0).open()
import anthropic
assert not hasattr(anthropic, "_private")
assert "anthropic.lib.bedrock" not in sys.modules, "loaded to look for a private name"
print(json.dumps(sum(name.startswith("anthropic.types") for name in sys.modules)))
"""


def test_a_client_loads_a_part_of_the_types() -> None:
    """A client needs under 1,000 of the library's 2,600 modules of types."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert 0 < json.loads(done.stdout) < 1_000


def test_every_public_name_stays_importable() -> None:
    """All names of `__all__` resolve where the types are loaded on demand, as in the processes of the tests, and names
    that nobody made do not."""
    parts = ast.parse(Path(str(anthropic.__file__)).read_text()).body
    listed = next(
        part.value for part in parts if isinstance(part, ast.Assign) and ast.unparse(part.targets[0]) == "__all__"
    )
    assert [name for name in ast.literal_eval(listed) if not hasattr(anthropic, name)] == []
    from anthropic import AsyncAnthropicBedrock, AsyncAnthropicVertex, WorkloadIdentityError, resources
    from anthropic.types.beta import BetaMessage

    assert all((AsyncAnthropicBedrock, AsyncAnthropicVertex, WorkloadIdentityError, resources, BetaMessage))
    assert type(anthropic).__module__ == "bot.agent.model.connection"
    assert not hasattr(anthropic, "no_such_name")
    assert anthropic.__version__
