"""Judges a delivery by what it reports: whether a check of its thread could find anything for the bot to do.

Most deliveries are people who talk to each other, pushes, and checks of pull requests that are not the bot's. The rule
is that of the reconciler (`bot/github/activity.py`), which later finds whatever this module overlooks (W3). A thread on
which something waits or is under way is always checked. For example, an answer to a question needs no mention.
"""

from dataclasses import dataclass

from bot.core.markdown.visible import may_name


@dataclass(frozen=True, slots=True)
class KnownBot:
    """The bot in a repository: its account and its name, by the configuration that was read last."""

    id: int
    """Numeric id of the bot's account."""
    mention: str


@dataclass(frozen=True, slots=True)
class DeliveryReport:
    """What a delivery says happened on a thread."""

    doer: int | None
    """Numeric id of the account that acted; None if that is unknown."""
    people: frozenset[int] = frozenset()
    """The authors of everything that it is about, and who is assigned to the thread."""
    texts: tuple[str, ...] = ()
    """What was written: the thread's title and first text and, if the delivery is about one, the comment or review."""
    is_relevant: bool = False
    """Whether it matters regardless of its texts: the thread has the bot's label or branch, or something was merged,
    which may change the configuration."""


def needs_check(report: DeliveryReport, bot: KnownBot, *, is_open: bool) -> bool:
    """Return whether a check could find something. `is_open`: something waits or is under way on the thread."""
    if report.doer == bot.id:
        return False
    if is_open or report.is_relevant or bot.id in report.people:
        return True
    return any(may_name(text, bot.mention) for text in report.texts)
