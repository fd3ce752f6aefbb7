"""Every way in which people ask for something and decide about a plan, and where the thread is in the end."""

from collections.abc import Callable

from bot.core.gate import Stage
from bot.testing.github import conversation
from bot.testing.github.code_changes import LineNote
from tests.action.jobs import MARKER
from tests.stories.github.ground import HOME, WISH, Hub

ASK = f"@plangate {WISH}"


def in_the_body(hub: Hub) -> int:
    return hub.opens("will").number


def in_a_comment(hub: Hub) -> int:
    number = hub.opens("rita", "Orders of exactly 50 pay for shipping.").number
    hub.says("will", ASK, number)
    return number


def with_the_bots_hidden_line(hub: Hub) -> int:
    number = hub.opens("rita", "Orders of exactly 50 pay for shipping.").number
    hub.says("will", f"{ASK}\n\n{MARKER}", number)
    return number


def by_label(hub: Hub) -> int:
    number = hub.opens("rita", WISH).number
    hub.person("will").label(HOME, number, "plangate")
    return number


def by_an_edit(hub: Hub) -> int:
    """No condition lets the edit of a person's comment through."""
    number = hub.opens("rita", WISH).number
    conversation.edit_comment(hub.person("will"), hub.says("will", "Please do.", number), "@plangate please do.")
    return number


def in_a_review(hub: Hub) -> int:
    """Its body starts a job, in the pull request's own ref, that hands the thread on."""
    return _review(hub, ASK)


def beside_a_line(hub: Hub) -> int:
    """No condition lets the comments inside a review through."""
    return _review(hub, "See below.", LineNote("docs/topic.md", 1, ASK))


def _review(hub: Hub, body: str, *notes: LineNote) -> int:
    branch = f"topic-{len(hub.world.issues)}"
    hub.person("will").push(HOME, {"docs/topic.md": "A line.\n"}, branch=branch)
    number = hub.person("will").open_pull(HOME, "Topic", head=branch, body="A topic.").number
    hub.person("maya").review(HOME, number, body, notes=list(notes))
    return number


def by_reaction(hub: Hub, number: int) -> None:
    hub.reacts("maya", "+1", hub.plans(number)[0])


def by_a_tick(hub: Hub, number: int) -> None:
    hub.person("maya").tick(hub.plans(number)[0].id)


def by_words(hub: Hub, number: int) -> None:
    hub.says("maya", "@plangate approve", number)


def against_it(hub: Hub, number: int) -> None:
    hub.reacts("maya", "-1", hub.plans(number)[0])


def with_a_reason(hub: Hub, number: int) -> None:
    hub.says("maya", "@plangate reject Not now.", number)


def closed(hub: Hub, number: int) -> None:
    """Nothing approves a plan on a closed thread, until somebody opens it again."""
    hub.person("maya").close(HOME, number)
    by_reaction(hub, number)


def not_at_all(_: Hub, __: int) -> None:
    """The plan waits on."""


ISSUES = (in_the_body, in_a_comment, with_the_bots_hidden_line, by_label, by_an_edit)
PULLS = (in_a_review, beside_a_line)
APPROVALS = (by_reaction, by_a_tick, by_words)
Decision = Callable[[Hub, int], None]
OTHERS: dict[Decision, Stage] = {
    against_it: Stage.REJECTED,
    with_a_reason: Stage.REJECTED,
    closed: Stage.AWAITING_APPROVAL,
    not_at_all: Stage.AWAITING_APPROVAL,
}
