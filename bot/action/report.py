"""The report of an Action run: the outputs of action.yml, and the job's summary in Markdown."""

from typing import Final

from bot.compose.address import ThreadAddress
from bot.config.action_inputs import ActionSettings
from bot.core import comment
from bot.core.gate import Move
from bot.workflow.record import Record

OUTPUTS: Final = ("stage", "thread", "plan_comment_url", "plan_digest", "pull_request_url", "cost_usd", "receipt")


def outputs(given: ActionSettings, at: ThreadAddress | None, record: Record | None) -> dict[str, str]:
    """Return every output; "" for missing ones."""
    if at is None or record is None:
        return dict.fromkeys(OUTPUTS, "")
    planned = record.has(Move.PLANNED, Move.OUTGREW)
    values = {
        "stage": str(record.stage),
        "thread": str(at.number),
        "plan_comment_url": _comment_url(given, at, record),
        "plan_digest": record.plan.digest if planned else "",
        "pull_request_url": record.fact("pull_request"),
        "cost_usd": _cost(record),
        "receipt": record.fact("receipt"),
    }
    return {name: values[name] for name in OUTPUTS}


def summary(given: ActionSettings, at: ThreadAddress, record: Record) -> str:
    """Return one thread's part of the job's summary: stage, plan, pull request, and cost."""
    said = outputs(given, at, record)
    thread = f"[{given.repository}#{at.number}]({_thread_url(given, at)})"
    lines = [f"### {thread}: {str(record.stage).replace('_', ' ')}", ""]
    if record.has(Move.PLANNED, Move.OUTGREW):
        plan = comment.heading(record.plan)
        lines.append(f"- [{plan}]({said['plan_comment_url']})" if said["plan_comment_url"] else f"- {plan}")
    if said["pull_request_url"]:
        lines.append(f"- Pull request: {said['pull_request_url']}")
    if detail := record.fact("detail"):
        lines.append(f"- {comment.code(' '.join(detail.split())[:500])}")
    lines.append(f"- Cost: ${said['cost_usd']}" if said["cost_usd"] else "- Cost: see the thread")
    lines.append("- Receipt: " + (comment.code(said["receipt"]) if said["receipt"] else "none"))
    return "\n".join(lines) + "\n"


def _thread_url(given: ActionSettings, at: ThreadAddress) -> str:
    """Return the URL of a thread. GitHub also serves a pull request under the URL of an issue."""
    return f"{given.settings.github.server_url}/{given.repository}/issues/{at.number}"


def _comment_url(given: ActionSettings, at: ThreadAddress, record: Record) -> str:
    """Return the URL of the plan comment, or of the thread if that is unknown; "" if no plan was proposed."""
    return (record.fact("shown_url") or _thread_url(given, at)) if record.has(Move.PROPOSED) else ""


def _cost(record: Record) -> str:
    """Return the thread's cost in dollars; "" if no entry records a cost."""
    return "" if record.cost_usd is None else f"{record.cost_usd:.4f}"
