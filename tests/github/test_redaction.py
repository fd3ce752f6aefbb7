"""Nothing that is written to GitHub holds a secret, whichever way it goes."""

import pytest

from bot.core.secrets.redaction import Redactor
from bot.core.work import PullOrder
from bot.github.pulls import GitHubPulls
from tests.github.conftest import HOME, Ground

KEY = "sk-ant-api03-" + "Zx9Qw7Lm3Tk5Vb1N" * 5
UNKNOWN = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6"
SAID = f"It is `{KEY}`, {KEY[20:50]} and {UNKNOWN}, or {UNKNOWN[:9]}\u200b{UNKNOWN[9:]}."


@pytest.fixture
def ground(ground: Ground) -> Ground:
    """A ground whose client knows one key."""
    ground.client.redactor = Redactor(((KEY, "model key"),))
    return ground


def clean(text: str) -> bool:
    return "[redacted: " in text and KEY[20:40] not in text and UNKNOWN[8:20] not in text


@pytest.mark.req("X3", "PR4")
async def test_every_kind_of_comment_is_redacted(ground: Ground) -> None:
    thread = ground.issue()
    dialogue = ground.dialogue(thread)
    for _ in range(2):
        await dialogue.post(SAID, 1)
        await dialogue.explain_ignored_answers(SAID, 2)
        async with dialogue.hold_progress():
            await dialogue.progress(SAID, 3)
    plan = await dialogue.propose(ground.plan(thread), 4)
    await dialogue.supersede(plan.id, SAID)
    assert [clean(comment.text.body) for comment in ground.comments(thread)] == [True] * 4


@pytest.mark.req("X3", "PR5")
async def test_plan_with_a_secret_is_shown_without_it_and_still_counts_as_shown(ground: Ground) -> None:
    thread = ground.issue()
    plan = ground.plan(thread, markdown=SAID)
    dialogue = ground.dialogue(thread)
    shown = await dialogue.propose(plan, 1)
    assert clean(ground.comments(thread)[0].text.body)
    snapshot = await dialogue.snapshot(plan, shown.id)
    assert snapshot.shown is not None
    assert snapshot.shown.intact


@pytest.mark.req("X3")
async def test_title_and_body_of_a_pull_request_are_redacted(ground: Ground) -> None:
    ground.person("will").push(HOME, {"src/a.py": "a = 2\n"}, branch="plangate/1-fix")
    port = GitHubPulls(ground.client, ground.address, ground.bot)
    order = PullOrder("plangate/1-fix", "main", f"Fix {UNKNOWN}", f"{SAID}\n\nCloses #1")
    made = await port.ensure(order)
    assert await port.ensure(order) == made
    issue = ground.github.world.issue(HOME, made.number)
    assert clean(issue.text.body)
    assert issue.title == "Fix [redacted: GitHub token]"


@pytest.mark.req("X3")
async def test_client_redacts_what_callers_forget(ground: Ground) -> None:
    thread = ground.issue()
    token = await ground.client.credentials.token()
    path = f"{ground.address.path}/issues/{thread}/comments"
    await ground.client.get(ground.address.path)
    made = await ground.client.post(path, {"body": f"{SAID} {token[4:]}"})
    await ground.client.change(
        f"{ground.address.path}/issues/comments/{made['id']}", {"body": f"again {SAID} {token[-20:]}"}
    )
    (comment,) = ground.comments(thread)
    assert clean(comment.text.body)
    assert token[-20:] not in comment.text.body
