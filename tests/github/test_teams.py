"""Approvers who are one through a team: who is looked up, and what a look-up that fails means."""

import pytest

from bot.core.approval import Reason
from bot.github.dialogue import DialogueSettings
from tests.github.conftest import HOME, Ground
from tests.github.shown import Shown


@pytest.mark.req("A3")
@pytest.mark.parametrize(
    ("login", "status", "reasons"),
    (
        ("will", 502, [Reason.LOOKUP_FAILED]),
        ("will", 403, [Reason.TEAM_UNKNOWN, Reason.NOBODY]),
        ("will", 422, [Reason.TEAM_UNKNOWN, Reason.NOBODY]),
        ("will", 404, [Reason.ROLE_TOO_LOW, Reason.NOBODY]),
        ("mia", 502, []),
        ("mia", 403, []),
    ),
)
async def test_unreadable_team_spoils_no_word_of_who_has_the_role(
    ground: Ground, login: str, status: int, reasons: list[Reason]
) -> None:
    """It spoils nobody's word whose role suffices; of the others, what GitHub refuses to tell is told to the person,
    and what it fails to tell is looked up again."""
    shown = await Shown.on(ground)
    shown.dialogue.settings = DialogueSettings(approve_teams=("acme/core",))
    ground.github.faults.fail("GET */memberships/*", status, times=99)
    ground.person(login).react(shown.comment, "+1")
    assert await shown.reasons() == reasons


@pytest.mark.req("A3", "E2")
async def test_teams_are_looked_up_once_and_only_for_who_decides(ground: Ground) -> None:
    shown = await Shown.on(ground)
    shown.dialogue.settings = DialogueSettings(approve_teams=("acme/core",))
    for body in ("@plangate, who can approve this?", "> @plangate approve", "@plangate approve", "@plangate approve"):
        ground.person("tom" if "who" in body or ">" in body else "will").comment(HOME, shown.plan.thread, body)
    ground.person("rea").react(shown.comment, "+1")
    await shown.look()
    asked = [name.rpartition("/")[2] for name in ground.asked("GET /orgs/")]
    assert sorted(asked) == ["rea", "will"]
