"""A blind executor: it knows nothing but what its messages say, and that is enough for each plan (K1, K2).

The planner writes what to change into the plan or into its notes. The executor edits the files of the contract as plan
and notes say, and creates what an addition or an answer asks for, if it is told of it at all.
"""

import random
import re
from dataclasses import dataclass, field
from typing import Final

import pytest

from bot.core.gate import Move, Stage
from bot.testing.model.reply import Fault, Reply, call, say
from bot.testing.model.request_view import ModelRequest
from tests.marks import soak
from tests.stories.github.ground import HOME, WISH, Model, Story, is_work

pytestmark = pytest.mark.long

CHANGES: Final = {
    "parcel/shipping.py": ("total > FREE_FROM", "total >= FREE_FROM"),
    "parcel/order.py": ("goods = sum(prices)", "goods = round(sum(prices), 2)"),
    "README.md": ("Orders of 50 or more", "Orders of exactly 50 or more"),
    "CHANGELOG.md": ("- Express delivery.", "- Express delivery within a day."),
    "tests/test_shipping.py": ("test_small_orders_pay", "test_that_small_orders_pay"),
}
"""What a plan can ask for, by file."""
REPLACE: Final = re.compile(r"In `([^`]+)`: replace `([^`]+)` by `([^`]+)`\.")
CREATE: Final = re.compile(r"[Cc]reate `([^`]+)` with `([^`]+)`")
PLANS, SAMPLE = 48, 3
"""Plans of the long campaigns, and how many of them are tried before a change lands."""


def replacing(path: str) -> str:
    """Return the line that asks for the change of a file."""
    old, new = CHANGES[path]
    return f"In `{path}`: replace `{old}` by `{new}`."


def created(by: str) -> str:
    """Return what somebody asks for in addition: a file of their own."""
    return f"Create `docs/{by}.md` with `{by} was here`"


def section(brief: str, name: str) -> str:
    """Return what stands below a heading of the brief."""
    found = re.search(
        rf"^# {name}\n\n(.*?)(?=^# (?:Additions|Approved|What will|How)|\Z)", brief, re.DOTALL | re.MULTILINE
    )
    assert found is not None, f"no {name} in {brief}"
    return found[1]


@dataclass(slots=True)
class Blind(Model):
    """Plans some changes; the same model as an executor is blind."""

    in_plan: tuple[str, ...] = ("parcel/shipping.py",)
    in_notes: tuple[str, ...] = ()
    """The files whose change stands in the plan, and in its notes alone."""
    briefs: set[str] = field(default_factory=set)

    def __call__(self, request: ModelRequest) -> Reply | Fault:
        if request.tools and not is_work(request):
            told = CREATE.findall("\n".join([*request.texts(), *(each.text for each in request.all_results)]))
            self.plan = "\n".join(
                ["Change what is listed, and what was asked beside it.", *map(replacing, self.in_plan)]
            )
            self.scope = (*self.in_plan, *self.in_notes, *(path for path, _ in told))
        return Model.__call__(self, request)

    def hand_in(self) -> Reply:
        """Return the call that hands the plan in."""
        notes = {"notes": "\n".join(map(replacing, self.in_notes))} if self.in_notes else {}
        return call("exit_plan_mode", plan=self.plan, scope=list(self.scope), **notes)

    def do(self, request: ModelRequest) -> Reply | Fault:
        """Do the next thing that the brief asks for."""
        (brief,) = (text for text in request.texts() if "# Approved plan" in text)
        self.briefs.add(brief)
        plan = section(brief, "Approved plan")
        (files,) = re.findall(r"^- Files: (.*)$", plan, re.MULTILINE)
        steps = []
        for path, old, new in REPLACE.findall(plan):
            if f"`{path}`" in files:
                steps += [call("Read", file_path=path), call("Edit", file_path=path, old_string=old, new_string=new)]
        for path, text in CREATE.findall(section(brief, "Additions and answers")):
            steps.append(call("Write", file_path=path, content=text))
        return steps[request.step] if request.step < len(steps) else say("All of it is done.")


@pytest.fixture
def model() -> Blind:
    return Blind()


async def published(story: Story) -> dict[str, str]:
    story.reacts("maya", "+1")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW, story.records[1].request.detail
    entries = await story.entries()
    assert Move.OUTGREW not in [entry.kind for entry in entries]
    (made,) = (entry.body for entry in entries if entry.kind == Move.PUBLISHED)
    return {path: story.file(made["branch"], path) for path in made["paths"]}


def expected(model: Blind, *told: str) -> dict[str, str]:
    """Return how the files must be that plan, notes, and the named people's words change."""
    wanted = {path: CHANGES[path][1] for path in (*model.in_plan, *model.in_notes)}
    return wanted | {f"docs/{by}.md": f"{by} was here" for by in told}


def holds(files: dict[str, str], wanted: dict[str, str]) -> bool:
    """Return whether exactly these files were changed, each as wanted."""
    return files.keys() == wanted.keys() and all(text in files[path] for path, text in wanted.items())


ASKS: Final = call(
    "AskUserQuestion",
    questions=[
        {
            "question": "What else?",
            "header": "More",
            "options": [{"label": "Nothing", "description": ""}, {"label": "Docs", "description": ""}],
        }
    ],
)


@pytest.mark.req("K1", "K2", "PR5")
async def test_it_does_what_plan_notes_answers_and_additions_say(story: Story, model: Blind) -> None:
    """Not what somebody else edited, nor what somebody said who may not ask."""
    model.in_notes, model.before = ("parcel/order.py",), (ASKS,)
    story.opens("will")
    assert (await story.rests(1)).stage is Stage.ASKED
    story.says("will", created("will"))
    async with story.at_work(model.pause("p1")):
        edited = story.says("will", f"@plangate {created('nobody')}")
        story.person("ada").edit_comment(edited.id, f"@plangate {created('ada')}")
        story.says("rita", f"@plangate {created('rita')}")
        story.says("maya", f"@plangate {created('maya')}")
        await story.reads_comments()
    await story.rests(1)
    files = await published(story)
    assert holds(files, expected(model, "will", "maya")), files
    (brief,) = model.briefs
    assert f"# Request\n\n`@will` asked:\n\n> # Orders of exactly 50 pay for shipping\n>\n> {WISH}\n\n" in brief
    assert (
        f"`@will` answered the planner's question `What else?`:\n\n> @will answered in words: {created('will')}"
        in brief
    )
    assert f"`@maya` added:\n\n> {created('maya')}\n\n`@will` answered" in brief
    assert "1 text is left out, edited" in brief
    assert "ada was here" not in brief
    assert "rita" not in brief
    assert "## Notes of the planner\n\nIn `parcel/order.py`: replace" in brief
    assert "a pull request to `main` that closes #1; the harness makes them." in section(
        brief, "How the result is used"
    )


@pytest.mark.req("K1")
async def test_words_of_each_revision_arrive_and_a_retry_repeats_none(story: Story, model: Blind) -> None:
    story.opens("will", f"@plangate {WISH} {created('will')}")
    await story.rests(1)
    story.says("maya", f"@plangate revise {created('maya')}")
    await story.rests(1)
    story.person("ada").push(HOME, {"parcel/shipping.py": story.file("main", "parcel/shipping.py") + "\n# more\n"})
    assert (await story.rests(1)).stage is Stage.STALE
    story.says("will", "@plangate retry")
    await story.rests(1)
    files = await published(story)
    (brief,) = model.briefs
    assert holds(files, expected(model, "maya")), brief
    assert (brief.count(created("will")), brief.count(created("maya"))) == (1, 1)


@pytest.mark.req("K1")
async def test_words_of_a_request_that_somebody_else_edited_stay_behind(story: Story, model: Blind) -> None:
    story.opens("will", f"@plangate {WISH}")
    story.person("ada").edit_issue(HOME, 1, body=f"@plangate {WISH} {created('ada')}")
    async with story.at_work(model.pause("p0")):
        story.says("maya", f"@plangate {created('maya')}")
        await story.reads_comments()
    await story.rests(1)
    files = await published(story)
    (brief,) = model.briefs
    assert holds(files, expected(model, "maya")), brief
    assert "The text of the request is left out" in brief
    assert "was here" not in section(brief, "Request")


@pytest.mark.req("K1", "K2")
@pytest.mark.parametrize("number", [n if n < SAMPLE else soak(n) for n in range(PLANS)])
async def test_no_plan_needs_an_amendment_that_its_brief_would_have_avoided(
    story: Story, model: Blind, number: int
) -> None:
    chance = random.Random(number)
    paths = chance.sample(sorted(CHANGES), chance.randint(1, len(CHANGES)))
    cut = chance.randint(0, len(paths))
    model.in_plan, model.in_notes = tuple(paths[:cut]), tuple(paths[cut:])
    story.opens("will")
    adding = [who for who in ("will", "maya", "ada", "rita", "tess") if chance.random() < 0.4]
    editing = [who for who in adding if chance.random() < 0.3]
    async with story.at_work(model.pause("p0")):
        for who in adding:
            said = story.says(who, f"@plangate {created(who)}")
            if who in editing:
                story.person("ada" if who != "ada" else "maya").edit_comment(said.id, f"@plangate {created(who)} ")
        await story.reads_comments()
    await story.rests(1)
    told = [who for who in adding if who in {"will", "maya", "ada"} and who not in editing]
    files = await published(story)
    assert holds(files, expected(model, *told)), (adding, editing, files)
