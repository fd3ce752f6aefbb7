"""The experiments that need no runner: made with the token at hand, and by a person."""

from typing import Final

from bot.compose.live.testbed import NAME, PULL, REF, NotRun, Testbed
from bot.core.errors import Refused
from bot.github.live_repository import Edits
from bot.github.workflows import disable, enable, workflow_state

PUSHES: Final = 20
MINUTE: Final = 60.0
BOX: Final = "- [ ] Tick this box"
FILE: Final = f"{NAME}.txt"
SWITCH: Final = f"{NAME}-switch.yml"


async def push_refs(testbed: Testbed) -> str:
    """Push a branch and a ref while a ruleset protects every branch; fetch the ref; push it as if it were not there."""
    branch = f"refs/heads/{NAME}-push"
    for ref in (branch, REF):
        remove_later(testbed, ref)
    await protect_branches(testbed)
    await testbed.git("commit", "-q", "--allow-empty", "-m", "Try a ref", check=True)
    outcomes = ["branch pushed" if await testbed.push(f"HEAD:{branch}") else "branch refused"]
    outcomes.append("ref pushed" if await testbed.push(f"HEAD:{REF}") else "ref refused")
    fetched = await testbed.git("fetch", "-q", testbed.remote.url, "+refs/plangate/*:refs/seen/*")
    outcomes.append(
        "fetched" if fetched and await testbed.git("rev-parse", "--verify", "refs/seen/live") else "not fetched"
    )
    await testbed.git("commit", "-q", "--allow-empty", "-m", "Come late", check=True)
    late = await testbed.push(f"HEAD:{REF}", lease=REF)
    outcomes.append("late push accepted" if late else "late push refused")
    return ", ".join(outcomes)


def remove_later(testbed: Testbed, ref: str) -> None:
    """Register a ref for removal."""
    testbed.undo_with(ref, lambda: testbed.repository.remove_ref(ref))


async def protect_branches(testbed: Testbed) -> None:
    """Make a ruleset that protects every branch. Raises NotRun if the owner's plan has no rulesets."""
    testbed.undo_with(f"ruleset {NAME}", lambda: testbed.repository.remove_rulesets(NAME))
    try:
        await testbed.repository.add_ruleset(NAME)
    except Refused as error:
        raise NotRun(f"no ruleset could be made: {error.what}") from error


async def watch_tick(testbed: Testbed) -> str:
    """Ask a person to tick a box with another account, and read who edited the comment."""
    posted, limit = f"{BOX}\n\n<!-- {NAME} -->", testbed.console.patience.person
    comment = await testbed.repository.add_comment(testbed.issue, posted)
    testbed.console.tell(f"Please tick the box in {comment.url}, with another account than the token's if you can.")
    testbed.console.tell(f"The experiment waits {limit / 60:.0f} minutes. Press Enter to skip it.")

    async def probe() -> str | None:
        edits = await testbed.repository.edits(comment.node)
        return None if edits.text == posted else tick_words(edits, comment.author.id, posted)

    return await testbed.wait(limit, probe, "a ticked box")


def tick_words(edits: Edits, author: int, posted: str) -> str:
    """Return what the edits of a ticked comment show, in the words of the table."""
    who = "nobody" if not edits.editor.id else "the token's account" if edits.editor.id == author else "the person"
    times = [at for at, _ in edits.listed]
    order = "newest edit first" if times == sorted(times, reverse=True) else "newest edit last"
    whole = {posted, edits.text} == {text for _, text in edits.listed}
    return f"edited by {who}, {order}, with {'the whole text' if whole else 'other texts'}"


async def write_words(testbed: Testbed) -> str:
    """Hide a comment, and reply in a review."""
    comment = await testbed.repository.add_comment(testbed.issue, "To be hidden")
    hidden = await testbed.repository.minimize(comment.node)
    pull = await open_pull(testbed)
    remark = await testbed.repository.review(pull, FILE, 1)
    try:
        await testbed.repository.reply(pull, remark)
        reply = "reply made"
    except Refused:
        reply = "reply refused"
    return f"comment {'minimized' if hidden else 'not minimized'}, {reply}"


async def open_pull(testbed: Testbed) -> int:
    """Open a pull request that adds one file to the head of the default branch."""
    remove_later(testbed, f"refs/heads/{NAME}")
    await testbed.repository.add_branch(NAME, await testbed.default_head())
    await testbed.repository.write_file(FILE, "One line.\n", NAME)
    testbed.undo_with(f"the pull request {PULL}", lambda: testbed.repository.close_threads(PULL))
    return await testbed.repository.open_pull(PULL, NAME, testbed.profile.default_branch)


async def switch_workflow(testbed: Testbed) -> str:
    """Disable a workflow, and enable it again."""
    place = testbed.repository.client, testbed.repository.at
    await disable(*place, SWITCH)
    disabled = await workflow_state(*place, SWITCH)
    await enable(*place, SWITCH)
    return f"{disabled}, then {await workflow_state(*place, SWITCH)}"


async def push_often(testbed: Testbed) -> str:
    """Push twenty commits to one ref within a minute."""
    remove_later(testbed, REF)
    accepted, began = 0, testbed.console.clock.monotonic()
    for number in range(PUSHES):
        await testbed.git("commit", "-q", "--allow-empty", "-m", f"Push {number}", check=True)
        accepted += await testbed.push(f"+HEAD:{REF}")
    seconds = testbed.console.clock.monotonic() - began
    slow = f" in {seconds:.0f} seconds" if seconds > MINUTE else ""
    return f"{accepted} of {PUSHES} accepted{slow}"
