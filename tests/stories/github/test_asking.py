"""How the bot is spoken to, who may, and what it takes for speech."""

import pytest

from bot.core.gate import Stage
from bot.github.turns import GLIMPSES
from bot.testing.model.reply import say
from bot.testing.sample import TITLE
from bot.workflow.intake import SIGNS_A_DAY
from tests.stories.github.ground import HOME, WISH, Model, Story

pytestmark = pytest.mark.long

UNHEARD = {
    "no mention": WISH,
    "code": f"`@plangate` {WISH}",
    "code block": f"```\n@plangate {WISH}\n```",
    "quote": f"> @plangate {WISH}",
    "HTML comment": f"<!-- @plangate {WISH} -->",
    "heading": f"# @plangate {WISH}",
    "indented code": f"So:\n\n    @plangate {WISH}",
    "quote in a list": f"- > @plangate {WISH}",
    "unclosed comment": f"Hm.\n\n<!-- @plangate {WISH}",
    "link": f"[@plangate](https://example.org) {WISH}",
    "picture": f"![@plangate](https://example.org/x.png) {WISH}",
    "attribute": f'<b title="@plangate">Bold</b>: {WISH}',
    "footnote": f"{WISH}[^1]\n\n[^1]: <span hidden>@plangate</span>",
    "slash in code": "`/plangate help`",
    "another name": f"@plangate-two {WISH}",
    "address": f"mail me at will@plangate.example: {WISH}",
}


@pytest.mark.soak
@pytest.mark.req("X1")
async def test_no_mention(story: Story) -> None:
    """What people do not see as a mention is none: no sign, no comment, no word to the model."""
    issues = {name: story.opens("will", body) for name, body in UNHEARD.items()}
    await story.rests()
    heard = {name: (story.signs(issue), story.comments(issue.number)) for name, issue in issues.items()}
    assert heard == dict.fromkeys(UNHEARD, ([], []))
    assert story.model.heard == []
    assert {record.stage for record in story.records.values()} == {Stage.LISTENING}


@pytest.mark.req("PR3")
async def test_acknowledged(story: Story) -> None:
    """An accepted request is acknowledged at once, before the model was asked."""
    issue = story.opens("will")
    await story.hears()
    assert story.signs(issue) == ["eyes"]
    assert story.model.heard == []
    assert (await story.rests()).stage is Stage.AWAITING_APPROVAL


async def test_may_not_ask(story: Story) -> None:
    """Somebody who may not ask gets one sign and nothing else."""
    said = [story.opens(login) for login in ("rita", "tess", "stranger")]
    said_too = story.says("rita", f"@plangate {WISH}")
    await story.rests()
    await story.rests()
    assert [story.signs(thing) for thing in said] == [["confused"]] * 3
    assert story.signs(said_too) == ["confused"]
    assert [story.comments(issue.number) for issue in said] == [[], [], []]
    assert story.model.heard == []
    assert story.nothing_done()


@pytest.mark.req("PR3", "E2")
async def test_may_not_ask_a_hundred_times(story: Story) -> None:
    """What one person may not say costs a few signs a look and a day, and one push for all that is read at once; nobody
    else's request suffers from it."""
    issue, looks = story.opens("rita"), SIGNS_A_DAY // GLIMPSES
    said = [story.says("rita", f"@plangate {n}", 1) for n in range(GLIMPSES)]
    await story.rests()
    assert [story.signs(issue), *map(story.signs, said)] == [["confused"]] * GLIMPSES + [[]]
    for _ in range(looks - 1):
        said = [story.says("rita", f"@plangate {n}", 1) for n in range(GLIMPSES)]
        await story.rests()
        assert [story.signs(each) for each in said] == [["confused"]] * GLIMPSES
    others = [story.says("rita", "@plangate approve", 1), story.says("tess", "@plangate please", 1)]
    await story.rests()
    assert [story.signs(each) for each in others] == [[], ["confused"]]
    pushes = [each for each in story.github.requests if each.path.endswith("git-receive-pack")]
    assert (len(pushes), story.records[1].position) == (1 + looks, 1 + looks * GLIMPSES + len(others))
    wish = story.says("will", f"@plangate {WISH}", 1)
    assert (await story.rests()).stage is Stage.AWAITING_APPROVAL
    assert story.signs(wish) == ["eyes"]
    story.advance(86_400)
    tomorrow = story.says("rita", "@plangate please", 1)
    await story.rests()
    assert story.signs(tomorrow) == ["confused"]


async def test_comment(story: Story) -> None:
    """A mention in a comment is a request as well; what was said before is context."""
    story.opens("rita", f"{WISH} <!-- and add a door -->")
    said = story.says("will", "@plangate please do what she asks <!-- now -->")
    assert (await story.rests()).stage is Stage.AWAITING_APPROVAL
    (plan,) = story.plans()
    assert "2 hidden fragments were removed" in plan.text.body
    assert "and add a door" in plan.text.body
    assert "and add a door" not in "".join(text for heard in story.model.heard for text in heard.texts())
    assert story.signs(said) == ["eyes"]
    asked = story.model.heard[0].texts()[0]
    assert "please do what she asks" in asked
    assert f"> {WISH}" in asked


@pytest.mark.parametrize("way", ("label", "assignment"))
async def test_label_and_assignment(story: Story, way: str) -> None:
    """The label, or the bot as assignee, asks for what the issue says."""
    issue = story.opens("rita", WISH)
    if way == "label":
        story.person("will").label(HOME, 1, "plangate")
    else:
        story.person("will").assign(HOME, 1, "plangate[bot]")
    assert (await story.rests()).stage is Stage.AWAITING_APPROVAL
    assert story.signs(issue) == ["eyes"]
    assert WISH in story.model.heard[0].texts()[0]
    await story.rests()
    assert len(story.plans()) == 1


@pytest.mark.soak
async def test_adopted_by_label(story: Story) -> None:
    """What somebody asked who may not is asked for by the label of somebody who may, as if it had no mention."""
    issue = story.opens("rita")
    await story.rests()
    story.person("maya").label(HOME, 1, "plangate")
    assert (await story.rests()).stage is Stage.AWAITING_APPROVAL
    assert story.signs(issue) == ["confused", "eyes"]
    assert story.records[1].request.turn.text == f"# {TITLE}\n\n{WISH}"


@pytest.mark.soak
@pytest.mark.req("PR2")
async def test_label_beside_the_mention(story: Story) -> None:
    """A label that the issue was opened with is one turn with its mention; one that is set later asks again."""
    story.opens("will")
    story.person("tess").label(HOME, 1, "plangate")
    for _ in range(2):
        await story.rests()
        assert (len(story.plans()), story.signs(story.issue(1))) == (1, ["eyes"])
    story.advance(60)
    story.person("will").unlabel(HOME, 1, "plangate")
    story.person("will").label(HOME, 1, "plangate")
    assert (await story.rests()).stage is Stage.AWAITING_APPROVAL
    assert len(story.plans()) == 2


async def test_question(story: Story, model: Model) -> None:
    """A question is answered without a plan, in one comment."""
    model.before = (say("Orders of 50 pay because the code compares with `>`."),)
    story.opens("will", "@plangate why do orders of 50 pay for shipping?")
    await story.rests()
    assert (await story.rests()).stage is Stage.ANSWERED
    assert story.said("tell") == ["Orders of 50 pay because the code compares with `>`."]
    assert story.plans() == []
    assert story.nothing_done()


ANSWERS = {
    "@plangate status": "This thread is at: awaiting approval.",
    "/plangate help": "- `status`, `help`",
    "@plangate aprove": "I don't know the command `@plangate aprove`. Did you mean `approve`?",
    "@plangate retry": "There is nothing to retry: nothing was interrupted.",
    "@plangate budget 7": "Only people who may approve can change the budget or the mode.",
    "@plangate mode bypassPermissions": "Only people who may approve can change the budget or the mode.",
}


@pytest.mark.soak
async def test_commands(story: Story) -> None:
    """Each command is answered once, in order, and the plan waits as before."""
    await story.planned()
    for said in ANSWERS:
        story.says("will", said)
    await story.rests()
    assert (await story.rests()).stage is Stage.AWAITING_APPROVAL
    told = story.said("tell")
    assert len(told) == len(ANSWERS)
    assert all(answer in text for answer, text in zip(ANSWERS.values(), told, strict=True)), told
    assert len(story.plans()) == 1


@pytest.mark.req("PR5")
async def test_revised(story: Story) -> None:
    """A revision makes plan 2; plan 1 is folded, says what replaced it, and a yes to it is void."""
    old = await story.planned()
    story.says("will", "@plangate revise Say so in the changelog too.")
    story.model.plan = "As before, and a line in `CHANGELOG.md`."
    assert (await story.rests()).stage is Stage.AWAITING_APPROVAL
    assert [plan.minimized for plan in story.plans()] == ["outdated", None]
    assert f"Replaced by plan 2 ({story.digest[:12]})" in story.plans()[0].text.body
    assert "### What changed since plan 1\n\n```diff\n-In `parcel/shipping.py`, compare with" in story.plan.text.body
    assert "\n+As before, and a line in `CHANGELOG.md`." in story.plan.text.body
    assert "What changed" not in story.plans()[0].text.body
    story.reacts("maya", "+1", story.world.comments[old.id])
    story.says("maya", "@plangate approve")
    assert (await story.rests()).stage is Stage.AWAITING_APPROVAL
    assert "`@maya`: this request has had several plans: add the digest" in story.said("waits")[0]
    assert story.nothing_done()
    story.says("maya", f"@plangate approve {story.digest[:12]}")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
    assert "plan 2" in story.pulls()[0].text.body


@pytest.mark.req("PR3", "A5")
async def test_question_while_a_plan_waits(story: Story, model: Model) -> None:
    """A question takes the force of the plan that waits: it is folded and says so, and a later yes is answered once."""
    old = await story.planned()
    model.before = (say("Since the first release."),)
    story.says("will", "@plangate since when do orders of 50 pay?")
    story.reacts("rita", "+1")
    assert (await story.rests()).stage is Stage.ANSWERED
    assert (story.plan.id, story.plan.minimized) == (old.id, "outdated")
    assert story.plan.text.body.startswith("**Outdated.** A later request came after this plan")
    assert story.said("tell") == ["Since the first release."]
    assert await story.host.open_threads() == (story.address(),)
    await story.host.changed_threads([story.address()])
    story.reacts("maya", "+1")
    assert await story.host.changed_threads([story.address()]) == (story.address(),)
    await story.rests()
    assert (await story.rests()).stage is Stage.ANSWERED
    assert story.said("tell")[1:] == [
        f"Plan 1 ({story.digest[:12]}) can't be approved anymore, because a later request came after it. "
        "Ask again for a new plan."
    ]
    assert await story.host.open_threads() == ()
    assert story.nothing_done()
    model.before = ()
    story.says("will", "@plangate then do it")
    assert (await story.rests()).stage is Stage.AWAITING_APPROVAL
    assert story.plans()[0].text.body.startswith("**Outdated.** Replaced by plan 2")
    assert story.plans()[0].text.body.count("**Outdated.**") == 1


@pytest.mark.soak
async def test_asked_to_revise(story: Story) -> None:
    """😕 asks for a revision: the bot asks for words, once, and nobody's yes counts meanwhile."""
    await story.planned()
    story.reacts("ada", "+1")
    story.reacts("maya", "confused")
    await story.rests()
    assert (await story.rests()).stage is Stage.AWAITING_APPROVAL
    assert story.nothing_done()
    (waits,) = story.said("waits")
    assert "a revision was requested: comment what should change" in waits


@pytest.mark.soak
async def test_another_turn_supersedes(story: Story) -> None:
    """A further request while a plan waits makes a new plan, however much the old one was approved meanwhile."""
    await story.planned()
    story.says("will", "@plangate and say so in the changelog")
    story.reacts("maya", "+1")
    assert (await story.rests()).stage is Stage.AWAITING_APPROVAL
    assert len(story.plans()) == 2
    assert story.nothing_done()
