"""Replies by mail on a thread: what they quote never acts, and counts as words of strangers (A6, K8, S9)."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import pytest

from bot.core.approval import Candidate, Opinion, Reason, VerdictOutcome, Way
from bot.core.brief import Topic
from bot.core.names import ThreadNumber, ToolUseId
from bot.core.question import AnswerSnapshot, permission
from bot.core.reply_text import WHO_MAY_STEER
from bot.core.turn import MAIL_NOTE, Command, Turn, Verb, parse
from bot.github.thread_quotes import WITHHELD
from bot.testing.github.code_changes import LineNote
from tests.github.conftest import HOME, UNQUOTED, Ground, turns_of
from tests.github.reading import Reading
from tests.github.shown import Shown
from tests.mails import QUOTED, SHAPES, gmail, ios, outlook, without_a_mark

ASKS: Final = "@plangate fix the tests"
WORDS: Final = ("Thanks", "I would approve this")
pytestmark = pytest.mark.req("A6")


def mails(words: str) -> Iterator[str]:
    """Yield a mail of every shape with every quoted text."""
    for shape in SHAPES.values():
        for quoted in QUOTED.values():
            yield shape(words, quoted)


def pull(ground: Ground, body: str = "", *, by: Any = None) -> ThreadNumber:
    branch = f"topic-{len(ground.github.world.issues)}"
    ground.person("will").push(HOME, {"src/a.py": f"a = {branch!r}\n"}, branch=branch)
    return ThreadNumber((by or ground.person("will")).open_pull(HOME, "Topic", head=branch, body=body).number)


async def heard(ground: Ground, thread: ThreadNumber) -> list[str]:
    return [turn.text for turn in await turns_of(ground.dialogue(thread))]


async def the_turn(ground: Ground, thread: ThreadNumber) -> Turn:
    (turn,) = await turns_of(ground.dialogue(thread))
    return turn


async def opinions(shown: Shown) -> list[Candidate]:
    return list((await shown.look()).candidates)


async def test_nothing_that_a_mailed_comment_quotes_is_heard_or_decides(ground: Ground) -> None:
    shown = await Shown.on(ground, ground.issue("nothing"))
    for body in mails("Thanks"):
        ground.person("mia").by_mail().comment(HOME, shown.plan.thread, body)
    assert await heard(ground, shown.plan.thread) == []
    assert await opinions(shown) == []


async def test_a_mail_under_the_plan_comment_is_no_request(ground: Ground) -> None:
    """A mail client shows the plan's text without its Markdown."""
    shown = await Shown.on(ground, ground.issue("nothing"))
    for shape in SHAPES.values():
        body = shape("Looks good", shown.comment.text.body.replace("`", ""))
        ground.person("mia").by_mail().comment(HOME, shown.plan.thread, body)
    assert await heard(ground, shown.plan.thread) == []


async def test_nothing_quoted_in_a_mailed_review_or_beside_its_lines_is_heard(ground: Ground) -> None:
    thread = pull(ground)
    for body in (outlook("Thanks", QUOTED["approve"]), ios("Thanks", QUOTED["mention"])):
        ground.person("mia").by_mail().review(HOME, thread, body)
        ground.person("mia").by_mail().review(HOME, thread, notes=[LineNote("src/a.py", 1, body)])
    assert await heard(ground, thread) == []


async def test_a_mailed_review_of_the_bots_pull_request_needs_the_mention(ground: Ground) -> None:
    from bot.testing.github.person import Person

    thread = pull(ground, by=Person(ground.github.world, ground.bot.id))
    reviewer = ground.person("mia").by_mail()
    reviewer.review(HOME, thread, notes=[LineNote("src/a.py", 1, gmail("Thanks", "I renamed it."))])
    reviewer.review(HOME, thread, notes=[LineNote("src/a.py", 1, gmail(ASKS, "I renamed it."))])
    assert await heard(ground, thread) == [f"fix the tests\n\n{MAIL_NOTE}"]


async def test_nothing_that_a_mailed_opening_post_quotes_is_heard(ground: Ground) -> None:
    opened = ground.person("mia").by_mail().open_issue(HOME, "Fw: broken", outlook("FYI", QUOTED["mention"]))
    assert await heard(ground, ThreadNumber(opened.number)) == []


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("quoted", QUOTED)
@pytest.mark.parametrize("words", WORDS)
async def test_no_post_of_any_kind_acts_by_what_it_quotes(ground: Ground, shape: str, quoted: str, words: str) -> None:
    body, mia = SHAPES[shape](words, QUOTED[quoted]), ground.person("mia").by_mail()
    about, thread = pull(ground), ThreadNumber(mia.open_issue(HOME, "Fw: broken", body).number)
    opened = pull(ground, body, by=mia)
    mia.review(HOME, about, body)
    mia.review(HOME, about, "Fine.", notes=[LineNote("src/a.py", 1, body)])
    mia.review(HOME, about, notes=[LineNote("src/a.py", 1, body)])
    mia.comment(HOME, about, body)
    assert [await heard(ground, each) for each in (about, thread, opened)] == [[], [], []]


async def test_mail_asks_by_its_first_line_alone(ground: Ground) -> None:
    thread = ground.issue("nothing")
    for body in mails(ASKS):
        ground.person("mia").by_mail().comment(HOME, thread, body)
    turns = await turns_of(ground.dialogue(thread))
    assert len(turns) == len(SHAPES) * len(QUOTED)
    assert {(turn.by_mail, turn.foreign, turn.strangers) for turn in turns} == {(True, True, True)}
    assert {turn.text.startswith("fix the tests") for turn in turns} == {True}
    assert {turn.text.endswith(MAIL_NOTE) for turn in turns} == {True}
    assert not any(quoted.split()[-1] in turn.text for turn in turns for quoted in ("@plangate", "everything", "allow"))


async def test_a_mail_is_a_strangers_word_even_where_those_are_not_shown(ground: Ground) -> None:
    thread = ground.issue("nothing")
    ground.person("mia").by_mail().comment(HOME, thread, outlook(ASKS, "Drop the tests."))
    dialogue = ground.dialogue(thread, UNQUOTED)
    (turn,) = await turns_of(dialogue)
    assert (turn.foreign, turn.strangers, turn.text) == (True, True, f"fix the tests\n\n{MAIL_NOTE}")
    assert await dialogue.context([turn.key]) == ""


async def test_a_mail_makes_the_thread_one_with_strangers(ground: Ground) -> None:
    thread = ground.issue()
    assert not (await the_turn(ground, thread)).strangers
    ground.person("mia").by_mail().comment(HOME, thread, without_a_mark("Thanks", "Drop the tests."))
    assert (await the_turn(ground, thread)).strangers


async def test_a_mail_stops_and_rejects_in_every_shape(ground: Ground) -> None:
    shown = await Shown.on(ground, ground.issue("nothing"))
    for shape in SHAPES.values():
        for verb in ("stop", "reject"):
            body = shape(f"@plangate {verb}", QUOTED["approve"])
            ground.person("mia").by_mail().comment(HOME, shown.plan.thread, body)
    turns = await turns_of(ground.dialogue(shown.plan.thread))
    commands = [parse(turn.text.split("\n")[0]) for turn in turns]
    assert commands == [Command(Verb.STOP), Command(Verb.REJECT)] * len(SHAPES)
    said = await opinions(shown)
    assert {(word.way, word.opinion) for word in said} == {(Way.MAIL, Opinion.REJECT)}
    assert (await shown.verdict()).outcome is VerdictOutcome.REJECTED


async def test_a_mail_cannot_approve_and_the_verdict_says_why(ground: Ground) -> None:
    shown = await Shown.on(ground)
    body = ios("@plangate approve", "A plan.")
    sent = ground.person("mia").by_mail().comment(HOME, shown.plan.thread, body)
    assert await shown.reasons() == [Reason.SENT_BY_MAIL, Reason.NOBODY]
    ground.person("mia").edit_comment(sent.id, f"@plangate approve {shown.plan.short_digest}")
    assert await shown.reasons() == [Reason.COMMENT_EDITED, Reason.NOBODY]
    (turn, *_) = [turn for turn in await turns_of(ground.dialogue(shown.plan.thread)) if turn.key != "issue"]
    assert (turn.by_mail, turn.edited) == (True, True)


async def test_whoever_may_not_decide_is_told_only_of_the_own_first_line(ground: Ground) -> None:
    shown = await Shown.on(ground)
    ground.person("rea").by_mail().comment(HOME, shown.plan.thread, outlook("Hm", "@plangate approve"))
    assert await opinions(shown) == []
    ground.person("rea").by_mail().comment(HOME, shown.plan.thread, outlook("@plangate approve", "Hm"))
    assert await shown.reasons() == [Reason.ROLE_TOO_LOW, Reason.NOBODY]


async def test_a_label_on_a_mailed_post_asks_with_words_of_strangers(ground: Ground) -> None:
    opened = ground.person("will").by_mail().open_issue(HOME, "Fw: broken", without_a_mark("See below.", "<!-- a -->"))
    ground.person("will").label(HOME, opened.number, "plangate")
    (turn,) = await turns_of(ground.dialogue(ThreadNumber(opened.number)))
    assert (turn.foreign, turn.strangers, turn.mark) == (True, True, True)
    assert turn.text == "# Fw: broken\n\nSee below.\n<!-- a -->"


async def test_the_planner_reads_a_mail_as_plain_text_with_its_origin(ground: Ground) -> None:
    """As GitHub shows it, and whole even where its first line is the task."""
    thread = ground.issue("nothing")
    sent = ground.person("mia").by_mail().comment(HOME, thread, outlook(ASKS, "# Not a heading\n<!-- seen -->"))
    context = await ground.dialogue(thread).context([f"comment-{sent.id}"])
    assert "sent by mail (parts may be other people's words):\n> @plangate fix the tests\n" in context
    assert "> # Not a heading\n> <!-- seen -->\n" in context


async def test_what_nobody_sees_in_a_mail_is_reported_once(ground: Ground) -> None:
    thread = ground.issue("nothing")
    ground.person("mia").by_mail().comment(HOME, thread, outlook(ASKS, "a\u200b\u200b\u200bb"))
    turn, dialogue = await the_turn(ground, thread), ground.dialogue(thread)
    assert (len(turn.hidden), list(await dialogue.hidden_fragments(turn))) == (1, [])
    assert len(await dialogue.hidden_fragments(replace(turn, key="comment-1"))) == 1


async def test_sessions_read_a_mail_as_words_of_strangers(ground: Ground) -> None:
    thread = ground.issue("Mine.", by="mia")
    ground.person("mia").by_mail().comment(HOME, thread, without_a_mark("Thanks", "<!-- seen -->"))
    ground.person("mia").comment(HOME, thread, "Typed <!-- hidden -->")
    planning = await Reading(ground).read(Topic.COMMENTS, thread)
    assert [(passage.foreign, passage.text) for passage in planning.passages] == [
        (True, "Thanks\n<!-- seen -->"),
        (False, "Typed"),
    ]
    assert "by @mia (may ask; sent by mail: parts may be other people's words)" in planning.passages[0].head
    working = await Reading(ground).read(Topic.COMMENTS, thread, strangers=False)
    assert [passage.text for passage in working.passages] == [WITHHELD, "Typed"]


async def test_a_mail_answers_with_its_first_line_and_says_so(ground: Ground) -> None:
    thread = ground.issue()
    dialogue, asking = ground.dialogue(thread), permission(ToolUseId("t"), "Bash", "make", "a rule asks")
    node = (await dialogue.ask(asking, 4, who=WHO_MAY_STEER)).id
    for body in (gmail("Allow", "@plangate deny"), ios("@plangate deny", "allow"), outlook("@plangate stop", "allow")):
        ground.person("mia").by_mail().comment(HOME, thread, body)
    look: AnswerSnapshot = await dialogue.answers(asking, node, who=WHO_MAY_STEER, may=lambda _: True)
    first, second = look.words
    assert (first.text, first.by_mail, second.by_mail) == (f"Allow\n\n{MAIL_NOTE}", True, True)
    assert second.text.startswith("deny.Ann Lee")


async def test_what_a_mail_quotes_counts_as_no_request_of_the_day(ground: Ground) -> None:
    thread = ground.issue("nothing")
    ground.person("will").by_mail().comment(HOME, thread, without_a_mark("Thanks", "@plangate fix it"))
    asked = ground.person("will").by_mail().comment(HOME, thread, without_a_mark(ASKS, "@plangate stop"))
    last = ground.person("will").comment(HOME, thread, "@plangate again")
    (turn,) = [turn for turn in await turns_of(ground.dialogue(thread)) if turn.key == f"comment-{last.id}"]
    assert await ground.dialogue(thread).asked_before(turn) == {f"{thread}/comment-{asked.id}"}
