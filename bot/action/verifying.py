"""The input `verify`: checks the receipts of a pull request's commits instead of checking threads."""

import json
import re
from typing import Final
from urllib.parse import urlsplit

from bot.action.runner import Runner
from bot.compose.pull_verification import verified_commits
from bot.config.action_inputs import ActionSettings
from bot.core.errors import Misconfigured
from bot.core.lines import shorten_line
from bot.core.markdown.elements import code

NOT_VALID: Final = 5
"""The exit code if a commit of the agent has no valid receipt."""
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_WIDTH: Final = 500


def verify_pull_request(action: ActionSettings, runner: Runner) -> int:
    """Check every commit of the event's pull request, and return the exit code: 0, or NOT_VALID.

    Raises Misconfigured for another event, and for a checkout without the commits or the keys.
    """
    repository = f"{urlsplit(action.settings.github.server_url).netloc}/{action.repository}"
    checked = list(verified_commits(action.workspace, *_range(action), keys=action.keys, repository=repository))
    lines = ["### Receipts", ""]
    for commit in checked:
        verdict = commit.problem or ("valid receipt" if commit.has_receipt else "not made by Plangate")
        line = f"{commit.commit[:12]}: {shorten_line(verdict, _WIDTH)}"
        lines.append(f"- {code(line)}")
        (runner.error if commit.problem else runner.say)(line)
    runner.add_summary("\n".join([*lines, *([] if checked else ["There are no commits."])]), action.summary)
    return NOT_VALID if any(commit.problem for commit in checked) else 0


def _range(action: ActionSettings) -> tuple[str, str]:
    """Return base and head of the event's pull request, or of its group in a merge queue. Raises Misconfigured.

    https://docs.github.com/en/webhooks/webhook-events-and-payloads#pull_request
    https://docs.github.com/en/webhooks/webhook-events-and-payloads#merge_group
    """
    try:
        event = json.loads(action.event_path.read_bytes())
        if group := event.get("merge_group"):
            base, head = str(group["base_sha"]), str(group["head_sha"])
        else:
            base, head = (str(event["pull_request"][side]["sha"]) for side in ("base", "head"))
        if not (_COMMIT.fullmatch(base) and _COMMIT.fullmatch(head)):
            raise ValueError("not the ids of commits")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        fix = "run it on: pull_request, or on: merge_group"
        raise Misconfigured("the event names no pull request", where="verify", fix=fix) from error
    return base, head
