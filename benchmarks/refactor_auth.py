"""Run "refactor auth to JWT" with the real program on a scripted model: explore, plan, approve, code.

The program's progress goes to stderr, and the tree of its agents to stdout.
Usage: python benchmarks/refactor_auth.py
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bot.testing import sample
from bot.testing.model.reply import call, say
from bot.testing.model.server import ScriptedModel

REQUEST = "refactor auth to JWT"
AUTH = """def sign_in(user):
    return new_session(user)
"""
EDIT = call("Edit", file_path="auth.py", old_string="new_session(user)", new_string="signed_token(user)")
CHILDREN = {
    "explore": (call("Grep", pattern="session"), call("Read", file_path="auth.py"), say("It is in auth.py:2.")),
    "plan": (call("Read", file_path="auth.py"), say("1. Give a signed token in auth.py:2.")),
    "code": (call("Read", file_path="auth.py"), EDIT, say("auth.py signs tokens.")),
}


def task(kind, description):
    """Return a call that starts a sub-agent."""
    return call("Task", subagent_type=kind, description=description, prompt=f"As {kind}: {description}.")


PARENT = (
    task("explore", "find the auth code"),
    task("plan", "plan the change"),
    call("exit_plan_mode", plan="In `auth.py`, give a signed token in place of a session.", scope=["auth.py"]),
    task("code", "move to JWT"),
    say("Auth uses JWT now."),
)


def policy(request):
    """Return the next reply of the parent, or of the sub-agent with that task."""
    if not request.tools:
        return say("Split the auth module")
    first = request.texts()[0]
    script = next((steps for kind, steps in CHILDREN.items() if f"As {kind}: " in first), PARENT)
    return script[request.step]


def tree(result):
    """Yield the lines of the tree of agents, from the JSON of a run."""
    rows = result["subagents"]
    own = result["cost_usd"] - sum(row["cost_usd"] for row in rows)
    yield f"main: {REQUEST} ({result['stage']}): {result['steps']} answers, ${own:.3f}"
    for n, row in enumerate(rows, 1):
        size = f"about {round(row['tokens'], -3):,} tokens, ${row['cost_usd']:.3f}"
        branch = "└─" if n == len(rows) else "├─"
        yield f"{branch} {row['id']}: {row['description']} ({row['state']}): {row['steps']} answers, {size}"
    yield f"in all: ${result['cost_usd']:.2f}"


def main():
    """Create a repository, run the program on it, and print the tree of its agents."""
    with tempfile.TemporaryDirectory() as home, ScriptedModel(policy) as model:
        repository = sample.make(Path(home) / "shop", {"auth.py": AUTH})
        settings = {
            "ANTHROPIC_API_KEY": "none",
            "ANTHROPIC_BASE_URL": model.base_url,
            "PLANGATE_DATA_DIR": f"{home}/data",
        }
        program = Path(sys.executable).with_name("plangate")
        command = [program, "run", "--repo", repository, "--prompt", REQUEST, "--yes", "--json"]
        ran = subprocess.run(command, env=os.environ | settings, stdout=subprocess.PIPE, text=True, check=True)
        print("\n".join(tree(json.loads(ran.stdout.splitlines()[-1]))))


if __name__ == "__main__":
    main()
