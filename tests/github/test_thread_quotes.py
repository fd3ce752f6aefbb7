"""What a planner is shown of a thread, however long it is (K7)."""

import re
from datetime import timedelta

import pytest

from bot.core.errors import Refused, Transient
from bot.core.names import ThreadNumber
from bot.github.client import TRIES
from bot.github.thread_quotes import ENTRIES_LIMIT, ENTRY_LIMIT, OPENING_LIMIT
from bot.github.threads import GitHubThread, Threads
from bot.testing.github import conversation
from bot.testing.github.code_changes import LineNote
from bot.testing.github.faults import Fault
from tests.github.conftest import HOME, Ground, turns_of

PAGES = 5
"""How many pages of a thread are read when it is heard for the first time (threads.CATCH_UP)."""


def say_many(ground: Ground, thread: ThreadNumber, count: int, text: str = "comment {}") -> None:
    """Add comments of a stranger, a second apart."""
    person, issue = ground.person("stranger"), ground.github.world.issue(HOME, thread)
    for number in range(count):
        ground.clock.advance(1)
        conversation.comment(person, issue, text.format(number))


def entries(text: str) -> list[str]:
    """Split a quotation into what each person said."""
    return [part for part in text.split("\n\n") if re.match(r"> @\S+ at ", part)]


@pytest.mark.req("K7")
async def test_opening_post_and_newest_entries(ground: Ground) -> None:
    """Of 2,000 comments with a log in the middle the opening post and the newest are shown; one line says what is not.

    The log was said by the requester last but one, so its head and its end are shown, with a count. The request is not
    quoted again, and only as many pages are read as a first check reads.
    """
    log = "\n".join(f"line {number} of the log" for number in range(2_800))
    thread = ground.issue("The opening post.")
    say_many(ground, thread, 1_600)
    ground.person("will").comment(HOME, thread, f"```\n{log}\n```")
    request = ground.person("mia").comment(HOME, thread, "@plangate fix what stands above")
    say_many(ground, thread, 400)
    dialogue = ground.dialogue(thread)
    before = len(ground.asked("POST /graphql"))
    (turn,) = await turns_of(dialogue)
    text = await dialogue.context([turn.key])
    assert len(ground.asked("POST /graphql")) - before == PAGES
    assert (turn.key, "fix what stands" in text) == (f"comment-{request.id}", False)
    assert "The opening post." in text
    assert "line 0 of" in text
    assert "line 2799 of" in text
    assert f"[… {len(log) + 8 - ENTRY_LIMIT:,} characters are left out here …]" in text
    shown = [entry.endswith("(These words are in the task.)") for entry in entries(text)]
    assert (sum(shown), len(shown)) == (1, 501)
    (left,) = re.findall(r"> \((.*) left out here\. To read them: (.*)\.\)", text)
    assert left == ("1,502 earlier comments", f'GitHubRead{{what: "comments", number: {thread}, page: 1}}')
    assert len(text) < ENTRIES_LIMIT + OPENING_LIMIT


@pytest.mark.req("K7")
async def test_older_pages_are_read_until_the_room_is_full(ground: Ground) -> None:
    thread = ground.issue("nothing")
    say_many(ground, thread, 250, "{} " + "x" * 500)
    heard = ground.clock.now()
    ground.person("mia").comment(HOME, thread, "@plangate do it")
    dialogue = ground.dialogue(thread)
    (turn,) = await turns_of(dialogue, (), heard + timedelta(seconds=1))
    before = len(ground.asked("POST /graphql"))
    text = await dialogue.context([turn.key])
    assert len(ground.asked("POST /graphql")) - before == 1
    assert ENTRIES_LIMIT - 1_000 < sum(map(len, entries(text))) < ENTRIES_LIMIT + 200
    assert "> 249 x" in text
    assert await dialogue.hidden_fragments(turn) == ()
    assert len(ground.asked("POST /graphql")) - before == 1


@pytest.mark.req("K7")
async def test_opening_post_is_never_lost(ground: Ground) -> None:
    """A long opening post is cut in its visible middle: nothing that is hidden comes to sight by the cut."""
    words = "word " * 12_000
    thread = ground.issue(f"Begin {words[:30_000]}<!-- {'hidden ' * 900} -->{words[:20_000]} End")
    say_many(ground, thread, 30, "{} " + "y" * 5_000)
    text = await ground.dialogue(thread).context()
    opening = entries(text)[0]
    assert opening.startswith("> @will at ")
    assert ("Begin word" in text, "word  End" in text, "hidden" in text) == (True, True, False)
    assert "[… 30,0" in text
    assert len(entries(text)) > ENTRIES_LIMIT // (ENTRY_LIMIT + 200)


@pytest.mark.req("K7")
async def test_opening_post_that_asks_is_named_in_its_place(ground: Ground) -> None:
    """An issue that asks stands in the task; so does one that a label points at. Its place says so."""
    thread = ground.issue("please @plangate fix it")
    for key in ("issue", "label-5", "assigned-6"):
        text = await ground.dialogue(thread).context([key])
        assert "fix it" not in text
        assert len(re.findall(r"> @will at .*: \(These words are in the task\.\)", text)) == 1


@pytest.mark.req("K7")
async def test_edited_texts_say_so(ground: Ground) -> None:
    thread = ground.issue("nothing")
    said = ground.person("rea").comment(HOME, thread, "before")
    ground.person("rea").edit_comment(said.id, "after")
    assert re.search(r"> @rea at .* UTC, edited:\n> after", await ground.dialogue(thread).context())


# Threads that are too much for one answer of GitHub: read in smaller pages, or refused for good


REVIEWS, NOTES = 3, 30
FOR_EVER = 1_000
SIZES = (100, 50, 25, 12, 6)


@pytest.fixture
def pull(ground: Ground) -> ThreadNumber:
    """A pull request whose reviews have many comments."""
    ground.person("will").push(HOME, {"src/a.py": "a = 3\n"}, branch="topic")
    number = ThreadNumber(ground.person("will").open_pull(HOME, "Topic", head="topic").number)
    for review in range(REVIEWS):
        notes = [LineNote("src/a.py", 1, f"note {review}.{note}") for note in range(NOTES)]
        ground.person("mia").review(HOME, number, f"review {review}", notes=notes)
    return number


async def whole(threads: Threads, number: ThreadNumber) -> GitHubThread:
    return await threads.back_to(await threads.read(number), (), None)


async def test_query_that_exceeds_resources_is_repeated_with_smaller_pages(ground: Ground, pull: ThreadNumber) -> None:
    threads = Threads(ground.client, ground.address)
    expected = await whole(threads, pull)
    assert [len(said.notes) for said in expected.reviews] == [NOTES] * REVIEWS
    ground.github.limits.resources = 1_000
    before = len(ground.asked("POST /graphql"))
    found = await whole(Threads(ground.client, ground.address), pull)
    assert [said.words for said in found.reviews] == [said.words for said in expected.reviews]
    assert len(ground.asked("POST /graphql")) - before == 4 + 2 * REVIEWS  # pages of 12, and two more of each review


async def test_thread_too_large_for_the_smallest_pages_is_refused(ground: Ground, pull: ThreadNumber) -> None:
    ground.github.limits.resources = 10
    before = len(ground.asked("POST /graphql"))
    with pytest.raises(Refused, match=r"cannot show this thread: .*Resource limits for this query exceeded"):
        await Threads(ground.client, ground.address).read(pull)
    assert len(ground.asked("POST /graphql")) - before == len(SIZES)


@pytest.mark.parametrize("status", (502, 504))
async def test_query_that_timed_out_is_halved_at_once(ground: Ground, pull: ThreadNumber, status: int) -> None:
    ground.github.faults.fail("POST /graphql", status, times=2)
    before = len(ground.asked("POST /graphql"))
    thread = await Threads(ground.client, ground.address).read(pull)
    assert [len(said.notes) for said in thread.reviews] == [25] * REVIEWS
    assert len(ground.asked("POST /graphql")) - before == 3


async def test_thread_is_not_refused_while_github_fails(ground: Ground, pull: ThreadNumber) -> None:
    ground.github.faults.plan("POST /graphql", Fault("status", 502), times=FOR_EVER)
    before = len(ground.asked("POST /graphql"))
    with pytest.raises(Transient):
        await Threads(ground.client, ground.address).read(pull)
    assert len(ground.asked("POST /graphql")) - before == len(SIZES) - 1 + TRIES
