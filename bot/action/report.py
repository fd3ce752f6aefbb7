"""The report of an Action run, and its input `verify`."""

import json
import re
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from bot.action.runner import Runner
from bot.compose.receipt_check import verified_commits
from bot.config.action_inputs import ActionSettings
from bot.config.settings import RECEIPTS
from bot.core import comment
from bot.core.errors import Misconfigured
from bot.core.markdown.elements import code, shorten_line
from bot.core.names import ThreadAddress
from bot.core.thread.state import ThreadState
from bot.receipts.envelope import parse_envelope

# --- The outputs of action.yml, and the job's summary -----------------------------------------------------------------

OUTPUTS: Final = (
    *("stage", "thread", "plan_comment_url", "plan_digest", "pull_request_url"),
    *("cost_usd", "tokens_input", "tokens_output", "receipt", "predicate"),
)


def outputs(action: ActionSettings, at: ThreadAddress | None, state: ThreadState | None) -> dict[str, str]:
    """Return every output by name, "" for a missing one. Writes the predicate of a receipt to its file."""
    if at is None or state is None:
        return dict.fromkeys(OUTPUTS, "")
    receipt = receipt_path(action, state)
    return {
        "stage": str(state.stage),
        "thread": str(at.number),
        "plan_comment_url": _comment_url(action, at, state),
        "plan_digest": state.plan.newest.digest if state.plan.newest else "",
        "pull_request_url": state.work.pull_request_url,
        "cost_usd": _cost(state),
        "tokens_input": str(state.costs.tokens[0] or ""),
        "tokens_output": str(state.costs.tokens[1] or ""),
        "receipt": receipt,
        "predicate": _write_predicate(receipt),
    }


def summary(action: ActionSettings, at: ThreadAddress, state: ThreadState) -> str:
    """Return one thread's part of the job's summary: stage, plan, pull request, and cost."""
    url, receipt, dollars = _comment_url(action, at, state), receipt_path(action, state), _cost(state)
    thread = f"[{action.repository}#{at.number}]({_thread_url(action, at)})"
    lines = [f"### {thread}: {str(state.stage).replace('_', ' ')}", ""]
    if state.plan.newest is not None:
        plan = comment.heading(state.plan.newest)
        lines.append(f"- [{plan}]({url})" if url else f"- {plan}")
    if state.work.pull_request_url:
        lines.append(f"- Pull request: {state.work.pull_request_url}")
    if detail := state.request.detail:
        lines.append(f"- {code(' '.join(detail.split())[:500])}")
    lines.append(f"- Cost: ${dollars}" if dollars else "- Cost: see the thread")
    lines.append("- Receipt: " + (code(receipt) if receipt else "none"))
    return "\n".join(lines) + "\n"


def _thread_url(action: ActionSettings, at: ThreadAddress) -> str:
    """Return the URL of a thread. GitHub also serves a pull request under the URL of an issue."""
    return f"{action.settings.github.server_url}/{action.repository}/issues/{at.number}"


def _comment_url(action: ActionSettings, at: ThreadAddress, state: ThreadState) -> str:
    """Return the URL of the plan comment, or of the thread if that is unknown; "" if no plan is known to be shown."""
    return (state.plan.comment_url or _thread_url(action, at)) if state.plan.comment else ""


def receipt_path(action: ActionSettings, state: ThreadState) -> str:
    """Return the path of the newest pull request's receipt; "" if this job made none."""
    path = action.settings.data_dir / RECEIPTS / f"{state.work.published.commit if state.work.published else ''}.json"
    return str(path) if path.is_file() else ""


def _write_predicate(receipt: str) -> str:
    """Write a receipt's predicate beside it, for a step that attests it, and return its path; "" without a receipt."""
    if not receipt:
        return ""
    path = Path(receipt).with_suffix(".predicate.json")
    path.write_text(json.dumps(parse_envelope(Path(receipt).read_bytes()).statement["predicate"]), encoding="utf-8")
    return str(path)


def _cost(state: ThreadState) -> str:
    return "" if state.costs.total_usd is None else f"{state.costs.total_usd:.4f}"


# --- The input `verify` -----------------------------------------------------------------------------------------------
# The job checks the receipts of a pull request's commits instead of checking threads.

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
