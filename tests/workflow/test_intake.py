"""Intake: who is heard, what a command does, and what becomes of a turn at each stage."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

import pytest

from bot.core import reply_text
from bot.core.errors import Refused, Transient
from bot.core.gate import Stage
from bot.core.moves import JournaledTurn, Noted, Requested
from bot.core.names import CommitId
from bot.core.thread.state import ThreadState, apply
from bot.core.transcript import Json
from bot.core.turn import Acknowledgment, Actor, Role, Turn
from bot.ports import ModelRequest
from bot.workflow import engine
from bot.workflow.intake import ANSWERS_A_DAY, SIGNS_A_DAY, renewed_request
from tests.workflow.ground import MAYA, WILL, Ground, LocalGround, configured, plan_and_work
from tests.workflow.memory_ports import Script

RITA: Final = Actor(6, "rita")
"""May read."""
ADA: Final = Actor(3, "ada")
SEEN, MAY_NOT = Acknowledgment.SEEN, Acknowledgment.MAY_NOT

LOW: Final = "`@{}`: their role in this repository is too low to approve"
COMMANDS: Final = (
    "status",
    "help",
    "retry",
    "finish",
    "budget 7",
    "mode acceptEdits",
    "approve",
    "reject N.",
    "revise S.",
    "stop",
)
SILENT: Final = dict.fromkeys(COMMANDS, ("", Stage.AWAITING_APPROVAL))
APPROVER: Final = {
    "status": ("This thread is at: awaiting approval. ⏸ plan mode on.", Stage.AWAITING_APPROVAL),
    "help": ("`@plangate COMMAND`, or `/plangate COMMAND`", Stage.AWAITING_APPROVAL),
    "retry": (reply_text.NOTHING_TO_RETRY, Stage.AWAITING_APPROVAL),
    "finish": (reply_text.NOTHING_TO_FINISH, Stage.AWAITING_APPROVAL),
    "budget 7": ("The budget of this thread is now $7.", Stage.AWAITING_APPROVAL),
    "mode acceptEdits": ("Approved work may edit files.", Stage.AWAITING_APPROVAL),
    "approve": ("is ready for review", Stage.IN_REVIEW),
    "reject N.": ("The plan was rejected. Nothing was changed.", Stage.REJECTED),
    "revise S.": ("", Stage.AWAITING_APPROVAL),
    "stop": ("The work so far is kept. Use `@plangate retry` to continue.", Stage.STOPPED),
}
WRITER: Final = APPROVER | {
    "budget 7": (reply_text.APPROVERS_ONLY, Stage.AWAITING_APPROVAL),
    "mode acceptEdits": (reply_text.APPROVERS_ONLY, Stage.AWAITING_APPROVAL),
    "approve": (LOW, Stage.AWAITING_APPROVAL),
    "reject N.": (LOW, Stage.AWAITING_APPROVAL),
}
READER: Final = SILENT | {
    "approve": (LOW, Stage.AWAITING_APPROVAL),
    "reject N.": (LOW, Stage.AWAITING_APPROVAL),
}
EVERYBODY: Final = {
    "admin": (MAYA, Role.ADMIN, SEEN, APPROVER),
    "maintain": (MAYA, Role.MAINTAIN, SEEN, APPROVER),
    "who asked": (WILL, Role.WRITE, SEEN, WRITER),
    "write": (Actor(4, "wes"), Role.WRITE, SEEN, WRITER),
    "triage": (Actor(7, "tess"), Role.TRIAGE, MAY_NOT, READER),
    "read": (RITA, Role.READ, MAY_NOT, READER),
    "none": (Actor(10, "stranger"), Role.NONE, MAY_NOT, READER),
}


@pytest.mark.req("PR1", "PR3", "A3")
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", EVERYBODY)
async def test_every_command_of_every_account_while_a_plan_waits(name: str, command: str) -> None:
    who, role, sign, wanted = EVERYBODY[name]
    said, stage = wanted[command]
    ground = Ground()
    await ground.planned()
    turn = ground.thread.say(who, f"@plangate {command}", role=role)
    state = await ground.check()
    words = "\n".join((*ground.told, *ground.thread.texts("explanation")))
    assert (turn.key, sign) in ground.thread.signs
    assert state.stage is stage
    assert said.format(who.login) in words
    assert bool(said) == bool(words)
    assert len(ground.thread.texts("plan")) == 1 + (command == "revise S." and sign is SEEN)


MAILED: Final = {
    "status": APPROVER["status"],
    "help": APPROVER["help"],
    "approve": ("the comment was sent by mail, so it doesn't count: react on GitHub", Stage.AWAITING_APPROVAL),
    "reject N.": APPROVER["reject N."],
    "revise S.": APPROVER["revise S."],
    "stop": APPROVER["stop"],
}
"""What an admin's commands do by mail; the others are refused."""


@pytest.mark.req("A6")
@pytest.mark.parametrize("command", (*COMMANDS, "aprove", "mode next", "budget 20.Ann Lee"))
async def test_a_mail_may_ask_reject_and_stop(command: str) -> None:
    said, stage = MAILED.get(command, (reply_text.SENT_BY_MAIL, Stage.AWAITING_APPROVAL))
    ground = Ground()
    await ground.planned()
    ground.thread.say(MAYA, f"@plangate {command}", by_mail=True)
    state = await ground.check()
    words = "\n".join((*ground.told, *ground.thread.texts("explanation")))
    assert (said in words, state.stage) == (True, stage)
    assert (state.costs.budget_usd, state.approval.chosen_mode) == (0, "")
    again = await ground.check()
    assert (again.position, "\n".join((*ground.told, *ground.thread.texts("explanation")))) == (state.position, words)


@pytest.mark.req("A6")
async def test_a_mail_in_a_review_is_not_left_without_an_answer() -> None:
    ground = Ground()
    await ground.planned()
    for number, text in enumerate(("@plangate approve", "@plangate reject")):
        turn = ground.thread.say(MAYA, text, by_mail=True)
        ground.thread.said[-1] = replace(turn, key=f"review-{number}")
    await ground.check()
    assert ground.told == [reply_text.SENT_BY_MAIL, reply_text.DECIDE_IN_A_COMMENT]


@pytest.mark.req("A6", "K1", "S9")
async def test_a_request_by_mail_makes_the_thread_untrusted() -> None:
    ground = Ground()
    ground.thread.say(WILL, "Do it.", by_mail=True)
    state = await ground.check()
    assert (state.request.untrusted, state.request.turn.foreign, state.stage) == (True, True, Stage.AWAITING_APPROVAL)


@pytest.mark.req("PR3")
async def test_who_may_not_ask_gets_a_few_signs_a_day_and_then_none() -> None:
    ground = Ground()
    for _ in range(SIGNS_A_DAY + 5):
        ground.thread.say(RITA, "Me too!", role=Role.READ)
    await ground.check()
    assert [sign for _, sign in ground.thread.signs] == [MAY_NOT] * SIGNS_A_DAY
    assert ground.model.requests == []
    assert ground.told == []


@pytest.mark.req("PR3")
async def test_a_turn_of_unknown_role_waits_and_keeps_nobody_else_waiting() -> None:
    ground = Ground()
    waiting = ground.thread.say(MAYA, "First, the docs.", role=None)
    ground.thread.say(WILL, "Do it.")
    with pytest.raises(Transient, match="the role of @maya cannot be looked up"):
        await ground.check()
    assert (await ground.state()).stage is Stage.AWAITING_APPROVAL
    ground.thread.said[0] = replace(waiting, role=Role.ADMIN)
    state = await ground.check()
    assert [entry.said.key for entry in state.request.entries] == ["comment-2", "comment-1"]


@pytest.mark.req("A4a")
async def test_an_edited_command_does_not_count() -> None:
    ground = Ground()
    await ground.planned()
    ground.thread.say(MAYA, "@plangate stop", edited=True)
    assert (await ground.check()).stage is Stage.AWAITING_APPROVAL
    assert ground.told == [reply_text.EDITED]


@pytest.mark.req("A3")
async def test_who_may_ask_without_the_right_to_write_stops_only_what_they_asked() -> None:
    ground = Ground(configuration=configured(ask={"roles": ["triage"]}))
    await ground.planned()
    ground.thread.say(ADA, "@plangate stop", role=Role.TRIAGE)
    assert (await ground.check()).stage is Stage.AWAITING_APPROVAL
    assert ground.told == [reply_text.NOT_YOURS]
    ground.thread.say(WILL, "@plangate stop", role=Role.TRIAGE)
    assert (await ground.check()).stage is Stage.STOPPED


async def test_a_misspelt_command_is_answered_with_the_nearest_and_not_planned() -> None:
    ground = Ground()
    ground.thread.say(WILL, "@plangate statsu")
    assert (await ground.check()).stage is Stage.LISTENING
    assert ground.told == [reply_text.did_you_mean("@plangate statsu", "status")]


@pytest.mark.req("PR1", "PR3")
@pytest.mark.parametrize(
    "text",
    ("@plangate please do not approve this", "I would approve if it had tests.", "@plangate approve? Hm", "reject"),
)
async def test_words_about_a_decision_are_answered_and_not_planned(text: str) -> None:
    ground = Ground()
    await ground.planned()
    requests = len(ground.model.requests)
    ground.thread.say(MAYA, text)
    state = await ground.check()
    assert (state.stage, state.gate.plan, len(ground.model.requests)) == (Stage.AWAITING_APPROVAL, 1, requests)
    assert len(ground.told) == 1
    assert "approve" in ground.told[0]


async def test_words_about_a_decision_are_a_request_where_no_plan_waits() -> None:
    ground = Ground()
    ground.thread.say(WILL, "Add a button that says approve.")
    assert (await ground.check()).stage is Stage.AWAITING_APPROVAL
    assert ground.told == []


@pytest.mark.req("PR3")
async def test_a_request_beyond_the_quota_of_a_day_is_told_once_and_not_planned() -> None:
    ground = Ground()
    ground.configuration = configured(ask={"per_day": 1})
    await ground.planned()
    for text in ("And this.", "And that.", "@plangate status"):
        ground.thread.say(WILL, text)
    state = await ground.check()
    assert [text.split(",")[0] for text in ground.told] == [
        "will has asked once today",
        "This thread is at: awaiting approval. ⏸ plan mode on.",
    ]
    assert (len(state.request.entries), len(ground.model.requests)) == (1, 1)
    ground.clock.seconds += 24 * 3600
    ground.thread.say(WILL, "Now, then.")
    assert len((await ground.check()).request.entries) == 2


@pytest.mark.req("W1b", "PR3")
async def test_one_person_cannot_have_the_bot_post_without_end() -> None:
    """Commands are answered, and start work again, some times a day; then one reply says so. A stop stops always, and
    others, requests, and the next day are not affected."""
    ground = Ground()
    await ground.planned()
    for text in ("stop", "retry", "statsu") * (ANSWERS_A_DAY // 2 + 2):
        ground.thread.say(WILL, f"@plangate {text}")
    state = await ground.check()
    assert len(ground.told) <= 1.5 * ANSWERS_A_DAY + 2
    assert [text for text in ground.told if "I have answered" in text] == [
        reply_text.answers_reached("will", ANSWERS_A_DAY, "@plangate")
    ]
    assert state.stage is Stage.STOPPED
    ground.thread.say(MAYA, "@plangate status")
    await ground.check()
    assert ground.told[-1].startswith("This thread is at")
    ground.thread.say(WILL, "With tests, please.")
    assert (await ground.check()).stage is Stage.AWAITING_APPROVAL
    ground.clock.seconds += 24 * 3600
    ground.thread.say(WILL, "@plangate status")
    await ground.check()
    assert ground.told[-1].startswith("This thread is at")


@pytest.mark.req("PR1")
async def test_a_request_while_a_plan_waits_replaces_it_and_its_approval() -> None:
    ground = Ground()
    await ground.approved()
    ground.thread.say(WILL, "With tests, please.")
    state = await ground.check()
    assert (state.stage, state.gate.plan) == (Stage.AWAITING_APPROVAL, 2)
    assert list(ground.thread.superseded) == ["plan-2"]
    assert "With tests, please." in str(ground.model.requests[-1].messages)
    assert ground.workspace.pushed == []


async def test_a_request_while_approved_work_runs_is_planned_after_it() -> None:
    ground = Ground()
    await ground.approved()
    ground.model.meanwhile[2] = partial(ground.read_comment, WILL, "And the docs.")
    state = await ground.check()
    assert (await ground.kinds()).count("published") == 1
    assert (state.stage, state.gate.plan) == (Stage.AWAITING_APPROVAL, 2)
    assert [entry.said.text for entry in state.request.newest_entries] == ["And the docs."]
    assert "And the docs." not in str(ground.model.requests[2].messages)


async def test_a_request_while_planning_goes_into_the_plan() -> None:
    ground = Ground()
    ground.model.meanwhile[1] = partial(ground.read_comment, MAYA, "And the docs.")
    state = await ground.planned()
    assert (state.stage, state.gate.plan) == (Stage.AWAITING_APPROVAL, 1)
    assert "@maya adds: And the docs." in str(ground.model.requests[-1].messages)
    assert len(ground.thread.texts("plan")) == 1


@pytest.mark.parametrize(("make", "goes_on"), ((Ground, False), (LocalGround, True)), ids=("thread", "terminal"))
async def test_a_check_continues_interrupted_work_only_at_a_terminal(make: type[Ground], goes_on: bool) -> None:
    ground = make(_refuse_once())
    ground.thread.say(WILL, "Do it.")
    assert (await ground.check()).stage is Stage.FAILED
    assert (await ground.check()).stage is (Stage.DONE if goes_on else Stage.FAILED)


def _refuse_once() -> Script:
    failures = [Refused("no such model")]

    def script(request: ModelRequest) -> list[Json]:
        if failures:
            raise failures.pop()
        return plan_and_work(request)

    return script


NOW = datetime(2026, 11, 20, 8, 30, tzinfo=UTC)
TURN = Turn("t1", Actor(7, "ada"), "Fix it.", NOW)
RETRY = Turn("t3", Actor(9, "cem"), "@plangate retry", NOW + timedelta(hours=1))


def after(first: Turn, *more: Turn) -> ThreadState:
    """Return the state after a request and what was added to it."""
    request = Requested(said=JournaledTurn.of(first), base=CommitId("a" * 40))
    state = apply(ThreadState(), request, NOW)
    for turn in more:
        state = apply(state, Noted(said=JournaledTurn.of(turn), kept=False), NOW)
    return state


@pytest.mark.req("X1", "S9")
def test_a_renewed_request_has_all_words_and_their_marks() -> None:
    marks = {"foreign": True, "strangers": True, "editors": (3,)}
    more = Turn("t2", Actor(8, "ben"), "Note it.", NOW, hidden=("<!-- b -->",), **marks)  # type: ignore[arg-type]
    again = renewed_request(after(replace(TURN, hidden=("<!-- a -->",)), more), RETRY)
    assert (again.key, again.at, again.actor) == (RETRY.key, RETRY.at, Actor(7, "ada"))
    assert again.text == "Fix it.\n\n@ben adds: Note it."
    assert (again.foreign, again.strangers, again.editors, again.hidden.count) == (True, True, (), 2)
    plain = renewed_request(after(TURN), RETRY)
    assert plain == replace(JournaledTurn.of(TURN), key=RETRY.key, at=RETRY.at)


@pytest.mark.req("L4a", "PR3")
async def test_request_edited_while_it_is_planned_is_planned_as_edited() -> None:
    ground = Ground()
    asked = ground.thread.say(WILL, "Do it.")
    ground.model.meanwhile[1] = partial(_edit_and_read, ground, asked)
    state = await ground.check()
    assert state.stage is Stage.AWAITING_APPROVAL
    assert "adds: The request was edited. It now reads:" in str(ground.model.requests[-1].messages)
    assert [entry.said.key == asked.key for entry in state.request.newest_entries] == [True, False]
    before = len(ground.model.requests)
    await ground.check()
    assert len(ground.model.requests) == before


@pytest.mark.req("PR3")
async def test_label_that_asks_is_heard_once_while_it_is_planned() -> None:
    ground = Ground()
    mark = replace(ground.thread.say(WILL, "Do it."), key="label-11", mark=True, version="")
    ground.thread.said = [mark]
    ground.model.meanwhile[1] = partial(_read_comments, ground)
    state = await ground.check()
    assert [entry.said.key for entry in state.request.newest_entries] == ["label-11"]


async def _read_comments(ground: Ground) -> None:
    await engine.read_comments(ground.process())


async def _edit_and_read(ground: Ground, asked: Turn) -> None:
    ground.thread.edit(asked, "Do that.")
    await engine.read_comments(ground.process())


@pytest.mark.req("A5", "PR3")
async def test_retry_makes_a_new_plan_for_a_deleted_one() -> None:
    ground = Ground()
    await ground.planned()
    ground.thread.say(WILL, "@plangate retry")
    assert (await ground.check()).gate.plan == 1
    assert "nothing to retry" in ground.told[0]
    ground.thread.deleted.add((await ground.state()).plan.comment)
    ground.thread.say(WILL, "@plangate retry")
    state = await ground.check()
    assert (state.stage, state.gate.plan) == (Stage.AWAITING_APPROVAL, 2)
    ground.thread.decide(MAYA)
    assert (await ground.check()).stage is Stage.IN_REVIEW


@pytest.mark.req("PR2", "PR3")
async def test_request_on_a_closed_issue_can_be_approved() -> None:
    ground = Ground(plan_and_work)
    ground.thread.closed_at = ground.clock.now() - timedelta(minutes=1)
    assert (await ground.planned()).stage is Stage.AWAITING_APPROVAL
    ground.thread.decide(MAYA)
    assert (await ground.check()).stage is Stage.IN_REVIEW


@pytest.mark.req("A5")
async def test_closing_after_the_request_holds_the_plan() -> None:
    ground = Ground()
    await ground.planned()
    ground.thread.closed_at = ground.clock.now()
    ground.thread.decide(MAYA)
    assert (await ground.check()).stage is Stage.AWAITING_APPROVAL
