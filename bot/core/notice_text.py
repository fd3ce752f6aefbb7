"""Notices of what keeps a thread or a plan from going on, as Markdown."""

from typing import Final

from bot.core.plan import PlanDocument


def configuration_error(why: str) -> str:
    """Render why nothing can continue here."""
    return f"I can't start here: {why}. Fix that, then ask again."


def unreadable(ref: str) -> str:
    """Render that a thread cannot continue because its stored state cannot be read."""
    return (
        f"I can't read my stored state of this thread (`{ref}`). Either PLANGATE_STATE_KEY, or the key that it is "
        "derived from, has changed, or somebody changed that ref. No plan here can be approved anymore. Ask in a new "
        "issue. Or have an operator restore the old key or delete that ref, then ask here again."
    )


VOID: Final = "A later request came after this plan, but no new plan was made. Ask again for a new one."


def void_plan(plan: PlanDocument) -> str:
    """Render the answer to an approval of a plan that is no longer in force."""
    return (
        f"Plan {plan.plan} ({plan.short_digest}) can't be approved anymore, because a later request came after "
        "it. Ask again for a new plan."
    )


def approval_on_hold(plan: PlanDocument, why: str) -> str:
    """Render the answer to an approval of a plan that waits because nothing can be decided here."""
    return f"Plan {plan.plan} ({plan.short_digest}) is on hold: {why}. Fix that, and the approval counts."
