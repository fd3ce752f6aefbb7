"""A review as an answer: posted once, at the lines of the diff, and never lost (K6, E1)."""

from typing import Any

import pytest

from bot.core import marker
from bot.core.names import CommitId, ThreadNumber
from bot.core.work import Review, ReviewFinding, Severity
from tests.github.conftest import HOME, Ground

SECRET = f"ghp_{'a1B2' * 9}"


@pytest.fixture
def thread(ground: Ground) -> ThreadNumber:
    """A pull request that changes one line of a file and adds another file."""
    ground.person("will").push(HOME, {"src/a.py": "a = 3\nb = 4\n", "src/b.py": "b = 1\n"}, branch="topic")
    return ThreadNumber(ground.person("will").open_pull(HOME, "Topic", head="topic").number)


def review(ground: Ground, thread: ThreadNumber, *places: tuple[str, int], said: str = "It fails.") -> Review:
    pull = ground.github.world.issue(HOME, thread).pull
    assert pull is not None
    findings = (ReviewFinding(path, line, Severity.HIGH, said) for path, line in places)
    return Review("Not yet.", tuple(findings), CommitId(pull.head_sha))


def reviews(ground: Ground, thread: ThreadNumber) -> list[Any]:
    world = ground.github.world
    return [each for each in world.reviews_of(world.issue(HOME, thread)) if each.author == ground.bot.id]


def notes(ground: Ground, thread: ThreadNumber) -> list[tuple[str, int, str]]:
    world = ground.github.world
    return [(each.path, each.line, each.text.body) for each in world.review_comments_of(world.issue(HOME, thread))]


async def test_findings_at_lines_of_the_diff_are_comments_and_the_rest_is_the_body(
    ground: Ground, thread: ThreadNumber
) -> None:
    wanted = review(ground, thread, ("src/a.py", 2), ("src/b.py", 1), ("src/a.py", 99), ("README.md", 1))
    for _ in range(2):
        await ground.dialogue(thread).review(wanted, 7)
    (made,) = reviews(ground, thread)
    assert (made.state, marker.without(made.text.body)) == (
        "COMMENTED",
        "Not yet.\n\n`src/a.py:99`\n**High:** It fails.\n\n`README.md:1`\n**High:** It fails.",
    )
    assert notes(ground, thread) == [
        ("src/a.py", 2, "**High:** It fails."),
        ("src/b.py", 1, "**High:** It fails."),
    ]
    assert ground.comments(thread) == []


async def test_findings_on_an_older_head_stand_in_the_body(ground: Ground, thread: ThreadNumber) -> None:
    wanted = review(ground, thread, ("src/a.py", 2))
    ground.person("will").push(HOME, {"src/a.py": "new\na = 3\nb = 4\n"}, branch="topic")
    await ground.dialogue(thread).review(wanted, 7)
    (made,) = reviews(ground, thread)
    assert "`src/a.py:2`\n**High:** It fails." in made.text.body
    assert notes(ground, thread) == []


@pytest.mark.parametrize("status", (403, 422))
async def test_refused_review_becomes_one_comment_for_good(ground: Ground, thread: ThreadNumber, status: int) -> None:
    ground.github.faults.fail("POST */pulls/*/reviews", status)
    wanted = review(ground, thread, ("src/a.py", 2))
    for _ in range(2):
        await ground.dialogue(thread).review(wanted, 7)
    (comment,) = ground.comments(thread)
    assert marker.without(comment.text.body) == "Not yet.\n\n`src/a.py:2`\n**High:** It fails."
    assert reviews(ground, thread) == []


@pytest.mark.req("E1")
async def test_lost_answer_makes_no_second_review(ground: Ground, thread: ThreadNumber) -> None:
    ground.github.faults.fail("POST */pulls/*/reviews", 502, done=True)
    await ground.dialogue(thread).review(review(ground, thread, ("src/a.py", 2)), 7)
    assert len(reviews(ground, thread)) == 1


@pytest.mark.req("A4b", "PR3")
async def test_review_of_a_new_journal_is_posted_beside_the_old_one(ground: Ground, thread: ThreadNumber) -> None:
    await ground.dialogue(thread).review(review(ground, thread, ("src/a.py", 1)), 7)
    for _ in range(2):
        await ground.dialogue(thread).review(review(ground, thread, ("src/a.py", 2)), 7)
    assert [place[1] for place in notes(ground, thread)] == [1, 2]


@pytest.mark.req("X2", "X3")
async def test_review_cannot_mention_link_close_or_approve(ground: Ground, thread: ThreadNumber) -> None:
    hostile = f"@mia https://evil.example fixes #1 {SECRET} <!-- x -->"
    await ground.dialogue(thread).review(review(ground, thread, ("src/a.py", 1), ("gone", 1), said=hostile), 7)
    (made,) = reviews(ground, thread)
    for text in (made.text.body, notes(ground, thread)[0][2]):
        assert "`@mia` `https://evil.example`" in text
        assert SECRET not in text
        assert "&lt;!-- x -->" in text
    assert made.state == "COMMENTED"


async def test_review_without_findings_reads_no_diff(ground: Ground, thread: ThreadNumber) -> None:
    before = len(ground.asked("GET */files"))
    await ground.dialogue(thread).review(review(ground, thread), 7)
    assert marker.without(reviews(ground, thread)[0].text.body) == "Not yet."
    assert len(ground.asked("GET */files")) == before
