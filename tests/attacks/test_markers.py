"""A person whose words hold the bot's hidden line, copied or slipped to them, is heard like anybody else."""

import pytest

from bot.core import marker
from bot.core.turn import Command, Verb, parse
from tests.github.conftest import Ground, turns_of

PLACES = ("{body}\n\n{marker}", "{marker}\n{body}", "{body}\n\n> quoted\n\n{marker}\n")


@pytest.mark.req("PR3", "W3")
@pytest.mark.parametrize("place", PLACES)
async def test_the_bots_own_line_silences_nobody(ground: Ground, place: str) -> None:
    """The true line of a plan comment, whose MAC holds, in a person's comment: it is that person's turn."""
    thread = ground.issue()
    await ground.dialogue(thread).propose(ground.plan(thread), 1)
    (plan,) = ground.comments(thread)
    line = plan.text.body.splitlines()[-1]
    assert marker.parse(line) is not None
    ground.person("mia").comment("acme/pocket", thread, place.format(body="@plangate stop", marker=line))
    found = await turns_of(ground.dialogue(thread))
    assert [turn.actor.login for turn in found] == ["will", "mia"]
    assert parse(found[-1].text.strip().splitlines()[0]) == Command(Verb.STOP)
