"""The command lines that others build on: each of them is understood as it stands in the documentation."""

import pytest

from bot.cli.main import _parser

STABLE = (
    "demo --port 8484 --headless --face service --dir DIR --real-model",
    "demo --face action",
    "serve --host 127.0.0.1 --port 8000 --no-worker",
    "worker --concurrency 3",
    "run --repo DIR --prompt TEXT --yes --dry-run --json --model ID --max-cost-usd 2.5 --unsafe-no-sandbox",
    "run OWNER/REPO#7 --json",
    "sweep --repo OWNER/REPO",
    "migrate",
    "reindex",
    "threads",
    "show OWNER/REPO#7",
    "watch OWNER/REPO#7",
    "maintenance list --repo OWNER/REPO",
    "maintenance run NAME --repo OWNER/REPO --dry-run",
    "verify COMMIT",
    "sign COMMIT --key KEY",
    "audit OWNER/REPO --since 2026-11-01",
    "doctor --fix --repo OWNER/REPO",
    "doctor --live OWNER/REPO",
    "init DIR",
    "init",
    "replay FILE",
    "schema",
    "version --debug",
)


@pytest.mark.parametrize("line", STABLE)
def test_stable_command_lines(line: str) -> None:
    """A change of one of them needs a deprecation."""
    assert _parser().parse_args(line.split()).command == line.split(maxsplit=1)[0]


def test_concurrency_of_a_worker() -> None:
    """Is how many sessions it runs side by side."""
    assert _parser().parse_args(["worker", "--concurrency", "3"]).sessions == 3
    assert _parser().parse_args(["worker", "--sessions", "3"]).sessions == 3
