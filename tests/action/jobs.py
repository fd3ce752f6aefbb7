"""Which jobs of a workflow an event starts, by its triggers and the conditions of its jobs."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from tests.action.expressions import STATUS, evaluate, holds

ROOT: Final = Path(__file__).parents[2]
MAIN: Final = ROOT / "bot/cli/workflow.yml"
SWEEP: Final = ROOT / "bot/cli/sweep.yml"
PERSON: Final[Mapping[str, Any]] = {"id": 7, "login": "ada", "type": "User"}
BOT: Final[Mapping[str, Any]] = {"id": 41898282, "login": "github-actions[bot]", "type": "Bot"}
MACHINE: Final[Mapping[str, Any]] = {"id": 900, "login": "acme-helper", "type": "User"}
"""The account of a bot that speaks with a token of its own."""
MARKER: Final = f"<!-- plangate:1 plan 3 1 - 0a1b2c3d {'0' * 32} -->"
OPEN: Final = {"name": "plangate: open"}


@cache
def loaded(path: Path) -> Any:
    """Read a workflow, which nobody may change."""
    return YAML(typ="safe", pure=True).load(path.read_text())


def started(workflow: Any, event: str, payload: Mapping[str, Any]) -> Sequence[str]:
    """List the jobs that an event starts. A job that is skipped never gets a runner."""
    if event not in workflow["on"]:
        return []
    types = (workflow["on"][event] or {}).get("types") if event != "schedule" else None
    if types and payload.get("action") not in types:
        return []
    repository = {"full_name": "o/r", "default_branch": "main", "visibility": "private"}
    event_payload = {"repository": repository, "sender": PERSON, **payload}
    github = {"event_name": event, "event": event_payload, "repository": "o/r"}
    contexts = {"github": github, "inputs": payload.get("inputs") or {}}
    begun = list[str]()
    for name, job in workflow["jobs"].items():
        condition = job.get("if", "true")
        needed = "needs" not in job or job["needs"] in begun or STATUS.search(condition)
        if needed and holds(evaluate(condition, contexts)):
            begun.append(name)
    return begun


def comment(body: str, *, labels: Sequence[Mapping[str, str]] = (), **more: Any) -> dict[str, Any]:
    """Make the payload of a comment that a person wrote."""
    made = {"id": 5, "body": body, "user": PERSON}
    return {"action": "created", "issue": {"number": 3, "labels": [*labels]}, "comment": made} | more


def pull(*, head: str = "topic", labels: Sequence[Mapping[str, str]] = (), **more: Any) -> dict[str, Any]:
    """Make a pull request in the repository, of a person."""
    where = {"ref": head, "repo": {"full_name": "o/r"}}
    return {"number": 4, "title": "t", "body": "b", "user": PERSON, "labels": [*labels], "head": where} | more


def review(pull: Mapping[str, Any], body: str | None = None, **more: Any) -> dict[str, Any]:
    """Make the payload of a review by a person."""
    return {"action": "submitted", "pull_request": pull, "review": {"id": 6, "body": body}} | more
