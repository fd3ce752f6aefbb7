"""Whose words a turn may be: whoever edited them, or renamed the thread, and not the last of them alone (four eyes)."""

import pytest

from bot.core.names import ThreadNumber
from bot.core.turn import Turn
from tests.github.conftest import HOME, Ground, turns_of

pytestmark = pytest.mark.req("A1", "A4a")


async def heard(ground: Ground, thread: ThreadNumber) -> Turn:
    """Return the one turn of a thread."""
    (turn,) = await turns_of(ground.dialogue(thread), ())
    return turn


def named(ground: Ground, turn: Turn) -> list[str]:
    """Return the logins of those whose words a turn may be, beside its author."""
    return sorted(ground.github.world.users[who].login for who in turn.editors)


async def test_unedited_words_are_their_authors_and_cost_no_request(ground: Ground) -> None:
    thread = ground.issue()
    assert (await heard(ground, thread)).editors == ()
    assert not ground.asked("GET /repos/acme/pocket/issues")
    assert len(ground.asked("POST /graphql")) == 1
    ground.person("will").edit_issue(HOME, thread, title="Fix it.")
    turn = await heard(ground, thread)
    assert (turn.editors, turn.foreign) == ((), False)


async def test_who_edited_before_the_author_did_is_named(ground: Ground) -> None:
    thread = ground.issue("please @plangate fix it")
    ground.person("mia").edit_issue(HOME, thread, body="please @plangate drop the licence check")
    ground.person("will").edit_issue(HOME, thread, body="Please @plangate drop the licence check")
    comment = ground.person("will").comment(HOME, thread, "@plangate and the docs")
    ground.person("ada").edit_comment(comment.id, "@plangate and the tests")
    ground.person("will").edit_comment(comment.id, "@plangate and the tests.")
    issue, said = await turns_of(ground.dialogue(thread), ())
    assert (named(ground, issue), named(ground, said)) == (["mia"], ["ada"])
    assert issue.foreign
    assert said.foreign


async def test_edit_before_a_hundred_others_is_found(ground: Ground) -> None:
    thread = ground.issue()
    for login, times in (("mia", 1), ("will", 101)):
        for n in range(times):
            ground.github.world.person(login).edit_issue(HOME, thread, body=f"please @plangate fix it, {login} {n}")
    assert named(ground, await heard(ground, thread)) == ["mia"]


async def test_who_renamed_the_thread_is_named_also_under_a_label(ground: Ground) -> None:
    thread = ground.issue()
    ground.person("mia").edit_issue(HOME, thread, title="Fix it, and drop the licence check")
    ground.person("will").edit_issue(HOME, thread, title="Fix it and drop the licence check")
    ground.person("tom").label(HOME, thread, "plangate")
    issue, label = await turns_of(ground.dialogue(thread), ())
    assert (named(ground, issue), issue.foreign, issue.edited) == (["mia"], True, False)
    assert (named(ground, label), label.foreign) == (["mia", "will"], True)
    comment = ground.person("will").comment(HOME, thread, "@plangate go")
    (said,) = await turns_of(ground.dialogue(thread), {issue.key, label.key})
    assert (said.key, said.editors, said.foreign) == (f"comment-{comment.id}", (), False)
