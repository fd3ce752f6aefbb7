"""The input `verify`: checks the receipts of a pull request's commits instead of looking at threads."""

import json
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

from bot.action.runner import Runner
from bot.compose.pull_verification import NO_PULL, RUN_ON, PullRange, verified_commits
from bot.config.action_inputs import ActionSettings
from bot.core.errors import Misconfigured
from bot.core.lines import shorten_line
from bot.core.markdown.elements import code

NOT_VALID: Final = 5
"""The exit code if a commit of the agent has no valid receipt."""
_WIDTH: Final = 500


def verify_pull_request(action: ActionSettings, runner: Runner) -> int:
    """Check every commit of the event's pull request, and return the exit code: 0, or NOT_VALID.

    Raises Misconfigured for another event, and for a checkout without the commits or the keys.
    """
    host = urlsplit(action.settings.github.server_url).netloc
    repository, now = f"{host}/{action.repository}", datetime.now(UTC)
    checked = list(verified_commits(action.workspace, _range(action), keys=action.keys, repository=repository, now=now))
    lines = ["### Receipts", ""]
    for commit in checked:
        verdict = commit.problem or ("valid receipt" if commit.has_receipt else "not made by Plangate")
        line = f"{commit.commit[:12]}: {shorten_line(verdict, _WIDTH)}"
        lines.append(f"- {code(line)}")
        (runner.error if commit.problem else runner.say)(line)
    runner.add_summary("\n".join([*lines, *([] if checked else ["There are no commits."])]), action.summary)
    return NOT_VALID if any(commit.problem for commit in checked) else 0


def _range(action: ActionSettings) -> PullRange:
    """Return the commits of the event's pull request, or of its group in a merge queue.

    https://docs.github.com/en/webhooks/webhook-events-and-payloads#pull_request
    https://docs.github.com/en/webhooks/webhook-events-and-payloads#merge_group
    """
    try:
        event = json.loads(action.event_path.read_bytes())
        if group := event.get("merge_group"):
            return PullRange(str(group["base_sha"]), str(group["head_sha"]))
        pull = event.get("pull_request") or {}
        return PullRange(str(pull["base"]["sha"]), str(pull["head"]["sha"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Misconfigured(NO_PULL, where="verify", fix=RUN_ON) from error
