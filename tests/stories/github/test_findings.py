"""Findings of scheduled tasks: what people reject is not offered again, unless they ask for it (MT5)."""

from typing import Final

import pytest

from bot.core.reply_text import OFFER_AGAIN
from bot.testing.model.reply import call, say
from tests.stories.github.ground import FIXED, HOME, Story
from tests.stories.github.test_maintenance import DAY, body, configure, run_pass

REFUSED: Final = "The plan was not handed in: people decided on this before: "


def offers(story: Story, title: str) -> None:
    """Let the planner hand in a plan with one finding, and answer if that is refused."""
    finding = {"id": "free-shipping", "title": title, "paths": [FIXED]}
    handed = call("exit_plan_mode", plan="Compare with `>=`.", scope=[FIXED], findings=[finding])
    story.model.before = (handed, say("Nothing else is left to do."))


async def occurs(story: Story) -> None:
    """Let the next due time come."""
    story.clock.advance(DAY)
    await run_pass(story)


def tick_offer(story: Story, login: str) -> None:
    text = body(story).replace(f"- [ ] {OFFER_AGAIN}", f"- [x] {OFFER_AGAIN}")
    story.person(login).edit_issue(HOME, 1, body=text)


@pytest.mark.long
@pytest.mark.req("MT5", "MT2")
async def test_a_rejected_finding(story: Story) -> None:
    """The next planners are told, a plan with it goes back to them, and a tick brings it back once."""
    configure(story, "ask:\n  roles: [maintain]\n")
    await run_pass(story)
    offers(story, "Ship @orders of 50 free")
    await occurs(story)
    assert f"### Findings\n\n- `Ship @orders of 50 free` (`free-shipping`): `{FIXED}`" in story.plan.text.body
    story.reacts("maya", "-1")
    await story.rests(1)
    for n in range(2):
        offers(story, f"Reworded title {n}")
        await occurs(story)
        assert "- `Ship @orders of 50 free` (`free-shipping`)" in "".join(story.model.heard[-1].texts())
        assert f"{REFUSED}Reworded title {n}" in [each.text for each in story.model.heard[-1].all_results][-1]
        assert len(story.plans()) == 1
    assert "- [ ] Offer again: `Ship @orders of 50 free` (`free-shipping`)" in body(story)
    tick_offer(story, "will")
    await run_pass(story)
    assert OFFER_AGAIN in body(story)
    tick_offer(story, "maya")
    await run_pass(story)
    assert OFFER_AGAIN not in body(story)
    await occurs(story)
    assert len(story.plans()) == 2
    story.reacts("maya", "-1")
    await story.rests(1)
    await occurs(story)
    assert len(story.plans()) == 2
    kinds = [entry.kind for entry in await story.entries()]
    assert kinds.count("offered") == 1


@pytest.mark.soak
@pytest.mark.req("MT5")
async def test_a_pull_request_that_people_close(story: Story) -> None:
    """Its findings are decided while it is open, and once it was closed without a merge."""
    configure(story, "    limit: 2\n")
    await run_pass(story)
    offers(story, "Ship orders of 50 free")
    await occurs(story)
    story.reacts("maya", "+1")
    await story.rests(1)
    (pull,) = story.pulls()
    await occurs(story)
    story.person("ada").close(HOME, pull.number)
    await occurs(story)
    assert len(story.plans()) == 1
    assert OFFER_AGAIN in body(story)
