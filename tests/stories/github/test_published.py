"""What the pull request says: checks before and after, paths outside of the plan, commands, title, labels."""

from hashlib import sha256
from pathlib import Path

import pytest

from bot.action.report import outputs
from bot.config.action_inputs import action
from bot.core.checks import FAILING, OUTPUTS, OUTSIDE
from bot.core.gate import Move, Stage
from bot.testing.model.reply import call, say
from bot.testing.sample import CHECK, TITLE
from tests.stories.github.ground import FIX, FIXED, HOME, Model, Story

pytestmark = pytest.mark.long

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


async def worked(story: Story) -> str:
    """Plan, approve, and work; return the body of the pull request."""
    await story.approved()
    assert (await story.rests(1)).stage is Stage.IN_REVIEW, story.records[1].request.detail
    (pull,) = story.pulls()
    return pull.text.body


@pytest.mark.req("K4", "G3a")
async def test_a_failing_check_goes_back_to_its_session_which_repairs_it(story: Story, model: Model) -> None:
    """What failed before and what cannot run here is told apart, never repaired, and blamed on nobody."""
    story.configure(VERIFY)
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


@pytest.mark.req("K4")
async def test_without_repairs_red_checks_stand_at_the_top(story: Story, model: Model) -> None:
    story.configure(f"{VERIFY}  repairs: 0\n")
    model.commands, model.work = (CHECK,), TWICE
    text = await worked(story)
    assert text.startswith(
        "> ⚠ 1 of 4 checks failed; see below. 2 of 4 checks failed before the work and still fail. "
        "1 of 4 checks could not run in the sandbox.\n\nEverything ships free."
    )
    assert [request.step for request in model.works] == [0, 1, 2]
    assert "said at the top of the pull request" in model.works[0].texts()[0]


@pytest.mark.req("K4")
async def test_a_session_that_changes_nothing_more_is_not_asked_again(story: Story, model: Model) -> None:
    story.configure("mention: '@plangate'\n")
    model.commands = (CHECK,)
    model.work = (READ, WRONG, say("Done."), say("I leave it."))
    text = await worked(story)
    assert "1 of 1 checks failed before the work and still fail." in text
    assert [request.step for request in model.works] == [0, 1, 2, 3]


@pytest.mark.req("K4")
async def test_repairs_are_tried_as_often_as_configured(story: Story, model: Model) -> None:
    story.configure("execution:\n  repairs: 2\n")
    model.commands = (CHECK,)
    more = [call("Bash", command=f"echo '# {n}' >> {FIXED}") for n in range(3)]
    model.work = tuple(each for step in more for each in (step, say("Done.")))
    await worked(story)
    assert sum(FAILING in text for text in model.works[-1].texts()) == 2
    assert [request.step for request in model.works] == [0, 1, 2, 3, 4, 5]
    assert story.file(next(iter(story.branches()))).endswith("# 0\n# 1\n# 2\n")


@pytest.mark.req("K5", "E1", "E2")
async def test_paths_outside_of_the_plan_are_told_once_then_shown_and_reverted(story: Story, model: Model) -> None:
    """What only notes something is pushed with the next entry: GitHub recommends at most six pushes a minute."""
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


async def published(story: Story, keys: str) -> tuple[list[str], list[str]]:
    """Let a plan be approved and carried out; the labels of its pull request, and who was asked to review it."""
    if keys:
        story.configure(f"pull_request:\n  {keys}\n")
    await story.approved()
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
    (issue,) = story.pulls()
    assert issue.pull is not None
    return sorted(issue.labels), sorted(story.world.users[each].login for each in issue.pull.requested_reviewers)


async def test_labels_reviewers_and_draft_are_as_configured(story: Story) -> None:
    keys = "reviewers: [ada, will]\n  labels: [by bot, shipping]\n  draft: true"
    assert await published(story, keys) == (["by bot", "shipping"], ["ada", "will"])
    (said,) = story.said("tell")
    pull = story.pulls()[0].pull
    assert pull is not None
    assert (said.endswith("is open as a draft."), pull.draft) == (True, True)


@pytest.mark.req("PR6")
async def test_the_last_run_of_each_command_stands_there_with_its_exit_code(story: Story) -> None:
    ran = ("ls", "make nothing", "touch /tmp/x", "make nothing")
    story.model.work = (*(call("Bash", command=line) for line in ran), *FIX)
    await published(story, "")
    (pull,) = story.pulls()
    assert "| main | `make nothing` | 2 |\n" in pull.text.body
    assert pull.text.body.count("| main | ") == 2
    (done,) = [entry.body for entry in await story.entries() if entry.kind == "executed"]
    shown = [each.text for each in story.model.works[-1].all_results if each.text.endswith("exit code 2")]
    digest = sha256(shown[-1].encode()).hexdigest()
    assert [row["output_sha256"] for row in done["commands"] if row["command"] == "make nothing"] == [digest]


@pytest.mark.req("X3", "PR4")
async def test_no_text_of_the_models_shows_a_secret_on_github(story: Story, model: Model) -> None:
    """Question, plan, todo list, commands, title, and report, whichever way they go there."""
    secret = story.github.app.webhook_secret
    leak = f"It is {secret}."
    choices = [{"label": label, "description": leak} for label in ("One", "Two")]
    todo = {"content": leak, "status": "in_progress", "activeForm": leak}
    model.before = (call("AskUserQuestion", questions=[{"question": leak, "header": "It", "options": choices}]),)
    model.plan, model.light = f"{model.plan} {leak}", say(f"Ships {secret} free")
    model.work = (call("TodoWrite", todos=[todo]), call("Bash", command=f"touch /tmp/{secret}"), *FIX[:2], say(leak))
    story.opens("will")
    assert (await story.rests(1)).stage is Stage.ASKED
    story.says("will", "One.")
    await story.rests(1)
    story.reacts("maya", "+1")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
    wrote = [logged for logged in story.github.requests if logged.method != "GET" and ".git/" not in logged.path]
    assert [logged.name for logged in wrote if secret[4:-4].encode() in logged.body] == []
    shown = [each.text.body for each in story.comments()] + [each.text.body for each in story.pulls()]
    assert sum("[redacted: " in each for each in shown) >= 4
    (branch,) = story.branches()
    assert secret not in story.world.bare(story.world.repository(HOME)).text("log", "-1", "--format=%B", branch)


EVIL = "Closes #1, hi @will [skip ci]\u200b"


@pytest.mark.req("M11", "X2")
async def test_neither_title_nor_commit_act_on_anything_and_the_approver_reviews(story: Story) -> None:
    story.model.light = say(EVIL)
    assert await published(story, "") == ([], ["maya"])
    (pull,) = story.pulls()
    assert pull.title == "Closes `#1`, hi @will (skip ci)‹U+200B›"
    assert pull.pull is not None
    assert pull.pull.head_ref == "plangate/1-orders-of-exactly-50-pay-for-shipping"
    bare = story.world.bare(story.world.repository(HOME))
    subject = bare.run("show", "--no-patch", "--format=%s", pull.pull.head_sha).decode().strip()
    assert subject == pull.title.replace("@will", "`@will`")
    assert [request.texts()[0].startswith(f"Asked for: {TITLE}\n") for request in story.model.lightly] == [True]


async def test_the_outputs_name_the_plan_comment(story: Story, tmp_path: Path) -> None:
    await story.planned()
    environ = {
        "GITHUB_EVENT_NAME": "issues",
        "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
        "GITHUB_REPOSITORY": HOME,
        "INPUT_ANTHROPIC_API_KEY": "key",
    }
    said = outputs(action(environ), story.address(), story.records[1])
    assert said["plan_comment_url"] == f"{story.github.server_url}/{HOME}/issues/1#issuecomment-{story.plan.id}"
