"""Turns that nobody wrote: the label set, the bot assigned; and what a turn's title says."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from bot.core.names import CommitId, RepositoryId, ThreadNumber
from bot.core.turn import Actor, Turn
from bot.core.work import PullCommits
from bot.github.activity import ActiveThread
from bot.github.client import GitHubClient
from bot.github.permissions import Roles
from bot.github.repository import Address
from bot.github.thread_quotes import ThreadQuotes
from bot.github.threads import GitHubThread, ThreadPost
from bot.github.turns import BotIdentity, ParsedTextCache, TurnReader
from tests.core.hidden_channels import SPELLED
from tests.core.test_hidden import INVISIBLE
from tests.github.script import Reply, scripted

AT = datetime(2026, 1, 1, tzinfo=UTC)
OPENED = ThreadPost("issue", Actor(5, "rea"), "fix the bug", AT)
THREAD = GitHubThread(
    RepositoryId(1), ThreadNumber(7), "Title", OPENED, False, frozenset({"plangate"}), frozenset({9}), ()
)
BOT = Actor(9, "machine")
TOM = {"id": 3, "login": "tom", "type": "User"}
LABELED = {
    "id": 11,
    "event": "labeled",
    "actor": TOM,
    "label": {"name": "plangate"},
    "created_at": "2026-01-02T00:00:00Z",
}
OTHER = LABELED | {"id": 12, "label": {"name": "bug"}}
ASSIGNED = {
    "id": 13,
    "event": "assigned",
    "actor": TOM,
    "assigner": TOM,
    "assignee": {"id": 9, "login": "machine", "type": "User"},
    "created_at": "2026-01-03T00:00:00Z",
}
ROLE = Reply(200, {"permission": "read", "role_name": "triage", "user": {"id": 3, "login": "tom"}})


async def turns_in(thread: GitHubThread, client: GitHubClient) -> tuple[Turn, ...]:
    """List the turns of a thread on which everybody may act."""
    roles = Roles(client, Address("acme", "pocket"))
    return await TurnReader(BotIdentity(BOT), roles, ParsedTextCache(), lambda _: True).turns(thread, ())


def context(thread: GitHubThread) -> str:
    return ThreadQuotes(thread, ParsedTextCache(), BotIdentity(BOT)).text()


@pytest.mark.parametrize(
    ("thread", "keys"),
    (
        (THREAD, ["label-11", "assigned-13"]),
        (replace(THREAD, assignees=frozenset()), ["label-11"]),
        (replace(THREAD, labels=frozenset()), ["assigned-13"]),
        (replace(THREAD, labels=frozenset(), assignees=frozenset()), []),
        (replace(THREAD, pull=PullCommits(CommitId("b"), CommitId("h"))), []),
    ),
)
async def test_marks_are_turns_of_who_set_them(thread: GitHubThread, keys: list[str]) -> None:
    """The label and the assignment ask for what the issue says, while they are there, on issues."""
    with scripted(Reply(200, [LABELED, OTHER, ASSIGNED]), ROLE) as (client, _, _):
        found = await turns_in(thread, client)
    assert [turn.key for turn in found] == keys
    assert {(turn.actor.id, turn.text) for turn in found} <= {(3, "# Title\n\nfix the bug")}


def test_a_mark_may_be_new_where_the_issue_was_heard() -> None:
    """Whoever sets the label on an issue that spoke in vain is found as well, though no event told of it."""
    thread = replace(THREAD, opened=replace(OPENED, body="@plangate fix the bug"))
    found = [
        ActiveThread(thread, AT).unheard_keys(BotIdentity(BOT), AT, frozenset(heard)) for heard in ((), ("issue",))
    ]
    assert found == [{"issue"}, {"moved-20260101T000000"}]


def test_what_only_names_the_bot_wakes_it_once() -> None:
    """A look tells whether it speaks to the bot; what was judged is read again where it was edited since."""
    said = ThreadPost("comment-1", Actor(5, "rea"), "`@plangate` is code", AT)
    thread = replace(THREAD, labels=frozenset(), assignees=frozenset(), comments=(said,))
    edited = replace(thread, comments=(replace(said, edited_at=AT),))
    found = [
        ActiveThread(each, AT).unheard_keys(BotIdentity(BOT), AT, frozenset({said.version}))
        for each in (thread, edited)
    ]
    found.append(ActiveThread(thread, AT).unheard_keys(BotIdentity(BOT), AT, frozenset()))
    assert found == [set(), {said.key}, {said.key}]


async def test_words_are_heard_even_if_events_cannot_be_read() -> None:
    said = ThreadPost("comment-1", Actor(3, "tom"), "@plangate go", AT)
    with scripted(ROLE, Reply(404, {"message": "Not Found"}), ROLE) as (client, script, _):
        script.replies = [Reply(404, {"message": "Not Found"}), ROLE]
        found = await turns_in(replace(THREAD, comments=(said,)), client)
    assert [turn.key for turn in found] == ["comment-1"]


async def test_parsing_a_hostile_text_holds_up_nothing_else() -> None:
    said = ThreadPost("comment-1", Actor(3, "tom"), "a\n" * 16_000 + "@plangate", AT)
    looks = 0

    async def look() -> None:
        nonlocal looks
        while True:
            await asyncio.sleep(0.001)
            looks += 1

    with scripted(ROLE, ROLE) as (client, _, _):
        looking = asyncio.create_task(look())
        found = await turns_in(replace(THREAD, comments=(said,), labels=frozenset(), assignees=frozenset()), client)
        looking.cancel()
    assert [turn.key for turn in found] == ["comment-1"]
    assert looks > 5


@pytest.mark.req("X1")
@pytest.mark.parametrize("name", [name for name in SPELLED if "entities" not in name])
async def test_nothing_is_hidden_in_a_title(name: str) -> None:
    """Words that a title spells with what nobody sees are neither in a turn nor in the context, in no form; the turn
    tells of them, whether somebody spoke or set the label."""
    opened = replace(OPENED, actor=Actor(3, "tom"), body="@plangate fix the bug")
    thread = replace(THREAD, title=f"Title {SPELLED[name]} \u2028\u2029 after", opened=opened, assignees=frozenset())
    with scripted(Reply(200, [LABELED]), ROLE, ROLE) as (client, _, _):
        found = await turns_in(thread, client)
    assert [turn.key for turn in found] == ["issue", "label-11"]
    for text in (*(turn.text for turn in found), context(thread)):
        assert [sign for sign in text if ord(sign) in INVISIBLE or ord(sign) > 0xEFFFF] in ([], ["\u200c"])
        assert text.count("‹") <= 1
        assert "after" in text
    assert all(len(turn.hidden) >= 2 and "‹U+2028›‹U+2029›" in turn.hidden for turn in found)


@pytest.mark.parametrize(
    ("body", "text"),
    (
        ("- @plangate revise: use tabs\n- and no spaces", "@plangate revise: use tabs\n\n- and no spaces"),
        ("Thanks.\n\nHi @plangate, stop!", "Hi @plangate, stop!\nThanks.\n"),
        ("请@plangate 修复", "请 修复"),
    ),
)
async def test_a_command_of_a_turn_is_its_first_line_once(body: str, text: str) -> None:
    said = ThreadPost("comment-1", Actor(3, "tom"), body, AT)
    with scripted(ROLE) as (client, _, _):
        (turn,) = await turns_in(replace(THREAD, labels=frozenset(), assignees=frozenset(), comments=(said,)), client)
    assert turn.text.split() == text.split()


def test_title_is_plain_text() -> None:
    title = "Drop <b>this</b> <!-- and --> [that](x 'y') &amp; `more`"
    assert context(replace(THREAD, title=title)).startswith(f"> Title: {title}\n")
