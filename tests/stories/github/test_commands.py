"""Every command by everybody: who may give it, and what the bot answers (docs/commands.md)."""

from dataclasses import dataclass
from typing import Final

import pytest

from bot.core.gate import Stage
from bot.core.reply_text import help_text, plan_mode_stays
from bot.testing.github import conversation
from bot.testing.github.entities import Comment, Issue
from bot.testing.github.world import ActingUser
from tests.marks import long, soak
from tests.stories.github.ground import HOME, WISH, Story

WAITS: Final = Stage.AWAITING_APPROVAL
CONFIGURED: Final = ".github/plangate.yml"


@dataclass(frozen=True, slots=True)
class Answer:
    """The sign under a command, what is said about it ("" for nothing), and where the thread is afterwards."""

    sign: str = ""
    said: str = ""
    stage: Stage = WAITS
    plans: int = 1


LOW: Final = "their role in this repository is too low to approve"
APPROVERS: Final = "Only people who may approve can change the budget or the mode."
COMMANDS: Final = (
    *("status", "help", "retry", "finish", "budget 7", "mode acceptEdits", "mode plan"),
    *("approve", "reject No.", "revise", "stop"),
)
SAID: Final = {"revise": "revise Shorter, please."}
ADMIN: Final = {
    "status": Answer("eyes", "This thread is at: awaiting approval. ⏸ plan mode on."),
    "help": Answer("eyes", "`@plangate COMMAND`, or `/plangate COMMAND`"),
    "retry": Answer("eyes", "There is nothing to retry"),
    "finish": Answer("eyes", "There is nothing to finish"),
    "budget 7": Answer("eyes", "The budget of this thread is now $7."),
    "mode acceptEdits": Answer("eyes", "Approved work may edit files."),
    "mode plan": Answer("eyes", plan_mode_stays(["default", "acceptEdits"])),
    "approve": Answer("eyes", "is ready for review", Stage.IN_REVIEW),
    "reject No.": Answer("eyes", "The plan was rejected. Nothing was changed.", Stage.REJECTED),
    "revise": Answer("eyes", "", WAITS, plans=2),
    "stop": Answer("eyes", "The work so far is kept. Use `@plangate retry` to continue.", Stage.STOPPED),
}
WRITER: Final = ADMIN | {
    "budget 7": Answer("eyes", APPROVERS),
    "mode acceptEdits": Answer("eyes", APPROVERS),
    "mode plan": Answer("eyes", APPROVERS),
    "approve": Answer("eyes", LOW),
    "reject No.": Answer("eyes", LOW),
}
OTHER: Final = dict.fromkeys(COMMANDS, Answer("confused")) | {
    "approve": Answer("confused", LOW),
    "reject No.": Answer("confused", LOW),
}
NOBODY: Final = dict.fromkeys(COMMANDS, Answer()) | {
    "approve": Answer("", "only people can approve"),
    "reject No.": Answer("", "only people can approve"),
}
EVERYBODY: Final = {
    "ada, admin": ADMIN,
    "maya, maintain": ADMIN,
    "will, write, who asked": WRITER,
    "wes, write": WRITER,
    "tess, triage": OTHER,
    "rita, read, who opened the issue": OTHER,
    "stranger, none": OTHER,
    "helper[bot], maintain": NOBODY,
    "gone, whose account was deleted": NOBODY,
}


async def asked(story: Story) -> None:
    """Open a thread of rita's on which will asks, and let it come to its plan."""
    story.about = story.opens("rita", WISH).number
    story.says("will", "@plangate please do what she asks")
    await story.rests(story.about)


def speaks(story: Story, who: str, command: str) -> Comment:
    """Post a command as that account; whoever is gone is gone right after."""
    said = conversation.comment(story.person(who), story.issue(), f"@plangate {SAID.get(command, command)}")
    if who == "gone":
        story.world.remove_user(who)
    return said


async def answered(story: Story, who: str, command: str) -> Answer:
    """Post a command and return its answer; why a word does not count is said by the one notice of the plan."""
    before = len(story.said("tell"))
    said = speaks(story, who, command)
    now = await story.rests(story.about)
    texts = story.said("tell")[before:] + (story.said("waits") if command in {"approve", "reject No."} else [])
    return Answer("".join(story.signs(said)), "\n".join(texts), now.stage, len(story.plans()))


CI: Final = ("maya, maintain", "will, write, who asked", "tess, triage")
"""The others are in the campaigns; tests/workflow/test_intake.py has the same table for every day."""


@pytest.mark.req("PR1", "PR3", "A3")
@pytest.mark.parametrize("who", [long(who) if who in CI else soak(who) for who in EVERYBODY])
async def test_each_command_is_answered_as_the_table_says(story: Story, who: str) -> None:
    speaker, _, role = who.partition(", ")
    story.world.add_user(speaker, "Bot" if speaker.endswith("[bot]") else "User")
    if role in {"maintain", "write"}:
        story.world.set_role(HOME, speaker, role)
    await asked(story)
    for command, wanted in EVERYBODY[who].items():
        if story.records[story.about].stage is not WAITS or len(story.plans()) > 1:
            await asked(story)
        found = await answered(story, speaker, command)
        assert (found.sign, found.stage, found.plans) == (wanted.sign, wanted.stage, wanted.plans), command
        assert wanted.said in found.said, (command, found.said)
        assert bool(wanted.said) == bool(found.said), (command, found.said)
    assert len(story.pulls()) == (EVERYBODY[who] is ADMIN)


async def test_the_help_says_how_the_bot_is_called_here(story: Story) -> None:
    story.configure("mention: '@our-bot'\n")
    story.opens("will", "@plangate help")
    story.says("will", "@our-bot help")
    await story.rests(1)
    assert story.said("tell") == [help_text("@our-bot")]


@pytest.mark.long
async def test_whoever_asked_may_stop_it_without_the_right_to_ask(story: Story) -> None:
    await story.planned()
    story.world.set_role(HOME, "will", "read")
    others = story.says("rita", "@plangate stop")
    assert (await story.rests(1)).stage is WAITS
    own = story.says("will", "@plangate stop")
    assert (await story.rests(1)).stage is Stage.STOPPED
    assert (story.signs(others), story.signs(own)) == (["confused"], ["eyes"])


@pytest.mark.soak
async def test_triage_that_may_ask_stops_its_own_work_alone(story: Story) -> None:
    story.configure("ask:\n  roles: [triage]\n")
    await story.planned()
    story.says("tess", "@plangate stop")
    assert (await story.rests(1)).stage is WAITS
    assert story.said("tell") == [
        "Only people who asked for the work, and people with write access, can stop or retry it."
    ]
    story.opens("tess")
    await story.rests(2)
    story.says("tess", "@plangate stop", 2)
    assert (await story.rests(2)).stage is Stage.STOPPED


@pytest.mark.long
@pytest.mark.req("A3")
async def test_a_reader_among_the_approvers_decides_and_asks_for_nothing(story: Story) -> None:
    story.configure("approve:\n  users: [Rita]\n")
    await story.planned()
    wish = story.says("rita", "@plangate and note it in the changelog")
    raised = story.says("rita", "@plangate budget 9")
    said = story.says("rita", "@plangate approve")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
    assert [story.signs(each) for each in (wish, raised, said)] == [["confused"], ["eyes"], ["eyes"]]
    assert "The budget of this thread is now $9." in story.said("tell")
    assert "Approved by `rita`" in story.pulls()[0].text.body


def robot(story: Story, login: str) -> tuple[ActingUser, Issue]:
    """Return another App's account, and an issue that it opened with a mention."""
    other = ActingUser(story.world, story.world.add_user(login, "Bot").id)
    story.advance(1.1)
    home = story.world.repository(HOME)
    return other, conversation.open_issue(other, home, title="Update", body=f"@plangate {WISH}")


@pytest.mark.long
async def test_a_listed_bot_is_heard_and_decides_nothing(story: Story) -> None:
    listed, issue = robot(story, "updates[bot]")
    _, other = robot(story, "chatter[bot]")
    story.configure(f"ask:\n  bots: [{listed.id}]\n")
    await story.rests()
    assert [story.signs(each) for each in (issue, other)] == [["eyes"], []]
    assert [len(story.plans(number)) for number in (1, 2)] == [1, 0], story.said("tell")
    raised = conversation.comment(listed, story.issue(), "@plangate budget 100")
    conversation.comment(listed, story.issue(), f"@plangate approve {story.digest}")
    assert (await story.rests(1)).stage is WAITS
    assert story.signs(raised) == ["eyes"]
    assert APPROVERS in story.said("tell")
    assert "`@updates`: only people can approve" in story.said("waits")[0]
    assert story.nothing_done()


@pytest.mark.long
async def test_a_stop_with_nothing_under_way_says_so_and_retry_repeats_nothing(story: Story) -> None:
    await story.approved()
    await story.rests(1)
    asked_before = len(story.model.heard)
    story.says("will", "@plangate stop")
    story.says("will", "@plangate retry")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
    nothing = ["There is nothing to stop: nothing is running here.", "There is nothing to retry: nothing was"]
    assert [text[:38] for text in story.said("tell")[-2:]] == [text[:38] for text in nothing]
    assert len(story.model.heard) == asked_before
