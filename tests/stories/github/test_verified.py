"""Work whose checks fail goes back to its session, and a pull request says what the checks showed before and after."""

import pytest

from bot.core.checks import FAILING, OUTPUTS, OUTSIDE
from bot.core.gate import Move, Stage
from bot.testing.model.reply import call, say
from bot.testing.sample import CHECK
from tests.stories.github.ground import FIXED, HOME, Model, Story

PATH = ".github/plangate.yml"
STANDARD = "grep -q 4.90 parcel/shipping.py"
"""A check that passes before the work."""
VERIFY = f"execution:\n  verify:\n    - {STANDARD}\n    - 'false # as ever'\n    - no-such-tool --strict\n"
READ = call("Read", file_path=FIXED)
WRONG = call("Edit", file_path=FIXED, old_string="STANDARD = 4.90", new_string="STANDARD = 0.0")
RIGHT = call(
    "MultiEdit",
    file_path=FIXED,
    edits=[
        {"old_string": "STANDARD = 0.0", "new_string": "STANDARD = 4.90"},
        {"old_string": "total > FREE_FROM", "new_string": "total >= FREE_FROM"},
    ],
)
BEFORE = (
    f"The checks ran on the checkout before your work:\n- `{CHECK}`: failed (exit code 1)\n- `{STANDARD}`: passed\n"
)
TWICE = (READ, WRONG, say("Everything ships free."), READ, RIGHT, say("Orders of 50 ship free."))


def configured(story: Story, text: str) -> None:
    story.person("ada").push(HOME, {PATH: text})


async def worked(story: Story) -> str:
    """Plan, approve, and work; return the body of the pull request."""
    await story.planned()
    story.reacts("maya", "+1")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW, story.records[1].request.detail
    (pull,) = story.pulls()
    return pull.text.body


@pytest.mark.long
@pytest.mark.req("K4", "G3a")
async def test_red_to_green(story: Story, model: Model) -> None:
    """The first attempt fails a check that passed, and the plan's own proof; the second, in the same session, passes
    both. What failed before and what cannot run here is told apart, never repaired, and blamed on nobody; the session
    knows it from its first request on."""
    configured(story, VERIFY)
    model.commands, model.work = (CHECK,), TWICE
    text = await worked(story)
    assert text.startswith(
        "> ⚠ 1 of 4 checks failed before the work and still fail. 1 of 4 checks could not run in the sandbox.\n\n"
        "Orders of 50 ship free.\n\n"
    )
    rows = [line.rpartition(" | ")[0] for line in text.splitlines() if line.startswith("| `")]
    assert rows[:4] == [
        f"| `{CHECK}` | failed (exit code 1) | passed",
        f"| `{STANDARD}` | passed | passed",
        "| `false # as ever` | failed (exit code 1) | failed (exit code 1)",
        "| `no-such-tool --strict` | could not run (exit code 127) | could not run (exit code 127)",
    ]
    assert "total >= FREE_FROM" in story.file(next(iter(story.branches())))
    told = model.works[-1].texts()
    assert [BEFORE in said for said in told].index(True) == 1
    assert sum(said.count(BEFORE) for said in told) == 1
    (handed,) = (said for said in told if FAILING in said)
    assert f"To repair:\n- `{CHECK}`: failed (exit code 1); before your work: failed (exit code 1)\n" in handed
    assert f"- `{STANDARD}`: failed (exit code 1); before your work: passed\n\nNothing to repair for you:\n" in handed
    assert "- `no-such-tool --strict`: could not run (exit code 127)" in handed
    assert "test_small_orders_pay" in handed.partition(OUTPUTS)[2]
    assert [request.step for request in model.works] == [0, 1, 2, 3, 4, 5]
    moves = [entry.kind for entry in await story.entries()]
    assert (moves.count(Move.EXECUTED), moves.count(Move.OUTGREW), len(story.pulls())) == (1, 0, 1)


@pytest.mark.long
@pytest.mark.req("K4")
async def test_without_repairs(story: Story, model: Model) -> None:
    """With `repairs: 0` the session ends once, and its red checks stand at the top of the pull request."""
    configured(story, f"{VERIFY}  repairs: 0\n")
    model.commands, model.work = (CHECK,), TWICE
    text = await worked(story)
    assert text.startswith(
        "> ⚠ 1 of 4 checks failed; see below. 2 of 4 checks failed before the work and still fail. "
        "1 of 4 checks could not run in the sandbox.\n\nEverything ships free."
    )
    assert [request.step for request in model.works] == [0, 1, 2]
    assert "said at the top of the pull request" in model.works[0].texts()[0]


@pytest.mark.long
@pytest.mark.req("K4")
async def test_in_vain(story: Story, model: Model) -> None:
    """A session that changes nothing more is not asked again; one that changes and fails, as often as configured."""
    configured(story, "mention: '@plangate'\n")
    model.commands = (CHECK,)
    model.work = (READ, WRONG, say("Done."), say("I leave it."))
    text = await worked(story)
    assert "1 of 1 checks failed before the work and still fail." in text
    assert [request.step for request in model.works] == [0, 1, 2, 3]


@pytest.mark.long
@pytest.mark.req("K4")
async def test_as_often_as_configured(story: Story, model: Model) -> None:
    """Each repair may fail again; after the last one the work is published as it was verified last."""
    configured(story, "execution:\n  repairs: 2\n")
    model.commands = (CHECK,)
    more = [call("Bash", command=f"echo '# {n}' >> {FIXED}") for n in range(3)]
    model.work = tuple(each for step in more for each in (step, say("Done.")))
    await worked(story)
    assert sum(FAILING in text for text in model.works[-1].texts()) == 2
    assert [request.step for request in model.works] == [0, 1, 2, 3, 4, 5]
    assert story.file(next(iter(story.branches()))).endswith("# 0\n# 1\n# 2\n")


@pytest.mark.req("K5", "E1", "E2")
async def test_outside_of_the_plan(story: Story, model: Model) -> None:
    """Each path outside is told once in a result, by an edit or a command; then all are shown once, and reverted.

    What only notes something, as that a command was answered, is pushed with the next entry: GitHub recommends at most
    six pushes a minute to a repository.
    """
    model.work = (
        READ,
        call("Edit", file_path=FIXED, old_string="total > FREE_FROM", new_string="total >= FREE_FROM"),
        call("Write", file_path="notes.txt", content="a\n"),
        call("Bash", command="echo b > more.txt; echo c >> notes.txt"),
        call("Bash", command="echo d >> more.txt"),
        say("Done."),
        call("Bash", command="rm notes.txt more.txt"),
        say("Orders of 50 ship free."),
    )
    await story.planned()
    story.says("will", "@plangate status")
    story.says("maya", f"@plangate approve {story.digest[:12]}")
    record = await story.rests(1)
    assert record.stage is Stage.IN_REVIEW
    assert (record.pending, record.turns.unposted_texts) == ((), ())
    (pull,) = story.pulls()
    assert pull.text.body.startswith("Orders of 50 ship free.")
    told = [result.text.rpartition("\n")[2] for result in model.works[-1].all_results]
    end = "is outside the approved plan's files. Revert it, or go on knowing that the change needs another approval.)"
    assert [line for line in told if "outside" in line] == [f"(`notes.txt` {end}", f"(`more.txt` {end}"]
    (shown,) = (said for said in model.works[-1].texts() if OUTSIDE in said)
    assert f"{OUTSIDE}\n\n- `more.txt`\n- `notes.txt`\n\n" in shown
    kinds = [entry.kind for entry in (await story.entries())[3:]]
    assert kinds == ["heard", "heard", "told", "approved", "executed", "published", "told"]
    bare = story.world.bare(story.world.repository(HOME))
    pushed = bare.text("log", "--reverse", "--format=%s", "refs/plangate/threads/1").splitlines()
    assert [note for note in pushed if note != "transcripts"] == [f"journal {n}" for n in (1, 2, 3, 4, 7, 8, 9, 10)]
