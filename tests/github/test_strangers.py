"""What a check costs beside what strangers wrote: their texts are not parsed, and nobody's is parsed twice."""

from collections.abc import Collection
from dataclasses import replace
from typing import Final

import pytest

from bot.core.approval import Way
from bot.core.names import ThreadNumber, ToolUseId
from bot.core.question import Author, permission
from bot.core.turn import Acknowledgment, Role, Turn
from bot.github.dialogue import FRESH_AGE, GitHubDialogue
from bot.github.pace import WritePace
from bot.github.threads import CATCH_UP
from bot.github.turns import GLIMPSES, SHORT, ParsedTextCache
from bot.testing.github.code_changes import LineNote
from tests.github.conftest import HOME, Ground

LONG: Final = "@plangate approve 000000000000\n\n" + "[" * 65_000
"""What takes a parser seconds or minutes."""


def may_act(turn: Turn) -> bool:
    return (turn.role or Role.NONE) >= Role.WRITE


class Checks:
    """A thread with one maintainer beside many strangers, and what each check of it costs."""

    def __init__(self, ground: Ground, strangers: int = 20) -> None:
        self.ground, self.thread = ground, ground.issue("nothing", by="rea")
        for number in range(strangers):
            ground.github.world.add_user(f"stranger-{number}")
            self.says(f"stranger-{number}", f"{LONG}{number}")

    def says(self, login: str, body: str) -> str:
        return f"comment-{self.ground.person(login).comment(HOME, self.thread, body).id}"

    async def turns(self, seen: Collection[str] = ()) -> tuple[Turn, ...]:
        return tuple(await self.ground.dialogue(self.thread).turns(seen, may_act=may_act))

    def parsed(self) -> int:
        """How many texts this process has parsed since it was asked last; afterwards it is a new one."""
        before, self.ground.parsed_texts = self.ground.parsed_texts, ParsedTextCache()
        return before.parsed

    def asked(self) -> int:
        """How many requests GitHub was asked in all."""
        return len(self.ground.asked())


@pytest.fixture
def checks(ground: Ground) -> Checks:
    return Checks(ground)


@pytest.mark.req("X1")
async def test_whose_role_does_not_let_them_act_is_not_parsed(checks: Checks) -> None:
    """What a maintainer says is the one text that is parsed, and who everybody is takes a few requests."""
    key, before = checks.says("mia", "@plangate stop"), checks.asked()
    found = await checks.turns()
    assert [(turn.key, turn.text) for turn in found if not turn.aside] == [(key, "@plangate stop")]
    assert [turn.text for turn in found if turn.aside] == [""] * 20
    assert (checks.parsed(), checks.asked() - before) == (1, 5)


@pytest.mark.req("X1")
async def test_what_was_judged_costs_nothing_again(checks: Checks) -> None:
    """With the journal's keys another process parses nothing and looks nobody up, also of people who may act."""
    checks.says("will", f"I see `@plangate` say {'x' * SHORT}")
    seen = {turn.key for turn in await checks.turns()}
    checks.parsed()
    before = checks.asked()
    assert await checks.turns(seen) == ()
    assert (checks.parsed(), checks.asked() - before) == (0, 1)


async def test_each_further_edit_is_judged_anew(checks: Checks) -> None:
    key = checks.says("will", "`@plangate` is code")
    seen = {turn.key for turn in await checks.turns()}
    assert f"{key}@" in seen
    checks.ground.person("will").edit_comment(int(key.rpartition("-")[2]), "@plangate do it")
    (turn,) = await checks.turns(seen)
    assert (turn.key, turn.text, turn.edited, turn.aside) == (key, "do it", True, False)


async def test_a_few_short_texts_get_a_sign(checks: Checks) -> None:
    """Of strangers' short texts some are parsed in one check, for a sign; all others, and the long ones, get none."""
    checks.ground.person("rea").comment(HOME, checks.thread, "`@plangate` is code")
    keys = [checks.says("rea", f"@plangate please {number}") for number in range(GLIMPSES)]
    found = await checks.turns()
    assert [turn.key for turn in found if not turn.aside] == keys[:-1]
    assert checks.parsed() == GLIMPSES


async def test_nothing_is_parsed_while_a_role_cannot_be_looked_up(checks: Checks) -> None:
    key = checks.says("mia", LONG)
    checks.ground.github.faults.fail("GET */collaborators*", 500, times=99)
    found = await checks.turns()
    assert {(turn.role, turn.text, turn.aside) for turn in found} == {(None, "", False)}
    assert (key in {turn.key for turn in found}, checks.parsed()) == (True, 0)


@pytest.mark.req("A1")
async def test_commands_of_who_may_not_decide_are_not_parsed(checks: Checks) -> None:
    """A snapshot parses what approvers say; a stranger's short command is found without that, so that they are told."""
    plan, dialogue = checks.ground.plan(checks.thread), checks.ground.dialogue(checks.thread)
    shown = (await dialogue.propose(plan, 1)).id
    for login in ("rea", "stranger-1", "stranger-2"):
        checks.says(login, LONG)
    checks.says("rea", "Hm.\n\n- @plangate approve")
    checks.says("mia", f"@plangate approve {plan.short_digest}")
    checks.says("ada", "I would not approve what `@plangate` says")
    snapshot = await dialogue.snapshot(plan, shown)
    assert [(word.actor.login, word.role, word.way) for word in snapshot.candidates] == [
        ("rea", Role.READ, Way.COMMAND),
        ("mia", Role.MAINTAIN, Way.COMMAND),
    ]
    assert (snapshot.complete, checks.parsed()) == (True, 2)


@pytest.mark.req("A3")
async def test_words_of_who_may_not_answer_are_not_parsed(checks: Checks) -> None:
    """A look for answers reads those who may give one, and at the next look of the process nobody again."""
    asking, dialogue = permission(ToolUseId("t"), "Bash", "ls", "a rule asks"), checks.ground.dialogue(checks.thread)
    shown = (await dialogue.ask(asking, 4, who="approvers")).id

    def may(who: Author) -> bool:
        return (who.role or Role.NONE) >= Role.MAINTAIN

    for login in ("rea", "stranger-1", "will"):
        checks.says(login, LONG)
    checks.says("mia", "allow")
    for _ in range(2):
        look = await dialogue.answers(asking, shown, who="approvers", may=may)
        assert [words.text for words in look.words] == ["allow"]
    assert checks.parsed() == 1


async def test_a_quotation_is_bounded_before_it_is_parsed(checks: Checks) -> None:
    """Texts that are too long together are left out unread, and push nothing out that is shorter and older."""
    checks.says("mia", "A thought <!-- hidden -->")
    key, dialogue = checks.says("will", "@plangate do it"), checks.ground.dialogue(checks.thread)
    turn = Turn(key, checks.ground.bot, "do it", checks.ground.clock.now())
    text = await dialogue.context()
    assert ("nothing" in text, "A thought" in text) == (True, True)
    assert (text.count("too complex to be read"), text.count("too long to be read here")) == (2, 18)
    assert "<!-- hidden -->" in await dialogue.hidden_fragments(turn)
    assert checks.parsed() == 5


async def test_a_thread_that_was_never_heard_is_read_some_pages_back(ground: Ground) -> None:
    """What is older is not asked for; what takes further pages is journaled, so that the next check reads one."""
    thread = ThreadNumber(ground.issue("nothing"))
    for _ in range(CATCH_UP + 101):
        ground.person("rea").comment(HOME, thread, "noise")
    asked = len(ground.asked("POST /graphql"))
    (last,) = await ground.dialogue(thread).turns((), may_act=may_act)
    assert (last.aside, len(ground.asked("POST /graphql")) - asked) == (True, CATCH_UP // 100)
    asked = len(ground.asked("POST /graphql"))
    assert await ground.dialogue(thread).turns({last.key}, last.at, may_act=may_act) == ()
    assert len(ground.asked("POST /graphql")) - asked == 1


def test_remembered_readings_are_bounded() -> None:
    """A text is parsed once while it is remembered; the least recently used is forgotten first."""
    parsed_texts = ParsedTextCache(limit=5_000)
    for text in ("a" * 1_000, "b" * 1_000, "a" * 1_000, "c" * 1_000, "a" * 1_000):
        assert parsed_texts.parse(text, "@plangate", by_mail=False).shown.text == text
    assert (parsed_texts.parsed, parsed_texts.size) == (3, 5_000)
    parsed_texts.parse("b" * 1_000, "@plangate", by_mail=False)
    assert parsed_texts.parsed == 4
    speaks = [parsed_texts.parse("@bot go", name, by_mail=False).speaks for name in ("@bot", "@plangate")]
    assert speaks == [True, False]


@pytest.mark.req("E2")
async def test_signs_take_no_write_that_others_need(ground: Ground) -> None:
    """Once half of what an hour allows was written, only people who may ask see signs."""
    ground.client = replace(ground.client, pace=WritePace(ground.clock, an_hour=2))
    thread = ground.issue(by="stranger")
    said = ground.person("mia").comment(HOME, thread, "@plangate more")
    dialogue, world = ground.dialogue(thread), ground.github.world
    first, second = await dialogue.turns((), may_act=may_act)
    for turn in (first, second):
        await dialogue.acknowledge(turn, Acknowledgment.MAY_NOT)
    assert [len(world.reactions_to(node)) for node in (world.issue(HOME, thread).node_id, said.node_id)] == [1, 0]
    await dialogue.acknowledge(second, Acknowledgment.SEEN)
    assert [reaction.content for reaction in world.reactions_to(said.node_id)] == ["eyes"]


# The first sign: what a delivery has just reported gets its 👀 before anything else is read or written


def may_ask(turn: Turn) -> bool:
    return (turn.role or Role.NONE) >= Role.WRITE


async def begun(ground: Ground, told: str, *, body: str, by: str = "will") -> GitHubDialogue:
    """Return the dialogue of a check of a new issue, up to its first sign."""
    dialogue = ground.dialogue(ground.issue(body, by=by), told=told)
    await dialogue.subject()
    await dialogue.acknowledge_reported(may_ask=may_ask)
    return dialogue


def signs(ground: Ground, thread: int) -> Collection[str]:
    world = ground.github.world
    return [reaction.content for reaction in world.reactions_to(world.issue(HOME, thread).node_id)]


@pytest.mark.req("PR3")
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


@pytest.mark.req("PR3")
async def test_only_the_first_turns_come_from_the_reading_at_the_start(ground: Ground) -> None:
    dialogue = await begun(ground, "issue", body="@plangate fix it")
    ground.person("will").comment(HOME, dialogue.thread, "@plangate and the docs")
    assert [turn.key for turn in await dialogue.turns((), may_act=may_ask)] == ["issue"]
    assert len(await dialogue.turns(("issue",), may_act=may_ask)) == 1


@pytest.mark.req("PR3")
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


@pytest.mark.req("PR3")
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


@pytest.mark.req("PR3")
@pytest.mark.parametrize(("body", "which"), (("@plangate do this", 2), ("", 0), ("", 2)))
async def test_a_check_waits_for_the_review_that_any_of_its_deliveries_reported(
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
