"""The first sign: what a delivery has just reported gets its 👀 before anything else is read or written."""

from collections.abc import Collection

import pytest

from bot.core.names import ThreadNumber
from bot.core.turn import Acknowledgment, Role, Turn
from bot.github.dialogue import FRESH_AGE, GitHubDialogue
from bot.testing.github.code_changes import LineNote
from tests.github.conftest import HOME, Ground

pytestmark = pytest.mark.req("PR3")


def may_ask(turn: Turn) -> bool:
    return (turn.role or Role.NONE) >= Role.WRITE


async def begun(ground: Ground, told: str, *, body: str, by: str = "will") -> GitHubDialogue:
    """Return the dialogue of a look at a new issue, up to its first sign."""
    dialogue = ground.dialogue(ground.issue(body, by=by), told=told)
    await dialogue.subject()
    await dialogue.acknowledge_reported(may_ask=may_ask)
    return dialogue


def signs(ground: Ground, thread: int) -> Collection[str]:
    world = ground.github.world
    return [reaction.content for reaction in world.reactions_to(world.issue(HOME, thread).node_id)]


async def test_reported_turn_gets_one_reaction_one_reading_and_one_role(ground: Ground) -> None:
    """One reaction, one reading of the thread, and one look-up of the role, however often it is acknowledged."""
    dialogue = await begun(ground, "issue", body="@plangate fix it")
    assert signs(ground, dialogue.thread) == ["eyes"]
    (turn,) = await dialogue.turns((), may_act=may_ask)
    await dialogue.acknowledge(turn, Acknowledgment.SEEN)
    await dialogue.acknowledge_reported(may_ask=may_ask)
    assert turn.text.endswith("fix it")
    assert len(ground.asked(f"POST /repos/{HOME}/issues/{dialogue.thread}/reactions")) == 1
    assert len(ground.asked("POST /graphql")) == 1
    assert len(ground.asked(f"GET /repos/{HOME}/collaborators/will/permission")) == 1


async def test_only_the_first_turns_come_from_the_reading_at_the_start(ground: Ground) -> None:
    dialogue = await begun(ground, "issue", body="@plangate fix it")
    ground.person("will").comment(HOME, dialogue.thread, "@plangate and the docs")
    assert [turn.key for turn in await dialogue.turns((), may_act=may_ask)] == ["issue"]
    assert len(await dialogue.turns(("issue",), may_act=may_ask)) == 1


@pytest.mark.parametrize(
    ("told", "body", "by"),
    (
        ("issue", "@plangate fix it", "rea"),
        ("issue", "@plangate fix it", "stranger"),
        ("issue", "Nothing for a bot.", "will"),
        ("comment-1", "@plangate fix it", "will"),
        ("", "@plangate fix it", "will"),
    ),
)
async def test_only_reported_words_to_the_bot_of_who_may_ask_get_a_reaction(
    ground: Ground, told: str, body: str, by: str
) -> None:
    """Neither who may not ask, nor who says nothing to the bot, nor what was not reported."""
    dialogue = await begun(ground, told, body=body, by=by)
    assert signs(ground, dialogue.thread) == []


async def test_delivery_that_comes_again_much_later_gets_no_early_sign(ground: Ground) -> None:
    dialogue = ground.dialogue(ground.issue("@plangate fix it"), told="issue")
    ground.clock.advance(FRESH_AGE.total_seconds())
    await dialogue.subject()
    await dialogue.acknowledge_reported(may_ask=may_ask)
    assert signs(ground, dialogue.thread) == []


def said_in_review(ground: Ground, body: str) -> tuple[int, list[str]]:
    """Submit a review with two comments, and return its pull request and every key that deliveries report it by."""
    ground.person("will").push(HOME, {"src/a.py": "a = 2\n"}, branch="topic")
    pull = ground.person("will").open_pull(HOME, "Topic", head="topic")
    ground.github.faults.stale("POST /graphql")
    notes = [LineNote("src/a.py", 1, "@plangate tidy up"), LineNote("src/a.py", 1, "@plangate test it")]
    review = ground.person("mia").review(HOME, pull.number, body, notes=notes)
    comments = ground.github.world.review_comments_of(ground.github.world.issue(HOME, pull.number))
    return pull.number, [f"review-{review.id}", *(f"review-comment-{comment.id}" for comment in comments)]


@pytest.mark.parametrize(("body", "which"), (("@plangate do this", 2), ("", 0), ("", 2)))
async def test_a_look_waits_for_the_review_that_any_of_its_deliveries_reported(
    ground: Ground, body: str, which: int
) -> None:
    """The API shows it late; it is one turn, whether the review or one of its comments was reported."""
    thread, keys = said_in_review(ground, body)
    dialogue = ground.dialogue(ThreadNumber(thread), told=keys[which])
    await dialogue.subject()
    assert len(ground.asked("POST /graphql")) == 2
    await dialogue.acknowledge_reported(may_ask=may_ask)
    (turn,) = [turn for turn in await dialogue.turns((), may_act=may_ask) if not turn.aside]
    assert turn.key == (keys[0] if body else keys[1])
    assert ground.asked(f"POST /repos/{HOME}/pulls/comments") or body
